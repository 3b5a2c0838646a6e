//! The tables and plots of the grid.
//!
//! Shape: nine tables and plots as `parse.py` of dashmap-benchmark makes them: for each profile and each variable the
//! mean duration at each value of the variable, over the cells with the other variables in the profile. A cell counts
//! as 300 seconds at most, like one that the author's script stopped. The tables are left out until all cells are
//! measured: a mean over some of the cells is that of other loads.

use std::collections::BTreeSet;
use std::fmt::Write;

use ::loadgen::svg::{Axis, Document, Line, Plot, Point, Scale};
use anyhow::Result;

use super::candidate::{CANDIDATES, NamedCandidate, OURS};
use super::cell::{
    Cell, LEVELS, PROFILES, Profile, TIMEOUT, TO_THE_END, VARIABLES, Variable, short,
};
use super::results::{Measure, Part, Ratio, Results, Seconds};
use crate::median::median;
use crate::report::Report;

/// Times within this factor count as equal: a cell is measured once, and the minimum of five noisy values is too low.
const NOISE: f64 = 1.1;

const MEASURES: [(Measure, &str); 4] = [
    (Measure::Whole, "both done"),
    (Measure::Reads, "reads"),
    (Measure::Writes, "writes"),
    (Measure::Cpu, "CPU"),
];

/// Writes README.md and the plots, and prints the comparison.
pub(super) fn write(report: &Report, results: &Results, like: &str, level_max: u32) -> Result<()> {
    let cells = Cell::all(level_max);
    let missing = results.missing(Part::Grid, &cells);
    let comparison = if missing == 0 {
        comparison(results, &cells)
    } else {
        let all = cells.len() * CANDIDATES.len();
        format!(
            "\n{missing} of {all} rows of the grid are not measured: its tables are left out.\n"
        )
    };
    println!("{comparison}{like}");
    let mut text = format!(
        "# Benchmarks: contention grid\n\nWritten by `cargo xtask bench contention`. {}\nRows by commit: {}.\n\n\
         Seconds until the work of a second is done: `~` marks values with an extrapolated cell. Each candidate has \
         one hot key, as many readers as cores, and as many writers; ours has one writer. A read copies all of its \
         entries, in the form that the lookup of their records needs. [grid.csv](grid.csv) has every cell with its \
         commit, and the entries that its reads copied: a set is smaller while its writes are late. \
         [like.csv](like.csv) has the rounds of the last tables.\n",
        report.sources()?,
        results.rows.commits()
    );
    text.push_str(&comparison);
    if missing == 0 {
        for profile in &PROFILES {
            profile_tables(&mut text, report, results, &cells, profile)?;
        }
        separate_timers(&mut text, results, &cells);
    }
    focused_runs(&mut text, results, level_max);
    ends(&mut text, results, level_max);
    text.push_str(like);
    report.write("README.md", &text)
}

/// A value by each level of a variable, for each candidate.
type ByLevel = Vec<(u32, Vec<Option<Seconds>>)>;

fn profile_tables(
    text: &mut String,
    report: &Report,
    results: &Results,
    cells: &[Cell],
    profile: &Profile,
) -> Result<()> {
    let mut plots = Vec::new();
    for variable in VARIABLES {
        let by_level = by_level(results, cells, profile, variable);
        if by_level.is_empty() {
            continue;
        }
        let name = variable.name();
        heading(text, &format!("{} load, by {name}", profile.name), name);
        for (level, means) in &by_level {
            row(text, &short(*level), means.iter().map(|mean| format_seconds(*mean)));
        }
        plots.push((format!("by {name}"), plot(variable, &by_level)));
    }
    if plots.is_empty() {
        return Ok(());
    }
    let title = format!("{} load: seconds for a second's work", profile.name);
    let document = Document { title: &title, columns: VARIABLES.len(), plots };
    let file = format!("{}.svg", profile.name);
    report.write(&file, &document.svg())?;
    // Writing to a string never fails.
    let _ = writeln!(text, "\n![{title}]({file})");
    Ok(())
}

