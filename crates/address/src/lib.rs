//! The address table: maps addresses to 32-bit numbers, and numbers back to addresses.
//!
//! Shape: [`AddressTable`] maps `Address` to dense [`ledger::AddressId`]s and back. An id lives while
//! it is referenced: by a record, an index entry, or a subscriber's [`AddressRef`].
//! Bounds: a fixed capacity. A full table returns [`TableFull`], which names the setting, and registers nothing.
//! Invariant: an id is reused for another address only when no reader can still have it. Readers
//! hold an [`Epoch`]; a freed id waits until every epoch that knew it is dropped.
//! Invariant: lookups take no lock. Registering and releasing take a short one.
//! Memory: 32 bytes for the address, 1 for its reference count, 6.4 to 7.7 in the hash table. The hash table holds
//! only ids and two bytes of their hashes, and grows by fifths, in small shards that are split as they grow. At most one
//! shard of a few KiB exists twice at a time.
//! Not here: the record of an address (`state`), the records found by it (`index`), randomness (the
//! caller passes the hash seed).
#![forbid(unsafe_code)]

mod arena;
mod epoch;
mod hash;
mod hash_shard;
mod recycling;
mod refcount;
mod retired;
mod sync;
mod table;

pub use epoch::Epoch;
pub use table::{AddressRef, AddressTable, TableFull};
