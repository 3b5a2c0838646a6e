//! The cost of allocations for the other threads of a process: stops of a thread that only reads the clock, page faults,
//! time in the kernel; with glibc's allocator and with jemalloc.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use testkit::clock::sleep_for;

use super::deliveries::OURS;
use super::measurement::Measurement;
use crate::report::table_head;
use crate::tpu::process::{Generator, Server};

/// A tick of the kernel's counts of CPU time on Linux (`sysconf(_SC_CLK_TCK)` is 100).
const TICK_US: f64 = 10_000.0;

/// Debian's libjemalloc2.
const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";

const ALLOCATORS: [&str; 2] = ["glibc", "jemalloc"];

/// Our server without a client: the stops that the machine alone causes.
const IDLE: &str = "idle";

const METRICS: [&str; 7] = [
    "stop_p50_us",
    "stop_p99_us",
    "stop_p999_us",
    "stop_max_us",
    "faults",
    "kernel_ticks",
    "streams",
];

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let columns = [&["allocator", "server"][..], &METRICS].concat();
    let mut rows = run.report.rows("stalls.csv", 2, &columns)?;
    let jemalloc =
        std::env::var_os("HYDRANT_JEMALLOC").map_or_else(|| JEMALLOC.into(), PathBuf::from);
    let mut table = String::new();
    let servers = run.servers;
    let servers = servers.iter().rev().chain([&IDLE]);
    let share = 1.0 / (ALLOCATORS.len() * servers.clone().count()) as f64;
    for allocator in ALLOCATORS {
        for name in servers.clone() {
            let key = [allocator.to_owned(), (*name).to_owned()];
            let preload = (allocator == "jemalloc").then_some(&jemalloc);
            let can_run = preload.is_none_or(|library| library.exists());
            let is_missing = can_run && rows.find(&key).is_none();
            if is_selected && is_missing {
                let values = measure(run, name, preload)?;
                rows.push(&key, &values.map(|value| value.to_string()))?;
                run.complete(share);
            } else if is_selected {
                run.skip(share);
            }
            let number = |at: usize| rows.number(&key, at);
            let [Some(half), Some(most), Some(tail), Some(max)] = [0, 1, 2, 3].map(number) else {
                continue;
            };
            let [faults, ticks, streams] = [4, 5, 6].map(|at| number(at).unwrap_or(0.0));
            let stops = format!("{half:.1} | {most:.1} | {tail:.1} | {max:.0}");
            let costs = match streams {
                0.0 => "- | - | -".to_owned(),
                _ => format!(
                    "{:.2} | {:.3} | {streams:.0}",
                    faults * 1e3 / streams,
                    ticks * TICK_US / streams
                ),
            };
            table.push_str(&format!("| {allocator} | {name} | {stops} | {costs} |\n"));
        }
    }
    if table.is_empty() {
        return Ok(table);
    }
    if !table.contains("| jemalloc |") {
        table.push_str("\nWithout jemalloc: Debian's package libjemalloc2 was not installed.\n");
    }
    let columns = [
        "allocator",
        "server",
        "stop p50, us",
        "p99",
        "p99.9",
        "longest",
        "page faults a 1,000 streams",
        "us in the kernel a stream",
        "streams",
    ];
    let about = format!(
        "{} connections, the mix, without offload, {} s. A thread of the server does nothing but read the clock; a \
         stop is the longest time between two of its reads in a millisecond. It shares the cores with the threads of \
         the server, of which ours has one more, and with the generator. `{IDLE}` is our server without a client: the \
         stops that the machine causes. Commits: {}.",
        run.size.connections[1],
        run.size.stall_seconds,
        rows.commits()
    );
    Ok(table_head("Stops of other threads", &about, &columns) + &table)
}

fn measure(
    run: &Measurement<'_>,
    name: &str,
    preload: Option<&PathBuf>,
) -> Result<[f64; METRICS.len()]> {
    let (program, argument) = Server::program(if name == IDLE { OURS } else { name })?;
    let mut command = Command::new(program);
    command.args(argument).args(["--bytes", "1232", "--window", "512"]);
    command.env("HYDRANT_WATCH_CLOCK", "1");
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    let mut server = Server::start_command(&mut command)?;
    let plan = format!("connections={} under-way=2048 one-identity=1", run.size.connections[1]);
    let seconds = run.size.stall_seconds;
    let (before, after) = if name == IDLE {
        let before = server.metrics()?;
        sleep_for(Duration::from_secs_f64(seconds));
        (before, server.metrics()?)
    } else {
        let mut generator = Generator::start(server.port, &plan)?;
        let load = |seconds: f64| format!("bytes=0 seconds={seconds}");
        generator.run(&load(seconds / 10.0))?;
        let before = server.metrics()?;
        generator.run(&load(seconds))?;
        let after = server.metrics()?;
        generator.end()?;
        (before, after)
    };
    // Stops are those since the last report; the others count from the start.
    Ok(METRICS.map(|key| {
        if key.starts_with("stop") { after.get(key) } else { after.get(key) - before.get(key) }
    }))
}