fn by_level(results: &Results, cells: &[Cell], profile: &Profile, variable: Variable) -> ByLevel {
    let levels: BTreeSet<u32> = cells.iter().map(|cell| cell.value(variable)).collect();
    let mut by_level = Vec::new();
    for level in levels {
        let is_in =
            |cell: &&Cell| cell.value(variable) == level && profile.contains_except(variable, cell);
        let of_level: Vec<&Cell> = cells.iter().filter(is_in).collect();
        let means = CANDIDATES.map(|(name, _)| {
            let seconds = of_level
                .iter()
                .filter_map(|cell| results.seconds(Part::Grid, name, cell, Measure::Whole));
            let most = TIMEOUT.as_secs_f64();
            mean(seconds.map(|it| Seconds { value: it.value.min(most), ..it }))
        });
        if means.iter().any(Option::is_some) {
            by_level.push((level, means.to_vec()));
        }
    }
    by_level
}

fn plot(variable: Variable, by_level: &ByLevel) -> Plot<'static> {
    let position = |level| LEVELS.iter().position(|other| *other == level).unwrap_or(0) as f64;
    let line = |(at, &(name, _)): (usize, &NamedCandidate)| {
        let point = |(level, means): &(u32, Vec<Option<Seconds>>)| {
            let y = means[at]?.value;
            Some(Point { x: position(*level), y, label: short(*level) })
        };
        Line { name, points: by_level.iter().filter_map(point).collect() }
    };
    let x = Axis::linear(variable.name(), -0.5, LEVELS.len() as f64 - 0.5)
        .with_marks(LEVELS.map(|level| (position(level), short(level))));
    let lines = CANDIDATES.iter().enumerate().map(line).collect();
    Plot { x, y_scale: Scale::Logarithmic, unit: "s", lines }
}

/// For each profile the means of each side's own timer.
fn separate_timers(text: &mut String, results: &Results, cells: &[Cell]) {
    for profile in &PROFILES {
        let of_profile = || cells.iter().filter(|cell| profile.contains(cell));
        let means = |measure| {
            CANDIDATES.map(|(name, _)| {
                mean(
                    of_profile()
                        .filter_map(|cell| results.seconds(Part::Grid, name, cell, measure)),
                )
            })
        };
        if means(Measure::Whole).iter().all(Option::is_none) {
            continue;
        }
        heading(text, &format!("{} load, separate timers", profile.name), "timer");
        for (measure, name) in MEASURES {
            row(text, name, means(measure).into_iter().map(format_seconds));
        }
    }
}

fn focused_runs(text: &mut String, results: &Results, level_max: u32) {
    let parts = [
        (Part::FocusedReads, Measure::Reads, "Reads while writes continue"),
        (Part::FocusedWrites, Measure::Writes, "Writes while reads continue"),
    ];
    for (part, measure, name) in parts {
        cell_table(text, results, part, measure, name, &Cell::all_focused(level_max));
    }
}

fn ends(text: &mut String, results: &Results, level_max: u32) {
    let cells: Vec<Cell> = TO_THE_END.into_iter().filter(|cell| cell.reads <= level_max).collect();
    for (measure, name) in [(Measure::Reads, "reads"), (Measure::Writes, "writes")] {
        let title = format!("Four cells to their end, {name}");
        cell_table(text, results, Part::End, measure, &title, &cells);
    }
}

fn cell_table(
    text: &mut String,
    results: &Results,
    part: Part,
    measure: Measure,
    title: &str,
    cells: &[Cell],
) {
    let measured: Vec<&Cell> =
        cells.iter().filter(|cell| results.seconds(part, OURS, cell, measure).is_some()).collect();
    if measured.is_empty() {
        return;
    }
    heading(text, title, "prior / writes / reads");
    for cell in measured {
        let seconds = CANDIDATES.map(|(name, _)| results.seconds(part, name, cell, measure));
        row(text, &cell_name(cell), seconds.into_iter().map(format_seconds));
    }
}

/// The ratio of ours to the best rival, for each cell.
type Ratios<'a> = Vec<(&'a Cell, Ratio)>;

