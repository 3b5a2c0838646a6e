//! The archives of its state that a node serves as a source of snapshots.

use ledger::Slot;

/// The snapshots that a node serves.
pub trait Snapshots: Send + Sync {
    /// Returns the slot of the newest full snapshot; `None` if there is none.
    fn newest_slot(&self) -> Option<Slot>;
}
