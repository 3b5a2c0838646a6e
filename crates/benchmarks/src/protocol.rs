//! What `bench` and `state-ledger` agree on, two programs that include this file: the seed of every ledger,
//! how one is served, and where it then answers.
//!
//! Shape: both go over standard input and output as a line of JSON.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Of every ledger, in every run.
pub(crate) const SEED: u64 = 20_260_101;

/// How a ledger is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) io_threads: usize,
    pub(crate) cpu_threads: usize,
    /// 0: no slices, no turns, no weights.
    pub(crate) slice_us: u64,
    /// By how much the CPU threads stand behind.
    pub(crate) nice: u8,
    /// What is answered where the socket is polled; 0: everything that reads an account goes to the pool.
    pub(crate) inline_bytes: usize,
    /// Of the cache of answers.
    pub(crate) cache_bytes: u64,
}

/// Where it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Serving {
    pub(crate) rpc: SocketAddr,
    /// The same without the cache of answers.
    pub(crate) uncached: SocketAddr,
    /// As many bytes as the path says, whatever is asked.
    pub(crate) constant: SocketAddr,
}
