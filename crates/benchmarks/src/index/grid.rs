//! The contention grid: the time of a second's reads and writes on one hot key, for every power of ten of prior
//! records, reads a second and writes a second:
//! `index --only grid [--grid all|N] [--seed N] [--cell P/R/W] [--focus reads|writes] [--csv FILE] [--svg DIR]
//! [--offered-ms N] [--bound-ms N] [--ledger-bits N]`.
//!
//! Shape: a cell is one choice of the three. Each candidate runs it with a set of its own, one after the other.
//! Reads and writes are timed separately. A side that has not served its second's operations at the bound is
//! stopped there, marked `~`, and its time extrapolated from the share that it has served. A candidate is
//! among the fastest if it is within [`NOISE`] of the best.
//! Everyday runs take a seeded sample, as many cells from each of the three profiles as from
//! all. `--grid all` takes every cell, and adds the profiles by each of the three.
//! Not here: the load (`workload`), the candidates (`sets`), the output (`tables`, `svg`, `csv`).

mod csv;
mod sets;
mod svg;
mod tables;
mod workload;

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use self::sets::{CANDIDATES, World};
use self::workload::{Focus, Side, Times, Workload};
use super::keys::Numbers;
use crate::value_of;

/// Times within this factor count as equal.
const NOISE: f64 = 1.05;

/// Fewer CPU seconds are counted as this: a difference below it is irrelevant.
const CPU_MIN: f64 = 0.001;

/// The values of each of the three.
const LEVELS: [u32; 9] = [0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// One of the three.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    Prior,
    Reads,
    Writes,
}

const AXES: [Axis; 3] = [Axis::Prior, Axis::Reads, Axis::Writes];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    prior: u32,
    reads: u32,
    writes: u32,
}

/// Cells of one kind of load, as in the experiment that this one follows, dnut's `dashmap-benchmark`.
struct Profile {
    name: &'static str,
    about: &'static str,
    prior: RangeInclusive<u32>,
    reads: RangeInclusive<u32>,
    writes: RangeInclusive<u32>,
}

const PROFILES: [Profile; 3] = [
    Profile {
        name: "light",
        about: "some popular keys",
        prior: 10..=1_000,
        reads: 1..=1_000,
        writes: 1..=1_000,
    },
    Profile {
        name: "reasonable",
        about: "the most popular keys",
        prior: 1_000..=1_000_000,
        reads: 1_000..=1_000_000,
        writes: 1_000..=100_000,
    },
    Profile {
        name: "heavy",
        about: "more than any key has",
        prior: 100_000..=10_000_000,
        reads: 100_000..=10_000_000,
        writes: 100_000..=10_000_000,
    },
];

/// The result of a cell for each candidate, in their order.
struct CellResult {
    cell: Cell,
    sides: [Sides; CANDIDATES.len()],
}

#[derive(Clone, Copy, Default)]
struct Sides {
    reads: Side,
    writes: Side,
}

/// The compared measure of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// Until reads and writes are done, as `dashmap-benchmark` measures.
    Whole,
    Reads,
    Writes,
    /// CPU time of both.
    Cpu,
}

/// The options of the grid.
pub(crate) struct Options {
    /// All cells, or a sample of this size.
    sample: Option<usize>,
    seed: u64,
    focus: Focus,
    times: Times,
    /// The largest level.
    level_max: u32,
    /// Only this one.
    cell: Option<Cell>,
    /// Binary logarithm of the ledger's addresses.
    ledger_bits: u32,
    csv: Option<String>,
    svg: Option<String>,
}

