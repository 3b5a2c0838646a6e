//! The serving layer with a ledger that is not Solana's.

mod broken_streams;
mod examples;
mod toy_api;
