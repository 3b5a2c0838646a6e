//! The words that every floor speaks: addresses, slots, blocks, commitments, records and changes.
//!
//! Shape: plain types, no logic beyond their own invariants.
//! Not here: anything of one chain. What a record holds and which keys it is found by is told by the
//! dialect that implements [`Record`] (Solana's is the crate `solana`).
#![forbid(unsafe_code)]

mod address;
mod block;
mod record;

pub use address::{ADDRESS_BYTES_MAX, Address, AddressError, AddressId};
pub use block::{BlockId, Commitment, Slot};
pub use record::{Change, Key, KeyKind, Record};
