//! The Solana dialect: what an account is, by which keys it is found, and how it looks as JSON.
//!
//! Not here: blocks and transactions (`chain`), execution (`localnet`), sockets (`rpc`).

mod account;
mod encode;
mod filter;
mod incremental;
mod pack;
mod token;

pub use account::{Account, key_kind};
pub use encode::{Base58TooLong, Encoding, parsed_token};
pub use filter::{FilterError, Filters};
pub use incremental::{AccountEncoder, LONG_BYTES_MIN};
pub use token::{MintInfo, TokenBalance, holding, is_native_mint, mint_of, supply};
