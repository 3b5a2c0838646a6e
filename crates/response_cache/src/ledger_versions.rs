//! The cache's view of a ledger: its versions, and the changes between them.

use std::any::Any;
use std::sync::Arc;

use ledger::{Commitment, Slot};
use query::ChangeTracker;

/// A ledger with cached responses.
///
/// [`Any`], so that a condition of an API (`dependencies::Dependencies::with_precondition`) finds its own type.
pub trait LedgerVersions: Any + Send + Sync {
    /// Returns the version of the current view at a commitment, and its slot. Not the view itself, because a waiting
    /// call must not hold a state alive.
    fn version_and_slot(&self, commitment: Commitment) -> (u64, Slot);

    /// Returns the tracker of changes by version.
    fn change_tracker(&self) -> &Arc<ChangeTracker>;
}
