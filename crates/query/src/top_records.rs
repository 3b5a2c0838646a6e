//! Reading the highest-ranked records of a block.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use ledger::{Address, AddressId, KeyKind, Record};
use state::VisibleVersion;

use crate::View;
use crate::rank_index::{RankEntry, RankScope, TopRecords, version_rank};

/// A record with its rank and its address.
#[derive(Debug)]
pub struct RankedRecord<R> {
    /// The rank, as the record defines it.
    pub rank: u64,
    /// The address that has the record.
    pub address: Address,
    /// The record, as this block sees it.
    pub record: Arc<R>,
}

impl<R: Record, M> View<R, M> {
    /// Returns the highest-ranked records, at most `limit`, that pass `filter`: of all records, or of
    /// those under a key. The highest first; of equal ranks the higher address first.
    ///
    /// Cost: a few visits for each result, as long as most pass. A set of few records, or one whose
    /// highest were just removed, is read completely.
    pub fn highest(
        &self,
        key: Option<(KeyKind, &Address)>,
        limit: usize,
        filter: impl Fn(&Address, &R) -> bool,
    ) -> Vec<RankedRecord<R>> {
        let scope = match key {
            None => RankScope::All,
            Some((kind, key)) => match self.resolve_key(kind, key) {
                None => return Vec::new(),
                Some(key) => RankScope::Key(key),
            },
        };
        let known = self.published.tops.get(&scope);
        let found = known.and_then(|top| self.walk(top, scope, limit, &filter));
        found.unwrap_or_else(|| self.read_all(scope, limit, &filter))
    }

    /// Returns the highest of the entries; `None` if they do not suffice.
    fn walk(
        &self,
        top: &TopRecords,
        scope: RankScope,
        limit: usize,
        filter: &impl Fn(&Address, &R) -> bool,
    ) -> Option<Vec<RankedRecord<R>>> {
        let mut found: Vec<RankedRecord<R>> = Vec::with_capacity(limit + 1);
        let mut last = None;
        // All entries that are equal in rank and head are needed: the whole address orders them.
        let is_over = |found: usize, last: Option<(u64, u64)>, next: &RankEntry| {
            found >= limit && last.is_none_or(|last| (next.rank, next.head) < last)
        };
        for entry in top.descending() {
            if is_over(found.len(), last, entry) {
                return Some(in_order(found, limit));
            }
            let Some(ranked) = self.find_ranked(scope, *entry) else { continue };
            if filter(&ranked.address, &ranked.record) {
                found.push(ranked);
                last = Some((entry.rank, entry.head));
            }
        }
        let suffices = top.floor().is_none_or(|floor| is_over(found.len(), last, &floor));
        suffices.then(|| in_order(found, limit))
    }

    /// Returns the record of an entry, if this block sees it there.
    fn find_ranked(&self, scope: RankScope, entry: RankEntry) -> Option<RankedRecord<R>> {
        let version = self.snapshot().version(entry.id)?;
        if version_rank(&version, scope, self.address_resolver()) != Some(entry.rank) {
            return None;
        }
        let (address, record) = self.resolve_record(entry.id, &version)?;
        Some(RankedRecord { rank: entry.rank, address, record })
    }

    fn read_all(
        &self,
        scope: RankScope,
        limit: usize,
        filter: &impl Fn(&Address, &R) -> bool,
    ) -> Vec<RankedRecord<R>> {
        let mut heap = BinaryHeap::with_capacity(limit + 1);
        let mut offer = |id: AddressId, version: VisibleVersion<'_, R>| {
            let Some(rank) = version_rank(&version, scope, self.address_resolver()) else { return };
            let is_too_low = |lowest: &Reverse<(u64, Address)>| rank < lowest.0.0;
            if heap.len() >= limit && heap.peek().is_none_or(is_too_low) {
                return;
            }
            let Some((address, record)) = self.resolve_record(id, &version) else { return };
            if filter(&address, &record) {
                heap.push(Reverse((rank, address)));
                if heap.len() > limit {
                    heap.pop();
                }
            }
        };
        let snapshot = self.snapshot();
        match scope {
            RankScope::All => snapshot.versions().for_each(|(id, version)| offer(id, version)),
            RankScope::Key(key) => {
                let ids = self.candidates(self.entries(key), AddressId(0));
                let versions = ids.filter_map(|id| Some((id, snapshot.version(id)?)));
                versions.for_each(|(id, version)| offer(id, version));
            }
        }
        let best = heap.into_sorted_vec().into_iter();
        best.filter_map(|Reverse((rank, address))| {
            Some(RankedRecord { rank, record: self.record(&address)?, address })
        })
        .collect()
    }
}

