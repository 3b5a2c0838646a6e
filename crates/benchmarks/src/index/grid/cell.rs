//! The cells of the grid, and the profiles that group them.

use std::ops::RangeInclusive;

use anyhow::{Result, bail};

use super::workload::Focus;

/// The values of each of the three.
pub(crate) const LEVELS: [u32; 9] = [0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// One of the three.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Prior,
    Reads,
    Writes,
}

pub(crate) const AXES: [Axis; 3] = [Axis::Prior, Axis::Reads, Axis::Writes];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) prior: u32,
    pub(crate) reads: u32,
    pub(crate) writes: u32,
}

/// Cells of one kind of load, as in the experiment that this one follows, dnut's `dashmap-benchmark`.
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) prior: RangeInclusive<u32>,
    pub(crate) reads: RangeInclusive<u32>,
    pub(crate) writes: RangeInclusive<u32>,
}

pub(crate) const PROFILES: [Profile; 3] = [
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

impl Cell {
    /// `PRIOR/READS/WRITES`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let numbers: Vec<u32> = text.split('/').filter_map(|part| part.parse().ok()).collect();
        let [prior, reads, writes] = numbers[..] else {
            bail!("--cell takes PRIOR/READS/WRITES, not `{text}`");
        };
        Ok(Self { prior, reads, writes })
    }

    pub(crate) fn is_selected(&self, focus: Focus) -> bool {
        match focus {
            Focus::Both => self.reads + self.writes > 0,
            Focus::Reads => self.reads > 0,
            Focus::Writes => self.writes > 0,
        }
    }

    pub(crate) fn level(&self, axis: Axis) -> u32 {
        match axis {
            Axis::Prior => self.prior,
            Axis::Reads => self.reads,
            Axis::Writes => self.writes,
        }
    }
}

impl Axis {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prior => "prior entries",
            Self::Reads => "reads a second",
            Self::Writes => "writes a second",
        }
    }
}

impl Profile {
    pub(crate) fn contains(&self, cell: &Cell) -> bool {
        AXES.iter().all(|axis| self.range(*axis).contains(&cell.level(*axis)))
    }

    /// Whether a cell belongs to the profile, ignoring one axis.
    pub(crate) fn contains_except(&self, axis: Axis, cell: &Cell) -> bool {
        let others = AXES.iter().filter(|other| **other != axis);
        others.into_iter().all(|other| self.range(*other).contains(&cell.level(*other)))
    }

    pub(crate) fn range(&self, axis: Axis) -> &RangeInclusive<u32> {
        match axis {
            Axis::Prior => &self.prior,
            Axis::Reads => &self.reads,
            Axis::Writes => &self.writes,
        }
    }
}
