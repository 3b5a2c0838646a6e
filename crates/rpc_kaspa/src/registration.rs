//! Reads and registers the addresses of a call that subscribes, in steps of some tens of microseconds.
//!
//! Bounds: `subscriptions::Limits`. A list that is longer than any set may be is refused while it is read. The last part of
//! the address table is left to the chain, whose writer ends if a block has no room.

use kaspa::{KaspaAddress, ServerError};
use subscriptions::{AddressSet, SubscribeError};

use crate::address_cursor::AddressCursor;
use crate::call::Call;

/// Addresses that a step reads and registers.
const STEP_ADDRESSES: usize = 512;
/// A set of up to this many addresses is subscribed to in one step, and shared with clients that have the same. A larger
/// one is added to an empty set in steps.
pub(crate) const ONE_STEP_ADDRESSES_MAX: usize = 2_048;

/// The addresses that were registered so far, and the position of the next one.
pub(crate) struct Registration {
    cursor: AddressCursor,
    pub(crate) set: AddressSet,
}

impl Registration {
    /// Starts to read the addresses of a call.
    ///
    /// Errors: its parameters have another shape.
    pub(crate) fn start(call: &Call) -> Result<Self, ServerError> {
        let cursor = AddressCursor::find(&call.request)?;
        Ok(Self { cursor, set: AddressSet::empty(call.server.chain.utxos.addresses()) })
    }

    /// Reads the next addresses. The list is empty once all have been read.
    ///
    /// Errors: an element is not an address.
    pub(crate) fn read(&mut self, call: &Call) -> Result<Vec<KaspaAddress>, ServerError> {
        self.cursor.read(&call.request, STEP_ADDRESSES)
    }

    /// Registers addresses.
    ///
    /// Errors: those of the limits.
    pub(crate) fn add(
        &mut self,
        call: &Call,
        addresses: &[KaspaAddress],
    ) -> Result<(), SubscribeError> {
        self.check_limits(call)?;
        let scripts = addresses.iter().map(|address| address.payload.ledger_address());
        Ok(self.set.add(scripts)?)
    }

    /// Checks that more addresses may be registered. The limits of all sets together are checked later.
    fn check_limits(&self, call: &Call) -> Result<(), SubscribeError> {
        let limits = &call.server.config().limits;
        let addresses = self.set.len();
        if addresses > limits.addresses_max {
            let limit = limits.addresses_max;
            return Err(SubscribeError::AddressesFull { added: addresses, limit });
        }
        if addresses > limits.addresses_per_listener_max {
            let limit = limits.addresses_per_listener_max;
            return Err(SubscribeError::ListenerAddressesFull { addresses, limit });
        }
        Ok(())
    }
}
