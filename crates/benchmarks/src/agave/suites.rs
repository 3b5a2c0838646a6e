//! The thirteen suites of `accounts-cluster-bench` over 100 connections, alone and during scans, on both programs; and
//! those that read the history on Hydrant without its response cache.
//!
//! Not here: which suites a column has (`columns`).

use std::fmt::Write;

use ::loadgen::Stream;
use ::loadgen::svg::{Axis, Document, Line, Plot, Point, Scale};
use anyhow::Result;
use http_client::Client;
use loadgen_solana::{Suite, scan_requests};

use super::columns::{Column, SUITES};
use super::latencies::{self, Latencies};
use super::measurement::{CONNECTIONS, Measurement, ProgramRound, SCANS};
use super::nodes::{Program, RunningNode};
use crate::median::median;
use crate::report::{Rows, table_head};
use crate::serving::SCAN_NICE;
use crate::threshold;

const KEY_LEN: usize = 4;

pub(super) fn seconds(run: &Measurement<'_>) -> f64 {
    let programs = run.nodes.programs();
    let columns = Column::ALL.into_iter().filter(|column| programs.contains(&column.program()));
    let each = columns.map(|column| {
        let cells = column.suites().len() * run.size.suite_scans.len();
        run.round_seconds(cells) + run.size.start.as_secs_f64()
    });
    run.size.rounds as f64 * each.sum::<f64>()
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let key = ["program", "suite", "scans", "round"];
    let columns = [&key[..], &latencies::COLUMNS, &["cpu_s", "scans_per_second"]].concat();
    let mut rows = run.report.rows("suites.csv", KEY_LEN, &columns)?;
    if is_selected {
        measure(run, &mut rows)?;
    }
    let results = Results { rows, rounds: run.size.rounds };
    let mut text = String::new();
    for scans in run.size.suite_scans {
        text.push_str(&results.table(run, *scans));
        results.print_thresholds(*scans);
    }
    if !text.is_empty() {
        run.report.write("suites.svg", &results.plots())?;
        text.push_str("\n![Latencies of the suites](suites.svg)\n");
    }
    Ok(text)
}

fn measure(run: &mut Measurement<'_>, rows: &mut Rows) -> Result<()> {
    for ProgramRound { program, round } in run.program_rounds() {
        for column in Column::ALL.into_iter().filter(|column| column.program() == program) {
            measure_column(run, rows, column, round)?;
        }
    }
    Ok(())
}

/// Measures the suites of a round that have no row yet.
fn measure_column(
    run: &mut Measurement<'_>,
    rows: &mut Rows,
    column: Column,
    round: usize,
) -> Result<()> {
    let scan_counts = run.size.suite_scans;
    let all = column.suites().iter();
    let all = all.flat_map(|suite| scan_counts.iter().map(move |scans| (*suite, *scans)));
    let missing: Vec<(Suite, usize)> = all
        .filter(|(suite, scans)| rows.find(&key(column, *suite, *scans, round)).is_none())
        .collect();
    let measured = column.suites().len() * scan_counts.len() - missing.len();
    run.progress.skip(run.round_seconds(measured));
    if missing.is_empty() {
        run.progress.skip(run.size.start.as_secs_f64());
        return Ok(());
    }
    run.prepare()?;
    let node = run.nodes.start(column.program(), &column.options())?;
    run.progress.add(run.size.start.as_secs_f64());
    for (suite, scans) in missing {
        let cells = measure_suite(run, &node, column.program(), suite, scans)?;
        rows.push(&key(column, suite, scans, round), &cells)?;
        run.progress.add(run.round_seconds(1));
    }
    Ok(())
}

fn measure_suite(
    run: &Measurement<'_>,
    node: &RunningNode,
    program: Program,
    suite: Suite,
    scans: usize,
) -> Result<Vec<String>> {
    let mut client = Client::open(node.target.address)?;
    let inputs = run.nodes.inputs(program)?;
    node.drain(&mut client, inputs)?;
    let requests = suite.requests(&mut client, inputs)?;
    let mut streams = vec![Stream::closed_loop(suite.name(), requests, CONNECTIONS)];
    streams.extend(scan_stream(&mut client, run, program, scans)?);
    let measured = latencies::run(node.target, streams, run.size.warm_up, run.size.measured)?;
    let mut cells = Latencies::from_stats(&measured.stats[0]).cells();
    cells.push(format!("{:.3}", measured.usage.map_or(0.0, |usage| usage.cpu_s)));
    cells.push(format!("{:.3}", measured.stats.get(1).map_or(0.0, |scans| scans.rate())));
    Ok(cells)
}

