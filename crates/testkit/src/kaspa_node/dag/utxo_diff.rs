//! The difference between two UTXO sets, composed by the rules of kaspad.
//!
//! An output that is removed and added cancels out only if both entries have the same DAA score. Otherwise the
//! outpoint is in both lists, and clients of a node see it twice.

use std::collections::BTreeMap;

use kaspa::{Outpoint, UtxoEntry};

/// Added and removed outputs. Removals are applied first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UtxoDiff {
    /// The outputs that only the second set has.
    pub added: BTreeMap<Outpoint, UtxoEntry>,
    /// The outputs that only the first set has.
    pub removed: BTreeMap<Outpoint, UtxoEntry>,
}

impl UtxoDiff {
    /// Adds an output.
    pub(crate) fn add(&mut self, outpoint: Outpoint, entry: UtxoEntry) {
        if !cancel(&mut self.removed, &outpoint, &entry) {
            let before = self.added.insert(outpoint, entry);
            assert_eq!(before, None, "{outpoint:?} is added twice");
        }
    }

    /// Removes an output.
    pub(crate) fn remove(&mut self, outpoint: Outpoint, entry: UtxoEntry) {
        if !cancel(&mut self.added, &outpoint, &entry) {
            let before = self.removed.insert(outpoint, entry);
            assert_eq!(before, None, "{outpoint:?} is removed twice");
        }
    }

    /// Appends another difference.
    pub(crate) fn append(&mut self, other: &Self) {
        for (outpoint, entry) in &other.removed {
            self.remove(*outpoint, entry.clone());
        }
        for (outpoint, entry) in &other.added {
            self.add(*outpoint, entry.clone());
        }
    }

    /// The difference in the other direction.
    pub(crate) fn to_reversed(&self) -> Self {
        Self { added: self.removed.clone(), removed: self.added.clone() }
    }
}

fn cancel(
    side: &mut BTreeMap<Outpoint, UtxoEntry>,
    outpoint: &Outpoint,
    entry: &UtxoEntry,
) -> bool {
    let is_same = |other: &UtxoEntry| other.block_daa_score == entry.block_daa_score;
    let is_there = side.get(outpoint).is_some_and(is_same);
    if is_there {
        side.remove(outpoint);
    }
    is_there
}
