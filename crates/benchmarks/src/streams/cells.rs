//! Streams a second and CPU time a stream, side by side, the cells that ours loses first.

use std::fmt::Write;

use ::loadgen::svg::{Axis, Document, Line, Plot, Point, Scale};
use anyhow::Result;

use super::measurement::{Measurement, WINDOW, size_name};
use crate::median::median;
use crate::report::{Rows, table_head};
use crate::threshold;
use crate::tpu::stream_cost::{Cell, Contender, LARGE, SIZES};

const KEY_LEN: usize = 5;
const COLUMNS: [&str; 9] = [
    "server",
    "connections",
    "bytes_each",
    "offload",
    "round",
    "seconds",
    "streams",
    "cpu_us",
    "allocations",
];

/// A cell of the table.
#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    cell: Cell,
}

/// A round of a server.
struct Round {
    seconds: f64,
    streams: f64,
    cpu_us: f64,
}

impl Round {
    fn rate(&self) -> f64 {
        self.streams / self.seconds
    }

    fn cpu_per_stream(&self) -> f64 {
        self.cpu_us / self.streams
    }

    /// Streams for a microsecond of CPU time.
    fn efficiency(&self) -> f64 {
        self.streams / self.cpu_us
    }
}

/// The rows of all rounds.
struct Results {
    rows: Rows,
    rounds: usize,
}

impl Results {
    /// Returns a value of each round; `None` if one was not measured.
    fn values(&self, server: &str, load: Load, value: fn(&Round) -> f64) -> Option<Vec<f64>> {
        let round = |round| {
            let key = key(server, load, round);
            let number = |at| self.rows.number(&key, at);
            Some(Round { seconds: number(0)?, streams: number(1)?, cpu_us: number(2)? })
        };
        (0..self.rounds).map(|nth| round(nth).as_ref().map(value)).collect()
    }

    fn median(&self, server: &str, load: Load, value: fn(&Round) -> f64) -> Option<f64> {
        self.values(server, load, value).map(median)
    }

    /// Returns a value of ours over that of a rival: the median of the ratios within the rounds.
    fn ratio(&self, rival: &str, load: Load, value: fn(&Round) -> f64) -> Option<f64> {
        let ours = self.values("ours", load, value)?;
        let others = self.values(rival, load, value)?;
        Some(median(ours.iter().zip(others).map(|(ours, other)| ours / other).collect()))
    }
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let mut rows = run.report.rows("cells.csv", KEY_LEN, &COLUMNS)?;
    if is_selected {
        measure(run, &mut rows)?;
    }
    let results = Results { rows, rounds: run.size.cell_rounds };
    let table = table(run, &results);
    if table.is_empty() {
        return Ok(table);
    }
    run.report.write("cells.svg", &plots(run, &results))?;
    Ok(table + "\n![Streams a second and CPU time a stream](cells.svg)\n")
}

