//! The table of thread counts of the PR, for `hydrant dev`: the suite `block` with 1 to 8 IO and 1 to 8 CPU threads,
//! with idle cores and alongside busy loops.
//!
//! Shape: the node starts again for each cell, without its response cache: otherwise no block would be encoded. Light
//! calls come at a constant rate meanwhile, so that the table also shows the effect on their latency.
//! Not here: other priorities (`priorities`).

use std::fmt::Write;
use std::time::Duration;

use ::loadgen::Stream;
use ::loadgen::svg::{Axis, Document, Line, Plot, Point, Scale};
use anyhow::Result;
use http_client::Client;
use loadgen_solana::Suite;

use super::busy_loops::{BusyLoops, with_priority};
use super::isolation::light_stream;
use super::latencies::{self, Latencies, format_ms};
use super::measurement::{CONNECTIONS, LIGHT_RATE, Measurement};
use super::nodes::{HydrantOptions, Program, RunningNode};
use crate::report::{Rows, table_head};
use crate::serving::cores;

/// Averages within this factor count as equal to the least one.
const NOISE: f64 = 1.05;

/// The streams of [`measure_blocks`], as prefixes of their columns.
pub(super) const STREAMS: [&str; 2] = ["", "light_"];

const KEY_LEN: usize = 4;

/// The numbers of threads of a node, and of concurrent busy loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    io_threads: usize,
    cpu_threads: usize,
    loops: usize,
}

pub(super) fn seconds(run: &Measurement<'_>) -> f64 {
    let each = run.size.start + run.size.warm_up + run.size.thread_measured;
    (cells(run).len() * run.size.thread_rounds) as f64 * each.as_secs_f64()
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let key = ["io_threads", "cpu_threads", "busy_loops", "round"];
    let mut rows = latencies::rows(run, "threads.csv", &key, &STREAMS)?;
    if is_selected {
        measure(run, &mut rows)?;
    }
    let results = Results { rows, rounds: run.size.thread_rounds };
    let mut text = String::new();
    let mut plots = Vec::new();
    for loops in [0, run.size.busy_loops] {
        text.push_str(&results.table(run, loops));
        plots.push((title(loops), results.plot(run, loops)));
    }
    if !text.is_empty() {
        let names: Vec<String> =
            run.size.threads.iter().map(|threads| format!("{threads} CPU threads")).collect();
        let plots = plots.into_iter().map(|(title, lines)| {
            let lines = lines.into_iter().zip(&names).map(|(points, name)| Line { name, points });
            let most = run.size.threads.last().copied().unwrap_or(1) as f64;
            let marks = run.size.threads.iter().map(|it| (*it as f64, it.to_string()));
            let x = Axis::linear("IO threads", 0.5, most + 0.5).with_marks(marks);
            let lines = lines.collect();
            (title, Plot { x, y_scale: Scale::Logarithmic, unit: "ms", lines })
        });
        let title = "Average latency of getBlock";
        let document = Document { title, columns: 2, plots: plots.collect() };
        run.report.write("threads.svg", &document.svg())?;
        let _ = writeln!(text, "\n![{title}](threads.svg)");
    }
    Ok(text)
}

fn cells(run: &Measurement<'_>) -> Vec<Cell> {
    let threads = run.size.threads.iter();
    let idle = threads.flat_map(|io_threads| {
        let of_row = run.size.threads.iter();
        of_row.map(move |cpu_threads| Cell {
            io_threads: *io_threads,
            cpu_threads: *cpu_threads,
            loops: 0,
        })
    });
    let idle: Vec<Cell> = idle.collect();
    let busy = idle.iter().map(|cell| Cell { loops: run.size.busy_loops, ..*cell });
    idle.iter().copied().chain(busy).collect()
}

