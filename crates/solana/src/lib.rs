//! The Solana dialect: what an account is, by which keys it is found, and how it looks as JSON.
//!
//! Not here: blocks and transactions (`chain`), execution (`localnet`), sockets (`rpc`).

mod account;

pub use account::{Account, facet};