impl Options {
    pub(crate) fn parse(args: &[String], is_toy: bool) -> Result<Self> {
        let number = |flag: &str, default: u64| -> Result<u64> {
            let Some(text) = value_of(args, flag)? else { return Ok(default) };
            text.parse().with_context(|| format!("{flag} takes a number, not `{text}`"))
        };
        let sample = match value_of(args, "--grid")? {
            Some("all") => None,
            Some(text) => {
                let count = text.strip_prefix("sample=").unwrap_or(text).parse();
                Some(
                    count
                        .with_context(|| format!("--grid takes `all` or a number, not `{text}`"))?,
                )
            }
            None => Some(if is_toy { 4 } else { 8 }),
        };
        let focus = match value_of(args, "--focus")? {
            Some("reads") => Focus::Reads,
            Some("writes") => Focus::Writes,
            Some(other) => bail!("--focus takes `reads` or `writes`, not `{other}`"),
            None => Focus::Both,
        };
        let (offered_ms, bound_ms) = if is_toy { (10, 25) } else { (1_000, 3_000) };
        let offered = Duration::from_millis(number("--offered-ms", offered_ms)?);
        let bound = Duration::from_millis(number("--bound-ms", bound_ms)?);
        ensure!(!offered.is_zero() && bound > offered, "--bound-ms must be above --offered-ms");
        Ok(Self {
            sample,
            seed: number("--seed", 1)?,
            focus,
            times: Times { offered, bound },
            cell: value_of(args, "--cell")?.map(Cell::parse).transpose()?,
            level_max: if is_toy { 10_000 } else { 10_000_000 },
            ledger_bits: number("--ledger-bits", if is_toy { 15 } else { 25 })?.clamp(1, 30) as u32,
            csv: value_of(args, "--csv")?.map(str::to_owned),
            svg: value_of(args, "--svg")?.map(str::to_owned),
        })
    }
}

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

impl Cell {
    /// `PRIOR/READS/WRITES`.
    fn parse(text: &str) -> Result<Self> {
        let numbers: Vec<u32> = text.split('/').filter_map(|part| part.parse().ok()).collect();
        let [prior, reads, writes] = numbers[..] else {
            bail!("--cell takes PRIOR/READS/WRITES, not `{text}`");
        };
        Ok(Self { prior, reads, writes })
    }

    fn is_selected(&self, focus: Focus) -> bool {
        match focus {
            Focus::Both => self.reads + self.writes > 0,
            Focus::Reads => self.reads > 0,
            Focus::Writes => self.writes > 0,
        }
    }

    fn level(&self, axis: Axis) -> u32 {
        match axis {
            Axis::Prior => self.prior,
            Axis::Reads => self.reads,
            Axis::Writes => self.writes,
        }
    }
}

impl Axis {
    fn name(self) -> &'static str {
        match self {
            Self::Prior => "prior entries",
            Self::Reads => "reads a second",
            Self::Writes => "writes a second",
        }
    }
}

impl Profile {
    fn contains(&self, cell: &Cell) -> bool {
        AXES.iter().all(|axis| self.range(*axis).contains(&cell.level(*axis)))
    }

    /// Whether a cell belongs to the profile, ignoring one axis.
    fn contains_except(&self, axis: Axis, cell: &Cell) -> bool {
        let others = AXES.iter().filter(|other| **other != axis);
        others.into_iter().all(|other| self.range(*other).contains(&cell.level(*other)))
    }

    fn range(&self, axis: Axis) -> &RangeInclusive<u32> {
        match axis {
            Axis::Prior => &self.prior,
            Axis::Reads => &self.reads,
            Axis::Writes => &self.writes,
        }
    }
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Self::Whole => "both done",
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Cpu => "CPU",
        }
    }

    /// Whether the cell has it.
    fn is_in(self, cell: &Cell, focus: Focus) -> bool {
        match self {
            Self::Whole => focus == Focus::Both,
            Self::Reads => cell.reads > 0 && focus != Focus::Writes,
            Self::Writes => cell.writes > 0 && focus != Focus::Reads,
            Self::Cpu => true,
        }
    }

    /// Seconds for the offered operations.
    fn seconds(self, sides: &Sides, times: &Times) -> f64 {
        let Sides { reads, writes } = sides;
        match self {
            Self::Whole => reads.seconds(times).max(writes.seconds(times)),
            Self::Reads => reads.seconds(times),
            Self::Writes => writes.seconds(times),
            Self::Cpu => (reads.cpu_seconds() + writes.cpu_seconds()).max(CPU_MIN),
        }
    }
}
