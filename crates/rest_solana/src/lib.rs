//! Solana's methods over REST: the table of routes with their schemas, and clients that wait for the status of
//! transactions.
//!
//! In: requests, by the table that `rest` serves ([`rest::Rest`]), and the events of the ledger ([`WaiterEvents`]).
//! Out: calls of the methods of `rpc_solana`.
//! Bounds: those of the methods and of `rest`; of waiting clients, those of `status_waiters`.
//! Invariant: this crate reads only examples from the node. All other data comes from methods of `rpc_solana`.
#![forbid(unsafe_code)]

mod calls;
#[cfg(test)]
mod docs_test;
mod examples;
#[cfg(test)]
mod explorer_test;
mod formats;
#[cfg(test)]
mod openapi_test;
mod responses;
mod routes;
mod schema;
mod signature_page;
mod solana_rest;
mod status_waiters;
mod transaction_status;

pub use solana_rest::SolanaRest;
pub use status_waiters::WaiterEvents;
