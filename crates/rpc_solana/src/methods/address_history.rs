//! Positions of the transactions of some addresses, merged, in either order, between two bounds.
//!
//! In: the sorted lists of a history snapshot. Out: each position once.
//! Not here: the transactions at these positions (`transactions_for_address`).

use std::collections::BinaryHeap;
use std::ops::Range;

use chain_solana::{HistorySnapshot, TransactionPosition};
use ledger::{Commitment, Slot};
use serde::Deserialize;
use solana_pubkey::Pubkey;

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum SortOrder {
    Asc,
    #[default]
    Desc,
}

/// Bounds of a value. It must satisfy all that are present.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Comparison<T> {
    eq: Option<T>,
    gt: Option<T>,
    gte: Option<T>,
    lt: Option<T>,
    lte: Option<T>,
}

impl<T> Comparison<T> {
    pub(super) fn has_upper_bound(&self) -> bool {
        self.lt.is_some() || self.lte.is_some()
    }

    pub(super) fn has_lower_bound(&self) -> bool {
        self.gt.is_some() || self.gte.is_some()
    }

    /// Narrows a range of positions. `at` returns the first position of a value, `after` the first one behind the
    /// value.
    pub(super) fn narrow<E>(
        &self,
        range: &mut Range<TransactionPosition>,
        at: impl Fn(&T) -> Result<TransactionPosition, E>,
        after: impl Fn(&T) -> Result<TransactionPosition, E>,
    ) -> Result<(), E> {
        for value in self.gte.iter().chain(&self.eq) {
            range.start = range.start.max(at(value)?);
        }
        for value in self.lte.iter().chain(&self.eq) {
            range.end = range.end.min(after(value)?);
        }
        if let Some(value) = &self.gt {
            range.start = range.start.max(after(value)?);
        }
        if let Some(value) = &self.lt {
            range.end = range.end.min(at(value)?);
        }
        Ok(())
    }
}

/// Returns the first position of a slot.
pub(super) fn slot_start(slot: Slot) -> TransactionPosition {
    TransactionPosition { slot, index: 0 }
}

/// Returns the position after another one.
pub(super) fn next_position(position: TransactionPosition) -> TransactionPosition {
    match position.index.checked_add(1) {
        Some(index) => TransactionPosition { index, ..position },
        None => slot_start(position.slot.saturating_add(1)),
    }
}

/// Finds the first position whose block has this time or a later one. Times never decrease from block to block.
pub(super) fn first_at_or_after(history: &HistorySnapshot, time: i64) -> TransactionPosition {
    let oldest = history.first_slot().unwrap_or_default();
    let newest = history.newest_slot(Commitment::Processed);
    let mut low = oldest;
    let mut high = newest.saturating_add(1);
    while low < high {
        let middle = low + (high - low) / 2;
        let block = history.blocks(middle..high, Commitment::Processed).next();
        match block.filter(|block| block.block_time < time) {
            Some(earlier) => low = earlier.id.slot.saturating_add(1),
            None => high = middle,
        }
    }
    slot_start(low)
}

/// Merges the positions of the transactions that have one of `addresses`, in a range and an order.
pub(super) fn merge_positions<'a>(
    history: &'a HistorySnapshot,
    addresses: impl IntoIterator<Item = &'a Pubkey>,
    range: &Range<TransactionPosition>,
    order: SortOrder,
) -> impl Iterator<Item = TransactionPosition> {
    let lists =
        addresses.into_iter().filter_map(|address| list_positions(history, address, range, order));
    let mut lists: Vec<_> = lists.collect();
    let heads = lists.iter_mut().enumerate();
    let heads = heads.filter_map(|(list, rest)| Some((rest.next()?, list)));
    let mut heads: BinaryHeap<(Rank, usize)> =
        heads.map(|(position, list)| (Rank::new(order, position), list)).collect();
    let mut last = None;
    std::iter::from_fn(move || {
        loop {
            let (rank, list) = heads.pop()?;
            if let Some(next) = lists[list].next() {
                heads.push((Rank::new(order, next), list));
            }
            if last.replace(rank) != Some(rank) {
                return Some(rank.position(order));
            }
        }
    })
}

/// Returns the positions of one address in a range and an order.
fn list_positions<'a>(
    history: &'a HistorySnapshot,
    address: &Pubkey,
    range: &Range<TransactionPosition>,
    order: SortOrder,
) -> Option<Box<dyn Iterator<Item = TransactionPosition> + 'a>> {
    let entries = history.signatures_for_address(address)?;
    let at = |bound| entries.binary_search(bound).unwrap_or_else(|insert_at| insert_at);
    let start = at(&range.start);
    let end = at(&range.end);
    if start >= end {
        return None;
    }
    let found = entries.focus().narrow(start..end).into_iter().copied();
    Some(match order {
        SortOrder::Asc => Box::new(found),
        SortOrder::Desc => Box::new(found.rev()),
    })
}

/// Sort key of a position in an order: the position with the greater rank comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    slot: Slot,
    index: u32,
}

impl Rank {
    fn new(order: SortOrder, position: TransactionPosition) -> Self {
        let TransactionPosition { slot, index } = position;
        match order {
            SortOrder::Asc => Self { slot: !slot, index: !index },
            SortOrder::Desc => Self { slot, index },
        }
    }

    fn position(self, order: SortOrder) -> TransactionPosition {
        let Self { slot, index } = self;
        match order {
            SortOrder::Asc => TransactionPosition { slot: !slot, index: !index },
            SortOrder::Desc => TransactionPosition { slot, index },
        }
    }
}