/// Where ours is faster and where it is slower than the best rival.
fn comparison(results: &Results, cells: &[Cell]) -> String {
    let mut counts = String::new();
    let mut levels = String::new();
    let mut furthest = String::new();
    for (measure, name) in MEASURES {
        let ratios = cells.iter().filter_map(|cell| {
            let ratio = results.ratio(Part::Grid, cell, measure)?;
            Some((cell, ratio))
        });
        let ratios: Ratios<'_> = ratios.collect();
        if ratios.is_empty() {
            continue;
        }
        counts.push_str(&format!("| {name} {}\n", format_counts(&ratios)));
        if measure == Measure::Whole {
            levels = by_levels(&ratios);
        }
        furthest.push_str(&furthest_cells(name, &ratios));
    }
    if counts.is_empty() {
        return counts;
    }
    let noise = (NOISE - 1.0) * 100.0;
    format!(
        "\n## Ours compared with the best rival of each cell\n\nThe ratio is the time of ours over that of the fastest \
         of the five rivals in the cell.\n\n| timer {COUNTS_HEAD}\n{counts}\nThe same for both done, by each \
         variable:\n\n| level {COUNTS_HEAD}\n{levels}\n{furthest}\n`same`: within {noise:.0} %. `extrapolated`: cells \
         in which one of the two values is extrapolated.\n"
    )
}

const COUNTS_HEAD: &str = concat!(
    "| cells | faster | same | slower | extrapolated | median ratio |\n",
    "|---|---|---|---|---|---|---|"
);

fn format_counts(ratios: &Ratios<'_>) -> String {
    let count = |is_in: &dyn Fn(&Ratio) -> bool| ratios.iter().filter(|it| is_in(&it.1)).count();
    let faster = count(&|ratio| ratio.value < 1.0 / NOISE);
    let slower = count(&|ratio| ratio.value > NOISE);
    let extrapolated = count(&|ratio| ratio.is_extrapolated);
    let same = ratios.len() - faster - slower;
    let middle = median(ratios.iter().map(|(_, ratio)| ratio.value).collect());
    format!("| {} | {faster} | {same} | {slower} | {extrapolated} | {middle:.3} |", ratios.len())
}

/// A row for each value of each variable.
fn by_levels(ratios: &Ratios<'_>) -> String {
    let mut text = String::new();
    for variable in VARIABLES {
        let levels: BTreeSet<u32> = ratios.iter().map(|(cell, _)| cell.value(variable)).collect();
        for level in levels {
            let of_level = ratios.iter().filter(|(cell, _)| cell.value(variable) == level);
            let counts = format_counts(&of_level.copied().collect());
            text.push_str(&format!("| {} {} {counts}\n", short(level), variable.name()));
        }
    }
    text
}

/// A line with the cells in which ours is furthest ahead, and one with those in which it is furthest behind.
fn furthest_cells(timer: &str, ratios: &Ratios<'_>) -> String {
    let mut sorted = ratios.clone();
    sorted.sort_by(|one, other| one.1.value.total_cmp(&other.1.value));
    let ahead = sorted.iter().filter(|(_, ratio)| ratio.value < 1.0 / NOISE);
    let behind = sorted.iter().rev().filter(|(_, ratio)| ratio.value > NOISE);
    let line = |is, cells: Vec<&(&Cell, Ratio)>| {
        if cells.is_empty() {
            return String::new();
        }
        let cells = cells.into_iter().take(6).map(|(cell, ratio)| {
            let mark = if ratio.is_extrapolated { "~" } else { "" };
            format!("{} {mark}{:.3}", cell_name(cell), ratio.value)
        });
        let cells = cells.collect::<Vec<_>>().join("; ");
        format!("* {timer}: furthest {is}, as prior / writes / reads: {cells}.\n")
    };
    line("ahead", ahead.collect()) + &line("behind", behind.collect())
}

fn cell_name(cell: &Cell) -> String {
    format!("{} / {} / {}", short(cell.prior), short(cell.writes), short(cell.reads))
}

fn heading(text: &mut String, title: &str, first: &str) {
    let names = CANDIDATES.map(|(name, _)| name);
    let rules = "|---".repeat(names.len() + 1);
    let _ = writeln!(
        text,
        "\n## {}\n\n| {first} | {} |\n{rules}|",
        capitalize(title),
        names.join(" | ")
    );
}

