//! The Kaspa dialect: addresses, scripts, UTXOs and their records, headers and transactions with their hashes.
//!
//! Kaspa's own crates depend on a library under the LGPL, so everything is written by hand here.
//! Not here: the selected chain and the virtual state (`chain_kaspa`), sockets (`websocket`).
#![forbid(unsafe_code)]

mod address;
mod genesis;
mod hash;
mod header;
mod hex;
mod network;
mod record;
mod script;
mod transaction;
mod utxo;
mod varint;

pub use address::{AddressError, AddressPayload, KaspaAddress};
pub use hash::Hash;
pub use header::{BlueWork, Header, InvalidParents, ParentLevels, Parents};
pub use hex::HexError;
pub use network::{Network, Ports, Prefix, UnknownNetwork};
pub use record::{
    INSIDE_MAX, KaspaRecord, Location, OverflowUtxo, PACKED_BYTES_MAX, SCRIPT_KEY, ScriptRecord,
    StoredUtxo, Totals, TotalsError,
};
pub use script::ScriptPublicKey;
pub use transaction::{
    CovenantBinding, SubnetworkId, Transaction, TransactionInput, TransactionOutput,
};
pub use utxo::{Outpoint, UtxoEntry};
