//! Snapshots that a node serves.

use ledger::Slot;

/// The snapshots of a node.
pub trait Snapshots: Send + Sync {
    /// The slot of the newest full one; `None` if there is none.
    fn newest_slot(&self) -> Option<Slot>;
}
