//! The slot that a call requires of the state that it reads: by its parameters, and by a header of its request.
//!
//! Shape: small, and `Copy`. Not here: the wait for the slot ([`crate::slot_waits`]).

use ledger::{Commitment, Slot};

use crate::error::RpcError;
use crate::slot_waits::{RequiredSlots, SlotWaits};
use crate::state_slots::{StateRequest, StateSlots};

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

    /// The error of a call whose state has not reached the slot of the header.
    pub(crate) fn check_header(self, slots: StateSlots, waits: &SlotWaits) -> Result<(), RpcError> {
        let state = slots.state_slot(self.commitment);
        match self.by_header {
            Some(min_slot) if state.slot < min_slot => {
                Err(RpcError::min_slot_not_reached(state, min_slot, waits.time_limit()))
            }
            _ => Ok(()),
        }
    }
}
