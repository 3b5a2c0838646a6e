//! The protocol of `bench` and `state-ledger`, two programs that include this file: the seed of every ledger,
//! how a ledger is served, and its addresses.
//!
//! Shape: both go over standard input and output as a line of JSON.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The seed of every ledger, in every run.
pub(crate) const SEED: u64 = 20_260_101;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) io_threads: usize,
    pub(crate) cpu_threads: usize,
    /// 0: no time slices, no round robin, no weights.
    pub(crate) slice_us: u64,
    /// The nice value of the CPU threads.
    pub(crate) nice: u8,
    /// The budget of calls that run where the socket is polled. 0: every read of an account goes to the pool.
    pub(crate) inline_bytes: usize,
    /// The size of the response cache.
    pub(crate) cache_bytes: u64,
}

/// The addresses of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Serving {
    pub(crate) rpc: SocketAddr,
    /// JSON-RPC without the response cache.
    pub(crate) uncached: SocketAddr,
    /// Responses of as many bytes as the path says, whatever the request.
    pub(crate) constant: SocketAddr,
}

/// The addresses of a server that reads accounts in tasks, by the pool that runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskServing {
    /// The CPU pool, with the threads of the binary.
    pub(crate) cpu_pool: SocketAddr,
    /// tokio's blocking pool, with the threads of Agave.
    pub(crate) spawn_blocking: SocketAddr,
}
