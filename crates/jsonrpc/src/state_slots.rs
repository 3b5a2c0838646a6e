//! The slots of the current states, and the slot that a call requires of the state that it reads.
//!
//! Shape: small, and `Copy`. Not here: the wait for a required slot ([`crate::slot_waits`]).

use std::time::Duration;

use ledger::{Commitment, Slot};
use response_cache::LedgerVersions;

use crate::error::RpcError;
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

/// The slots that the calls of a body require, the highest of each commitment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequiredSlots([Option<Slot>; 3]);

impl RequiredSlots {
    pub(crate) fn add(&mut self, commitment: Commitment, slot: Slot) {
        let required = &mut self.0[commitment_index(commitment)];
        *required = Some(required.map_or(slot, |other| other.max(slot)));
    }

    /// The required slot of a commitment, if a call requires one.
    pub(crate) fn slot(&self, commitment: Commitment) -> Option<Slot> {
        self.0[commitment_index(commitment)]
    }
}

/// The slots that a call requires of the state that it reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateRequirement {
    pub(crate) commitment: Commitment,
    /// That of the parameters. The method checks it as well.
    by_params: Option<Slot>,
    /// That of the request's header, which no method knows.
    by_header: Option<Slot>,
}

impl StateRequirement {
    /// The requirement of a call that reads no state. Its response has the slot of the finalized state.
    pub(crate) fn none() -> Self {
        Self { commitment: Commitment::Finalized, by_params: None, by_header: None }
    }

    pub(crate) fn new(request: StateRequest, header: Option<Slot>) -> Self {
        let StateRequest { commitment, min_slot } = request;
        Self { commitment, by_params: min_slot, by_header: header }
    }

    /// Whether the current states have reached the required slots.
    pub(crate) fn is_reached(self, slots: StateSlots) -> bool {
        self.by_params.max(self.by_header).is_none_or(|slot| slots.at(self.commitment) >= slot)
    }

    pub(crate) fn add_to(self, required: &mut RequiredSlots) {
        if let Some(slot) = self.by_params.max(self.by_header) {
            required.add(self.commitment, slot);
        }
    }

    /// The error of a call whose state has not reached the slot of the header. `time_limit` is that of the wait.
    pub(crate) fn check_header(
        self,
        slots: StateSlots,
        time_limit: Duration,
    ) -> Result<(), RpcError> {
        let state = slots.state_slot(self.commitment);
        match self.by_header {
            Some(min_slot) if state.slot < min_slot => {
                Err(RpcError::min_slot_not_reached(state, min_slot, time_limit))
            }
            _ => Ok(()),
        }
    }
}

/// The position of a commitment in a list of all.
pub(crate) fn commitment_index(commitment: Commitment) -> usize {
    match commitment {
        Commitment::Processed => 0,
        Commitment::Confirmed => 1,
        Commitment::Finalized => 2,
    }
}
