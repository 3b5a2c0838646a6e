//! Tips that are replaced, and deep chains: `blocks [--toy]`.
//!
//! Output: the cost of a virtual block in the ledger and of a root in the block log, at two depths above the root.
//! Not here: the measurements (`state_ledger/blocks.rs`, a process with the binary's allocator).

use std::process::Command;

use anyhow::{Result, bail};

use crate::ledger_process::LedgerProcess;
use crate::threshold;

/// "At depth 1,000 a virtual block costs at most 3 times, and a root in the block log at most 12 times, what they cost
/// at depth 100."
const VIRTUAL_GROWTH_MAX: f64 = 3.0;
const ROOT_GROWTH_MAX: f64 = 12.0;
/// "A virtual block of 750 UTXOs created and 750 spent: at most 15 ms of CPU."
const VIRTUAL_MS_MAX: f64 = 15.0;
/// "Above the root: at most 400 B for each changed record, block log included."
const RECORD_BYTES_MAX: f64 = 400.0;

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !matches!(args, [] | [_]) || args.iter().any(|arg| arg != "--toy") {
        bail!("usage: blocks [--toy]");
    }
    let mut program = Command::new(LedgerProcess::program()?);
    let metrics = LedgerProcess::start_program(program.arg("blocks").args(args))?.end()?;
    let growth = |name: &str| -> Result<f64> {
        Ok(metrics.get(&format!("{name}_deep"))? / metrics.get(&format!("{name}_shallow"))?)
    };
    let virtual_ms = metrics.get("virtual_ms_deep")?;
    threshold::at_most("blocks_virtual_cpu", virtual_ms, "ms", VIRTUAL_MS_MAX);
    threshold::at_most("blocks_virtual_growth", growth("virtual_ms")?, "x", VIRTUAL_GROWTH_MAX);
    let other = growth("other_virtual_ms")?;
    threshold::at_most("blocks_other_virtual_growth", other, "x", VIRTUAL_GROWTH_MAX);
    threshold::at_most("blocks_root_growth", growth("root_us")?, "x", ROOT_GROWTH_MAX);
    let staying = growth("root_us_staying")?;
    threshold::at_most("blocks_root_growth_staying", staying, "x", ROOT_GROWTH_MAX);
    let bytes = metrics.get("record_bytes_deep")?;
    threshold::at_most("blocks_record_bytes", bytes, "B", RECORD_BYTES_MAX);
    Ok(())
}
