//! Long lists in pages: the records found by keys, in the order of their ids.
//!
//! An id identifies its address as long as the record has a version. So a record that exists while
//! all pages are read is on exactly one of them, whatever is added and removed meanwhile. A record that is
//! closed and created again in between may be on two pages, or on none.
//! Bounds: a page ends at its limit of records, of their weight, or of visited records.

use std::sync::Arc;

use ledger::{Address, AddressId, KeyKind, Record, Slot};
use state::VisibleVersion;

use crate::View;

/// The position of a page: after this record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The ledger's instance: another one has other ids.
    instance: u64,
    after: AddressId,
}

/// A cursor of another node, or of an earlier run of this one. Fix: start with the first page, or ask that node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this page cursor was made by another node, or by an earlier run of this one; start with the first page"
)]
pub struct StaleCursor;

/// The position and the limits of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    /// [`Page::next`] of the previous page.
    pub after: Option<Cursor>,
    /// Only records that were written at this slot or later.
    pub changed_since: Option<Slot>,
    /// Maximum records on the page; at least 1.
    pub records_max: usize,
    /// Maximum weight of the records; a single one may weigh more.
    pub weight_max: usize,
    /// Maximum records that are visited; at least 1.
    pub visits_max: usize,
}

/// One page of a list of records.
#[derive(Debug)]
pub struct Page<R> {
    /// The records, by id. May be empty though more pages follow.
    pub records: Vec<(Address, Arc<R>)>,
    /// The cursor of the next page; `None` if this is the last.
    pub next: Option<Cursor>,
}

/// A page that is being searched.
#[derive(Debug)]
pub struct PageSearch<R> {
    page: Page<R>,
    limits: PageLimits,
    /// The next id to visit, if there may be more.
    next: Option<AddressId>,
    last: Option<AddressId>,
    last_found: Option<AddressId>,
    visits: usize,
    weight: usize,
}

impl<R> PageSearch<R> {
    /// Returns the number of visited records.
    pub fn visits(&self) -> usize {
        self.visits
    }

    /// Returns the page, once the search has finished.
    pub fn into_page(self) -> Page<R> {
        self.page
    }
}

impl Cursor {
    /// Length of a cursor in bytes.
    pub const BYTES: usize = 12;

    /// Returns the bytes that a client stores.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.instance.to_be_bytes());
        bytes[8..].copy_from_slice(&self.after.0.to_be_bytes());
        bytes
    }

    /// Creates the cursor from the bytes that a client stored.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, after @ ..] = bytes;
        let instance = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Self { instance, after: AddressId(u32::from_be_bytes(after)) }
    }
}

impl<R: Record, M> View<R, M> {
    /// Returns a page of the records that have all of `keys`. `weigh` returns the weight of a record, or `None` to
    /// skip it.
    ///
    /// Cost: O(visited records), however far into the list the page is.
    pub fn page(
        &self,
        keys: &[(KeyKind, Address)],
        limits: PageLimits,
        weigh: impl Fn(&R) -> Option<usize>,
    ) -> Result<Page<R>, StaleCursor> {
        let mut search = self.start_page(limits)?;
        while self.continue_page(&mut search, keys, usize::MAX, &weigh) {}
        Ok(search.page)
    }

    /// Starts to search a page, which [`Self::continue_page`] does in parts.
    pub fn start_page(&self, limits: PageLimits) -> Result<PageSearch<R>, StaleCursor> {
        let instance = self.published.instance;
        if limits.after.is_some_and(|cursor| cursor.instance != instance) {
            return Err(StaleCursor);
        }
        let page = Page { records: Vec::new(), next: None };
        let next = limits.after.map_or(Some(0), |cursor| cursor.after.0.checked_add(1));
        let next = next.map(AddressId);
        let last = None;
        let last_found = None;
        Ok(PageSearch { page, limits, next, last, last_found, visits: 0, weight: 0 })
    }

