//! The Solana dialect: what an account is, by which keys it is found, and how it looks as JSON.
//!
//! Not here: blocks and transactions (`chain`), execution (`localnet`), sockets (`rpc`).

mod account;
mod encode;
mod filter;
mod long;
mod pack;
mod token;

pub use account::{Account, facet};
pub use encode::{Base58TooLong, Encoding, parsed_token};
pub use filter::{FilterError, Filters};
pub use long::{LONG_BYTES_MIN, Rest};
pub use token::{MintFacts, TokenBalance, holding, is_native_mint, mint_of, supply};
