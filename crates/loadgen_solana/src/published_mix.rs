//! A mix of methods with a public source: the requests that an operator counted at its Solana nodes.
//!
//! No provider of Solana RPC publishes the shares of its methods (searched in November 2026; the presets of
//! <https://www.helius.dev/benchmarks> name methods without weights). These counts are of one service: replay a log
//! of your own requests if you have one.

/// Source of [`PUBLISHED_MIX`], for reports.
pub const PUBLISHED_MIX_SOURCE: &str = "\"Solana Requests Statistics\" of 2025-04-03 in \
     <https://github.com/neonlabsorg/neon-evm/pull/630>: the requests that the EVM service of Neon Labs sent to its \
     Solana node in one test run";

/// A method, and how often it was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedCount {
    /// Name of the JSON-RPC method.
    pub method: &'static str,
    /// Number of requests in the published run.
    pub requests: u32,
}

/// The methods of the published run, those with less than one request in a thousand left out.
pub const PUBLISHED_MIX: &[PublishedCount] = &[
    PublishedCount { method: "getAccountInfo", requests: 364_023 },
    PublishedCount { method: "getBlocks", requests: 123_467 },
    PublishedCount { method: "getTransaction", requests: 108_985 },
    PublishedCount { method: "getMultipleAccounts", requests: 66_641 },
    PublishedCount { method: "getBlock", requests: 61_188 },
    PublishedCount { method: "sendTransaction", requests: 53_483 },
    PublishedCount { method: "getLatestBlockhash", requests: 39_009 },
    PublishedCount { method: "getBalance", requests: 15_407 },
];
