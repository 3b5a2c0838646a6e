//! The slots of the current states, and the state that a call reads by its parameters.
//!
//! Shape: small, and `Copy`. Not here: what a call requires of them (`state_requirement`).

use ledger::{Commitment, Slot};
use response_cache::LedgerVersions;

use crate::slot_headers::StateSlot;

/// The state that a call reads, by its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateRequest {
    /// The commitment of the state.
    pub commitment: Commitment,
    /// The slot that the state must have reached, if the parameters name one.
    pub min_slot: Option<Slot>,
}

/// The slots of the states that were current at one time. Results that are computed later are of these slots or newer
/// ones, except that the processed state may be of an older slot after a change of forks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StateSlots {
    processed: Slot,
    confirmed: Slot,
    finalized: Slot,
}

impl StateSlots {
    /// Reads the slots. Cost: three loads of the published version.
    pub(crate) fn read(ledger: &dyn LedgerVersions) -> Self {
        let slot = |commitment| ledger.version_and_slot(commitment).1;
        Self {
            processed: slot(Commitment::Processed),
            confirmed: slot(Commitment::Confirmed),
            finalized: slot(Commitment::Finalized),
        }
    }

    pub(crate) fn at(self, commitment: Commitment) -> Slot {
        match commitment {
            Commitment::Processed => self.processed,
            Commitment::Confirmed => self.confirmed,
            Commitment::Finalized => self.finalized,
        }
    }

    /// The slot of a response that was computed later, from a state of this commitment.
    pub(crate) fn state_slot(self, commitment: Commitment) -> StateSlot {
        StateSlot { slot: self.at(commitment), commitment }
    }
}
