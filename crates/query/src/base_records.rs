//! Records that are older than the block that first wrote them in this ledger, because it takes them over from
//! elsewhere while it runs.
//!
//! A view reads one where it has no record of its own. Shape: [`crate::Reader::with_base`].
//! Not here: lists and scans, which have the records of the view's own block.

use std::sync::Arc;

use ledger::{Address, Slot};

/// Records that were valid before the ledger wrote them.
pub trait BaseRecords<R>: Send + Sync {
    /// Returns the record of an address that a view does not have, if it was written after that view: in a later
    /// block than that of `slot`, or with a later publish than `version`. It takes no lock that the ledger's writer
    /// takes.
    fn record(&self, address: &Address, slot: Slot, version: u64) -> Option<Arc<R>>;
}
