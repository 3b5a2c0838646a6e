//! The Solana dialect: the account record, the keys of its indexes, and its JSON; and
//! the links of Proof of History.
//!
//! Not here: blocks and transactions (`chain_solana`), execution (`localnet`), sockets (`http_server`).

mod account;
mod encode;
mod entry;
mod filter;
mod incremental;
pub mod key_kind;
mod lt_hash;
mod pack;
mod patch;
mod token;

pub use account::Account;
pub use encode::{Base58TooLong, Encoding, parsed_token};
pub use entry::Entry;
pub use filter::{FilterError, Filters};
pub use incremental::{AccountEncoder, LONG_BYTES_MIN};
pub use lt_hash::lt_hash;
pub use token::{MintInfo, TokenBalance, holding, is_native_mint, mint_of, supply};