fn measure(run: &mut Measurement<'_>, rows: &mut Rows) -> Result<()> {
    let each = run.size.start + run.size.warm_up + run.size.thread_measured;
    for round in 0..run.size.thread_rounds {
        for cell in cells(run) {
            let key = cell.key(round);
            if rows.find(&key).is_some() {
                run.progress.skip(each.as_secs_f64());
                continue;
            }
            run.prepare()?;
            let node = run.nodes.start(Program::Hydrant, &cell.options())?;
            let loops = BusyLoops::start(cell.loops, 0);
            let cells = measure_blocks(run, &node, run.size.thread_measured)?;
            drop(loops);
            rows.push(&key, &cells)?;
            run.progress.add(each.as_secs_f64());
        }
    }
    Ok(())
}

/// Measures getBlock over all connections, and concurrent light calls at their rate.
pub(super) fn measure_blocks(
    run: &Measurement<'_>,
    node: &RunningNode,
    measured: Duration,
) -> Result<Vec<String>> {
    let mut client = Client::open(node.target.address)?;
    let inputs = run.nodes.inputs(Program::Hydrant)?;
    let blocks = Suite::Block.requests(&mut client, inputs)?;
    let light = Suite::AccountInfo.requests(&mut client, inputs)?;
    let blocks = Stream::closed_loop(Suite::Block.name(), blocks, CONNECTIONS);
    let streams = vec![blocks, light_stream(light)];
    with_priority(|| latencies::measure(node.target, streams, run.size.warm_up, measured))
}

impl Cell {
    fn key(self, round: usize) -> [String; KEY_LEN] {
        [self.io_threads, self.cpu_threads, self.loops, round].map(|number| number.to_string())
    }

    fn options(self) -> HydrantOptions {
        let Self { io_threads, cpu_threads, .. } = self;
        let mut options = HydrantOptions::without_response_cache();
        options.flags.extend(["--io-threads".to_owned(), io_threads.to_string()]);
        options.flags.extend(["--cpu-threads".to_owned(), cpu_threads.to_string()]);
        options
    }

    /// Whether these are the numbers of threads that the node has by default.
    fn is_default(self) -> bool {
        self.io_threads == (cores() / 2).max(1) && self.cpu_threads == cores()
    }
}

fn title(loops: usize) -> String {
    match loops {
        0 => "Numbers of threads".to_owned(),
        loops => format!("Numbers of threads alongside {loops} busy loops"),
    }
}

/// The measured cells, of all rounds.
struct Results {
    rows: Rows,
    rounds: usize,
}

/// The latencies of a cell.
struct CellLatencies {
    cell: Cell,
    blocks: Latencies,
    light: Latencies,
}

impl Results {
    fn cells(&self, run: &Measurement<'_>, loops: usize) -> Vec<CellLatencies> {
        let found = cells(run).into_iter().filter(|cell| cell.loops == loops).map(|cell| {
            let medians = |first: usize| {
                let rounds = (0..self.rounds)
                    .map(|round| Latencies::from_row(&self.rows, &cell.key(round), first));
                Latencies::medians(&rounds.collect::<Option<Vec<_>>>()?)
            };
            let light = medians(latencies::COLUMNS.len())?;
            Some(CellLatencies { cell, blocks: medians(0)?, light })
        });
        found.flatten().collect()
    }

