//! The ladder: for each row a constant response of its size, the response from the cache, and the response computed.
//!
//! `cached`: a few requests, repeated, to a node with the response cache of the binary, while its data does not
//! change. `computed`: requests for data from all over the ledger, to a node without a response cache. Both are
//! compared with the constant response within the round.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;
use loadgen::status_ok;
use loadgen::svg::{Axis, Document, Line, Plot, Point, Scale};

use super::changes;
use super::load::{SAMPLE_COLUMNS, Sample, connections, constant_requests, offer};
use super::measurement::{CACHE_BYTES, Measurement, Size};
use super::nodes::{ConstantServer, Nodes, StillNode};
use super::rows::{ROWS, Row};
use crate::median::median;
use crate::node::Target;
use crate::report::{Rows, table_head};

const CEILING: &str = "ceiling";
const CACHED: &str = "cached";
const COMPUTED: &str = "computed";
const RUNGS: [&str; 3] = [CEILING, CACHED, COMPUTED];

/// Metrics have one reader, which waits.
const SINGLE_CONNECTION_ROW: &str = "rest-metrics";

/// Returns the time of all rows.
pub(super) fn seconds(size: &Size) -> f64 {
    ROWS.len() as f64 * (size.row_seconds() + size.change_seconds())
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let columns = [&["row", "rung", "round"][..], &SAMPLE_COLUMNS].concat();
    let mut rows = run.report.rows("rungs.csv", 3, &columns)?;
    let mut changes = changes::rows(run.report)?;
    let is_complete = |rows: &Rows, changes: &Rows| {
        ROWS.iter().all(|row| is_measured(run, rows, row) && changes::is_measured(changes, row))
    };
    if is_selected && is_complete(&rows, &changes) {
        run.progress.skip(seconds(&run.size));
    } else if is_selected {
        measure(run, &mut rows, &mut changes)?;
    }
    table(run, &rows, &changes)
}

fn is_measured(run: &Measurement<'_>, rows: &Rows, row: &Row) -> bool {
    let has = |rung, round| rows.find(&key(row, rung, round)).is_some();
    (0..run.size.rounds).all(|round| RUNGS.iter().all(|rung| has(rung, round)))
}

fn key(row: &Row, rung: &str, round: usize) -> [String; 3] {
    [row.name.to_owned(), rung.to_owned(), round.to_string()]
}

fn measure(run: &mut Measurement<'_>, rows: &mut Rows, changes: &mut Rows) -> Result<()> {
    let fixture = run.fixture;
    let mut nodes = Nodes {
        cached: StillNode::start(fixture, &run.size, CACHE_BYTES)?,
        uncached: StillNode::start(fixture, &run.size, "0")?,
        constant: ConstantServer::start()?,
    };
    for row in ROWS {
        let seconds = run.size.row_seconds();
        if is_measured(run, rows, row) {
            run.progress.skip(seconds);
        } else {
            measure_rungs(run, rows, row, &nodes)?;
            run.progress.add(seconds);
        }
    }
    // Last, as they change the data of the other rungs.
    for row in ROWS {
        let seconds = run.size.change_seconds();
        if changes::is_measured(changes, row) {
            run.progress.skip(seconds);
        } else {
            changes::measure(changes, row, &mut nodes, &run.size)?;
            run.progress.add(seconds);
        }
    }
    nodes.constant.end()
}

fn measure_rungs(
    run: &Measurement<'_>,
    rows: &mut Rows,
    row: &Row,
    nodes: &Nodes<'_>,
) -> Result<()> {
    let size = &run.size;
    let mut cached = row.requests(&nodes.cached)?;
    cached.truncate(size.cached_requests);
    let computed = row.requests(&nodes.uncached)?;
    let mut client = nodes.cached.client()?;
    // The length of one of many responses that differ by a few bytes.
    let middle = &cached[cached.len() / 2];
    let bytes = client.exchange(middle)?.body.len();
    let ceiling = constant_requests(&cached, bytes);
    let connections = if row.name == SINGLE_CONNECTION_ROW { 1 } else { connections(bytes) };
    let loads: [(&str, Target, &[Vec<u8>]); 3] = [
        (CEILING, nodes.constant.target, &ceiling),
        (CACHED, nodes.cached.target(), &cached),
        (COMPUTED, nodes.uncached.target(), &computed),
    ];
    for round in 0..size.rounds {
        // Another rung is the first in each round.
        for nth in 0..loads.len() {
            let (rung, target, requests) = loads[(nth + round) % loads.len()];
            let key = key(row, rung, round);
            if rows.find(&key).is_some() {
                continue;
            }
            let classifier = if rung == CEILING { status_ok } else { row.classifier() };
            let sample = offer(target, requests, connections, classifier, size)?;
            rows.push(&key, &sample.cells())?;
        }
    }
    Ok(())
}