    /// Visits the next `visits_max` records for a page that was started on this view. Returns whether there are more
    /// to visit.
    pub fn continue_page(
        &self,
        search: &mut PageSearch<R>,
        keys: &[(KeyKind, Address)],
        visits_max: usize,
        weigh: impl Fn(&R) -> Option<usize>,
    ) -> bool {
        let (Some(first), Some(keys)) = (search.next.take(), self.resolve_keys(keys)) else {
            return false;
        };
        let instance = self.published.instance;
        let limits = search.limits;
        let cursor = |after| Cursor { instance, after };
        let mut ids = self.candidates(keys.narrowest, first);
        let is_match = |version: &VisibleVersion<'_, R>| {
            keys.matches(version)
                && limits.changed_since.is_none_or(|since| version.slot() >= since)
        };
        for (id, version) in self.read_batched(ids.by_ref().take(visits_max), is_match) {
            if search.visits >= limits.visits_max {
                search.page.next = search.last.map(cursor);
                return false;
            }
            search.visits += 1;
            if let Some(version) = version
                && let Some(found) = self.resolve_record(id, &version)
                && let Some(record_weight) = weigh(&found.1)
            {
                search.weight = search.weight.saturating_add(record_weight);
                let records = &mut search.page.records;
                let is_full =
                    records.len() >= limits.records_max || search.weight > limits.weight_max;
                if is_full && !records.is_empty() {
                    // The cursor is the last record on the page, not the last visited one: that may change.
                    search.page.next = search.last_found.map(cursor);
                    return false;
                }
                records.push(found);
                search.last_found = Some(id);
            }
            search.last = Some(id);
        }
        search.next = ids.next();
        search.next.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ledger::{BlockId, Change, Commitment};

    use super::*;
    use crate::{Ledger, LedgerConfig, LedgerError};

    const ROOT: BlockId = BlockId { slot: 0, version: 0 };
    const OWNER: KeyKind = KeyKind(0);
    const LIMITS: PageLimits = PageLimits {
        after: None,
        changed_since: None,
        records_max: 10,
        weight_max: 1_000,
        visits_max: 1_000,
    };

    struct Owned;

    impl Record for Owned {
        fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
            key(OWNER, address(255));
        }
    }

    fn address(n: u8) -> Address {
        Address::from([n; 32])
    }

    fn changes(of: impl IntoIterator<Item = u8>, is_there: bool) -> Vec<Change<Owned>> {
        let record = || is_there.then(|| Arc::new(Owned));
        of.into_iter().map(|n| Change { address: address(n), record: record() }).collect()
    }

    fn keys() -> [(KeyKind, Address); 1] {
        [(OWNER, address(255))]
    }

    #[test]
    fn a_record_that_stays_is_on_one_page_while_others_come_and_go() -> Result<(), LedgerError> {
        let config = LedgerConfig::new(1_000);
        let (mut ledger, reader) = Ledger::new(config, ROOT, Arc::new(()));
        ledger.apply(ROOT, changes(0..100, true), Arc::new(()))?;
        ledger.publish();
        let mut limits = LIMITS;
        let mut found = Vec::new();
        for slot in 1.. {
            let view = reader.view(Commitment::Finalized);
            let page = view.page(&keys(), limits, |_| Some(1)).expect("the same instance");
            found.extend(page.records.iter().map(|(address, _)| address.as_bytes()[0]));
            let Some(next) = page.next else { break };
            limits.after = Some(next);
            // The last record of this page is removed, and the next page must be found without it.
            let block = |slot| BlockId { slot, version: 0 };
            ledger.open(block(slot), block(slot - 1), Arc::new(()))?;
            let last = page.records.last().map(|(address, _)| address.as_bytes()[0]);
            let odd = (1..100).step_by(2).filter(|n| n % 8 == slot as u8 % 8);
            ledger.apply(block(slot), changes(last.into_iter().chain(odd), false), Arc::new(()))?;
            ledger.apply(block(slot), changes([100 + slot as u8], true), Arc::new(()))?;
            ledger.complete(block(slot), Arc::new(()))?;
            ledger.confirm(block(slot))?;
            ledger.finalize(block(slot))?;
            ledger.publish();
        }
        let once: BTreeSet<u8> = found.iter().copied().collect();
        assert_eq!(once.len(), found.len(), "each once");
        let view = reader.view(Commitment::Finalized);
        let all = view.all().map(|(address, _)| address.as_bytes()[0]);
        let stayed: Vec<u8> = all.filter(|n| *n < 100).collect();
        assert!(stayed.len() > 40);
        assert!(stayed.iter().all(|n| once.contains(n)), "{found:?}");
        Ok(())
    }

    #[test]
    fn a_cursor_from_another_instance_is_refused() -> Result<(), LedgerError> {
        let first_page = |after| -> Result<Option<Cursor>, LedgerError> {
            let config = LedgerConfig::new(1_000);
            let (mut ledger, reader) = Ledger::new(config, ROOT, Arc::new(()));
            ledger.apply(ROOT, changes(0..100, true), Arc::new(()))?;
            ledger.publish();
            let view = reader.view(Commitment::Finalized);
            let limits = PageLimits { after, ..LIMITS };
            let page = view.page(&keys(), limits, |_| Some(1));
            assert_eq!(page.is_err(), after.is_some());
            Ok(page.ok().and_then(|page| page.next))
        };
        let cursor = first_page(None)?;
        assert!(cursor.is_some());
        assert_eq!(first_page(cursor)?, None);
        Ok(())
    }
}
