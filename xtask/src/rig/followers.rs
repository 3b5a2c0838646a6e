//! The followers of a run: one that verifies by default, or in a cluster one for each way to verify. With replicas, the
//! only one that follows the validators is an ingester, and the others are the replicas behind its log.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::rig::counters::Counters;
use crate::rig::json_rpc;
use crate::rig::metrics_page::MetricsPage;
use crate::rig::nodes::FollowerKind;
use crate::rig::options::REPLICAS_MAX;
use crate::rig::ports::{free_ports, local};
use crate::rig::validators::Validators;

/// The first ports are those of the validators, which do not listen yet.
const VALIDATOR_PORTS: usize = 12;
/// The ports of all followers, two for each.
const PORTS: usize = VALIDATOR_PORTS + 2 * (1 + REPLICAS_MAX);
/// Slots behind the log above which a replica is not ready. A slot may be shorter than the time of an append.
const REPLICA_LAG_MAX_SLOTS: &str = "32";

/// A process of `hydrant follow`, `hydrant ingest` or `hydrant replica`.
pub(crate) struct Follower {
    /// The name of its process and of its log.
    pub(crate) name: String,
    pub(crate) rpc: SocketAddr,
    pub(crate) kind: FollowerKind,
    grpc: u16,
    /// A replica does not use it: its ingester verifies.
    verification: Verification,
    /// The directory of the run.
    run_dir: PathBuf,
    /// Counters of its processes that were killed.
    past: Counters,
    is_restarted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verification {
    Default,
    Votes,
    /// The second source must agree with the first one.
    Agree,
}

/// A follower that has no ports yet.
#[derive(Debug, PartialEq, Eq)]
struct FollowerPlan {
    name: String,
    kind: FollowerKind,
    verification: Verification,
}

impl FollowerPlan {
    fn new(name: &str, kind: FollowerKind, verification: Verification) -> Self {
        Self { name: name.to_owned(), kind, verification }
    }

    /// Returns the followers of a run.
    fn list(is_cluster: bool, replicas: usize) -> Vec<Self> {
        let follow = |name: &str, verification| Self::new(name, FollowerKind::Follow, verification);
        if replicas > 0 {
            let verification = if is_cluster { Verification::Votes } else { Verification::Default };
            let ingester = Self::new("ingest", FollowerKind::Ingest, verification);
            let replica = |number: usize| {
                Self::new(&format!("replica{number}"), FollowerKind::Replica, verification)
            };
            std::iter::once(ingester).chain((0..replicas).map(replica)).collect()
        } else if is_cluster {
            vec![
                follow("follower-votes", Verification::Votes),
                follow("follower-agree", Verification::Agree),
            ]
        } else {
            vec![follow("follower", Verification::Default)]
        }
    }
}

/// Returns the followers of a run, which are not started yet.
pub(crate) fn followers(
    validators: &Validators,
    replicas: usize,
    dir: &Path,
) -> Result<Vec<Follower>> {
    let ports: [u16; PORTS] = free_ports()?;
    let mut ports = ports.into_iter().skip(VALIDATOR_PORTS);
    let mut all = Vec::new();
    for plan in FollowerPlan::list(validators.is_cluster(), replicas) {
        let (Some(rpc), Some(grpc)) = (ports.next(), ports.next()) else { break };
        let FollowerPlan { name, kind, verification } = plan;
        let follower = Follower {
            name,
            rpc: local(rpc),
            kind,
            grpc,
            verification,
            run_dir: dir.to_owned(),
            past: Counters::unknown(kind),
            is_restarted: false,
        };
        fs::create_dir_all(follower.archive_dir())?;
        all.push(follower);
    }
    Ok(all)
}

impl Follower {
    /// Returns the directory of its archives and its ledger.
    fn dir(&self) -> PathBuf {
        self.run_dir.join(&self.name)
    }

    /// Returns the directory of its archives.
    pub(crate) fn archive_dir(&self) -> PathBuf {
        self.dir().join("snapshot")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.run_dir.join(format!("{}.log", self.name))
    }

