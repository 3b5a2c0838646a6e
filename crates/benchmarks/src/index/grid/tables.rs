//! The grid as text: a row for each cell, the profiles, and where ours is not the fastest.

use super::cell::{AXES, Axis, Cell, LEVELS, PROFILES, Profile};
use super::cell_result::{CellResult, Measure, Sides};
use super::options::Options;
use super::sets::{CANDIDATES, Candidate, HYDRANT_CANDIDATES, World};
use super::workload::{Focus, Side, Times};

/// Times within this factor count as equal.
const NOISE: f64 = 1.05;

const MEASURES: [Measure; 4] = [Measure::Whole, Measure::Reads, Measure::Writes, Measure::Cpu];

/// The number of cells, and the longest duration of the run.
pub(crate) fn header(options: &Options, world: &World, cells: usize) {
    let Times { offered, bound } = options.times;
    let focus = match options.focus {
        Focus::Both => "",
        Focus::Reads => ", reads timed while writes go on",
        Focus::Writes => ", writes timed while reads go on",
    };
    let candidates = CANDIDATES.len() as f64;
    let least = offered.as_secs_f64() * candidates * cells as f64 / 60.0;
    let most = bound.as_secs_f64() * candidates * cells as f64 / 60.0;
    println!(
        "\ncontention grid{focus}: {cells} cells of {}, the work of {offered:?} each, bound {bound:?}, \
         a ledger of {} addresses\n{} readers and {} writers (ours: one writer); takes {least:.0} to \
         {most:.0} minutes and the time to fill the sets\n\
         seconds until the reads and the writes of a second are done, extrapolated (~) where the bound \
         came first",
        if options.sample.is_none() { "all" } else { "a seeded sample" },
        1_u64 << options.ledger_bits,
        world.threads_each(),
        world.threads_each(),
    );
    print!("{:>9}{:>9}{:>9} ", "prior", "reads/s", "writes/s");
    for candidate in CANDIDATES {
        print!("{:>18}", candidate.name());
    }
    let columns = HYDRANT_CANDIDATES.map(|candidate| format!("{} r, w, CPU", candidate.name()));
    println!("   of the best rival: {}", columns.join("; "));
}

pub(crate) fn row(outcome: &CellResult, options: &Options) {
    let Cell { prior, reads, writes } = outcome.cell;
    print!("{:>9}{:>9}{:>9} ", short(prior), short(reads), short(writes));
    for sides in &outcome.sides {
        print!(
            "{:>9}{:>9}",
            time(&sides.reads, &options.times),
            time(&sides.writes, &options.times)
        );
    }
    print!("  ");
    for candidate in HYDRANT_CANDIDATES {
        print!(" ");
        for measure in [Measure::Reads, Measure::Writes, Measure::Cpu] {
            match outcome.ratio(candidate, measure, options) {
                Some(ratio) => print!("{ratio:>7.2}"),
                None => print!("{:>7}", "-"),
            }
        }
    }
    println!();
}

/// The three profiles: the mean (geometric: times differ by powers of ten) over the cells that were
/// run of each; with all cells also by each of the three, as the tables of `dashmap-benchmark`.
pub(crate) fn profiles(outcomes: &[CellResult], options: &Options) {
    for profile in &PROFILES {
        let in_profile = |outcome: &&CellResult| profile.contains(&outcome.cell);
        let cells: Vec<&CellResult> = outcomes.iter().filter(in_profile).collect();
        if cells.is_empty() {
            continue;
        }
        let Profile { name, about, prior, reads, writes } = profile;
        let range = |range: &std::ops::RangeInclusive<u32>| {
            format!("{}..{}", short(*range.start()), short(*range.end()))
        };
        println!(
            "\n{name} load ({about}: prior {}, reads {}, writes {}), mean of {} cells, s",
            range(prior),
            range(reads),
            range(writes),
            cells.len()
        );
        println!("{:18}{:>11}{:>11}{:>11}{:>11}", "", "reads", "writes", "both done", "CPU");
        for (at, candidate) in CANDIDATES.iter().enumerate() {
            let mean = |measure| match mean(&cells, at, measure, options) {
                Some(mean) => three_digits(mean),
                None => "-".to_owned(),
            };
            let [whole, reads, writes, cpu] = MEASURES.map(mean);
            println!("{:18}{reads:>11}{writes:>11}{whole:>11}{cpu:>11}", candidate.name());
        }
        if options.sample.is_none() {
            AXES.iter().for_each(|axis| by(*axis, profile, outcomes, options));
        }
    }
}

/// A profile by one of the three: reads and writes of each candidate.
fn by(axis: Axis, profile: &Profile, outcomes: &[CellResult], options: &Options) {
    println!("{:>16}  (reads s, writes s)", axis.name());
    for (level, cells) in along(axis, profile, outcomes) {
        print!("{:>16}", short(level));
        for at in 0..CANDIDATES.len() {
            for measure in [Measure::Reads, Measure::Writes] {
                let mean = mean(&cells, at, measure, options);
                print!("{:>10}", mean.map_or_else(|| "-".to_owned(), three_digits));
            }
        }
        println!();
    }
}