fn row(text: &mut String, first: &str, cells: impl Iterator<Item = String>) {
    let _ = writeln!(text, "| {first} | {} |", cells.collect::<Vec<_>>().join(" | "));
}

fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + characters.as_str()
    })
}

/// The arithmetic mean, as in `parse.py`.
fn mean(seconds: impl Iterator<Item = Seconds>) -> Option<Seconds> {
    let all: Vec<Seconds> = seconds.collect();
    (!all.is_empty()).then(|| Seconds {
        value: all.iter().map(|seconds| seconds.value).sum::<f64>() / all.len() as f64,
        is_extrapolated: all.iter().any(|seconds| seconds.is_extrapolated),
    })
}

fn format_seconds(seconds: Option<Seconds>) -> String {
    let Some(Seconds { value, is_extrapolated }) = seconds else { return "-".to_owned() };
    let mark = if is_extrapolated { "~" } else { "" };
    match value {
        ..10.0 => format!("{mark}{value:.3}"),
        ..100.0 => format!("{mark}{value:.1}"),
        _ => format!("{mark}{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::Side;
    use super::super::results::{COLUMNS, KEY_LEN, Measured};
    use super::*;

    #[test]
    fn tables_of_means_are_left_out_until_all_cells_are_measured() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let out = dir.path().to_string_lossy().into_owned();
        let report = Report::open("contention", &["--out".to_owned(), out], true)?;
        let mut results = Results { rows: report.rows("a.csv", KEY_LEN, COLUMNS)?, offered: 1.0 };
        let side =
            Side { offered: 10, served: 10, entries: 10, seconds: 2.0, cpu: 0.0, thread_max: 0 };
        let measured = Measured { reads: side, writes: side };
        let cells = Cell::all(10);
        let all = cells.iter().flat_map(|cell| CANDIDATES.map(|(name, _)| (name, cell)));
        let document = || std::fs::read_to_string(dir.path().join("README.md"));
        for (name, cell) in all {
            write(&report, &results, "", 10)?;
            assert!(!document()?.contains("## "), "before {name}, {cell:?}");
            results.push(Part::Grid, name, cell, &measured)?;
        }
        write(&report, &results, "", 10)?;
        assert!(document()?.contains("## Ours compared with the best rival"));
        assert!(document()?.contains("## Light load, by prior entries"));
        Ok(())
    }

    #[test]
    fn a_profile_has_the_mean_of_its_cells_at_each_value() -> Result<()> {
        let report = Report::open("contention", &[], true)?;
        let mut results = Results { rows: report.rows("a.csv", KEY_LEN, COLUMNS)?, offered: 1.0 };
        let side = |served, seconds| Side {
            offered: 10,
            served,
            entries: 0,
            seconds,
            cpu: 0.0,
            thread_max: 0,
        };
        // Two light cells by prior entries, and one that is not light.
        for (writes, reads, served, seconds) in
            [(10, 10, 10, 2.0), (10, 100, 5, 6.0), (10, 10_000, 10, 90.0)]
        {
            let measured = Measured { reads: side(served, seconds), writes: side(10, 1.0) };
            let cell = Cell { prior: 100_000, writes, reads };
            results.push(Part::Grid, OURS, &cell, &measured)?;
        }
        let by_prior = by_level(&results, &Cell::all(100_000), &PROFILES[0], Variable::Prior);
        assert_eq!(by_prior.len(), 1);
        assert_eq!(by_prior[0].0, 100_000);
        let mean = by_prior[0].1.last().copied().flatten();
        assert_eq!(mean, Some(Seconds { value: 4.0, is_extrapolated: true }));
        assert_eq!(format_seconds(mean), "~4.000");
        // A cell counts as 300 seconds at most.
        let cell = Cell { prior: 100_000, writes: 100, reads: 100 };
        let measured = Measured { reads: side(5, 9_000.0), writes: side(10, 1.0) };
        results.push(Part::Grid, OURS, &cell, &measured)?;
        let by_prior = by_level(&results, &Cell::all(100_000), &PROFILES[0], Variable::Prior);
        let mean = by_prior[0].1.last().copied().flatten();
        assert_eq!(mean.map(|mean| mean.value), Some((2.0 + 6.0 + 300.0) / 3.0));
        Ok(())
    }
}
