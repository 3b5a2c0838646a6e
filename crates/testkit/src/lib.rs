//! Shared by the tests of several crates: seeded random events, a fork injector, and a plain model of a forked
//! ledger; a synthetic Solana ledger of mainnet's shape; and snapshot archives, written and read in the plainest
//! way.
//!
//! Shape: a [`ForkInjector`] chooses events. A [`ForkHarness`] applies them to a real `query::Ledger` and to a
//! [`Model`] of plain maps, and compares the two.
//! Bounds: the run's length and the injector's limits. The same seed gives the same events.
//! A producer of whole blocks, for a node under forks, is in [`forked_chain`] (feature `forked-chain`).
//! A ledger that a test writes block by block is in [`test_ledger`], one with accounts of each kind in
//! [`sample_ledger`], and a service that records transactions in [`fake_transaction_service`] (feature `test-ledger`).
//! The real server on such a ledger is in [`solana_node`], and a client that sends any bytes in [`raw_http_client`]
//! (feature `solana-node`). Waiting for a value is in [`eventually`] (feature `eventually`).
//! What a test's cluster is, unless it says otherwise, is in [`cluster_info`] (feature `cluster-info`).
//! A node as a child process is in [`node`], calls and funded accounts on it in [`json_rpc_client`] and [`transfers`],
//! and clients around it in [`scenario`] (feature `scenario`).
//! Sources of Geyser updates that do what a test says are in [`geyser_source`], and in bytes in [`raw_geyser_source`];
//! an upstream's archives are in [`archive_server`] (feature `geyser`).
//! A model of kaspad, which a Kaspa ledger follows in tests, is in [`kaspa_node`] (feature `kaspa-node`). One without
//! sockets, blocks over large UTXO sets, and a chain that a test writes block by block are in [`kaspa_chain`] (feature
//! `kaspa-chain`). Recorded messages of a kaspad are in [`kaspa_golden`] (feature `kaspa-golden`, a part of either).
//! The UTXOs of a client of `addressesSubscribe` are in [`kaspa_utxo_copy`] (feature `kaspa-utxo-copy`).
//! A ledger of another kind, which the serving layer serves in tests, is in [`toy_api`] (feature `toy-api`). Checks of
//! the OpenAPI document of each REST API are in [`openapi`] (feature `openapi`). Reading a streamed result is in
//! [`streamed_result`] (feature `streamed-result`). Settings of WebSocket sessions are in [`session_config`] (feature
//! `session-config`).
//! A TCP proxy that holds, slows and cuts each direction is in [`tcp_proxy`] (feature `tcp-proxy`). Real nats-servers are
//! in [`nats_servers`] (feature `nats-servers`).
//! Not here: real clients' flows (`clients/`), the ledger that executes (`localnet`).
#![forbid(unsafe_code)]

pub mod archive;
#[cfg(feature = "geyser")]
pub mod archive_server;
#[cfg(feature = "scenario")]
pub mod child_process;
pub mod clock;
#[cfg(feature = "cluster-info")]
pub mod cluster_info;
#[cfg(feature = "eventually")]
pub mod eventually;
#[cfg(feature = "test-ledger")]
pub mod fake_transaction_service;
mod fork_harness;
mod fork_injector;
#[cfg(feature = "forked-chain")]
pub mod forked_chain;
#[cfg(feature = "geyser")]
pub mod geyser_source;
#[cfg(feature = "scenario")]
pub mod json_rpc_client;
#[cfg(feature = "kaspa-chain")]
pub mod kaspa_chain;
#[cfg(feature = "kaspa-golden")]
pub mod kaspa_golden;
#[cfg(feature = "kaspa-node")]
pub mod kaspa_node;
#[cfg(feature = "kaspa-utxo-copy")]
pub mod kaspa_utxo_copy;
mod model;
#[cfg(feature = "nats-servers")]
pub mod nats_servers;
#[cfg(feature = "scenario")]
pub mod node;
#[cfg(feature = "openapi")]
pub mod openapi;
#[cfg(feature = "geyser")]
pub mod raw_geyser_source;
#[cfg(feature = "solana-node")]
pub mod raw_http_client;
#[cfg(feature = "test-ledger")]
pub mod sample_ledger;
#[cfg(feature = "scenario")]
pub mod scenario;
#[cfg(feature = "session-config")]
pub mod session_config;
#[cfg(feature = "solana-node")]
pub mod solana_node;
#[cfg(feature = "streamed-result")]
pub mod streamed_result;
pub mod synthetic;
#[cfg(feature = "tcp-proxy")]
pub mod tcp_proxy;
#[cfg(feature = "test-ledger")]
pub mod test_ledger;
mod test_record;
#[cfg(feature = "toy-api")]
pub mod toy_api;
#[cfg(feature = "scenario")]
pub mod transfers;
pub mod zipf;

pub use fork_harness::{ForkHarness, PinnedView};
pub use fork_injector::{ForkEvent, ForkInjector};
pub use model::{Model, ModelBlock};
pub use test_record::{TestRecord, TestRecordGenerator};
