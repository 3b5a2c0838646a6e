//! Long lists in pages: the records found by keys, in the order of their ids.
//!
//! An id stands for its address as long as the record has a version, so a record that is there while
//! all pages are read is on exactly one of them, whatever comes and goes meanwhile. One that is
//! closed and made again in between may be on two, or on none.
//! Bounds: a page ends at its limit of records, of their weight, or of records looked at.

use std::sync::Arc;

use ledger::{Address, AddressId, Facet, Record, Slot};

use crate::View;

/// Where a page begins: after this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Of which run of the ledger: another one gives other ids.
    run: u64,
    after: AddressId,
}

/// A cursor of another ledger, or of an earlier run of this one. Fix: begin with the first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is of another run of the node, begin with the first page")]
pub struct StaleCursor;

/// Which page is wanted.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    /// What the page before this one gave as its next.
    pub after: Option<Cursor>,
    /// Only records that were written at this slot or later.
    pub changed_since: Option<Slot>,
    /// How many records there may be on it; at least 1.
    pub records_max: usize,
    /// How much they may weigh; a single one may weigh more.
    pub weight_max: usize,
    /// How many records may be looked at for it; at least 1.
    pub visits_max: usize,
}

/// A part of a list.
#[derive(Debug)]
pub struct Page<R> {
    /// The records, by id. May be none though more pages follow.
    pub records: Vec<(Address, Arc<R>)>,
    /// Where the next page begins; `None` if this is the last.
    pub next: Option<Cursor>,
}

impl Cursor {
    /// How many bytes it has.
    pub const BYTES: usize = 12;

    /// For clients to keep.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.run.to_be_bytes());
        bytes[8..].copy_from_slice(&self.after.0.to_be_bytes());
        bytes
    }

    /// From what a client kept.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, after @ ..] = bytes;
        let run = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Self { run, after: AddressId(u32::from_be_bytes(after)) }
    }
}

impl<R: Record, M> View<R, M> {
    /// A page of the records found by each of `keys`. `weigh` gives what a record weighs, or `None` if
    /// it is not wanted.
    ///
    /// Cost: O(records looked at), however far into the list the page is.
    pub fn page(
        &self,
        keys: &[(Facet, Address)],
        limits: PageLimits,
        weigh: impl Fn(&R) -> Option<usize>,
    ) -> Result<Page<R>, StaleCursor> {
        let run = self.published.run;
        if limits.after.is_some_and(|cursor| cursor.run != run) {
            return Err(StaleCursor);
        }
        let mut page = Page { records: Vec::new(), next: None };
        let first = limits.after.map_or(Some(0), |cursor| cursor.after.0.checked_add(1));
        let (Some(first), Some(keys)) = (first, self.keys(keys)) else { return Ok(page) };
        let mut last = None;
        let mut weight = 0_usize;
        let ids = self.published.index.records_from(keys.narrowest, AddressId(first));
        for (visits, id) in ids.enumerate() {
            if visits >= limits.visits_max {
                page.next = last.map(|after| Cursor { run, after });
                break;
            }
            if let Some((version, slot)) = self.found(id, &keys)
                && limits.changed_since.is_none_or(|since| slot >= since)
                && let Some(weighs) = version.record.as_deref().and_then(&weigh)
                && let Some(found) = self.answer(id, version)
            {
                weight = weight.saturating_add(weighs);
                let is_full =
                    page.records.len() >= limits.records_max || weight > limits.weight_max;
                if is_full && !page.records.is_empty() {
                    page.next = last.map(|after| Cursor { run, after });
                    break;
                }
                page.records.push(found);
            }
            last = Some(id);
        }
        Ok(page)
    }
}
