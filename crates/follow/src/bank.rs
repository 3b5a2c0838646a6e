//! Parts of a writer that writes the banks of another producer: of this crate's writer, and of a replica's (`replica`).
//!
//! Shape: [`PreparedBank`] writes the accounts of a bank into a block that no tip leads to, and sums their changes.
//! [`ClusterTracker`] follows stakes, leaders and features from bank to bank. [`ArchiveChanges`] compares a complete
//! state with a ledger, for a jump. [`LandedVotes`] reads the votes of a bank for subscribers. [`StateAt`] is the state
//! after a block, and [`send_events`] sends the events of a publication.
//! Not here: which banks come when, and what makes them visible.

pub use crate::archive_changes::{AccountAfter, ArchiveChanges, TooManyChanges};
pub use crate::cluster::ClusterCounters;
pub use crate::cluster_tracker::ClusterTracker;
pub use crate::event_sinks::send_events;
pub use crate::free_thread::FreeThread;
pub use crate::prepared_bank::{Hashing, PreparedBank};
pub use crate::state_at::StateAt;
pub use crate::votes::LandedVotes;
