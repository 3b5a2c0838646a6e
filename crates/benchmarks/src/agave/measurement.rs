//! The context of every part of the benchmark: its size, the nodes, and the time left.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use localnet::FINALIZE_AFTER_DEFAULT;
use tempfile::TempDir;
use testkit::child_process::sibling_binary;

use super::accounts::{AccountSource, Accounts};
use super::history::HistorySize;
use super::nodes::{Nodes, Program};
use super::validator;
use crate::arguments::value_of;
use crate::report::{Progress, Report};

/// Connections of each suite, as in the PR.
pub(super) const CONNECTIONS: usize = 100;
/// Concurrent scans during each suite.
pub(super) const SCANS: usize = 4;
/// Light calls a second, and the connections over which they come: enough for any that wait.
pub(super) const LIGHT_RATE: f64 = 500.0;
pub(super) const LIGHT_CONNECTIONS: usize = 64;

/// The size of the measurements.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) history: HistorySize,
    /// Number of token accounts, unless a sample has others.
    pub(super) accounts: u64,
    /// Numbers of concurrent scans during a suite.
    pub(super) suite_scans: &'static [usize],
    /// Rounds of suites, isolation, priorities and of the modes of getMultipleAccounts.
    pub(super) rounds: usize,
    pub(super) measured: Duration,
    pub(super) warm_up: Duration,
    /// The numbers of IO and of CPU threads.
    pub(super) threads: &'static [usize],
    pub(super) thread_rounds: usize,
    /// A bound for the cases of priorities.
    pub(super) priorities_max: usize,
    /// Busy loops that run alongside the node.
    pub(super) busy_loops: usize,
    pub(super) thread_measured: Duration,
    /// Expected time from the start of a node to its first measurement.
    pub(super) start: Duration,
}

const FULL: Size = Size {
    history: HistorySize {
        blocks: 2_000,
        transactions: 100,
        slot_ms: 400,
        finalize_after: FINALIZE_AFTER_DEFAULT,
    },
    accounts: 60_000,
    suite_scans: &[0, SCANS],
    rounds: 3,
    measured: Duration::from_secs(8),
    warm_up: Duration::from_secs(1),
    threads: &[1, 2, 3, 4, 5, 6, 7, 8],
    thread_rounds: 2,
    priorities_max: usize::MAX,
    busy_loops: 8,
    thread_measured: Duration::from_secs(4),
    start: Duration::from_secs(6),
};

/// Proof that all parts work with a validator.
const SHORT: Size = Size {
    history: HistorySize { blocks: 60, transactions: 20, ..FULL.history },
    accounts: 5_000,
    rounds: 1,
    measured: Duration::from_secs(1),
    warm_up: Duration::from_millis(300),
    threads: &[1, 2, 8],
    thread_rounds: 1,
    thread_measured: Duration::from_secs(1),
    ..FULL
};

/// Few starts of nodes, which take longer than the cells.
const TOY: Size = Size {
    history: HistorySize { blocks: 8, transactions: 4, slot_ms: 20, finalize_after: 2 },
    accounts: 200,
    suite_scans: &[SCANS],
    measured: Duration::from_millis(20),
    warm_up: Duration::from_millis(5),
    threads: &[1],
    priorities_max: 2,
    busy_loops: 1,
    thread_measured: Duration::from_millis(20),
    start: Duration::from_millis(300),
    ..SHORT
};

/// A round of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgramRound {
    pub(super) program: Program,
    pub(super) round: usize,
}

impl Size {
    /// Whether results mean nothing, as they are too short.
    pub(super) fn is_toy(&self) -> bool {
        self.measured < Duration::from_millis(100)
    }
}

pub(super) struct Measurement<'a> {
    pub(super) size: Size,
    pub(super) report: &'a Report,
    pub(super) nodes: Nodes,
    pub(super) progress: Progress,
    /// The directory of the ledgers of a trial.
    _temporary: Option<TempDir>,
}

impl<'a> Measurement<'a> {
    pub(super) fn new(args: &[String], report: &'a Report) -> Result<Self> {
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        let size = match (has("--toy"), has("--short")) {
            (true, _) => TOY,
            (false, true) => SHORT,
            (false, false) => FULL,
        };
        let is_trial = has("--toy") || has("--short");
        let temporary = is_trial.then(tempfile::tempdir).transpose()?;
        let dir = match (value_of(args, "--dir")?, &temporary) {
            (Some(dir), _) => PathBuf::from(dir),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => sibling_binary("agave-ledgers")?,
        };
        std::fs::create_dir_all(&dir)?;
        let dir = dir.canonicalize()?;
        let source = match value_of(args, "--sample")? {
            Some(archive) => AccountSource::Archive(Path::new(archive).canonicalize()?),
            None => AccountSource::Made(size.accounts),
        };
        let accounts = Accounts::write(&dir, &source)?;
        let validator = if has("--toy") { None } else { validator::find(args)? };
        let nodes = Nodes::new(dir, accounts, validator, size.history);
        let progress = Progress::new("agave, seconds", 0.0);
        Ok(Self { size, report, nodes, progress, _temporary: temporary })
    }

    /// Sets the expected time of the whole run.
    pub(super) fn expect_seconds(&mut self, seconds: f64) {
        self.progress = Progress::new("agave, seconds", seconds);
    }

    /// Makes the histories of the nodes, unless they exist. A part without a missing row does not need them.
    pub(super) fn prepare(&mut self) -> Result<()> {
        if self.nodes.have_histories() {
            return Ok(());
        }
        let seconds = self.nodes.history_seconds();
        self.nodes.make_histories()?;
        if seconds > 0.0 {
            self.progress.add(seconds);
        }
        Ok(())
    }

    /// Returns all rounds of all programs, one program after the other in each round. Another one is the first each
    /// time.
    pub(super) fn program_rounds(&self) -> Vec<ProgramRound> {
        let programs = self.nodes.programs();
        let of_round = |round: usize| {
            let first = round % programs.len();
            let order = programs[first..].iter().chain(&programs[..first]);
            order.map(|program| ProgramRound { program: *program, round }).collect::<Vec<_>>()
        };
        (0..self.size.rounds).flat_map(of_round).collect()
    }

    /// Expected seconds of `count` measurements, each of a round's length.
    pub(super) fn round_seconds(&self, count: usize) -> f64 {
        count as f64 * (self.size.measured + self.size.warm_up).as_secs_f64()
    }
}
