//! The resident memory of subscriptions in the shape of Kaspa's PR 427, after as many cycles as there.

use std::ops::Range;

use anyhow::Result;
use process_usage::Process;

use crate::metric::print_metric;
use crate::pairs::measure_pairs;
use crate::size::Size;

pub(crate) fn run(size: &Size) -> Result<()> {
    let sets: Vec<Range<u32>> = size.sets.ranges().collect();
    let memory = || Ok(Process::current().resident_bytes()?);
    let measured = measure_pairs(&sets, size.cycles, memory)?;
    let growth = measured.late as f64 / measured.early as f64;
    println!(
        "{} pairs, {} cycles: {:.1} resident B a pair, the process {:.1} MB in the first quarter, {:.1} in the last",
        size.sets.pairs(),
        size.cycles,
        measured.pair_bytes(),
        measured.early as f64 / 1e6,
        measured.late as f64 / 1e6
    );
    print_metric("pair_bytes", measured.pair_bytes());
    print_metric("growth", growth);
    Ok(())
}