    fn table(&self, run: &Measurement<'_>, loops: usize) -> String {
        let cells = self.cells(run, loops);
        if cells.is_empty() {
            return String::new();
        }
        let default = cells.iter().find(|it| it.cell.is_default() && it.blocks.ok > 0.0);
        let columns = [
            "IO threads",
            "CPU threads",
            "average ms",
            "median",
            "p90",
            "p99",
            "average of default",
            "blocks/s",
            "light p50 ms",
            "light p99 ms",
            "light served",
        ];
        let about = format!(
            "The suite `block` on `hydrant dev` without its response cache: {CONNECTIONS} connections; {} rounds of \
             {:?}, medians. At the same time getAccountInfo at {LIGHT_RATE} a second: the columns `light`. This \
             machine has {} cores: the default is {} IO and {} CPU threads. The load generator runs at nice -15 if \
             the system permits it. {} Commits: {}.",
            self.rounds,
            run.size.thread_measured,
            cores(),
            (cores() / 2).max(1),
            cores(),
            summary(&cells),
            self.rows.commits()
        );
        let mut table = table_head(&title(loops), &about, &columns);
        for CellLatencies { cell, blocks, light } in &cells {
            let of_default = default.map(|default| blocks.mean_ms / default.blocks.mean_ms);
            // Writing to a string never fails.
            let _ = writeln!(
                table,
                "| {} | {} | {} | {} | {:.0} | {} | {} | {:.3} |",
                cell.io_threads,
                cell.cpu_threads,
                blocks.row(),
                of_default.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
                blocks.rate(),
                format_ms(light.p50_ms),
                format_ms(light.p99_ms),
                light.served_share()
            );
        }
        table
    }

    /// Returns the averages by IO threads, a line for each number of CPU threads.
    fn plot(&self, run: &Measurement<'_>, loops: usize) -> Vec<Vec<Point>> {
        let cells = self.cells(run, loops);
        let line = |cpu_threads: &usize| {
            // The scale has no place for a load without a response.
            let has_responses = |it: &&CellLatencies| it.blocks.mean_ms > 0.0;
            let of_line = cells.iter().filter(|it| it.cell.cpu_threads == *cpu_threads);
            let of_line = of_line.filter(has_responses);
            let point = |it: &CellLatencies| {
                let io_threads = it.cell.io_threads;
                Point {
                    x: io_threads as f64,
                    y: it.blocks.mean_ms,
                    label: format!("{io_threads} IO threads"),
                }
            };
            of_line.map(point).collect()
        };
        run.size.threads.iter().map(line).collect()
    }
}

/// Names the cell with the least average, and of those that are as good the one with the least p99 of light calls. A
/// cell without a response, or with a failed request, is none of them.
fn summary(cells: &[CellLatencies]) -> String {
    let has_served = |it: &&CellLatencies| it.blocks.ok > 0.0 && it.blocks.failed == 0.0;
    let cells: Vec<&CellLatencies> = cells.iter().filter(has_served).collect();
    let least = cells.iter().map(|it| it.blocks.mean_ms).fold(f64::INFINITY, f64::min);
    let as_good = || cells.iter().filter(|it| it.blocks.mean_ms <= least * NOISE);
    let Some(best) = as_good().min_by(|a, b| a.light.p99_ms.total_cmp(&b.light.p99_ms)) else {
        return String::new();
    };
    format!(
        "{} of {} cells without a failed request are within {:.0} % of the least average, {} ms; of these {} IO and \
         {} CPU threads have the least p99 of light calls.",
        as_good().count(),
        cells.len(),
        (NOISE - 1.0) * 100.0,
        format_ms(least),
        best.cell.io_threads,
        best.cell.cpu_threads
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(io_threads: usize, ok: f64, failed: f64, mean_ms: f64) -> CellLatencies {
        let blocks = Latencies { ok, failed, mean_ms, ..Latencies::default() };
        let light = Latencies { p99_ms: mean_ms, ..Latencies::default() };
        CellLatencies { cell: Cell { io_threads, cpu_threads: 1, loops: 0 }, blocks, light }
    }

    #[test]
    fn a_cell_without_responses_or_with_failures_is_not_recommended() {
        let cells = [cell(1, 0.0, 9.0, 0.0), cell(2, 9.0, 1.0, 0.5), cell(3, 9.0, 0.0, 2.0)];
        let text = summary(&cells);
        assert!(text.starts_with("1 of 1 cells"), "{text}");
        assert!(text.contains("of these 3 IO and 1 CPU threads"), "{text}");
        assert_eq!(summary(&cells[..2]), "");
    }
}