/// The cells of a profile at each level of one axis, on which it may be anywhere.
pub(crate) fn along<'a>(
    axis: Axis,
    profile: &Profile,
    outcomes: &'a [CellResult],
) -> Vec<(u32, Vec<&'a CellResult>)> {
    let at = |level: u32| {
        let is_at = move |outcome: &&CellResult| {
            outcome.cell.level(axis) == level && profile.contains_except(axis, &outcome.cell)
        };
        (level, outcomes.iter().filter(is_at).collect::<Vec<_>>())
    };
    LEVELS.iter().map(|level| at(*level)).filter(|(_, cells)| !cells.is_empty()).collect()
}

/// The geometric mean of a candidate's times.
pub(crate) fn mean(
    cells: &[&CellResult],
    candidate: usize,
    measure: Measure,
    options: &Options,
) -> Option<f64> {
    let of = cells.iter().filter(|outcome| measure.is_in(&outcome.cell, options.focus));
    let logs: Vec<f64> = of
        .map(|outcome| measure.seconds(&outcome.sides[candidate], &options.times).max(1e-6).ln())
        .collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// In how many cells ours is the fastest, and every cell where it is not.
pub(crate) fn summary(outcomes: &[CellResult], options: &Options) {
    HYDRANT_CANDIDATES.iter().for_each(|candidate| summary_of(*candidate, outcomes, options));
}

fn summary_of(candidate: Candidate, outcomes: &[CellResult], options: &Options) {
    println!(
        "\n{} (a read ends with {}) compared with the best rival (the same: within {:.0} %)",
        candidate.name(),
        candidate.reads(),
        (NOISE - 1.0) * 100.0
    );
    println!("{:12}{:>8}{:>9}{:>8}{:>9}", "", "cells", "faster", "same", "slower");
    for measure in MEASURES {
        let ratios: Vec<f64> = outcomes
            .iter()
            .filter_map(|outcome| outcome.ratio(candidate, measure, options))
            .collect();
        if ratios.is_empty() {
            continue;
        }
        let faster = ratios.iter().filter(|ratio| **ratio < 1.0 / NOISE).count();
        let slower = ratios.iter().filter(|ratio| **ratio > NOISE).count();
        let same = ratios.len() - faster - slower;
        println!("{:12}{:>8}{faster:>9}{same:>8}{slower:>9}", measure.name(), ratios.len());
    }
    for measure in [Measure::Whole, Measure::Reads, Measure::Writes] {
        let slower = outcomes.iter().filter_map(|outcome| {
            let ratio =
                outcome.ratio(candidate, measure, options).filter(|ratio| *ratio > NOISE)?;
            let Cell { prior, reads, writes } = outcome.cell;
            Some(format!("{}/{}/{} {ratio:.2}x", short(prior), short(reads), short(writes)))
        });
        let slower: Vec<String> = slower.collect();
        if !slower.is_empty() {
            let list = slower.chunks(6).map(|line| line.join(", ")).collect::<Vec<_>>();
            println!(
                "{}: slower than the best rival at prior/reads/writes\n  {}",
                measure.name(),
                list.join("\n  ")
            );
        }
    }
}

impl CellResult {
    /// The time of one of ours as a multiple of the best rival's.
    fn ratio(&self, candidate: Candidate, measure: Measure, options: &Options) -> Option<f64> {
        if !measure.is_in(&self.cell, options.focus) {
            return None;
        }
        let least = |is_in: &dyn Fn(Candidate) -> bool| {
            let those = CANDIDATES.iter().zip(&self.sides).filter(|(other, _)| is_in(**other));
            those
                .map(|(_, sides): (_, &Sides)| measure.seconds(sides, &options.times))
                .fold(f64::INFINITY, f64::min)
        };
        Some(
            least(&|other| other == candidate)
                / least(&|other| !HYDRANT_CANDIDATES.contains(&other)),
        )
    }
}

fn time(side: &Side, times: &Times) -> String {
    match side.offered {
        0 => "-".to_owned(),
        _ if side.is_bounded() => format!("~{}", three_digits(side.seconds(times))),
        _ => three_digits(side.seconds(times)),
    }
}

fn three_digits(seconds: f64) -> String {
    match seconds {
        ..0.01 => format!("{seconds:.4}"),
        ..10.0 => format!("{seconds:.2}"),
        ..100.0 => format!("{seconds:.1}"),
        ..100_000.0 => format!("{seconds:.0}"),
        _ => format!("{seconds:.1e}"),
    }
}

/// The short form of a power of ten.
pub(crate) fn short(level: u32) -> String {
    match level {
        1_000_000.. => format!("{}M", level / 1_000_000),
        1_000.. => format!("{}k", level / 1_000),
        _ => level.to_string(),
    }
}
