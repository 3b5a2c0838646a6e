//! A replicated log, its snapshots and a replica: `cluster [--toy] [--nats FILE]`.
//!
//! Shape: everything runs in a process of its own (`replicated-chain`), with the binary's allocator, because this one counts
//! each allocation. It prints its tables; the bars are here. Without nats-server (`--nats`, or `NATS_SERVER`) the log is a
//! directory, and what only JetStream can show is left out by name.
//! Not here: differences, faults, failovers, reads and memory of real processes (`cargo xtask cluster`).

use std::process::Command;

use anyhow::Result;
use testkit::child_process::sibling_binary;

use crate::ledger_process::LedgerProcess;
use crate::threshold::{at_least, goal_at_least, goal_at_most};

/// The environment variable that names nats-server.
const NATS_SERVER: &str = "NATS_SERVER";

pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut command = Command::new(sibling_binary("replicated-chain")?);
    command.args(args);
    let is_toy = args.iter().any(|arg| arg == "--toy");
    if let Some(program) = std::env::var_os(NATS_SERVER).filter(|_| !is_toy) {
        command.arg("--nats").arg(program);
    }
    let measured = LedgerProcess::start_program(&mut command)?.end()?;
    at_least("cluster_catch_up", measured.get("catch_up")?, "x", 4.0);
    goal_at_least(
        "cluster_load_accounts",
        measured.get("load_accounts_s")?,
        "accounts/s",
        250_000.0,
    );
    goal_at_least("cluster_snapshot_write", measured.get("snapshot_write_mb_s")?, "MB/s", 50.0);
    goal_at_most("cluster_apply_with_snapshot", measured.get("apply_with_snapshot")?, "x", 1.3);
    if measured.get("is_nats")? == 0.0 {
        println!(
            "left out, without nats-server: the rate of synced appends and the lag over JetStream"
        );
        return Ok(());
    }
    goal_at_least("cluster_append", measured.get("append_mb_s")?, "MB/s", 30.0);
    goal_at_most("cluster_lag_p50", measured.get("lag_p50_ms")?, "ms", 80.0);
    goal_at_most("cluster_lag_p99", measured.get("lag_p99_ms")?, "ms", 250.0);
    let catching_up = measured.get("lag_p99_catching_up_ms")?;
    goal_at_most("cluster_lag_p99_catching_up", catching_up, "ms", 500.0);
    Ok(())
}
