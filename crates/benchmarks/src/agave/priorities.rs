//! Priorities of the node and of the other threads on a busy machine.
//!
//! Shape: the suite `block` and light calls as in `threads`, at the default numbers of threads, alongside busy loops.

use std::fmt::Write;

use anyhow::Result;

use super::busy_loops::{BusyLoops, may_raise_priority};
use super::latencies::{self, Latencies, format_ms};
use super::measurement::Measurement;
use super::nodes::{HydrantOptions, Program};
use super::threads::{STREAMS, measure_blocks};
use crate::median::median;
use crate::report::{Rows, table_head};

const KEY_LEN: usize = 2;

/// Priorities of node and loops.
struct Case {
    name: &'static str,
    has_loops: bool,
    loops_nice: u8,
    node_nice: i32,
}

const CASES: [Case; 4] = [
    Case { name: "no busy loops", has_loops: false, loops_nice: 0, node_nice: 0 },
    Case { name: "busy loops", has_loops: true, loops_nice: 0, node_nice: 0 },
    Case { name: "busy loops at nice 19", has_loops: true, loops_nice: 19, node_nice: 0 },
    Case { name: "node at nice -15", has_loops: true, loops_nice: 0, node_nice: -15 },
];

impl Case {
    fn key(&self, round: usize) -> [String; KEY_LEN] {
        [self.name.to_owned(), round.to_string()]
    }
}

pub(super) fn seconds(run: &Measurement<'_>) -> f64 {
    let count = CASES.len().min(run.size.priorities_max) * run.size.rounds;
    run.round_seconds(count) + count as f64 * run.size.start.as_secs_f64()
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let key: [&str; KEY_LEN] = ["priorities", "round"];
    let mut rows = latencies::rows(run, "priorities.csv", &key, &STREAMS)?;
    if is_selected {
        measure(run, &mut rows)?;
    }
    Ok(table(run, &rows))
}

fn measure(run: &mut Measurement<'_>, rows: &mut Rows) -> Result<()> {
    let is_permitted = |case: &&Case| case.node_nice >= 0 || may_raise_priority();
    for round in 0..run.size.rounds {
        for case in CASES.iter().take(run.size.priorities_max).filter(is_permitted) {
            let seconds = run.round_seconds(1) + run.size.start.as_secs_f64();
            if rows.find(&case.key(round)).is_some() {
                run.progress.skip(seconds);
                continue;
            }
            run.prepare()?;
            let nice = case.node_nice;
            let options = HydrantOptions { nice, ..HydrantOptions::without_response_cache() };
            let node = run.nodes.start(Program::Hydrant, &options)?;
            let count = if case.has_loops { run.size.busy_loops } else { 0 };
            let loops = BusyLoops::start(count, case.loops_nice);
            let cells = measure_blocks(run, &node, run.size.measured)?;
            drop(loops);
            rows.push(&case.key(round), &cells)?;
            run.progress.add(seconds);
        }
    }
    Ok(())
}

fn table(run: &Measurement<'_>, rows: &Rows) -> String {
    let mut lines = String::new();
    for case in &CASES {
        let medians = |first: usize| {
            let rounds = (0..run.size.rounds)
                .map(|round| Latencies::from_row(rows, &case.key(round), first));
            Latencies::medians(&rounds.collect::<Option<Vec<_>>>()?)
        };
        let light_at = latencies::COLUMNS.len();
        let (Some(blocks), Some(light)) = (medians(0), medians(light_at)) else { continue };
        let cpu =
            (0..run.size.rounds).filter_map(|round| rows.number(&case.key(round), 2 * light_at));
        // Writing to a string never fails.
        let _ = writeln!(
            lines,
            "| {} | {} | {:.0} | {:.2} | {} | {} | {:.3} |",
            case.name,
            blocks.row(),
            blocks.rate(),
            median(cpu.collect()) / blocks.seconds,
            format_ms(light.p50_ms),
            format_ms(light.p99_ms),
            light.served_share()
        );
    }
    if lines.is_empty() {
        return lines;
    }
    let columns = [
        "priorities",
        "average ms",
        "median",
        "p90",
        "p99",
        "blocks/s",
        "cores of the node",
        "light p50 ms",
        "light p99 ms",
        "light served",
    ];
    let about = format!(
        "The load of the table of thread counts at the default numbers of threads, alongside {} busy loops; {} \
         rounds of {:?}, medians. The nice value of the CPU threads is 10 above that of the node. The load generator \
         has a higher priority than all others, if the system permits that: its clients would be other machines. \
         Without that permission the row with a negative nice value is left out. Commits: {}.",
        run.size.busy_loops,
        run.size.rounds,
        run.size.measured,
        rows.commits()
    );
    table_head("Priorities on a busy machine", &about, &columns) + &lines
}
