//! Following a chain of mainnet's shape: `follow [--toy] [--slots N]`.
//!
//! Shape: the chain, its source and the follower are a process of their own (`followed-chain`), with the binary's allocator,
//! because this one counts each allocation. It prints its tables; the bars are here.

use std::process::Command;

use anyhow::Result;
use testkit::child_process::sibling_binary;

use crate::ledger_process::LedgerProcess;
use crate::threshold::{at_least, at_most};

pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut command = Command::new(sibling_binary("followed-chain")?);
    let measured = LedgerProcess::start_program(command.args(args))?.end()?;
    at_least("follow_applied_of_mainnet", measured.get("applied_of_mainnet")?, "x", 3.0);
    at_most("follow_lag_p99", measured.get("lag_p99")?, "ms", 20.0);
    at_most("follow_lag_in_epoch_start", measured.get("lag_in_epoch_start")?, "slots", 1.0);
    at_most("follow_verdict_p99", measured.get("verdict_p99")?, "ms", 5.0);
    at_most("follow_lattice_share", measured.get("lattice_share")?, "cores", 0.05);
    at_most("follow_above_root", measured.get("above_root")?, "MB", 64.0);
    Ok(())
}
