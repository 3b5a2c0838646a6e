//! The followers of a run: one that verifies by default, or in a cluster one for each way to verify.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::rig::json_rpc;
use crate::rig::ports::{free_ports, local};
use crate::rig::validators::Validators;

/// A process of `hydrant follow`.
pub(crate) struct Follower {
    /// The name of its process and of its log.
    pub(crate) name: String,
    pub(crate) rpc: SocketAddr,
    /// Its archives and its ledger.
    pub(crate) dir: PathBuf,
    grpc: u16,
    verification: Verification,
    log: PathBuf,
    /// Sum of the counters of its processes that were killed.
    past: Status,
}

#[derive(Clone, Copy)]
enum Verification {
    Default,
    Votes,
    /// The second source must agree with the first one.
    Agree,
}

/// Counters of a follower.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    pub(crate) verified: Option<u64>,
    pub(crate) mismatched: Option<u64>,
    pub(crate) gaps: Option<u64>,
    pub(crate) late_writes: Option<u64>,
    pub(crate) repairs: Option<u64>,
    pub(crate) jumps: Option<u64>,
    /// Banks whose transactions were all executed again, with equal results.
    pub(crate) equal_results: Option<u64>,
    /// Banks without a difference, some of whose transactions were not executed.
    pub(crate) partial_results: Option<u64>,
    /// Banks with a result that is not the validator's.
    pub(crate) differing_results: Option<u64>,
}

/// Returns the followers of a run, which are not started yet.
pub(crate) fn followers(validators: &Validators, dir: &Path) -> Result<Vec<Follower>> {
    let ways: &[(&str, Verification)] = if validators.is_cluster() {
        &[("follower-votes", Verification::Votes), ("follower-agree", Verification::Agree)]
    } else {
        &[("follower", Verification::Default)]
    };
    let ports: [u16; 24] = free_ports()?;
    // The first ports are those of the validators, which do not listen yet.
    let mut ports = ports.into_iter().skip(12);
    let mut all = Vec::new();
    for (name, verification) in ways {
        let (Some(rpc), Some(grpc)) = (ports.next(), ports.next()) else { break };
        let follower = Follower {
            name: (*name).to_owned(),
            rpc: local(rpc),
            dir: dir.join(name),
            grpc,
            verification: *verification,
            log: dir.join(format!("{name}.log")),
            past: Status::default(),
        };
        fs::create_dir_all(follower.archive_dir())?;
        all.push(follower);
    }
    Ok(all)
}

impl Follower {
    /// Returns the directory of its archives.
    pub(crate) fn archive_dir(&self) -> PathBuf {
        self.dir.join("snapshot")
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the command that starts it.
    pub(crate) fn command(&self, hydrant: &Path, validators: &Validators) -> Command {
        let sources = validators.sources();
        let url = |address: SocketAddr| format!("http://{address}");
        let mut command = Command::new(hydrant);
        command.args(["follow", "--quiet", "--log", "--verify-execution"]);
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
            .arg(self.archive_dir())
            .args(["--rpc-port", &self.rpc.port().to_string()])
            .args(["--grpc-port", &self.grpc.to_string()])
            .env("RUST_LOG", "info,follow::frozen_banks=debug")
            .current_dir(&self.dir);
        command
    }

    /// Adds the counters of the process to those of its predecessors: it is killed next.
    pub(crate) fn add_counters(&mut self) {
        let status = self.status();
        // A process that does not serve would take away those of its predecessors.
        if status.jumps.is_some() {
            self.past = status;
        }
    }

    /// Returns the counters of all its processes so far; unknown if the last one does not serve.
    pub(crate) fn status(&self) -> Status {
        let Ok(text) = json_rpc::get(self.rpc, "/metrics") else {
            return Status::default();
        };
        let sample = |name: &str, past: Option<u64>| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            value.map(|value: u64| value + past.unwrap_or(0))
        };
        let value = |event: &str, past: Option<u64>| {
            sample(&format!("hydrant_follow_events_total{{event=\"{event}\"}} "), past)
        };
        let executed = |result: &str, past: Option<u64>| {
            let name = format!("hydrant_follow_execution_banks_total{{result=\"{result}\"}} ");
            sample(&name, past)
        };
        Status {
            verified: value("verified_bank", self.past.verified),
            mismatched: value("mismatched_bank", self.past.mismatched),
            gaps: value("gap", self.past.gaps),
            late_writes: value("late_write", self.past.late_writes),
            repairs: value("repair", self.past.repairs),
            jumps: value("jump", self.past.jumps),
            equal_results: executed("equal", self.past.equal_results),
            partial_results: executed("partial", self.past.partial_results),
            differing_results: executed("differs", self.past.differing_results),
        }
    }
}
