//! The serving layer with a ledger that is not Solana's.

mod api_keys;
mod broken_streams;
mod draining;
mod examples;
mod page_access;
mod pubsub;
mod toy_api;
mod toy_binary;
