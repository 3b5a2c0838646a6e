//! The order of faults.
//!
//! Shape: the kinds repeat in a fixed order. With replicas, each round ends with the death of one of them, the next one
//! each time. While a run is recorded, the recorder must not lose its source: the only faults of a cluster are then
//! [`FORKS_MAX`] forks, and a single validator has none. An attempt that makes no fork is repeated.
//! Not here: what a fault does (`processes`).

/// Forks while a run is recorded.
pub(crate) const FORKS_MAX: usize = 3;

/// The validator that a cluster needs least.
const THIRD: usize = 2;

const SINGLE: [Fault; 3] = [Fault::CutStreams, Fault::KillFollowers, Fault::Restart(0)];
const CLUSTER: [Fault; 6] = [
    Fault::CutStreams,
    Fault::KillFollowers,
    Fault::Restart(0),
    Fault::Fork(THIRD),
    Fault::Lag(THIRD),
    Fault::Restart(THIRD),
];

/// A kind of fault. Those of one validator have its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// All connections to plugins are cut.
    CutStreams,
    /// The followers or the ingester are killed and started again.
    KillFollowers,
    /// A replica is killed, and started again.
    KillReplica(usize),
    /// A validator is killed, and started again.
    Restart(usize),
    /// A validator makes its blocks on an old one, because it has not received the newer ones.
    Fork(usize),
    /// A validator is stopped for a while.
    Lag(usize),
}

/// The faults of a run.
pub(crate) struct Faults {
    is_cluster: bool,
    replicas: usize,
    /// Number of forks that were made while the run was recorded.
    recorded_forks: usize,
    /// Number of faults while nothing was recorded.
    others: usize,
}

impl Faults {
    pub(crate) fn new(is_cluster: bool, replicas: usize) -> Self {
        Self { is_cluster, replicas, recorded_forks: 0, others: 0 }
    }

    /// Returns the next fault; `None` if there must be none while the run is recorded.
    pub(crate) fn next(&mut self, is_recorded: bool) -> Option<Fault> {
        if is_recorded {
            let is_possible = self.is_cluster && self.recorded_forks < FORKS_MAX;
            return is_possible.then_some(Fault::Fork(THIRD));
        }
        let kinds: &[Fault] = if self.is_cluster { &CLUSTER } else { &SINGLE };
        let period = kinds.len() + usize::from(self.replicas > 0);
        let round = self.others / period;
        let kind = kinds.get(self.others % period);
        self.others += 1;
        let fault = kind.copied();
        Some(fault.unwrap_or_else(|| Fault::KillReplica(round % self.replicas)))
    }

    /// Counts a fork that was made while the run was recorded.
    pub(crate) fn count_recorded_fork(&mut self) {
        self.recorded_forks += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::validators::COMPARED_IN_CLUSTER;

    #[test]
    fn a_recording_has_forks_and_no_other_faults() {
        let mut faults = Faults::new(true, 0);
        for _ in 0..FORKS_MAX {
            // The first attempt makes no fork.
            assert_eq!(faults.next(true), Some(Fault::Fork(THIRD)));
            assert_eq!(faults.next(true), Some(Fault::Fork(THIRD)));
            faults.count_recorded_fork();
        }
        assert_eq!(faults.next(true), None);
        assert_eq!(faults.next(false), Some(Fault::CutStreams));
        assert_eq!(Faults::new(false, 2).next(true), None);
    }

    #[test]
    fn faults_repeat_in_a_fixed_order() {
        let mut faults = Faults::new(false, 0);
        let all: Vec<Fault> = (0..4).filter_map(|_| faults.next(false)).collect();
        assert_eq!(all[..3], SINGLE);
        assert_eq!(all[3], SINGLE[0]);
    }

    #[test]
    fn each_round_ends_with_the_death_of_another_replica() {
        let mut faults = Faults::new(false, 2);
        let all: Vec<Fault> = (0..12).filter_map(|_| faults.next(false)).collect();
        for (round, replica) in all.chunks(SINGLE.len() + 1).zip([0, 1, 0]) {
            assert_eq!(round[..SINGLE.len()], SINGLE);
            assert_eq!(round[SINGLE.len()], Fault::KillReplica(replica));
        }
    }

    #[test]
    fn no_fault_kills_the_validator_of_a_cluster_that_is_compared() {
        for at in [0, THIRD] {
            assert!(CLUSTER.contains(&Fault::Restart(at)));
        }
        assert!(!CLUSTER.contains(&Fault::Restart(COMPARED_IN_CLUSTER)));
    }
}
