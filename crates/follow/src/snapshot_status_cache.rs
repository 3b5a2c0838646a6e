//! The status cache of the snapshot from which a chain is followed: transactions that were executed before.
//!
//! Bounds: those of [`StatusCache`]. It is dropped once the root is so far above the snapshot that no blockhash of
//! these transactions is valid, and Agave no longer knows their status.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use chain_solana::RECENT_BLOCKHASHES_MAX;
use ledger::Slot;
use metrics::{Collector, Exposition};
use snapshot_solana::StatusCache;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;

use crate::status::FollowStatus;

/// The results of transactions before a snapshot.
pub struct SnapshotStatusCache {
    cache: ArcSwapOption<StatusCache>,
    snapshot: Slot,
    status: Arc<FollowStatus>,
}

impl SnapshotStatusCache {
    /// Makes the cache of the snapshot at slot `snapshot`.
    pub(crate) fn new(
        cache: Arc<StatusCache>,
        snapshot: Slot,
        status: Arc<FollowStatus>,
    ) -> Arc<Self> {
        if cache.left_out() > 0 {
            let left_out = cache.left_out();
            tracing::warn!(
                left_out,
                "the snapshot's status cache is too long: some transactions are not known"
            );
        }
        Arc::new(Self { cache: ArcSwapOption::new(Some(cache)), snapshot, status })
    }

    /// The cache, as long as it counts.
    fn cache(&self) -> Option<Arc<StatusCache>> {
        if self.status.root() > self.snapshot + RECENT_BLOCKHASHES_MAX as u64 {
            self.cache.store(None);
        }
        self.cache.load_full()
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
