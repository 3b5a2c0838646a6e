//! The vocabulary of all crates: addresses, slots, blocks, commitments, records and changes.
//!
//! Shape: plain types, no logic beyond their own invariants, and the numbers of packed records.
//! Not here: anything specific to one chain. The chain's implementation of [`Record`] (Solana's is the crate
//! `solana`) defines what a record holds and by which keys it is found.
#![forbid(unsafe_code)]

mod address;
mod block;
mod record;
mod stored_record;
mod varint;

pub use address::{ADDRESS_BYTES_MAX, Address, AddressError, AddressId};
pub use block::{BlockId, Commitment, Slot};
pub use record::{Change, Key, KeyKind, Record};
pub use stored_record::StoredRecord;
pub use varint::{put_varint, take_varint};
