//! JSON-RPC over HTTP and PubSub over WebSocket, as Agave 4.2 serves them.
//!
//! In: bytes of clients. Out: responses, each read from one view of [`chain_solana::Reader`] and history, and
//! transactions for [`chain_solana::TransactionSender`].
//! Invariant: a thread that polls sockets spends at most microseconds on a method. Longer calls run on
//! [`cpu_pool::Pool`]. If the pool is full, the client gets an error at once.
//! Not here: state and index (`query`), execution (`localnet`), configuration files (`hydrant`).

mod bundles;
mod cheatcodes;
pub mod commitment;
mod config;
mod custom_error;
mod fast_config;
pub mod fuzzing;
mod ledger_metrics;
mod memory_usage;
mod methods;
pub mod pubsub;
mod rejecting_ledger;
mod solana_api;
mod solana_api_builder;
mod stored_transaction;

pub use bundles::Bundles;
pub use cheatcodes::{Cheatcodes, is_cheatcode};
pub use config::{Config, ConfigError};
pub use memory_usage::NodeMemory;
pub use methods::{api_version, required_index_keys, tip_accounts};
pub use solana_api::{SolanaApi, SolanaServer};
pub use solana_api_builder::SolanaApiBuilder;