/// Returns the stream of clients that scan, if there are any. No two scans are equal.
pub(super) fn scan_stream(
    client: &mut Client,
    run: &Measurement<'_>,
    program: Program,
    scans: usize,
) -> Result<Option<Stream>> {
    if scans == 0 {
        return Ok(None);
    }
    let requests = scan_requests(client, run.nodes.inputs(program)?)?;
    Ok(Some(Stream::closed_loop("scans", requests, scans).with_nice(SCAN_NICE)))
}

fn key(column: Column, suite: Suite, scans: usize, round: usize) -> [String; KEY_LEN] {
    [column.name().to_owned(), suite.name().to_owned(), scans.to_string(), round.to_string()]
}

/// The rows of all rounds.
struct Results {
    rows: Rows,
    rounds: usize,
}

impl Results {
    /// Returns a suite's latencies in each round; `None` if one was not measured.
    fn by_round(&self, column: Column, suite: Suite, scans: usize) -> Option<Vec<Latencies>> {
        let each = (0..self.rounds)
            .map(|round| Latencies::from_row(&self.rows, &key(column, suite, scans, round), 0));
        each.collect()
    }

    fn medians(&self, column: Column, suite: Suite, scans: usize) -> Option<Latencies> {
        Latencies::medians(&self.by_round(column, suite, scans)?)
    }

    /// Returns one of ours over theirs: the median of the rounds. It is infinite in a round in which ours has completed
    /// nothing; a round in which only theirs has completed nothing has none. `None`: no round has one.
    fn ratio(
        &self,
        column: Column,
        suite: Suite,
        scans: usize,
        value: fn(&Latencies) -> f64,
    ) -> Option<f64> {
        let [theirs, ours] =
            [Column::Validator, column].map(|column| self.by_round(column, suite, scans));
        let pairs = ours?.into_iter().zip(theirs?);
        let compared = pairs.filter(|(ours, theirs)| ours.ok == 0.0 || theirs.ok > 0.0);
        let ratio = |(ours, theirs): (Latencies, Latencies)| {
            if ours.ok == 0.0 { f64::INFINITY } else { value(&ours) / value(&theirs) }
        };
        let ratios: Vec<f64> = compared.map(ratio).collect();
        (!ratios.is_empty()).then(|| median(ratios))
    }