/// The rounds of a row, by rung.
type Rounds = BTreeMap<&'static str, Vec<Sample>>;

fn rounds(run: &Measurement<'_>, rows: &Rows, row: &Row) -> Option<Rounds> {
    let of_rung = |rung| {
        let sample = |round| Sample::read(|at| rows.number(&key(row, rung, round), at));
        (0..run.size.rounds).map(sample).collect::<Option<Vec<_>>>()
    };
    RUNGS.iter().map(|rung| Some((*rung, of_rung(rung)?))).collect()
}

/// Returns the median over the rounds of a rung.
fn median_value(rounds: &Rounds, rung: &str, value: impl Fn(&Sample) -> f64) -> f64 {
    median(rounds[rung].iter().map(value).collect())
}

/// Returns the rate of a rung over that of the constant response: the median of the rounds.
fn share(rounds: &Rounds, rung: &str) -> f64 {
    let pairs = rounds[rung].iter().zip(&rounds[CEILING]);
    median(pairs.map(|(own, ceiling)| own.rate / ceiling.rate).collect())
}

fn table(run: &mut Measurement<'_>, rows: &Rows, changes: &Rows) -> Result<String> {
    let mut lines = String::new();
    let mut cached_points = Vec::new();
    let mut computed_points = Vec::new();
    for row in ROWS {
        let Some(rounds) = rounds(run, rows, row) else { continue };
        let bytes = median_value(&rounds, CACHED, |sample| sample.bytes);
        let mut line = format!("| `{}` | {bytes:.0} |", row.route());
        for rung in RUNGS {
            // Writing to a string never fails.
            let _ = write!(line, " {:.0} |", median_value(&rounds, rung, |sample| sample.rate));
        }
        for rung in RUNGS {
            let _ = write!(line, " {:.1} |", median_value(&rounds, rung, |sample| sample.cpu_us));
        }
        let shares = [share(&rounds, CACHED), share(&rounds, COMPUTED)];
        let goal = row.kind.share_min();
        let goal_text = goal.map_or_else(|| "-".to_owned(), |goal| goal.to_string());
        let _ = writeln!(line, " {:.3} | {:.3} | {goal_text} |", shares[0], shares[1]);
        lines.push_str(&line);
        if let Some(goal) = goal {
            let name = format!("ladder_{}_of_constant", row.name.replace('-', "_"));
            run.bars.at_least(&name, shares[0], "x", goal);
        }
        let point =
            |y| Point { x: bytes.max(1.0), y, label: format!("{}, {bytes:.0} B", row.name) };
        cached_points.push(point(shares[0]));
        computed_points.push(point(shares[1]));
    }
    if lines.is_empty() {
        return Ok(lines);
    }
    let about = format!(
        "Medians of {} rounds. The ceiling is a server of constant responses over the same HTTP stack, with the same \
         requests and as many bytes. A share is the rate over that of the ceiling in the same round. The CPU time is \
         that of the server for a response. Closed loop of 32 connections from one thread, 8 for responses of more \
         than 100 kB, one for metrics. Commits: {}.\n\n![Share of the ceiling](rungs.svg)",
        run.size.rounds,
        rows.commits()
    );
    let columns = [
        "request",
        "bytes",
        "ceiling/s",
        "cached/s",
        "computed/s",
        "ceiling, us CPU",
        "cached, us CPU",
        "computed, us CPU",
        "cached of the ceiling",
        "computed of the ceiling",
        "goal, cached",
    ];
    for points in [&mut cached_points, &mut computed_points] {
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
    }
    let lines_of_plot = vec![
        Line { name: CACHED, points: cached_points },
        Line { name: COMPUTED, points: computed_points },
    ];
    let x = Axis::logarithmic("bytes of the response", 10.0, 1e6);
    let plot = Plot { x, y_scale: Scale::Linear, unit: "x", lines: lines_of_plot };
    let title = "Share of the ceiling by size";
    let plots = vec![(title.to_owned(), plot)];
    run.report.write("rungs.svg", &Document { title, columns: 1, plots }.svg())?;
    let ladder = table_head("Ladder", &about, &columns) + &lines;
    Ok(ladder + &changes::table(changes, &mut run.bars))
}
