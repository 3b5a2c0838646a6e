//! `bench rivals`: Hydrant, `solana-test-validator` and surfpool, measured in one run on one machine.
//!
//! Input: options (`options`), and the programs of `clients/rivals.txt` (`build`). Output: a Markdown table, which
//! `--write` puts into README.md between its markers.
//! Shape: the programs run one after the other, several times each, with the same preloaded accounts (`dataset`,
//! `node`). Each start is measured (`measurement`): the load is one process of `hydrant bench`, the scans are another,
//! and the inputs of the requests are the same. The table has medians (`table`).
//! Invariant: only one of the programs runs at a time.
//! Bounds: some ten minutes for three programs.
//! Not here: CI, which has no rivals; the load and its percentiles (`hydrant bench`).

pub(crate) mod build;

mod candidate;
mod dataset;
mod load;
mod measurement;
mod methods;
mod node;
mod options;
mod table;
mod transfers;

use std::fs;

use anyhow::{Context, Result};

use crate::rivals::candidate::Candidate;
use crate::rivals::dataset::Dataset;
use crate::rivals::measurement::{Bench, Measurement};
use crate::rivals::options::{Options, USAGE};
use crate::rivals::table::{Column, Conditions};
use crate::thresholds::markers::replace_section;
use crate::thresholds::provenance::provenance;
use crate::workspace::root;

/// The name of the benchmark, which is also the name of the section in README.md.
pub(crate) const NAME: &str = "rivals";

/// Runs `cargo xtask bench rivals [OPTIONS]`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if args.iter().any(|arg| arg == "--help") {
        println!("{USAGE}");
        return Ok(());
    }
    let options = Options::parse(args)?;
    let candidates = candidate::all(&options)?;
    let conditions = Conditions::new(&options, &provenance()?);
    let dataset = Dataset::write(&options.dir, options.accounts)?;
    let bench = Bench::new(&options, &candidates, &dataset)?;
    let mut columns = Vec::new();
    for candidate in candidates {
        columns.push(measure(&bench, candidate, options.starts)?);
    }
    let section = table::render(&columns, &conditions);
    println!("\n{section}");
    if options.is_written { write(&section) } else { Ok(()) }
}

fn measure(bench: &Bench<'_>, candidate: Candidate, starts: usize) -> Result<Column> {
    let mut measurements: Vec<Measurement> = Vec::new();
    if candidate.program.is_ok() {
        for start in 1..=starts {
            println!("{}: start {start} of {starts}", candidate.heading);
            let measurement = bench.measure(&candidate);
            measurements.push(measurement.with_context(|| candidate.heading.clone())?);
        }
    }
    Ok(Column { candidate, measurements })
}

fn write(section: &str) -> Result<()> {
    let file = root().join("README.md");
    let document = fs::read_to_string(&file).context("read README.md")?;
    let document = replace_section(&document, NAME, section);
    let document = document.with_context(|| format!("README.md has no section `{NAME}`"))?;
    fs::write(&file, document).context("write README.md")
}
