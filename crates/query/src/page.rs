//! Long lists in pages: the records found by keys, in the order of their ids.
//!
//! An id stands for its address as long as the record has a version, so a record that is there while
//! all pages are read is on exactly one of them, whatever comes and goes meanwhile. One that is
//! closed and made again in between may be on two, or on none.
//! Bounds: a page ends at its limit of records, of their weight, or of records looked at.

use std::sync::Arc;

use ledger::{Address, AddressId, KeyKind, Record, Slot};
use state::VisibleVersion;

use crate::View;

/// Where a page begins: after this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Of which run of the ledger: another one gives other ids.
    instance: u64,
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

/// A page on its way.
#[derive(Debug)]
pub struct PageSearch<R> {
    page: Page<R>,
    limits: PageLimits,
    /// What is looked at next.
    next: Option<AddressId>,
    last: Option<AddressId>,
    last_found: Option<AddressId>,
    visits: usize,
    weight: usize,
}

impl<R> PageSearch<R> {
    /// How many records were looked at.
    pub fn visits(&self) -> usize {
        self.visits
    }

    /// The page, once there is no more to look at.
    pub fn into_page(self) -> Page<R> {
        self.page
    }
}

impl Cursor {
    /// How many bytes it has.
    pub const BYTES: usize = 12;

    /// For clients to keep.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.instance.to_be_bytes());
        bytes[8..].copy_from_slice(&self.after.0.to_be_bytes());
        bytes
    }

    /// From what a client kept.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, after @ ..] = bytes;
        let instance = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Self { instance, after: AddressId(u32::from_be_bytes(after)) }
    }
}

impl<R: Record, M> View<R, M> {
    /// A page of the records found by each of `keys`. `weigh` gives what a record weighs, or `None` if
    /// it is not wanted.
    ///
    /// Cost: O(records looked at), however far into the list the page is.
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

    /// A page that is looked for step by step.
    pub fn start_page(&self, limits: PageLimits) -> Result<PageSearch<R>, StaleCursor> {
        let run = self.published.instance;
        if limits.after.is_some_and(|cursor| cursor.instance != run) {
            return Err(StaleCursor);
        }
        let page = Page { records: Vec::new(), next: None };
        let next = limits.after.map_or(Some(0), |cursor| cursor.after.0.checked_add(1));
        let (next, last, last_found) = (next.map(AddressId), None, None);
        Ok(PageSearch { page, limits, next, last, last_found, visits: 0, weight: 0 })
    }

    /// Looks at the next `visits_max` records for a page that was begun on this view; whether there are more
    /// to look at.
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
        let (run, limits) = (self.published.instance, search.limits);
        let cursor = |after| Cursor { instance: run, after };
        let mut ids = self.candidates(keys.narrowest, first);
        let is_wanted = |version: &VisibleVersion<'_, R>| {
            keys.matches(version)
                && limits.changed_since.is_none_or(|since| version.slot() >= since)
        };
        for (id, version) in self.read_batched(ids.by_ref().take(visits_max), is_wanted) {
            if search.visits >= limits.visits_max {
                search.page.next = search.last.map(cursor);
                return false;
            }
            search.visits += 1;
            if let Some(version) = version
                && let Some(found) = self.resolve_record(id, &version)
                && let Some(weighs) = weigh(&found.1)
            {
                search.weight = search.weight.saturating_add(weighs);
                let records = &mut search.page.records;
                let is_full =
                    records.len() >= limits.records_max || search.weight > limits.weight_max;
                if is_full && !records.is_empty() {
                    // After what is on it, whatever was looked at since: that may change.
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

    const ROOT: BlockId = BlockId { slot: 0, bank: 0 };
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
    fn whatever_stays_is_on_one_page_while_others_come_and_go() -> Result<(), LedgerError> {
        let config = LedgerConfig::new(1_000);
        let (mut ledger, reader) = Ledger::new(config, ROOT, Arc::new(()));
        ledger.apply(ROOT, changes(0..100, true), Arc::new(()))?;
        ledger.publish();
        let mut limits = LIMITS;
        let mut found = Vec::new();
        for slot in 1.. {
            let view = reader.view(Commitment::Finalized);
            let page = view.page(&keys(), limits, |_| Some(1)).expect("the same run");
            found.extend(page.records.iter().map(|(address, _)| address.as_bytes()[0]));
            let Some(next) = page.next else { break };
            limits.after = Some(next);
            // The last of this page goes, and with it that by which the next one might be found.
            let block = |slot| BlockId { slot, bank: 0 };
            ledger.open(block(slot), block(slot - 1), Arc::new(()))?;
            let last = page.records.last().map(|(address, _)| address.as_bytes()[0]);
            let odd = (1..100).step_by(2).filter(|n| n % 8 == slot as u8 % 8);
            ledger.apply(block(slot), changes(last.into_iter().chain(odd), false), Arc::new(()))?;
            ledger.apply(block(slot), changes([100 + slot as u8], true), Arc::new(()))?;
            ledger.complete(block(slot), Arc::new(()))?;
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
    fn a_cursor_of_another_instance_is_refused() -> Result<(), LedgerError> {
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
