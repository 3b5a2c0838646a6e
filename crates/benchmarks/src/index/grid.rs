//! The contention grid: the time of a second's reads and writes on one hot key, for every power of ten of prior
//! records, reads a second and writes a second:
//! `index --only grid [--grid all|N] [--seed N] [--cell P/R/W] [--focus reads|writes] [--csv FILE] [--svg DIR]
//! [--offered-ms N] [--bound-ms N] [--ledger-bits N]`.
//!
//! Shape: a cell is one choice of the three. Each candidate runs it with a set of its own, one after the other.
//! Reads and writes are timed separately. A side that has not served its second's operations at the bound is
//! stopped there, marked `~`, and its time extrapolated from the share that it has served. A candidate is
//! among the fastest if it is within `NOISE` of the best.
//! Everyday runs take a seeded sample, as many cells from each of the three profiles as from
//! all. `--grid all` takes every cell, and adds the profiles by each of the three.
//! Not here: the cells (`cell`), the load (`workload`), the candidates (`sets`), the output (`tables`, `svg`, `csv`).

mod cell;
mod cell_result;
mod csv;
mod options;
mod sets;
mod svg;
mod tables;
mod workload;

use anyhow::{Result, ensure};

use self::cell::{Cell, LEVELS, PROFILES};
use self::cell_result::{CellResult, Sides};
pub(crate) use self::options::Options;
use self::sets::{CANDIDATES, World};
use self::workload::Workload;
use super::keys::Numbers;

pub(crate) fn run(options: &Options) -> Result<()> {
    let cells = cells(options);
    let most = cells.iter().map(|cell| cell.prior + cell.writes).max().unwrap_or(0);
    ensure!(
        most <= 1 << options.ledger_bits,
        "--ledger-bits {} is too small for {most} records",
        options.ledger_bits
    );
    let world = World::new(options.ledger_bits)?;
    tables::header(options, &world, cells.len());
    let mut csv = options.csv.as_deref().map(csv::Csv::create).transpose()?;
    let mut outcomes = Vec::with_capacity(cells.len());
    for (nth, cell) in cells.into_iter().enumerate() {
        let mut outcome = CellResult { cell, sides: [Sides::default(); CANDIDATES.len()] };
        for offset in 0..CANDIDATES.len() {
            // Another candidate is the first after each change of cells.
            let at = (nth + offset) % CANDIDATES.len();
            let workers = world.workers(CANDIDATES[at], cell.prior);
            let Cell { reads, writes, .. } = cell;
            let load = Workload { reads, writes, focus: options.focus, times: options.times };
            let (reads, writes) = workload::offer(workers.readers, workers.writers, &load);
            outcome.sides[at] = Sides { reads, writes };
        }
        tables::row(&outcome, options);
        if let Some(csv) = &mut csv {
            csv.write(&outcome, options)?;
        }
        outcomes.push(outcome);
    }
    tables::profiles(&outcomes, options);
    tables::summary(&outcomes, options);
    if let Some(dir) = &options.svg {
        svg::write(dir, &outcomes, options)?;
    }
    Ok(())
}

/// The cells to run, small sets first. One without reads and writes has nothing to time.
fn cells(options: &Options) -> Vec<Cell> {
    if let Some(cell) = options.cell {
        return vec![cell];
    }
    let levels = LEVELS.iter().copied().filter(|level| *level <= options.level_max);
    let mut all = Vec::new();
    for prior in levels.clone() {
        for reads in levels.clone() {
            let cells = levels.clone().map(|writes| Cell { prior, reads, writes });
            all.extend(cells.filter(|cell| cell.is_selected(options.focus)));
        }
    }
    let Some(sample_len) = options.sample else { return all };
    let mut numbers = Numbers(options.seed << 32);
    let mut sample: Vec<Cell> = Vec::new();
    let strata = PROFILES.len() + 1;
    for stratum in 0..strata {
        let in_stratum =
            |cell: &Cell| PROFILES.get(stratum).is_none_or(|profile| profile.contains(cell));
        let mut pool: Vec<Cell> = all.iter().copied().filter(in_stratum).collect();
        pool.retain(|cell| !sample.contains(cell));
        let share = sample_len / strata + usize::from(stratum < sample_len % strata);
        for _ in 0..share.min(pool.len()) {
            sample.push(pool.swap_remove(numbers.below(pool.len() as u32) as usize));
        }
    }
    sample.sort();
    sample
}
