//! The status cache of the archive from which a chain is followed: transactions that are in no block of the history.
//!
//! Shape: the cache of the snapshot at first. Once the ledger has jumped to a newer archive, whose block is confirmed,
//! that archive's cache replaces it. It has the last 300 blocks up to the archive, so it covers the gap, and as much of
//! the time before as Agave knows at that block.
//! Bounds: those of one [`StatusCache`]. It is dropped once the root is so far above the archive that no blockhash of
//! these transactions is valid, and Agave no longer knows their status.
//! Trust: no hash covers it. It is the word of the one who made the archive.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use chain_solana::RECENT_BLOCKHASHES_MAX;
use ledger::Slot;
use metrics::{Collector, Exposition};
use snapshot_solana::StatusCache;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;

use crate::status::FollowStatus;

/// The results of transactions up to an archive.
pub struct SnapshotStatusCache {
    archived: ArcSwapOption<ArchivedStatuses>,
    status: Arc<FollowStatus>,
}

/// The status cache of the archive at a slot.
struct ArchivedStatuses {
    slot: Slot,
    cache: Arc<StatusCache>,
}

impl SnapshotStatusCache {
    /// Makes the cache of the snapshot at a slot.
    pub(crate) fn new(cache: Arc<StatusCache>, slot: Slot, status: Arc<FollowStatus>) -> Arc<Self> {
        let statuses = Self { archived: ArcSwapOption::empty(), status };
        statuses.replace(cache, slot);
        Arc::new(statuses)
    }

    /// Replaces the cache by that of an archive whose block is confirmed.
    pub(crate) fn replace(&self, cache: Arc<StatusCache>, slot: Slot) {
        if cache.left_out() > 0 {
            let left_out = cache.left_out();
            tracing::warn!(
                slot,
                left_out,
                "the archive's status cache is too long: some transactions are not known"
            );
        }
        self.archived.store(Some(Arc::new(ArchivedStatuses { slot, cache })));
    }

    /// Returns the cache, as long as it counts.
    fn cache(&self) -> Option<Arc<StatusCache>> {
        let current = self.archived.load();
        let archived = current.as_ref()?;
        if self.status.root() > archived.slot + RECENT_BLOCKHASHES_MAX as u64 {
            // The writer may have replaced it meanwhile.
            self.archived.compare_and_swap(&current, None);
            return None;
        }
        Some(Arc::clone(&archived.cache))
    }
}

impl chain_solana::PreSnapshotStatuses for SnapshotStatusCache {
    fn find(&self, signature: &Signature) -> Option<(Slot, Result<(), TransactionError>)> {
        let cache = self.cache()?;
        let (slot, result) = cache.find(signature.as_array())?;
        Some((slot, result.clone()))
    }
}

impl Collector for SnapshotStatusCache {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let bytes = self.cache().map_or(0, |cache| cache.bytes());
        vec![("follow_status_cache", bytes as u64)]
    }

    fn write(&self, _: &mut Exposition) {}
}
