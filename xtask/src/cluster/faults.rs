//! The faults of a run, and their order.
//!
//! Shape: a round has one fault. The faults come in a random order that a seed determines; each comes once before one
//! of them comes again.

use std::fmt;

use crate::cluster::links::Cut;
use crate::cluster::log_servers::SERVERS;
use crate::cluster::options::LogKind;
use crate::cluster::processes::REPLICAS;
use crate::rig::random::Random;

/// A fault and its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `kill -9` of the ingester that leads, and a new start.
    KillLeader,
    /// `kill -9` of the other ingester.
    KillFollower,
    KillReplica(usize),
    /// `kill -9` of this number of servers of the log at once.
    KillServers(usize),
    /// SIGSTOP of the ingester that leads, and SIGCONT.
    PauseLeader,
    CutOffLeader(Cut),
    CutOffReplica(usize, Cut),
    CutOffServer(usize, Cut),
    /// SIGSTOP and SIGCONT of a replica, alternately.
    SlowReplica(usize),
    /// A replica is stopped until the log has removed its next message.
    TruncateLog(usize),
    DeleteStream,
    /// One bit of the newest snapshot, and a new start of a replica that has no copy.
    DamageSnapshot,
    /// The store of snapshots fails, and a replica with a copy starts meanwhile.
    RemoveStore,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = |cut: &Cut| match cut {
            Cut::Inward => "hears nothing",
            Cut::Outward => "is not heard",
            Cut::Both => "is cut off",
        };
        match self {
            Self::KillLeader => write!(f, "kill -9 of the leading ingester"),
            Self::KillFollower => write!(f, "kill -9 of the other ingester"),
            Self::KillReplica(_) => write!(f, "kill -9 of a replica"),
            Self::KillServers(1) => write!(f, "kill -9 of one server of the log"),
            Self::KillServers(count) => write!(f, "kill -9 of {count} servers of the log"),
            Self::PauseLeader => write!(f, "SIGSTOP of the leading ingester"),
            Self::CutOffLeader(of) => write!(f, "the leading ingester {}", cut(of)),
            Self::CutOffReplica(_, of) => write!(f, "a replica {}", cut(of)),
            Self::CutOffServer(_, of) => write!(f, "a server of the log {}", cut(of)),
            Self::SlowReplica(_) => write!(f, "a replica runs a tenth of the time"),
            Self::TruncateLog(_) => write!(f, "the log is truncated past a replica"),
            Self::DeleteStream => write!(f, "the log is deleted"),
            Self::DamageSnapshot => write!(f, "the newest snapshot is damaged"),
            Self::RemoveStore => write!(f, "the store of snapshots fails"),
        }
    }
}

impl Fault {
    /// Whether a node must name a damage: the log or a snapshot is not as it was written.
    pub(crate) fn is_damage(self) -> bool {
        matches!(self, Self::TruncateLog(_) | Self::DeleteStream | Self::DamageSnapshot)
    }

    /// Returns one fault of each kind that the log can have.
    fn all(log: LogKind, random: &mut Random) -> Vec<Self> {
        let mut faults = vec![
            Self::KillLeader,
            Self::KillFollower,
            Self::KillReplica(random.next_below(REPLICAS)),
            Self::PauseLeader,
            Self::SlowReplica(random.next_below(REPLICAS)),
            Self::DamageSnapshot,
            Self::RemoveStore,
        ];
        if log == LogKind::Nats {
            faults.extend((1..=SERVERS).map(Self::KillServers));
            for cut in [Cut::Inward, Cut::Outward, Cut::Both] {
                faults.push(Self::CutOffLeader(cut));
                faults.push(Self::CutOffReplica(random.next_below(REPLICAS), cut));
                faults.push(Self::CutOffServer(random.next_below(SERVERS), cut));
            }
            faults.push(Self::TruncateLog(random.next_below(REPLICAS)));
            faults.push(Self::DeleteStream);
        }
        faults
    }
}

/// The order of faults.
pub(crate) struct FaultOrder {
    log: LogKind,
    random: Random,
    waiting: Vec<Fault>,
}

impl FaultOrder {
    pub(crate) fn new(log: LogKind, seed: u64) -> Self {
        Self { log, random: Random::with_seed(seed), waiting: Vec::new() }
    }

    /// Returns the next fault.
    pub(crate) fn next_fault(&mut self) -> Fault {
        if self.waiting.is_empty() {
            self.waiting = Fault::all(self.log, &mut self.random);
        }
        let at = self.random.next_below(self.waiting.len());
        self.waiting.swap_remove(at)
    }

    /// Returns a random number below `bound`.
    pub(crate) fn next_below(&mut self, bound: usize) -> usize {
        self.random.next_below(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_order_and_each_fault_comes_in_turn() {
        let names = |seed: u64, log: LogKind, rounds: usize| -> Vec<String> {
            let mut order = FaultOrder::new(log, seed);
            (0..rounds).map(|_| order.next_fault().to_string()).collect()
        };
        assert_eq!(names(1, LogKind::Nats, 50), names(1, LogKind::Nats, 50));
        assert_ne!(names(1, LogKind::Nats, 50), names(2, LogKind::Nats, 50));
        let mut kinds = names(3, LogKind::Nats, 21);
        kinds.sort();
        kinds.dedup();
        assert_eq!(kinds.len(), 21);
        let kinds = names(3, LogKind::Directory, 7);
        assert!(kinds.iter().all(|it| !it.contains("server of the log")), "{kinds:?}");
    }

    #[test]
    fn only_faults_of_stored_data_must_be_named() {
        assert!(Fault::DamageSnapshot.is_damage());
        assert!(Fault::TruncateLog(0).is_damage());
        assert!(!Fault::KillServers(3).is_damage());
    }
}
