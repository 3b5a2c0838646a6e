//! Light reads at a constant rate, alone and during scans, on both programs.
//!
//! Shape: getAccountInfo in an open loop, so that a stall delays no request and hides none.

use std::fmt::Write;

use ::loadgen::Stream;
use anyhow::Result;
use http_client::Client;
use loadgen_solana::Suite;

use super::latencies::{self, Latencies, format_ms};
use super::measurement::{LIGHT_CONNECTIONS, LIGHT_RATE, Measurement, ProgramRound};
use super::nodes::{HydrantOptions, Program};
use super::suites::scan_stream;
use crate::median::median;
use crate::report::{Rows, table_head};
use crate::threshold;

/// Clients that scan.
const SCANS: [usize; 4] = [0, 1, 4, 8];

const KEY_LEN: usize = 3;

pub(super) fn seconds(run: &Measurement<'_>) -> f64 {
    let rounds = run.nodes.programs().len() * run.size.rounds;
    run.round_seconds(rounds * SCANS.len()) + rounds as f64 * run.size.start.as_secs_f64()
}

pub(super) fn run(run: &mut Measurement<'_>, is_selected: bool) -> Result<String> {
    let key = ["program", "scans", "round"];
    let columns = [&key[..], &latencies::COLUMNS, &["scans_per_second"]].concat();
    let mut rows = run.report.rows("isolation.csv", KEY_LEN, &columns)?;
    if is_selected {
        measure(run, &mut rows)?;
    }
    let results = Results { rows, rounds: run.size.rounds };
    results.print_thresholds();
    Ok(results.table(run))
}

fn measure(run: &mut Measurement<'_>, rows: &mut Rows) -> Result<()> {
    run.program_rounds().into_iter().try_for_each(|round| measure_round(run, rows, round))
}

/// Measures what has no row yet in a round.
fn measure_round(
    run: &mut Measurement<'_>,
    rows: &mut Rows,
    program_round: ProgramRound,
) -> Result<()> {
    let ProgramRound { program, round } = program_round;
    let is_missing = |scans: &usize| rows.find(&key(program, *scans, round)).is_none();
    let missing: Vec<usize> = SCANS.into_iter().filter(is_missing).collect();
    run.progress.skip(run.round_seconds(SCANS.len() - missing.len()));
    if missing.is_empty() {
        run.progress.skip(run.size.start.as_secs_f64());
        return Ok(());
    }
    run.prepare()?;
    let node = run.nodes.start(program, &HydrantOptions::default())?;
    run.progress.add(run.size.start.as_secs_f64());
    for scans in missing {
        let mut client = Client::open(node.target.address)?;
        let inputs = run.nodes.inputs(program)?;
        node.drain(&mut client, inputs)?;
        let mut streams = vec![light_stream(Suite::AccountInfo.requests(&mut client, inputs)?)];
        streams.extend(scan_stream(&mut client, run, program, scans)?);
        let measured = latencies::run(node.target, streams, run.size.warm_up, run.size.measured)?;
        let mut cells = Latencies::from_stats(&measured.stats[0]).cells();
        let rate = measured.stats.get(1).map_or(0.0, |scans| scans.rate());
        cells.push(format!("{rate:.3}"));
        rows.push(&key(program, scans, round), &cells)?;
        run.progress.add(run.round_seconds(1));
    }
    Ok(())
}

/// Returns light calls at their rate.
pub(super) fn light_stream(requests: Vec<Vec<u8>>) -> Stream {
    Stream::open_loop("light", requests, LIGHT_RATE, LIGHT_CONNECTIONS)
}

fn key(program: Program, scans: usize, round: usize) -> [String; KEY_LEN] {
    [program.name().to_owned(), scans.to_string(), round.to_string()]
}

struct Results {
    rows: Rows,
    rounds: usize,
}

/// A program's light reads and its scans a second, in one round.
#[derive(Clone, Copy)]
struct Round {
    light: Latencies,
    scans: f64,
}

impl Results {
    fn by_round(&self, program: Program, scans: usize) -> Option<Vec<Round>> {
        let each = (0..self.rounds).map(|round| {
            let key = key(program, scans, round);
            let light = Latencies::from_row(&self.rows, &key, 0)?;
            Some(Round { light, scans: self.rows.number(&key, latencies::COLUMNS.len())? })
        });
        each.collect()
    }

    /// Prints our scans over theirs, each pair of the same round.
    fn print_thresholds(&self) {
        for scans in SCANS.into_iter().filter(|scans| *scans > 0) {
            let [theirs, ours] = Program::ALL.map(|program| self.by_round(program, scans));
            let (Some(theirs), Some(ours)) = (theirs, ours) else { continue };
            // A program that has not finished a scan counts as if it had finished one.
            let scans_min = |round: &Round| round.scans.max(1.0 / round.light.seconds);
            let ratios = ours.iter().zip(&theirs);
            let ratios = ratios.map(|(ours, theirs)| ours.scans / scans_min(theirs));
            let name = format!("agave_isolation_{scans}_scans_per_second");
            threshold::at_least(&name, median(ratios.collect()), "x", 1.0);
        }
    }

    fn table(&self, run: &Measurement<'_>) -> String {
        let mut lines = String::new();
        for program in Program::ALL {
            let alone = self.by_round(program, 0);
            for scans in SCANS {
                let Some(rounds) = self.by_round(program, scans) else { continue };
                let of = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value).collect());
                let served = of(&|round| round.light.served_share());
                let alone = alone.iter().flatten();
                let ratios = rounds.iter().zip(alone);
                let ratios = ratios.map(|(during, alone)| during.light.p99_ms / alone.light.p99_ms);
                // Writing to a string never fails.
                let _ = writeln!(
                    lines,
                    "| {} | {scans} | {served:.3} | {} | {} | {:.1} | {:.2} |",
                    program.name(),
                    format_ms(of(&|round| round.light.p50_ms)),
                    format_ms(of(&|round| round.light.p99_ms)),
                    median(ratios.collect()),
                    of(&|round| round.scans)
                );
            }
        }
        if lines.is_empty() {
            return lines;
        }
        let columns = [
            "program",
            "scans at once",
            "served",
            "p50 ms",
            "p99 ms",
            "p99 by that without scans",
            "scans/s",
        ];
        let about = format!(
            "getAccountInfo at {LIGHT_RATE} a second, late responses included in the latencies, and how many of the \
             due ones had a response; {} rounds of {:?}, medians. The scans read all token accounts with another slice \
             of their data each time. {} Commits: {}.",
            self.rounds,
            run.size.measured,
            run.nodes.description(),
            self.rows.commits()
        );
        table_head("Light reads during scans", &about, &columns) + &lines
    }
}
