//! The fork of another cluster: its accounts, which a local ledger takes over when a request needs them.
//!
//! In: [`chain_solana::AccountsRequest`]s from any thread. Out: accounts that the ledger has written
//! ([`chain_solana::ControlCommand::Adopt`]), or the knowledge that an account does not exist.
//! Shape: [`ConnectedFork::start`]. A call is refused or queued at once (`fetch_queue`). Tasks on one thread (`worker`) look into the
//! cache on disk (`cache`), ask the upstream (`upstream`), make the accounts fit the local ledger (`localize`) and hand
//! them to the ledger. What is known is in `registry`.
//! Invariant: no reader and not the ledger's thread waits for the network.
//! Invariant: an address is fetched once. From then on the local ledger alone says what it has, also that it was closed.
//! Invariant: a failure is an error for the client. An account is absent only if the upstream said so.
//! Bounds: [`Config`]; the files have those of their parts.
//! Not here: which accounts a method needs (`rpc_solana`), writes (`localnet`).
#![forbid(unsafe_code)]

mod cache;
mod config;
mod counters;
mod error;
mod fetch_queue;
mod fork;
mod forked_sender;
mod localize;
mod metrics;
mod needs;
mod registry;
mod response;
mod start;
mod upstream;
mod worker;

pub use config::Config;
pub use error::UpstreamForkError;
pub use fork::{ConnectedFork, UpstreamFork};
pub use forked_sender::ForkedSender;
pub use start::StartError;
