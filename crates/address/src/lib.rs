//! The address table: where an address becomes a 32-bit number, and a number an address again.
//!
//! Shape: [`AddressTable`] maps `Address` to dense [`ledger::AddressId`]s and back. An id lives while
//! somebody counts on it: a record, an index entry, a subscriber's [`AddressRef`].
//! Bounds: a capacity given up front; at it [`TableFull`] names the knob and nothing is registered.
//! Invariant: an id is given to another address only once no reader can hold it any more. Readers
//! hold an [`Epoch`]; a freed id waits until every epoch that knew it is dropped.
//! Invariant: look-ups take no lock. Registering and releasing take a short one.
//! Memory: 32 bytes for the address, 4 for who counts on it, 5.3 to 6.7 in the table, which holds
//! ids alone and grows by fifths, in small shards that are cut in two as they grow. Nothing is ever laid out twice at once but one
//! shard of a few KiB.
//! Not here: what stands under an address (`state`), what is found by it (`index`), randomness (the
//! hash seed is given).
#![forbid(unsafe_code)]

mod arena;
mod epoch;
mod hash;
mod hash_shard;
mod refcount;
mod retired;
mod sync;
mod table;

pub use epoch::Epoch;
pub use table::{AddressRef, AddressTable, TableFull};
