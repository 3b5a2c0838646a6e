//! The settings of a fork.

use std::path::PathBuf;

use solana_hash::Hash;

/// The settings of a fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The URL of the upstream's JSON-RPC.
    pub url: String,
    /// The genesis hash that the upstream must have.
    pub genesis: Option<Hash>,
    /// The newest slot at which an account may be read.
    pub slot: Option<u64>,
    /// The directory of the cache on disk. `None`: there is none.
    pub cache_dir: Option<PathBuf>,
    /// Bytes of the accounts that the ledger takes over, and bytes of the cache on disk.
    pub bytes_max: u64,
    /// Requests at the upstream at once. Each may occupy three times the largest response.
    pub requests_max: usize,
    /// Rate of upstream calls for each client, per second. The burst is ten seconds' worth.
    pub client_calls_per_s: u32,
    /// How long a client waits for the upstream, in milliseconds.
    pub timeout_ms: u64,
}

impl Config {
    /// Default of [`Self::bytes_max`]: 1 GiB.
    pub const BYTES_MAX_DEFAULT: u64 = 1 << 30;
    /// Default of [`Self::requests_max`].
    pub const REQUESTS_MAX_DEFAULT: usize = 4;
    /// Default of [`Self::client_calls_per_s`].
    pub const CLIENT_CALLS_PER_S_DEFAULT: u32 = 100;
    /// Default of [`Self::timeout_ms`]: shorter than the deadline of a light task (`pool.light.deadline_ms`).
    pub const TIMEOUT_MS_DEFAULT: u64 = 8_000;

    /// A fork of the cluster at `url`, with the defaults.
    pub fn new(url: String) -> Self {
        Self {
            url,
            genesis: None,
            slot: None,
            cache_dir: None,
            bytes_max: Self::BYTES_MAX_DEFAULT,
            requests_max: Self::REQUESTS_MAX_DEFAULT,
            client_calls_per_s: Self::CLIENT_CALLS_PER_S_DEFAULT,
            timeout_ms: Self::TIMEOUT_MS_DEFAULT,
        }
    }
}