fn in_order<R>(mut found: Vec<RankedRecord<R>>, limit: usize) -> Vec<RankedRecord<R>> {
    found.sort_unstable_by_key(|ranked| Reverse((ranked.rank, ranked.address)));
    found.truncate(limit);
    found
}

#[cfg(test)]
mod tests {
    use ledger::{BlockId, Change, Commitment};

    use super::*;
    use crate::{Ledger, LedgerConfig, LedgerError, RankBounds, Reader};

    const ROOT: BlockId = BlockId { slot: 0, version: 0 };
    const OWNER: KeyKind = KeyKind(0);

    #[derive(Debug)]
    struct Purse(u64);

    impl Record for Purse {
        fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
            key(OWNER, owner());
        }

        fn global_rank(&self) -> Option<u64> {
            Some(self.0)
        }

        fn rank_in(&self, _: KeyKind) -> Option<u64> {
            Some(self.0)
        }
    }

    fn owner() -> Address {
        Address::from([255; 32])
    }

    /// Addresses that differ in their last bytes only.
    fn address(n: u16) -> Address {
        let mut bytes = [7; 32];
        bytes[30..].copy_from_slice(&n.to_be_bytes());
        Address::from(bytes)
    }

    fn purse(n: u16, amount: u64) -> Change<Purse> {
        let record = (amount > 0).then(|| Arc::new(Purse(amount)));
        Change { address: address(n), record }
    }

    fn ledger() -> (Ledger<Purse, ()>, Reader<Purse, ()>) {
        let bounds = RankBounds { scanned_max: 16, entries_max: 32, refill_batch_len: 8 };
        let config = LedgerConfig::new(10_000);
        let (ledger, reader) = Ledger::new(config, ROOT, Arc::new(()));
        (ledger.with_rank_bounds(bounds), reader)
    }

    /// Returns the three highest, of all and of the owner, which must be the same.
    fn highest(reader: &Reader<Purse, ()>) -> Vec<(u64, Address)> {
        let view = reader.view(Commitment::Processed);
        let read = |key| -> Vec<(u64, Address)> {
            let found = view.highest(key, 3, |_, _| true);
            found.iter().map(|ranked| (ranked.rank, ranked.address)).collect()
        };
        let all = read(None);
        assert_eq!(read(Some((OWNER, &owner()))), all);
        all
    }

    #[test]
    fn equal_ranks_are_ordered_by_higher_address() -> Result<(), LedgerError> {
        let (mut ledger, reader) = ledger();
        let changes = (0..100).map(|n| purse((n * 37) % 100, 5)).collect();
        ledger.apply(ROOT, changes, Arc::new(()))?;
        ledger.publish();
        assert_eq!(highest(&reader), [99, 98, 97].map(|n| (5, address(n))));
        Ok(())
    }

    #[test]
    fn rank_entries_are_bounded_and_refilled_when_they_run_out() -> Result<(), LedgerError> {
        let (mut ledger, reader) = ledger();
        let changes = (1..1_000).map(|n| purse(n, n.into())).collect();
        ledger.apply(ROOT, changes, Arc::new(()))?;
        ledger.publish();
        assert!(ledger.ranked_len() <= 32 * 3, "{}", ledger.ranked_len());
        let mut slot = 0;
        for top in (4..1_000_u16).rev() {
            let block = |slot| BlockId { slot, version: 0 };
            ledger.open(block(slot + 1), block(slot), Arc::new(()))?;
            slot += 1;
            ledger.apply(block(slot), vec![purse(top, 0)], Arc::new(()))?;
            ledger.complete(block(slot), Arc::new(()))?;
            ledger.confirm(block(slot))?;
            ledger.finalize(block(slot))?;
            ledger.publish();
            let expected = [top - 1, top - 2, top - 3].map(|n| (n.into(), address(n)));
            assert_eq!(highest(&reader), expected);
        }
        assert!(ledger.ranked_len() <= 3, "one order of three, and nothing for a key of few");
        Ok(())
    }
}
