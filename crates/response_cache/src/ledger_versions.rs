//! What the cache must know of a ledger: its views by version, and what has changed between them.

use std::any::Any;
use std::sync::Arc;

use ledger::{Commitment, Slot};
use query::ChangeTracker;

/// A ledger whose responses are cached.
///
/// [`Any`], so that a condition of an API (`dependencies::Dependencies::with_precondition`) finds its own type.
pub trait LedgerVersions: Any + Send + Sync {
    /// The version of the current view at a commitment, and its slot. Not the view itself, because a waiting call must
    /// not keep a state alive.
    fn version_and_slot(&self, commitment: Commitment) -> (u64, Slot);

    /// What has changed since which version.
    fn change_tracker(&self) -> &Arc<ChangeTracker>;
}
