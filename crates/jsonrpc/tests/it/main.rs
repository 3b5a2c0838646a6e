//! The serving layer with a ledger that is not Solana's.

mod api_keys;
mod broken_streams;
mod examples;
mod pubsub;
mod toy_api;
