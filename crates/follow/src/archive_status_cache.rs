//! The status cache of the archive from which a chain is followed: transactions that are in no block of the history.
//!
//! Shape: the cache of the snapshot at first. Once the ledger has jumped to a newer archive, whose block is confirmed,
//! that archive's cache replaces it. It has the last 300 blocks up to the archive, so it covers the gap and the earlier
//! blocks that Agave itself still knows at that block.
//! Bounds: those of one [`StatusCache`], and of another one while an archive's block is not confirmed. It is dropped
//! once the root is so far above the archive that no blockhash of these transactions is valid, and Agave no longer
//! knows their status.
//! Trust: no bank hash covers it, so it is only as trustworthy as the archive's source.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use chain_solana::RECENT_BLOCKHASHES_MAX;
use ledger::Slot;
use metrics::{Collector, Exposition};
use snapshot_solana::StatusCache;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;

use crate::status::FollowStatus;

/// The results of transactions up to an archive.
pub struct ArchiveStatusCache {
    archived: ArcSwapOption<ArchivedStatuses>,
    /// Bytes of the status cache of an archive whose block is not confirmed, which the writer holds.
    unproven_bytes: AtomicUsize,
    status: Arc<FollowStatus>,
}

/// The status cache of the archive at a slot.
struct ArchivedStatuses {
    slot: Slot,
    cache: Arc<StatusCache>,
}

impl ArchiveStatusCache {
    /// Makes the cache of the snapshot at a slot.
    pub(crate) fn new(cache: Arc<StatusCache>, slot: Slot, status: Arc<FollowStatus>) -> Arc<Self> {
        let archived = ArcSwapOption::empty();
        let statuses = Self { archived, unproven_bytes: AtomicUsize::new(0), status };
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
        self.set_unproven_bytes(0);
    }

    /// Sets the bytes of the status cache of an archive whose block is not confirmed, or 0 if no archive waits.
    pub(crate) fn set_unproven_bytes(&self, bytes: usize) {
        self.unproven_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the cache, as long as it counts.
    fn cache(&self) -> Option<Arc<StatusCache>> {
        loop {
            let current = self.archived.load();
            let archived = current.as_ref()?;
            if self.status.root() <= archived.slot + RECENT_BLOCKHASHES_MAX as u64 {
                return Some(Arc::clone(&archived.cache));
            }
            let previous = self.archived.compare_and_swap(&current, None);
            if previous.as_ref().is_some_and(|previous| Arc::ptr_eq(previous, archived)) {
                return None;
            }
            // The writer has replaced it meanwhile.
        }
    }
}

impl chain_solana::PreSnapshotStatuses for ArchiveStatusCache {
    fn find(&self, signature: &Signature) -> Option<(Slot, Result<(), TransactionError>)> {
        let cache = self.cache()?;
        let (slot, result) = cache.find(signature.as_array())?;
        Some((slot, result.clone()))
    }
}

impl Collector for ArchiveStatusCache {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let bytes = self.cache().map_or(0, |cache| cache.bytes());
        let unproven_bytes = self.unproven_bytes.load(Ordering::Relaxed);
        vec![("follow_status_cache", (bytes + unproven_bytes) as u64)]
    }

    fn write(&self, _: &mut Exposition) {}
}
