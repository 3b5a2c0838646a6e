//! Publishes the state, the tips and the indices to readers, at once.
//!
//! Invariant: a reader that has the state before keeps it; nothing of it is freed while it is in use.
//! Not here: the wake-up of readers (`publish_wakers`), the changes since a version (`change_tracker`).

use std::sync::Arc;

use ledger::Record;
use state::Snapshot;

use super::Ledger;
use crate::published::Published;
use crate::rank_index::IndexedRecords;

/// The state that readers saw before a publish. Dropping it frees the data that nothing else shares.
pub struct Retired<R, M> {
    _published: Arc<Published<R, M>>,
}

impl<R: Record, M: Send + Sync + 'static> Ledger<R, M> {
    /// Publishes everything since the last publish to readers, at once. The tips must be on one chain: the finalized
    /// one is confirmed or an ancestor of the confirmed tip, and so is that tip for the processed one.
    ///
    /// Cost: each page that is written afterwards is copied once. State that no reader needs is
    /// freed here, with the index entries that were retained for it.
    pub fn publish(&mut self) {
        drop(self.publish_first());
        self.reclaim();
    }

    /// Publishes as [`Self::publish`] does, without freeing anything: the caller drops the result, and calls
    /// [`Self::reclaim`], when it has time. Until then the state before is in memory, too.
    pub fn publish_first(&mut self) -> Retired<R, M> {
        self.seal_root();
        let records = IndexedRecords { state: &self.state, index: &self.index };
        self.ranks.refill(&self.addresses, records, 0);
        let snapshot = |block| self.state.snapshot(block).expect("tips are the root or above it");
        assert!(
            self.state.is_on_chain(self.confirmed, self.processed),
            "the confirmed block {:?} is not on the chain of the processed tip {:?}",
            self.confirmed,
            self.processed
        );
        assert!(
            self.state.is_on_chain(self.finalized, self.confirmed),
            "the finalized block {:?} is not on the chain of the confirmed tip {:?}",
            self.finalized,
            self.confirmed
        );
        let tips = [self.processed, self.confirmed, self.finalized];
        let [processed, confirmed, finalized] = tips.map(snapshot);
        let before = self.published.load();
        let is_new =
            |before: &Snapshot<R, M>, now: &Snapshot<R, M>| !Arc::ptr_eq(before.meta(), now.meta());
        let has_new_facts = [
            is_new(&before.processed, &processed),
            is_new(&before.confirmed, &confirmed),
            is_new(&before.finalized, &finalized),
        ];
        drop(before);
        let version = self.block_writes.publish(tips, has_new_facts);
        let published = Published {
            processed,
            confirmed,
            finalized,
            version,
            postings: Arc::clone(self.index.postings()),
            indices: Arc::clone(&self.indices),
            tops: self.ranks.tops().clone(),
            instance: self.instance,
            state_memory: self.state.bytes(),
            addresses: Arc::clone(&self.addresses),
            _epoch: self.addresses.epoch(),
        };
        let retired = self.published.swap(Arc::new(published));
        self.block_writes.change_tracker().publish_wakers().wake_all();
        self.block_writes.retain_blocks(|block| self.state.contains_block(block));
        Retired { _published: retired }
    }

    /// Frees some of the index entries that no reader needs.
    pub fn reclaim(&mut self) {
        self.index.reclaim_some(self.addresses.oldest_pinned_epoch());
    }

    /// Closes the root to changes if it still accepts them.
    pub(super) fn seal_root(&mut self) {
        if self.root_is_open {
            self.root_is_open = false;
            // The changes that fill the root are not tracked one by one.
            self.block_writes.mark_all();
            // The root exists and only the writer completes it. If it was completed before, there is nothing to do.
            let _ = self.state.complete(self.state.root());
            let records = IndexedRecords { state: &self.state, index: &self.index };
            self.ranks.refill_all(&self.addresses, records);
        }
    }
}
