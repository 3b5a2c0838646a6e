//! A REST API with its benchmark, after issue 7082 of Aptos: every route and every POST, compared with the ceiling:
//! `ladder [--toy] [--only PART] [--replay LOG] [--out DIR] [--keep] [--fresh]`.
//!
//! Shape: nodes of the binary with the same accounts, and a server of constant responses over the same HTTP stack.
//! `rungs`: for each row the constant response of its size, cached, computed, and the first one after a change.
//! `hits`: lists at hit rates from 0 to 100 % while blocks change the data; stale responses are counted.
//! `submission`: transactions with preflight, without a pause for 30 s.
//! `wrk`: our generator and Debian's `wrk`, alternately, with the same requests.
//! `mix`: requests by the weights of a public source, or with `--replay` those of a log (`hydrant bench --replay` has
//! its format).
//! Output: `docs/benchmarks/ladder`: CSV, plots, and tables in README.md. A run that was stopped continues.
//! Time: at most 30 minutes on two cores: `rungs` 18, `hits` 3, `submission` 3, `wrk` 2, `mix` 2. 2 GB of memory.

mod changes;
mod cross_check;
mod fixture;
mod hit_rates;
mod lamports_position;
mod load;
mod measurement;
mod mix;
mod nodes;
mod rows;
mod rungs;
mod submission;

use anyhow::Result;

use self::fixture::Fixture;
use self::measurement::{FULL, Measurement, Size, TOY};
use crate::arguments::value_of;
use crate::report::{Progress, Report, selected_part, table_head};
use crate::threshold::Bars;

/// A part's name, its time in seconds, and a function that measures the rows which are missing, if the part is
/// selected, and returns the tables of all rows.
type Part = (&'static str, fn(&Size) -> f64, fn(&mut Measurement<'_>, bool) -> Result<String>);

const PARTS: [Part; 5] = [
    ("rungs", rungs::seconds, rungs::run),
    ("hits", hit_rates::seconds, hit_rates::run),
    ("submission", submission::seconds, submission::run),
    ("wrk", cross_check::seconds, cross_check::run),
    ("mix", mix::seconds, mix::run),
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let only = selected_part(args, &PARTS.map(|(name, ..)| name))?;
    let is_selected = |name: &str| only.is_none_or(|only| only == name);
    let size = if is_toy { TOY } else { FULL };
    let report = Report::open("ladder", args, is_toy)?;
    let fixture = Fixture::write(size.owners, size.list)?;
    let selected = PARTS.iter().filter(|(name, ..)| is_selected(name));
    let seconds: f64 = selected.map(|(_, seconds, _)| seconds(&size)).sum();
    let mut run = Measurement {
        size,
        report: &report,
        fixture: &fixture,
        replay: value_of(args, "--replay")?,
        bars: Bars::default(),
        progress: Progress::new("ladder, seconds of load", seconds),
    };
    let mut tables = String::new();
    for (name, _, part) in PARTS {
        let table = part(&mut run, is_selected(name))?;
        println!("{table}");
        tables.push_str(&table);
    }
    let columns = ["figure", "value", "unit", "bar", "met"];
    let bars = table_head("Bars", "The results that have a bar.", &columns) + run.bars.rows();
    let text = format!(
        "# Benchmarks: the ladder of REST and of every POST\n\nWritten by `cargo xtask bench ladder`. {}\n\
         {bars}{tables}",
        report.sources()?
    );
    report.write("README.md", &text)
}
