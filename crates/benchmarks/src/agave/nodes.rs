//! The measured programs, and how they are started: each on a ledger of its own in a directory, which later starts
//! continue.
//!
//! Invariant: a process ends with its [`RunningNode`]. The ledgers have the history ([`Nodes::make_histories`]) before
//! anything is measured, and a started node has all of it final.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use http_client::Client;
use loadgen_solana::Inputs;
use process_usage::Process;
use serde_json::json;
use testkit::child_process::KillOnDrop;
use testkit::node::{Node, NodeCommand};

use super::accounts::Accounts;
use super::history::{self, History, HistorySize};
use super::validator;
use crate::node::{self, Target};

/// Bounds of Hydrant's history: more than the blocks of a run have.
const HISTORY_SLOTS: &str = "1000000";
const HISTORY_BYTES: &str = "8000000000";

/// A program that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Hydrant,
    Validator,
}

/// Flags and priority of a start of Hydrant.
#[derive(Clone, Debug, Default)]
pub(super) struct HydrantOptions {
    pub(super) flags: Vec<String>,
    /// The nice value of the process.
    pub(super) nice: i32,
}

pub(super) struct Nodes {
    dir: PathBuf,
    accounts: Accounts,
    validator: Option<PathBuf>,
    history_size: HistorySize,
    hydrant_history: Option<History>,
    validator_history: Option<History>,
}

/// A node that serves.
pub(super) struct RunningNode {
    pub(super) target: Target,
    _hydrant: Option<Node>,
    _validator: Option<KillOnDrop>,
}

impl RunningNode {
    /// Waits until the node has ended the work of clients that have disconnected. The validator ends all of it, in the
    /// order of arrival, before it responds.
    pub(super) fn drain(&self, client: &mut Client, inputs: &Inputs) -> Result<()> {
        let account = inputs.accounts.first().context("no account")?;
        client.call("getAccountInfo", &json!([account, { "encoding": "base64" }]))?;
        Ok(())
    }
}

impl Program {
    /// The measured programs, the rival first, as in the tables.
    pub(super) const ALL: [Self; 2] = [Self::Validator, Self::Hydrant];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hydrant => "hydrant dev",
            Self::Validator => "solana-test-validator",
        }
    }

    fn dir(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Self::Hydrant => "hydrant",
            Self::Validator => "validator",
        })
    }
}

impl HydrantOptions {
    /// Returns the options of a node that computes each response.
    pub(super) fn without_response_cache() -> Self {
        Self { flags: ["--cache-bytes-max", "0"].map(str::to_owned).to_vec(), nice: 0 }
    }
}

impl Nodes {
    pub(super) fn new(
        dir: PathBuf,
        accounts: Accounts,
        validator: Option<PathBuf>,
        history_size: HistorySize,
    ) -> Self {
        Self {
            dir,
            accounts,
            validator,
            history_size,
            hydrant_history: None,
            validator_history: None,
        }
    }

    /// Returns the programs that this machine has.
    pub(super) fn programs(&self) -> Vec<Program> {
        let validator = self.validator.is_some().then_some(Program::Validator);
        [Program::Hydrant].into_iter().chain(validator).collect()
    }

    /// Expected seconds until all programs have their histories.
    pub(super) fn history_seconds(&self) -> f64 {
        let is_missing = |program: &Program| self.stored_history(*program).is_none();
        if self.programs().iter().any(is_missing) { self.history_size.seconds() } else { 0.0 }
    }

    /// Whether [`Self::make_histories`] has been called.
    pub(super) fn have_histories(&self) -> bool {
        self.hydrant_history.is_some()
    }