/// Returns the table of the cells that every server has measured, and prints the bars: the worst ratios of all cells.
fn table(run: &Measurement<'_>, results: &Results) -> String {
    let mut lines: Vec<(f64, String)> = Vec::new();
    let mut worst = [f64::INFINITY; 2];
    let all = loads(run);
    for load in all.iter().copied() {
        let is_measured = |name: &&str| results.median(name, load, Round::rate).is_some();
        if !run.servers.iter().all(is_measured) {
            continue;
        }
        let mut line = format!("| {} | {} |", load.connections, load.cell.name());
        let mut least = f64::INFINITY;
        for name in run.servers.iter().rev() {
            let medians =
                [Round::rate, Round::cpu_per_stream].map(|value| results.median(name, load, value));
            let [Some(rate), Some(cpu)] = medians else { continue };
            // Writing to a string never fails.
            let _ = write!(line, " {rate:.0} | {cpu:.3} |");
        }
        for name in run.rivals() {
            let ratios =
                [Round::rate, Round::efficiency].map(|value| results.ratio(name, load, value));
            let [Some(rate), Some(efficiency)] = ratios else { continue };
            let _ = write!(line, " {rate:.3} | {efficiency:.3} |");
            for (worst, ratio) in worst.iter_mut().zip([rate, efficiency]) {
                *worst = worst.min(ratio);
                least = least.min(ratio);
            }
        }
        lines.push((least, line + "\n"));
    }
    if lines.is_empty() {
        return String::new();
    }
    if lines.len() == all.len() {
        threshold::to_four_digits("streams_rate_worst_cell", worst[0], "x", ">=", 1.0);
        threshold::to_four_digits("streams_cpu_worst_cell", worst[1], "x", ">=", 1.0);
    } else {
        println!("cells: {} of {} are measured, so the worst is not known", lines.len(), all.len());
    }
    lines.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut columns = vec!["connections".to_owned(), "load".to_owned()];
    for name in run.servers.iter().rev() {
        columns.extend([format!("{name}, streams/s"), format!("{name}, us CPU")]);
    }
    for name in run.rivals() {
        columns.extend([format!("rate of {name}"), format!("for the CPU of {name}")]);
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let about = format!(
        "Medians of {} rounds, all servers in each round. A round takes {} s, by the number of connections, each of \
         which has sent {WINDOW} streams before. The servers on quinn have Agave's window for a stream, \
         the size of a transaction. The last columns are ratios within a round, of streams a second and of streams for \
         the same CPU time: above 1 ours does more. The cells that ours loses are first. Commits: {}.",
        run.size.cell_rounds,
        run.size.cell_seconds.map(|seconds| seconds.to_string()).join(", "),
        results.rows.commits()
    );
    let lines: String = lines.into_iter().map(|(_, line)| line).collect();
    table_head("Every cell", &about, &columns) + &lines
}

/// Returns a document with two plots for each number of connections: the rate and the CPU time, by load.
fn plots(run: &Measurement<'_>, results: &Results) -> String {
    type Value = fn(&Round) -> f64;
    let values: [(&str, &'static str, Value); 2] = [
        ("streams a second", "streams/s", Round::rate),
        ("CPU time a stream", "us", Round::cpu_per_stream),
    ];
    let all = loads(run);
    let mut plots = Vec::new();
    for (title, unit, value) in values {
        for loads in all.chunk_by(|one, next| one.connections == next.connections) {
            let line = |name: &'static str| {
                let point = |(nth, load): (usize, &Load)| {
                    let y = results.median(name, *load, value)?;
                    Some(Point { x: nth as f64, y, label: load.cell.name() })
                };
                Line { name, points: loads.iter().enumerate().filter_map(point).collect() }
            };
            let marks = loads.iter().enumerate();
            let marks = marks.map(|(nth, load)| (nth as f64, short_name(load.cell)));
            let x = Axis::linear("load, + with offload", -0.5, loads.len() as f64 - 0.5);
            let lines = run.servers.iter().rev().copied().map(line).collect();
            let plot = Plot { x: x.with_marks(marks), y_scale: Scale::Linear, unit, lines };
            plots.push((format!("{title}, {} connections", loads[0].connections), plot));
        }
    }
    let title = "Streams a second and CPU time a stream";
    Document { title, columns: run.size.connections.len(), plots }.svg()
}

/// Returns the name of a cell below an axis: `1232+` is with offload.
fn short_name(cell: Cell) -> String {
    let size = if cell.bytes == 0 { "mix".to_owned() } else { cell.bytes.to_string() };
    if cell.offload { size + "+" } else { size }
}

fn loads(run: &Measurement<'_>) -> Vec<Load> {
    let cells = || {
        let sizes = SIZES.into_iter().chain([LARGE]);
        sizes.flat_map(|bytes| [false, true].map(|offload| Cell { bytes, offload }))
    };
    let connections = run.size.connections.into_iter();
    connections
        .flat_map(|connections| cells().map(move |cell| Load { connections, cell }))
        .collect()
}

fn key(server: &str, load: Load, round: usize) -> [String; KEY_LEN] {
    let Load { connections, cell: Cell { bytes, offload } } = load;
    [
        server.to_owned(),
        connections.to_string(),
        size_name(bytes),
        u8::from(offload).to_string(),
        round.to_string(),
    ]
}

/// Measures the cells that have no rows. Servers with the same window are up together.
fn measure(run: &mut Measurement<'_>, rows: &mut Rows) -> Result<()> {
    let all = loads(run);
    let servers = run.servers;
    let last = run.size.cell_rounds - 1;
    let share = 1.0 / all.len() as f64;
    let is_missing = |rows: &Rows, load: &Load| {
        servers.iter().any(|name| rows.find(&key(name, *load, last)).is_none())
    };
    let group = |load: &Load| (load.connections, load.cell.bytes == LARGE);
    for loads in all.chunk_by(|one, next| group(one) == group(next)) {
        let missing: Vec<Load> =
            loads.iter().copied().filter(|load| is_missing(rows, load)).collect();
        run.skip(share * (loads.len() - missing.len()) as f64);
        let Some(first) = missing.first() else { continue };
        let bytes = if first.cell.bytes == LARGE { LARGE } else { 1_232 };
        let mut contenders = Vec::new();
        for name in servers {
            let start = run.deliveries.new_start("cells", name);
            let mut contender = Contender::start(name, WINDOW, first.connections, bytes)?;
            contender.measure(&format!("bytes=200 streams={}", WINDOW * first.connections))?;
            contenders.push((start, contender));
        }
        for load in missing {
            let connections = run.size.connections.iter().zip(run.size.cell_seconds);
            let seconds = connections.filter(|(count, _)| **count == load.connections);
            let text = load.cell.load(seconds.map(|(_, seconds)| seconds).sum());
            for (_, contender) in &mut contenders {
                contender.measure(&text)?;
            }
            let mut measured = Vec::new();
            for round in 0..run.size.cell_rounds {
                for (_, contender) in &mut contenders {
                    let cost = contender.measure(&text)?;
                    let values = [cost.seconds, cost.streams, cost.cpu_us, cost.allocations];
                    let cells = values.map(|value| value.to_string());
                    measured.push((key(&contender.name, load, round), cells));
                }
            }
            for (start, contender) in &mut contenders {
                run.deliveries.record(start, contender)?;
            }
            for (key, cells) in measured {
                rows.push(&key, &cells)?;
            }
            run.complete(share);
        }
        for (_, contender) in contenders {
            contender.end()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::deliveries::Deliveries;
    use super::super::measurement::{SERVERS, TOY};
    use super::*;
    use crate::report::{Progress, Report};

    #[test]
    fn a_cell_that_a_server_has_not_measured_is_not_in_the_table() -> Result<()> {
        let report = Report::open("streams", &[], true)?;
        let run = Measurement {
            size: TOY,
            report: &report,
            servers: &SERVERS[..2],
            deliveries: Deliveries::open(&report)?,
            progress: Progress::new("streams", 1.0),
            part_minutes: 1.0,
        };
        let rows = report.rows("cells.csv", KEY_LEN, &COLUMNS)?;
        let mut results = Results { rows, rounds: 1 };
        let loads = loads(&run);
        let cells = |streams: &str| ["1", streams, "10", "0"].map(str::to_owned);
        for load in &loads {
            results.rows.push(&key("ours", *load, 0), &cells("5"))?;
        }
        assert_eq!(table(&run, &results), "");
        results.rows.push(&key("quinn", loads[0], 0), &cells("10"))?;
        let text = table(&run, &results);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
        let [heading, row] = lines[..] else { anyhow::bail!("{text}") };
        assert_eq!(row.matches('|').count(), heading.matches('|').count());
        assert!(row.contains("| 10 | 1.000 | 5 | 2.000 |"), "{row}");
        assert!(row.ends_with("| 0.500 | 0.500 |"), "{row}");
        Ok(())
    }
}