    /// Returns the names of the suites in which the validator has completed nothing in some round.
    fn find_unanswered(&self, scans: usize) -> Vec<&'static str> {
        let is_unanswered = |suite: &Suite| {
            let rounds = self.by_round(Column::Validator, *suite, scans);
            rounds.iter().flatten().any(|round| round.ok == 0.0)
        };
        SUITES.into_iter().filter(is_unanswered).map(Suite::name).collect()
    }

    /// Returns the columns that have results.
    fn columns(&self, scans: usize) -> Vec<Column> {
        let has_rows = |column: &Column| {
            SUITES.iter().any(|suite| self.medians(*column, *suite, scans).is_some())
        };
        Column::ALL.into_iter().filter(has_rows).collect()
    }

    fn table(&self, run: &Measurement<'_>, scans: usize) -> String {
        let columns = self.columns(scans);
        if columns.is_empty() {
            return String::new();
        }
        let mut headings = vec!["suite".to_owned()];
        for column in &columns {
            headings.push(format!("{}, average ms", column.name()));
            headings.extend(["median", "p90", "p99"].map(str::to_owned));
        }
        let has_validator = columns.contains(&Column::Validator);
        let ours = columns.iter().filter(|column| **column != Column::Validator);
        let compared: Vec<Column> = ours.filter(|_| has_validator).copied().collect();
        for column in &compared {
            headings.push(format!("{} of the validator's, average", column.name()));
            headings.push("p99".to_owned());
        }
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let title = match scans {
            0 => "Suites".to_owned(),
            scans => format!("Suites during {scans} scans"),
        };
        let unanswered = self.find_unanswered(scans);
        let unanswered = if unanswered.is_empty() {
            String::new()
        } else {
            format!(
                " Rounds in which the validator has completed nothing have no ratio: some of {}.",
                unanswered.join(", ")
            )
        };
        let about = format!(
            "Latencies in ms over {CONNECTIONS} connections, each of which sends its next request after a response; \
             {} rounds of {:?}, medians. Each program runs alone. Ratios are taken within a round: below 1 ours is \
             faster. A failed request counts with the time until it failed. Responses about final blocks come from \
             Hydrant's response cache after the first one; without that cache each of them is computed, as in the \
             validator.{unanswered} {} Commits: {}.",
            self.rounds,
            run.size.measured,
            run.nodes.description(),
            self.rows.commits()
        );
        let mut table = table_head(&title, &about, &headings);
        for (number, suite) in (1..).zip(SUITES) {
            // Writing to a string never fails.
            let _ = write!(table, "| {number} {} |", suite.name());
            for column in &columns {
                let cells = self.medians(*column, suite, scans);
                let cells = cells.map_or_else(|| "- | - | - | -".to_owned(), |it| it.row());
                let _ = write!(table, " {cells} |");
            }
            for column in &compared {
                for value in [average, p99] {
                    let ratio = self.ratio(*column, suite, scans, value);
                    let ratio = ratio.map_or_else(|| "-".to_owned(), |it| format!("{it:.3}"));
                    let _ = write!(table, " {ratio} |");
                }
            }
            table.push('\n');
        }
        table
    }

    /// Prints the failed requests of ours, and the worst ratios of its suites if both programs were measured.
    fn print_thresholds(&self, scans: usize) {
        let load = if scans == 0 { "suites" } else { "suites_during_scans" };
        let ours = [(Column::Hydrant, ""), (Column::HydrantWithoutCache, "_uncached")];
        for (column, suffix) in ours {
            let all_rounds = |measured: Column| -> Option<Vec<Vec<Latencies>>> {
                let suites = column.suites().iter();
                suites.map(|suite| self.by_round(measured, *suite, scans)).collect()
            };
            let Some(rounds) = all_rounds(column) else { continue };
            // A quick refusal makes the latencies better.
            let failed: f64 = rounds.iter().flatten().map(|round| round.failed).sum();
            threshold::line(&format!("agave_{load}{suffix}_failed"), failed, "requests", "<=", 0);
            if all_rounds(Column::Validator).is_none() {
                continue;
            }
            for (figure, value) in [("average", average as fn(&Latencies) -> f64), ("p99", p99)] {
                let suites = column.suites().iter();
                let ratios = suites.filter_map(|suite| self.ratio(column, *suite, scans, value));
                if let Some(worst) = ratios.reduce(f64::max) {
                    let name = format!("agave_{load}{suffix}_{figure}");
                    threshold::to_four_digits(&name, worst, "x", "<=", 1.0);
                }
            }
        }
    }

    /// Returns a document with the averages and with the p99 of all suites.
    fn plots(&self) -> String {
        let plot = |value: fn(&Latencies) -> f64| {
            let mut lines = Vec::new();
            for (column, scans, name) in [
                (Column::Validator, 0, "solana-test-validator"),
                (Column::Validator, SCANS, "the same during scans"),
                (Column::Hydrant, 0, "hydrant dev"),
                (Column::Hydrant, SCANS, "hydrant dev during scans"),
            ] {
                let point = |(number, suite): (u32, Suite)| {
                    let y = value(&self.medians(column, suite, scans)?);
                    // The scale has no place for a load without a response.
                    (y > 0.0).then_some(())?;
                    Some(Point { x: number.into(), y, label: suite.name().to_owned() })
                };
                let points: Vec<Point> = (1..).zip(SUITES).filter_map(point).collect();
                if !points.is_empty() {
                    lines.push(Line { name, points });
                }
            }
            let marks = (1..=SUITES.len()).map(|number| (number as f64, number.to_string()));
            let x = Axis::linear("suite", 0.5, SUITES.len() as f64 + 0.5).with_marks(marks);
            Plot { x, y_scale: Scale::Logarithmic, unit: "ms", lines }
        };
        let plots = vec![("average".to_owned(), plot(average)), ("p99".to_owned(), plot(p99))];
        Document { title: "Latencies of the suites", columns: 2, plots }.svg()
    }
}

fn average(latencies: &Latencies) -> f64 {
    latencies.mean_ms
}

fn p99(latencies: &Latencies) -> f64 {
    latencies.p99_ms
}