    /// Makes the history of each program that has none, all at once.
    pub(super) fn make_histories(&mut self) -> Result<()> {
        let this = &*self;
        let histories = std::thread::scope(|threads| {
            let make = |program| threads.spawn(move || this.history_or_new(program));
            let running: Vec<_> = self.programs().into_iter().map(make).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<History>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            running.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        let mut histories = histories.into_iter();
        self.hydrant_history = histories.next();
        self.validator_history = histories.next();
        Ok(())
    }

    /// Describes accounts and histories, for the documents.
    pub(super) fn description(&self) -> String {
        let mut text = format!("Both preload {}.", self.accounts.description);
        let histories = [
            (Program::Hydrant, self.stored_history(Program::Hydrant)),
            (Program::Validator, self.stored_history(Program::Validator)),
        ];
        for (program, history) in histories {
            if let Some(History { blocks, transactions, .. }) = history {
                text.push_str(&format!(
                    " History of {}: {blocks} blocks, of which the median has {transactions} transactions.",
                    program.name()
                ));
            }
        }
        if self.validator.is_none() {
            text.push_str(
                " This run had no solana-test-validator (`--validator`, or `cargo xtask tools --rivals`).",
            );
        }
        text
    }

    /// Returns the inputs of a program's requests. The accounts are the same for all.
    pub(super) fn inputs(&self, program: Program) -> Result<&Inputs> {
        let history = self.history(program);
        Ok(&history.with_context(|| format!("{} has no history", program.name()))?.inputs)
    }

    /// Starts a program on the ledger with the history, and waits until the history is final.
    pub(super) fn start(&self, program: Program, options: &HydrantOptions) -> Result<RunningNode> {
        let node = self.start_on_ledger(program, options)?;
        if let Some(history) = self.history(program) {
            history::wait_for_final(&mut Client::open(node.target.address)?, history.last())?;
        }
        Ok(node)
    }

    fn history(&self, program: Program) -> Option<&History> {
        match program {
            Program::Hydrant => self.hydrant_history.as_ref(),
            Program::Validator => self.validator_history.as_ref(),
        }
    }

    /// Returns the history that an earlier run has made of the same accounts and the same size.
    fn stored_history(&self, program: Program) -> Option<History> {
        let text = fs::read(program.dir(&self.dir).join("history.json")).ok()?;
        let history: History = serde_json::from_slice(&text).ok()?;
        (history.shape == self.shape()).then_some(history)
    }

    /// Returns the history, after it was made if there was none.
    fn history_or_new(&self, program: Program) -> Result<History> {
        if let Some(history) = self.stored_history(program) {
            return Ok(history);
        }
        let dir = program.dir(&self.dir);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        let made = || -> Result<History> {
            let node = self.start_on_ledger(program, &HydrantOptions::default())?;
            let history = History::make(node.target.address, self.history_size, program.name())?;
            let inputs = history.with_accounts(&self.accounts.inputs);
            let shape = self.shape();
            let history = History { inputs, shape, ..history };
            fs::write(dir.join("history.json"), serde_json::to_vec(&history)?)?;
            Ok(history)
        };
        made().with_context(|| format!("history of {}", program.name()))
    }

    fn shape(&self) -> String {
        format!("{}; {}", self.accounts.description, self.history_size.description())
    }

    fn start_on_ledger(&self, program: Program, options: &HydrantOptions) -> Result<RunningNode> {
        let dir = program.dir(&self.dir);
        fs::create_dir_all(&dir)?;
        match program {
            Program::Hydrant => self.start_hydrant(&dir, options),
            Program::Validator => {
                let program = self.validator.as_ref().context("there is no validator")?;
                let (process, rpc) = validator::start(program, &dir, &self.accounts.dir)?;
                let target = Target { address: rpc, process: Process::with_id(process.0.id()) };
                Ok(RunningNode { target, _hydrant: None, _validator: Some(process) })
            }
        }
    }

    fn start_hydrant(&self, dir: &Path, options: &HydrantOptions) -> Result<RunningNode> {
        let ledger = dir.join("ledger");
        let mut command = Command::new("nice");
        command.args(["-n", &options.nice.to_string()]).arg(node::program()?);
        let slot_ms = self.history_size.slot_ms.to_string();
        let finalize_after = self.history_size.finalize_after.to_string();
        let mut command = NodeCommand::dev(command)
            .args(["--slot-ms", &slot_ms, "--finalize-after", &finalize_after, "--no-grpc"])
            .args(["--history-slots", HISTORY_SLOTS, "--history-bytes", HISTORY_BYTES])
            .args(&options.flags);
        if !ledger.exists() {
            command = command.args([OsStr::new("--account-dir"), self.accounts.dir.as_os_str()]);
        }
        let command = command.args([OsStr::new("--ledger"), ledger.as_os_str()]);
        let node = command.logged().watched().with_ready_timeout(node::LOAD_TIMEOUT).start()?;
        let target = Target { address: node.rpc, process: Process::with_id(node.pid()) };
        Ok(RunningNode { target, _hydrant: Some(node), _validator: None })
    }
}
