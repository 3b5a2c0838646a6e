//! The experiment of quinn PR 1999, with one more column: allocations of streams:
//! `streams [--toy] [--only cold|sites|warm|cells|stalls] [--out DIR] [--keep] [--fresh]`.
//!
//! Shape: server processes that count their allocations, and generator processes, as in `quic`. Servers: quinn before
//! its free list (0.11.5 on proto 0.11.8), quinn today, ours.
//! `cold`: 100,000 transactions into a fresh server, over one connection with a window of 512.
//! `sites`: where the allocations happen, counted by Valgrind's DHAT.
//! `warm`: 2,000 connections, rounds of 400,000 streams.
//! `cells`: streams a second and CPU time a stream for each number of connections, size and offload.
//! `stalls`: with glibc's allocator and with jemalloc: how long a thread that only reads the clock is stopped, page
//! faults, time in the kernel. `HYDRANT_JEMALLOC` names the library if it is not the one of Debian's libjemalloc2.
//! Output: `docs/benchmarks/streams`: CSV, a plot, and tables in README.md. A run that was stopped continues.
//! Time: at most 45 minutes on two cores: `cold` 1, `sites` 5, `warm` 20, `cells` 15, `stalls` 4. The first run builds
//! the rival, two minutes more. `cold`, `sites` and `warm` are counts and bytes, which a busy machine does not change.

mod cells;
mod cold;
mod dhat;
mod measurement;
mod sites;
mod stalls;
mod warm;

use anyhow::Result;

use self::measurement::{FULL, Measurement, SERVERS, TOY};
use crate::report::{Progress, Report, selected_part};
use crate::tpu::process::build_baselines;

/// A part's name, and a function that measures what has no row yet, if the part is selected, and returns the tables of
/// all rows.
type Part = (&'static str, fn(&mut Measurement<'_>, bool) -> Result<String>);

const PARTS: [Part; 5] = [
    ("cold", cold::run),
    ("sites", sites::run),
    ("warm", warm::run),
    ("cells", cells::run),
    ("stalls", stalls::run),
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let only = selected_part(args, &PARTS.map(|(name, _)| name))?;
    let report = Report::open("streams", args, is_toy)?;
    let servers = if is_toy { &SERVERS[..2] } else { &SERVERS[..] };
    build_baselines(servers)?;
    let size = if is_toy { TOY } else { FULL };
    let parts = if only.is_some() { 1.0 } else { PARTS.len() as f64 };
    let progress = Progress::new("streams, parts", parts);
    let mut measurement = Measurement { size, report: &report, servers, progress };
    let mut text = format!(
        "# Benchmarks: allocations of streams\n\nWritten by `cargo xtask bench streams`. {}\n",
        report.source()
    );
    for (name, part) in PARTS {
        let is_selected = only.is_none_or(|only| only == name);
        let tables = part(&mut measurement, is_selected)?;
        println!("{tables}");
        text.push_str(&tables);
        if is_selected {
            measurement.progress.add(1.0);
        }
    }
    report.write("README.md", &text)
}
