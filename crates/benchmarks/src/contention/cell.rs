//! The cells of the grid, and the profiles that the author's aggregation groups them by.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The values of each of the three variables.
pub(super) const LEVELS: [u32; 9] = [0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// The time after which `run.sh` of dashmap-benchmark stops a cell.
pub(super) const TIMEOUT: Duration = Duration::from_secs(300);

/// Entries before the load, and the operations that are offered within a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) prior: u32,
    pub(super) writes: u32,
    pub(super) reads: u32,
}

/// A variable of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    Prior,
    Writes,
    Reads,
}

pub(super) const VARIABLES: [Variable; 3] = [Variable::Prior, Variable::Writes, Variable::Reads];

/// Cells of one kind of load, as in `parse.py` of dnut's dashmap-benchmark.
pub(super) struct Profile {
    pub(super) name: &'static str,
    prior: RangeInclusive<u32>,
    writes: RangeInclusive<u32>,
    reads: RangeInclusive<u32>,
}

pub(super) const PROFILES: [Profile; 3] = [
    Profile { name: "light", prior: 10..=1_000, writes: 1..=1_000, reads: 1..=1_000 },
    Profile {
        name: "reasonable",
        prior: 1_000..=1_000_000,
        writes: 1_000..=100_000,
        reads: 1_000..=1_000_000,
    },
    Profile {
        name: "heavy",
        prior: 100_000..=u32::MAX,
        writes: 100_000..=u32::MAX,
        reads: 100_000..=u32::MAX,
    },
];

/// The cells that run to their end: two that a reviewer of PR 34955 asked about, each with and without its readers in
/// the majority.
pub(super) const TO_THE_END: [Cell; 4] = [
    Cell { prior: 0, writes: 100_000, reads: 1_000_000 },
    Cell { prior: 100_000, writes: 10_000, reads: 1_000_000 },
    Cell { prior: 100_000, writes: 10_000, reads: 1_000 },
    Cell { prior: 1_000_000, writes: 10_000, reads: 10_000 },
];

impl Cell {
    /// Returns all cells up to a level that have an operation, those with few entries and writes first.
    pub(super) fn all(level_max: u32) -> Vec<Self> {
        let levels = || LEVELS.into_iter().filter(move |level| *level <= level_max);
        let cells = levels().flat_map(|prior| {
            levels()
                .flat_map(move |writes| levels().map(move |reads| Self { prior, writes, reads }))
        });
        cells.filter(|cell| cell.reads + cell.writes > 0).collect()
    }

    /// Returns the cells of the focused runs: the upper part of the reasonable load.
    pub(super) fn all_focused(level_max: u32) -> Vec<Self> {
        let reasonable = &PROFILES[1];
        let mut cells = Self::all(level_max);
        cells.retain(|cell| reasonable.contains(cell) && cell.prior >= 10_000.min(level_max));
        cells
    }

    pub(super) fn value(&self, variable: Variable) -> u32 {
        match variable {
            Variable::Prior => self.prior,
            Variable::Writes => self.writes,
            Variable::Reads => self.reads,
        }
    }
}

impl Variable {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Prior => "prior entries",
            Self::Writes => "writes a second",
            Self::Reads => "reads a second",
        }
    }
}

impl Profile {
    pub(super) fn contains(&self, cell: &Cell) -> bool {
        VARIABLES.iter().all(|variable| self.has(*variable, cell))
    }

    /// Whether the variables other than `variable` are in the profile. A table by a variable has all of its values.
    pub(super) fn contains_except(&self, variable: Variable, cell: &Cell) -> bool {
        VARIABLES.iter().all(|other| *other == variable || self.has(*other, cell))
    }

    fn has(&self, variable: Variable, cell: &Cell) -> bool {
        let range = match variable {
            Variable::Prior => &self.prior,
            Variable::Writes => &self.writes,
            Variable::Reads => &self.reads,
        };
        range.contains(&cell.value(variable))
    }
}

/// The short form of a power of ten: `100k`.
pub(super) fn short(level: u32) -> String {
    match level {
        1_000_000.. => format!("{}M", level / 1_000_000),
        1_000.. => format!("{}k", level / 1_000),
        _ => level.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_every_combination_of_powers_of_ten() {
        let all = Cell::all(10_000_000);
        assert_eq!(all.len(), 9 * 9 * 9 - 9);
        assert!(TO_THE_END.iter().all(|cell| all.contains(cell)));
        let of = |nth: usize| all.iter().filter(|cell| PROFILES[nth].contains(cell)).count();
        assert_eq!([of(0), of(1), of(2)], [3 * 4 * 4, 4 * 3 * 4, 3 * 3 * 3]);
    }

    #[test]
    fn a_table_by_a_variable_has_all_its_values() {
        let all = Cell::all(10_000_000);
        let light = &PROFILES[0];
        let by_prior = all.iter().filter(|cell| light.contains_except(Variable::Prior, cell));
        assert_eq!(by_prior.count(), 9 * 4 * 4);
    }
}
