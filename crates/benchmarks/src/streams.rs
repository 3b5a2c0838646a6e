//! The experiment of quinn PR 1999 about the allocations of streams, plus ours:
//! `streams [--toy] [--only cold|sites|warm|cells|stalls] [--out DIR] [--keep] [--fresh]`.
//!
//! Shape: server processes that count their allocations, and generator processes, as in `quic`. Servers: quinn before
//! its free list (0.11.5 on proto 0.11.8), quinn today, ours.
//! `cold`: 100,000 transactions into a fresh server, over one connection with a window of 512.
//! `sites`: where the allocations happen, counted by Valgrind's DHAT.
//! `warm`: 2,000 connections, rounds of 400,000 streams; and bytes held after full windows.
//! `cells`: streams a second and CPU time a stream for each number of connections, size and offload.
//! `stalls`: with glibc's allocator and with jemalloc: how long a thread that only reads the clock is stopped, page
//! faults, time in the kernel. `HYDRANT_JEMALLOC` names the library if it is not the one of Debian's libjemalloc2.
//! Output: `docs/benchmarks/streams`: CSV, a plot of the cells, and tables in README.md. A run that was stopped
//! continues.
//! Time: at most 50 minutes on two cores: `cold` 1, `sites` 5, `warm` 22, `cells` 17, `stalls` 5. The first run builds
//! the rival, two minutes more. `cold`, `sites` and `warm` are counts and bytes, which a busy machine does not change.

mod cells;
mod cold;
mod deliveries;
mod dhat;
mod measurement;
mod sites;
mod stalls;
mod warm;

use anyhow::Result;

use self::deliveries::Deliveries;
use self::measurement::{FULL, Measurement, SERVERS, TOY};
use crate::report::{Progress, Report, selected_part};
use crate::tpu::process::build_baselines;

/// A part's name, its time, and a function that measures what has no row yet, if the part is selected, and returns the
/// tables of all rows.
struct Part {
    name: &'static str,
    /// Minutes at full size, at most.
    minutes: f64,
    run: fn(&mut Measurement<'_>, bool) -> Result<String>,
}

const PARTS: [Part; 5] = [
    Part { name: "cold", minutes: 1.0, run: cold::run },
    Part { name: "sites", minutes: 5.0, run: sites::run },
    Part { name: "warm", minutes: 22.0, run: warm::run },
    Part { name: "cells", minutes: 17.0, run: cells::run },
    Part { name: "stalls", minutes: 5.0, run: stalls::run },
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let only = selected_part(args, &PARTS.map(|part| part.name))?;
    let is_selected = |part: &Part| only.is_none_or(|only| only == part.name);
    let report = Report::open("streams", args, is_toy)?;
    let servers = if is_toy { &SERVERS[..2] } else { &SERVERS[..] };
    build_baselines(servers)?;
    let selected = PARTS.iter().filter(|part| is_selected(part));
    let mut measurement = Measurement {
        size: if is_toy { TOY } else { FULL },
        report: &report,
        servers,
        deliveries: Deliveries::open(&report)?,
        progress: Progress::new("streams, minutes", selected.map(|part| part.minutes).sum()),
        part_minutes: 0.0,
    };
    let mut tables = String::new();
    for part in &PARTS {
        measurement.part_minutes = part.minutes;
        let of_part = (part.run)(&mut measurement, is_selected(part))?;
        println!("{of_part}");
        tables.push_str(&of_part);
    }
    let delivered = measurement.deliveries.table(servers);
    println!("{delivered}");
    let text = format!(
        "# Benchmarks: allocations of streams\n\nWritten by `cargo xtask bench streams`. {}\n{tables}{delivered}",
        report.sources()?
    );
    report.write("README.md", &text)
}
