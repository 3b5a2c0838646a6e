//! Routes in the shape of api.kaspa.org, over the methods of `rpc_kaspa`.
//!
//! In: requests, by the table that `rest` serves ([`rest::Rest`] of [`KaspaRest`]). Out: the values of the methods
//! `rest…`, and headers: the position of the state that a response was read from, the newest proven block, and the start of
//! the history.
//! Bounds: those of the methods ([`rpc_kaspa::rest_limits`]) and of `rest`.
//! Invariant: the position and the value of a response are from one version of the chain. Of the chain, this crate reads
//! only positions and the status; all other data comes from methods.
//! Not here: the number of an address's transactions, because the history does not have all of them; submission of
//! transactions, because the methods have no upstream.
#![forbid(unsafe_code)]

mod calls;
#[cfg(test)]
mod docs_test;
mod formats;
mod health;
mod kaspa_rest;
#[cfg(test)]
mod openapi_test;
mod position_headers;
mod routes;
mod schema;
mod transaction_lists;
mod utxo_page;
mod values;

pub use kaspa_rest::KaspaRest;