    /// Whether it was killed and started again.
    pub(crate) fn is_restarted(&self) -> bool {
        self.is_restarted
    }

    /// Returns the command that starts it. If it may be killed, it stores its ledger, unless it is a replica: that
    /// loads a snapshot.
    pub(crate) fn command(
        &self,
        hydrant: &Path,
        validators: &Validators,
        has_faults: bool,
    ) -> Command {
        let mut command = Command::new(hydrant);
        match self.kind {
            FollowerKind::Follow => {
                command.arg("follow");
                self.add_chain(&mut command, validators);
            }
            FollowerKind::Ingest => {
                command.arg("ingest");
                self.add_chain(&mut command, validators);
                self.add_replicated_log(&mut command);
            }
            FollowerKind::Replica => {
                command.args(["replica", "--replica-lag-max-slots", REPLICA_LAG_MAX_SLOTS]);
                command.args(["--upstream", &url(validators.first().rpc)]);
                self.add_replicated_log(&mut command);
            }
        }
        if has_faults && self.kind != FollowerKind::Replica {
            command.arg("--ledger").arg(self.dir().join("ledger"));
        }
        command
            .args(["--quiet", "--log"])
            .args(["--rpc-port", &self.rpc.port().to_string()])
            .args(["--grpc-port", &self.grpc.to_string()])
            .env("RUST_LOG", "info,follow::frozen_banks=debug")
            .current_dir(self.dir());
        command
    }

    /// Adds the sources of the chain, and the archive that it starts from.
    fn add_chain(&self, command: &mut Command, validators: &Validators) {
        let sources = validators.sources();
        command.arg("--verify-execution");
        let followed = match self.verification {
            Verification::Default | Verification::Votes => &sources[..],
            Verification::Agree => &sources[..1],
        };
        for source in followed {
            command.args(["--source", &url(*source)]);
        }
        match self.verification {
            Verification::Default => {}
            Verification::Votes => {
                command.args(["--verify", "votes"]);
            }
            Verification::Agree => {
                command.args(["--verify", "agree"]);
                for source in &sources[1..] {
                    command.args(["--verify-source", &url(*source)]);
                }
            }
        }
        command
            .args(["--snapshot", &url(validators.first().rpc), "--snapshot-dir"])
            .arg(self.archive_dir());
    }

    /// Adds the log and the store of snapshots, which are directories of the run.
    fn add_replicated_log(&self, command: &mut Command) {
        let url = |name: &str| format!("file://{}", self.run_dir.join(name).display());
        command.args(["--log-url", &url("replicated-log"), "--depot", &url("depot")]);
    }

    /// Adds the counters of the process to those of its predecessors: it is killed and started again next.
    pub(crate) fn record_restart(&mut self) {
        self.is_restarted = true;
        let counters = self.counters();
        // A process that does not serve would take away those of its predecessors.
        if counters.jumps().is_some() {
            self.past = counters;
        }
    }

    /// Returns the counters of all its processes so far; unknown if the last one does not serve.
    pub(crate) fn counters(&self) -> Counters {
        match json_rpc::get(self.rpc, "/metrics") {
            Ok(text) => Counters::read(&MetricsPage::new(text), &self.past),
            Err(_) => Counters::unknown(self.kind),
        }
    }
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_replicas_the_follower_is_their_ingester() {
        let names = |is_cluster, replicas| {
            let plans = FollowerPlan::list(is_cluster, replicas);
            plans.into_iter().map(|plan| plan.name).collect::<Vec<_>>()
        };
        assert_eq!(names(false, 0), ["follower"]);
        assert_eq!(names(true, 0), ["follower-votes", "follower-agree"]);
        assert_eq!(names(false, 2), ["ingest", "replica0", "replica1"]);
        let plans = FollowerPlan::list(true, 1);
        assert_eq!(
            plans[0],
            FollowerPlan::new("ingest", FollowerKind::Ingest, Verification::Votes)
        );
        assert_eq!(plans[1].kind, FollowerKind::Replica);
    }
}
