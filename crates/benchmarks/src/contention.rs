//! The contention grid of accounts-db PR 34955, whole, plus ours; and rows that compare like with like:
//! `contention [--toy] [--only grid|focus|ends|like] [--out DIR] [--keep] [--fresh]`.
//!
//! Shape: a cell is a number of prior entries of one hot key, of writes and of reads a second, each 0 or a power of ten
//! up to ten million: 720 cells. Each candidate does a cell's work with a set of its own, one after the other.
//! `grid`: all cells, both sides timed separately. A side that cannot end in three seconds is extrapolated (`~`).
//! `focus`: one side until its work is done, under constant load from the other, as its reviewers requested.
//! `ends`: four cells that run until they end, or for the 300 seconds after which the author stops a cell.
//! `like`: a write with the registration of its address; reads that end with addresses, and with records.
//! Output: `docs/benchmarks/contention`: CSV, plots, and tables in README.md. A run that was stopped continues.
//! Time: some 150 minutes on two cores: `grid` 85, `ends` 45 (120 if no cell ends), `focus` 12, `like` 8.
//! Memory: 8 GB.

mod candidate;
mod cell;
mod document;
mod like_for_like;
mod load;
mod results;

use std::time::Duration;

use anyhow::Result;

use self::candidate::{CANDIDATES, Candidate};
use self::cell::{Cell, TIMEOUT, TO_THE_END};
use self::load::{Focus, Load, Times};
use self::results::{COLUMNS, KEY_LEN, Measured, Part, Results};
use crate::report::{Progress, Report, selected_part};

/// Sets that grew by more than this share of their prior entries are made again: their tables stay larger.
const GROWTH_MAX: u32 = 8;

/// The size of the measurements.
struct Size {
    level_max: u32,
    grid: Times,
    ends: Times,
    like: like_for_like::Size,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let only = selected_part(args, &["grid", "focus", "ends", "like"])?;
    let is_selected = |part: &str| only.is_none_or(|only| only == part);
    let size = Size::new(is_toy);
    let report = Report::open("contention", args, is_toy)?;
    let mut results = Results {
        rows: report.rows("grid.csv", KEY_LEN, COLUMNS)?,
        offered: size.grid.offered.as_secs_f64(),
    };
    let mut work = Vec::new();
    if is_selected("grid") {
        work.push((Part::Grid, Cell::all(size.level_max), size.grid));
    }
    if is_selected("focus") {
        let cells = Cell::all_focused(size.level_max);
        work.push((Part::FocusedReads, cells.clone(), size.grid));
        work.push((Part::FocusedWrites, cells, size.grid));
    }
    if is_selected("ends") {
        let cells = TO_THE_END.into_iter().filter(|cell| cell.reads <= size.level_max);
        work.push((Part::End, cells.collect(), size.ends));
    }
    let count: usize = work.iter().map(|(part, cells, _)| results.missing(*part, cells)).sum();
    let mut progress = Progress::new("contention", count as f64);
    for (part, cells, times) in work {
        measure(part, cells, times, &mut results, &mut progress)?;
    }
    let like = like_for_like::run(&size.like, &report, is_selected("like"))?;
    document::write(&report, &results, &like, size.level_max)
}

impl Size {
    fn new(is_toy: bool) -> Self {
        let times = |offered, bound, is_patient| Times { offered, bound, is_patient };
        let [ms, s] = [Duration::from_millis, Duration::from_secs];
        if is_toy {
            Self {
                level_max: 100,
                grid: times(ms(2), ms(6), false),
                ends: times(ms(2), ms(20), true),
                like: like_for_like::TOY,
            }
        } else {
            Self {
                level_max: 10_000_000,
                grid: times(s(1), s(3), false),
                ends: times(s(1), TIMEOUT, true),
                like: like_for_like::FULL,
            }
        }
    }
}

/// Measures the cells that have no row yet, those with the same prior entries together.
fn measure(
    part: Part,
    mut cells: Vec<Cell>,
    times: Times,
    results: &mut Results,
    progress: &mut Progress,
) -> Result<()> {
    cells.sort();
    for cells in cells.chunk_by(|one, next| one.prior == next.prior) {
        let mut sets: [Option<Box<dyn Candidate>>; CANDIDATES.len()] = Default::default();
        for (nth, cell) in cells.iter().enumerate() {
            for offset in 0..CANDIDATES.len() {
                // Another candidate is the first after each change of cells.
                let at = (nth + offset) % CANDIDATES.len();
                let (name, make) = CANDIDATES[at];
                if results.find(part, name, cell).is_some() {
                    continue;
                }
                let set = match sets[at].take() {
                    Some(set) => set,
                    None => make(cell.prior)?,
                };
                let (measured, written_max) = measure_cell(part, &*set, cell, times);
                results.push(part, name, cell, &measured)?;
                if written_max <= cell.prior / GROWTH_MAX {
                    set.remove(cell.prior..cell.prior + written_max);
                    sets[at] = Some(set);
                }
                progress.add(1.0);
            }
        }
    }
    Ok(())
}

/// Measures one cell. Returns also how many record numbers the writers have used at most.
fn measure_cell(part: Part, set: &dyn Candidate, cell: &Cell, times: Times) -> (Measured, u32) {
    let writers = set.writers(cell.prior);
    let writers_len = writers.len() as u64;
    let focus = match part {
        Part::Grid | Part::End => Focus::Both,
        Part::FocusedReads => Focus::Reads,
        Part::FocusedWrites => Focus::Writes,
    };
    let load = Load { reads: cell.reads, writes: cell.writes, focus, times };
    let (reads, writes) = load::offer(set.readers(), writers, &load);
    (Measured { reads, writes }, (writes.thread_max * writers_len) as u32)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn a_run_that_was_killed_is_completed_by_the_next_one() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let out = dir.path().to_string_lossy().into_owned();
        let args = ["--toy", "--only", "grid", "--out", &out].map(str::to_owned);
        run(&args)?;
        let csv = dir.path().join("grid.csv");
        let whole = fs::read_to_string(&csv)?;
        let count = whole.lines().count();
        assert_eq!(count, 1 + CANDIDATES.len() * Cell::all(100).len());
        // It was killed while it wrote a row.
        let measured: Vec<&str> = whole.lines().take(count / 2).collect();
        let next = whole.lines().nth(count / 2).unwrap_or_default();
        fs::write(&csv, format!("{}\n{}", measured.join("\n"), &next[..next.len() - 1]))?;
        run(&args)?;
        let completed = fs::read_to_string(&csv)?;
        assert_eq!(completed.lines().count(), count);
        let lines: BTreeSet<&str> = completed.lines().collect();
        assert!(measured.iter().all(|row| lines.contains(row)));
        assert!(!lines.contains(&next[..next.len() - 1]));
        Ok(())
    }
}
