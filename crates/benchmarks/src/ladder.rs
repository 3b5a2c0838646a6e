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
mod mix;
mod nodes;
mod rows;
mod rungs;
mod submission;

use std::time::Duration;

use anyhow::{Result, ensure};

use self::fixture::Fixture;
use crate::arguments::value_of;
use crate::report::{Progress, Report, table_head};
use crate::threshold::Bars;

/// Bytes of the response cache: the default of the binary.
const CACHE_BYTES: &str = "268435456";

/// The size of the measurements.
struct Size {
    is_toy: bool,
    /// Owners of token accounts, and mints.
    owners: usize,
    /// Token accounts of each owner and of each mint.
    list: usize,
    blocks: usize,
    block_transactions: usize,
    rounds: usize,
    warm_up: Duration,
    measured: Duration,
    /// Requests that are repeated for the rung `cached`.
    cached_requests: usize,
    /// Number of changes that each row is measured after.
    changes: usize,
    hit_seconds: Duration,
    hit_writes_per_second: f64,
    submission_time: Duration,
    /// Transactions of the run that predicts the rate.
    submission_probe: usize,
    wrk_seconds: u64,
    mix_requests: f64,
}

const FULL: Size = Size {
    is_toy: false,
    owners: 400,
    list: 100,
    blocks: 20,
    block_transactions: 100,
    rounds: 5,
    warm_up: Duration::from_millis(300),
    measured: Duration::from_secs(2),
    cached_requests: 64,
    changes: 300,
    hit_seconds: Duration::from_secs(6),
    hit_writes_per_second: 50.0,
    submission_time: Duration::from_secs(30),
    submission_probe: 4_000,
    wrk_seconds: 3,
    mix_requests: 100_000.0,
};

const TOY: Size = Size {
    is_toy: true,
    owners: 8,
    list: 5,
    blocks: 2,
    block_transactions: 5,
    rounds: 1,
    warm_up: Duration::ZERO,
    measured: Duration::from_millis(50),
    cached_requests: 4,
    changes: 2,
    hit_seconds: Duration::from_millis(100),
    hit_writes_per_second: 100.0,
    submission_time: Duration::from_millis(50),
    submission_probe: 50,
    wrk_seconds: 1,
    mix_requests: 100.0,
};

/// Everything that the parts share.
struct Measurement<'a> {
    size: Size,
    report: &'a Report,
    fixture: &'a Fixture,
    /// The log that replaces the mix, if the user gives one.
    replay: Option<&'a str>,
    bars: Bars,
    progress: Progress,
}

/// A part's name, its time in seconds, and a function that measures the rows which are missing, if the part is
/// selected, and returns the tables of all rows.
type Part = (&'static str, fn(&Size) -> f64, fn(&mut Measurement<'_>, bool) -> Result<String>);

const PARTS: [Part; 5] = [
    ("rungs", Size::rungs_seconds, rungs::run),
    ("hits", Size::hits_seconds, hit_rates::run),
    ("submission", Size::submission_seconds, submission::run),
    ("wrk", Size::wrk_part_seconds, cross_check::run),
    ("mix", Size::mix_part_seconds, mix::run),
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let only = value_of(args, "--only")?;
    let names = PARTS.map(|(name, ..)| name);
    ensure!(
        only.is_none_or(|only| names.contains(&only)),
        "--only takes one of {}",
        names.join(", ")
    );
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
    let bars = table_head("Bars", "Goals of issue 32, section 4.", &columns) + run.bars.rows();
    let text = format!(
        "# Benchmarks: the ladder of REST and of every POST\n\nWritten by `cargo xtask bench ladder`. {}\n\
         {bars}{tables}",
        report.source()
    );
    report.write("README.md", &text)
}

impl Size {
    /// Time of the three rungs of one row.
    fn row_seconds(&self) -> f64 {
        3.0 * self.rounds as f64 * (self.warm_up + self.measured).as_secs_f64()
    }

    /// Approximate time of the changes of one row.
    fn change_seconds(&self) -> f64 {
        self.changes as f64 * 0.01
    }

    fn rungs_seconds(&self) -> f64 {
        rows::ROWS.len() as f64 * (self.row_seconds() + self.change_seconds())
    }

    fn hits_seconds(&self) -> f64 {
        (hit_rates::HIT_PERCENTS.len() * self.rounds) as f64 * self.hit_seconds.as_secs_f64()
    }

    /// Approximate time with the signatures before and the statuses after the load.
    fn submission_seconds(&self) -> f64 {
        2.0 * self.submission_time.as_secs_f64()
    }

    /// Time of both generators for one request.
    fn wrk_round_seconds(&self) -> f64 {
        2.0 * self.wrk_seconds as f64
    }

    fn wrk_part_seconds(&self) -> f64 {
        (cross_check::NAMES.len() * self.rounds) as f64 * self.wrk_round_seconds()
    }

    /// Approximate time of one round over one interface, at 15,000 requests a second.
    fn mix_seconds(&self) -> f64 {
        self.mix_requests / 15_000.0
    }

    fn mix_part_seconds(&self) -> f64 {
        2.0 * self.rounds as f64 * self.mix_seconds()
    }
}
