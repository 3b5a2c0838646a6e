//! What one publish shows to readers, as a whole.

use std::sync::Arc;

use address::{AddressTable, Epoch};
use imbl::OrdMap;
use index::Postings;
use state::{Snapshot, StateMemory};

use crate::IndexConfig;
use crate::rank_index::{RankScope, TopRecords};

/// One published version.
pub(crate) struct Published<R, M> {
    pub(crate) processed: Snapshot<R, M>,
    pub(crate) confirmed: Snapshot<R, M>,
    pub(crate) finalized: Snapshot<R, M>,
    /// Contains all that this version needs as long as the epoch lives.
    pub(crate) postings: Arc<Postings>,
    /// For which keys `postings` has entries.
    pub(crate) indices: Arc<IndexConfig>,
    pub(crate) tops: OrdMap<RankScope, TopRecords>,
    pub(crate) state_memory: StateMemory,
    /// Identifies the ledger among all: ids have no meaning beyond it.
    pub(crate) instance: u64,
    /// Number of publishes.
    pub(crate) version: u64,
    pub(crate) addresses: Arc<AddressTable>,
    /// Keeps every id that is known here from being reused for another address, and every posting.
    pub(crate) _epoch: Epoch,
}
