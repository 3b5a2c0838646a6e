//! The address table: where an address becomes a 32-bit number, and a number an address again.
//!
//! Shape: [`AddressTable`] maps `Address` to dense [`ledger::AddressId`]s and back. An id lives while
//! somebody counts on it: a record, an index entry, a subscriber's [`AddressRef`].
//! Bounds: a capacity given up front; at it [`TableFull`] names the knob and nothing is registered.
//! Invariant: an id is given to another address only once no reader can hold it any more. Readers
//! hold an [`Epoch`]; a freed id waits until every epoch that knew it is dropped.
//! Invariant: look-ups take no lock. Registering and releasing take a short one.
//! Not here: what stands under an address (`state`), what is found by it (`index`), randomness (the
//! hash seed is given).
#![forbid(unsafe_code)]

mod arena;
mod epoch;
mod table;

pub use epoch::Epoch;
pub use table::{AddressRef, AddressTable, TableFull};
