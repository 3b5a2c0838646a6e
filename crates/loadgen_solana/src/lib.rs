//! Load for Solana's methods: suites for `loadgen`, with parameters from the endpoint's own data.
//!
//! In: an endpoint that speaks Solana's JSON-RPC, or a REST API such as Hydrant's over it. Out: the bytes of
//! requests for a `loadgen::Stream`, and the classifiers of their responses.
//! Shape: [`Inputs`] are discovered once, or read from a file. A [`Suite`], a [`RestSuite`] or [`scan_requests`] creates requests from
//! them, and checks some of the responses before anything is measured.
//! Bounds: those of [`DiscoveryConfig`].
//! Not here: how load is generated, counted and reported (`loadgen`). Methods and addresses are text: no Solana crate
//! is needed.
#![forbid(unsafe_code)]

mod addresses;
mod classify;
mod discovery;
mod error;
mod inputs_file;
mod published_mix;
mod rest_suites;
mod scans;
mod suites;

pub use classify::json_rpc;
pub use discovery::{DiscoveryConfig, InputKinds, Inputs};
pub use error::SuiteError;
pub use inputs_file::InputsFileError;
pub use published_mix::{PUBLISHED_MIX, PUBLISHED_MIX_SOURCE, PublishedCount};
pub use rest_suites::RestSuite;
pub use scans::scan_requests;
pub use suites::Suite;
