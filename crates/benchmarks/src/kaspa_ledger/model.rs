//! Model runs: a chain follows a model of a kaspad, and each publication is compared (`testkit::kaspa_chain`).
//!
//! Output: the steps that were made, and the number of runs that ended at a difference. A commitment that is not the
//! chain's own sum is a difference, too.
//! Shape: a third of the steps over a good link, a third over one that swaps messages, and a third over one that swaps,
//! doubles and loses them. Each run has a thread.

use std::thread;

use anyhow::{Result, ensure};
use testkit::kaspa_chain::{Link, run_model};

use crate::metric::print_metric;
use crate::size::Size;

/// The kinds of links with their seeds. The tests of `chain_kaspa` have others, so that both together see more.
const LINKS: [(Link, u64); 3] = [(Link::Good, 101), (Link::Swaps, 102), (Link::Loses, 103)];

pub(crate) fn run(size: &Size) -> Result<()> {
    let steps = size.model_steps.div_ceil(LINKS.len() as u64);
    let mut runs = Vec::new();
    for (link, seed) in LINKS {
        let thread = thread::Builder::new().name(format!("model-{seed}"));
        runs.push((link, seed, thread.spawn(move || run_model(seed, link, steps))?));
    }
    println!("a model of a kaspad, {steps} steps over each link:");
    let mut steps_made = 0;
    let mut differences = 0;
    for (link, seed, thread) in runs {
        // The run panics at a difference, with its text on standard error.
        let Ok(report) = thread.join() else {
            println!("  {link:?}, seed {seed}: different");
            differences += 1;
            continue;
        };
        steps_made += steps;
        // A toy may end before the first comparison.
        let is_compared = size.is_toy || report.virtual_comparisons > 0;
        ensure!(is_compared, "{link:?}: the virtual state was never compared");
        let counters = report.counters;
        println!(
            "  {link:?}: {} chain blocks with equal sums, {} reorganizations up to {} deep, {} losses found, {} times \
             equal with the virtual state",
            counters.blocks,
            counters.reorganizations,
            counters.deepest_reorganization,
            report.losses,
            report.virtual_comparisons
        );
    }
    print_metric("steps", steps_made as f64);
    print_metric("differences", f64::from(differences));
    Ok(())
}
