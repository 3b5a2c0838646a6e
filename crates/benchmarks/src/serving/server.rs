//! The measured server, in a process of its own: one ledger, served with several settings.

use std::process::Command;

use anyhow::Result;
use process_usage::Process;

use super::callgrind::Callgrind;
use crate::ledger_process::LedgerProcess;
use crate::ledger_process::protocol::{Serving, Settings};

/// The binary's response cache, in bytes.
const CACHE_BYTES: u64 = 256 << 20;

pub(crate) struct Server {
    ledger: LedgerProcess,
    is_serving: bool,
}

impl Settings {
    /// As in the binary: IO threads for half the cores, CPU threads for all of them.
    pub(crate) fn like_binary() -> Self {
        let pool = cpu_pool::Config::default();
        let rpc = rpc_solana::Config::default();
        Self {
            io_threads: (cores() / 2).max(1),
            cpu_threads: cores(),
            slice_us: pool.slice_us,
            nice: pool.nice,
            inline_bytes: rpc.inline_bytes_max,
            cache_bytes: CACHE_BYTES,
        }
    }

    /// The settings of a server without time slices, round robin and weights: the pool is one queue in the order of arrival.
    pub(crate) fn like_fifo() -> Self {
        Self { slice_us: 0, ..Self::like_binary() }
    }

    /// As in Agave: all reads through one queue, each to its end, on threads of normal priority.
    pub(crate) fn like_agave() -> Self {
        Self { nice: 0, inline_bytes: 0, ..Self::like_fifo() }
    }
}

impl Server {
    /// A ledger of mainnet's shape with `accounts` accounts. Its instructions are counted if there is a counter.
    pub(crate) fn start(accounts: u32, callgrind: Option<&Callgrind>) -> Result<Self> {
        let program = LedgerProcess::program()?;
        let command = match callgrind {
            None => Command::new(program),
            Some(callgrind) => callgrind.command(&program),
        };
        let mut ledger = LedgerProcess::start_command(command, "again", "mainnet", accounts, &[])?;
        ledger.line_after("ready")?;
        Ok(Self { ledger, is_serving: false })
    }

    /// Serves with these settings from now on.
    pub(crate) fn serve(&mut self, settings: Settings) -> Result<Serving> {
        if self.is_serving {
            self.ledger.send_line("")?;
            self.ledger.line_after("ended")?;
        }
        self.ledger.send_line(&serde_json::to_string(&settings)?)?;
        self.is_serving = true;
        Ok(serde_json::from_str(&self.ledger.line_after("serving ")?)?)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.ledger.id()
    }

    pub(crate) fn process(&self) -> Process {
        Process::with_id(self.pid())
    }
}

/// The cores of this machine that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
