//! Reading which records of a block rank highest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use ledger::{Address, AddressId, KeyKind, Record};
use state::VisibleVersion;

use crate::View;
use crate::rank_index::{RankEntry, RankScope, TopRecords, rank_of};

/// A record and its rank.
#[derive(Debug)]
pub struct RankedRecord<R> {
    /// As the record says.
    pub rank: u64,
    /// Whose it is.
    pub address: Address,
    /// What stands there.
    pub record: Arc<R>,
}

impl<R: Record, M> View<R, M> {
    /// The highest-ranked records, at most `limit`, of those that `keep` lets pass: of all, or of
    /// those found by a key. The highest first; of equal ranks the higher address first.
    ///
    /// Cost: a few for each that is found, as long as most pass. A set of few records, or one whose
    /// highest were just taken away, is read whole.
    pub fn highest(
        &self,
        key: Option<(KeyKind, &Address)>,
        limit: usize,
        keep: impl Fn(&Address, &R) -> bool,
    ) -> Vec<RankedRecord<R>> {
        let among = match key {
            None => RankScope::All,
            Some((facet, key)) => match self.resolve_key(facet, key) {
                None => return Vec::new(),
                Some(key) => RankScope::Key(key),
            },
        };
        let known = self.published.tops.get(&among);
        let found = known.and_then(|top| self.walk(top, among, limit, &keep));
        found.unwrap_or_else(|| self.read_all(among, limit, &keep))
    }

    /// The highest of the places that are kept; `None` if those are too few to say.
    fn walk(
        &self,
        top: &TopRecords,
        among: RankScope,
        limit: usize,
        keep: &impl Fn(&Address, &R) -> bool,
    ) -> Option<Vec<RankedRecord<R>>> {
        let mut found: Vec<RankedRecord<R>> = Vec::with_capacity(limit + 1);
        let mut last = None;
        // Above places that begin alike all are needed: the whole address is what orders them.
        let is_over = |found: usize, last: Option<(u64, u64)>, next: &RankEntry| {
            found >= limit && last.is_none_or(|last| (next.rank, next.head) < last)
        };
        for place in top.descending() {
            if is_over(found.len(), last, place) {
                return Some(in_order(found, limit));
            }
            let Some(ranked) = self.ranked(among, *place) else { continue };
            if keep(&ranked.address, &ranked.record) {
                found.push(ranked);
                last = Some((place.rank, place.head));
            }
        }
        let suffices = top.floor().is_none_or(|floor| is_over(found.len(), last, &floor));
        suffices.then(|| in_order(found, limit))
    }

    /// The record at a place, if this block sees it there.
    fn ranked(&self, among: RankScope, place: RankEntry) -> Option<RankedRecord<R>> {
        let version = self.snapshot().version(place.id)?;
        if rank_of(&version, among, self.address_resolver()) != Some(place.rank) {
            return None;
        }
        let (address, record) = self.resolve_record(place.id, &version)?;
        Some(RankedRecord { rank: place.rank, address, record })
    }

    fn read_all(
        &self,
        among: RankScope,
        limit: usize,
        keep: &impl Fn(&Address, &R) -> bool,
    ) -> Vec<RankedRecord<R>> {
        let mut kept = BinaryHeap::with_capacity(limit + 1);
        let mut offer = |id: AddressId, version: VisibleVersion<'_, R>| {
            let Some(rank) = rank_of(&version, among, self.address_resolver()) else { return };
            let is_too_low = |lowest: &Reverse<(u64, Address)>| rank < lowest.0.0;
            if kept.len() >= limit && kept.peek().is_none_or(is_too_low) {
                return;
            }
            let Some((address, record)) = self.resolve_record(id, &version) else { return };
            if keep(&address, &record) {
                kept.push(Reverse((rank, address)));
                if kept.len() > limit {
                    kept.pop();
                }
            }
        };
        let snapshot = self.snapshot();
        match among {
            RankScope::All => snapshot.versions().for_each(|(id, version)| offer(id, version)),
            RankScope::Key(key) => {
                let ids = self.candidates(self.entries(key), AddressId(0));
                let versions = ids.filter_map(|id| Some((id, snapshot.version(id)?)));
                versions.for_each(|(id, version)| offer(id, version));
            }
        }
        let best = kept.into_sorted_vec().into_iter();
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

    const ROOT: BlockId = BlockId { slot: 0, bank: 0 };
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

    /// The three highest, of all and of the owner, which must be the same.
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
    fn of_equal_ranks_the_higher_address_is_first() -> Result<(), LedgerError> {
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
            let block = |slot| BlockId { slot, bank: 0 };
            ledger.open(block(slot + 1), block(slot), Arc::new(()))?;
            slot += 1;
            ledger.apply(block(slot), vec![purse(top, 0)], Arc::new(()))?;
            ledger.complete(block(slot), Arc::new(()))?;
            ledger.finalize(block(slot))?;
            ledger.publish();
            let expected = [top - 1, top - 2, top - 3].map(|n| (n.into(), address(n)));
            assert_eq!(highest(&reader), expected);
        }
        assert!(ledger.ranked_len() <= 3, "one order of three, and nothing for a key of few");
        Ok(())
    }
}
