//! One published version of the ledger, which readers see as a whole.

use std::sync::Arc;

use address::{AddressTable, Epoch};
use imbl::OrdMap;
use index::Postings;
use ledger::Commitment;
use state::{Snapshot, StateMemory};

use crate::IndexConfig;
use crate::rank_index::{RankScope, TopRecords};

/// The states of all commitments in one published version.
pub(crate) struct Published<R, M> {
    pub(crate) processed: Snapshot<R, M>,
    pub(crate) confirmed: Snapshot<R, M>,
    pub(crate) finalized: Snapshot<R, M>,
    /// Contains all that this version needs as long as the epoch lives.
    pub(crate) postings: Arc<Postings>,
    /// Configuration that says which keys have entries in `postings`.
    pub(crate) indices: Arc<IndexConfig>,
    pub(crate) tops: OrdMap<RankScope, TopRecords>,
    pub(crate) state_memory: StateMemory,
    /// Identifies the ledger among all ledgers: ids have no meaning in another one.
    pub(crate) instance: u64,
    /// Number of publishes up to this one.
    pub(crate) version: u64,
    pub(crate) addresses: Arc<AddressTable>,
    /// Prevents the reuse of every id that is known here, and the removal of every posting.
    pub(crate) _epoch: Epoch,
}

impl<R, M> Published<R, M> {
    /// Returns the state at a commitment.
    pub(crate) fn snapshot(&self, commitment: Commitment) -> &Snapshot<R, M> {
        match commitment {
            Commitment::Processed => &self.processed,
            Commitment::Confirmed => &self.confirmed,
            Commitment::Finalized => &self.finalized,
        }
    }
}
