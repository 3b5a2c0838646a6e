//! The flags of `hydrant bench`.
//!
//! Not here: their limits (`limits`).

use std::path::PathBuf;

use clap::Args;

/// The flags of `hydrant bench`.
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchFlags {
    /// The endpoint: http:// or https://, host, optional port, optional path.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8899")]
    pub(crate) url: String,
    /// With https: PEM file with the server's certificate or that of its issuer [default: the
    /// certificates that this machine trusts].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// A file with the API key that each request sends [default: none].
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Suites to measure [default: every suite of JSON-RPC for which the endpoint has inputs].
    ///
    /// account-info, block, blocks, first-available-block, multiple-accounts, slot, supply,
    /// token-accounts-by-delegate, token-accounts-by-owner, token-supply, transaction,
    /// transaction-parsed, version, program-accounts; mix: all of them by weight; scans: the requests of
    /// --scans alone; rest: every read-only route of REST; rest-NAME: one of them, such as rest-account.
    /// rest-account-unchanged and rest-mint-holders-unchanged send If-None-Match with the current ETag
    /// and expect 304.
    #[arg(long, value_name = "SUITE", num_args = 1..)]
    pub(crate) suite: Vec<String>,
    /// Requests per second at equal intervals, independent of responses (open loop), from 0.001 to
    /// 1,000,000 [default: each connection sends its next request after a response (closed loop)].
    #[arg(long, value_name = "COUNT")]
    pub(crate) rate: Option<f64>,
    /// Connections, at most 65,535 [default: 16, and 64 with --rate or --replay].
    #[arg(long, value_name = "COUNT")]
    pub(crate) connections: Option<usize>,
    /// Threads that generate the load, at most 256.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Seconds of each run, from 0.001 to 1,000,000.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) duration: f64,
    /// Seconds before each run that are not counted, at most 1,000,000.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) warm_up: f64,
    /// Number of runs, at most 100; the median and the spread are reported.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub(crate) runs: usize,
    /// Seconds after which a request times out, from 0.001 to 1,000,000.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) timeout: f64,
    /// Clients that scan in a closed loop at the same time, at most 65,535: getProgramAccounts for all
    /// accounts of --program or of the token program, each time with another dataSlice, so that no cache
    /// has the response.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) scans: usize,
    /// An account, mint or owner to request [default: discovered from the node]. Can be repeated.
    #[arg(long, value_name = "PUBKEY", num_args = 1..)]
    pub(crate) address: Vec<String>,
    /// The program for program-accounts and --scans [default: the token program; program-accounts then
    /// requests one owner at a time].
    #[arg(long, value_name = "PUBKEY")]
    pub(crate) program: Option<String>,
    /// Read the inputs of the requests from this file, of at most 64 MiB, instead of discovering them.
    /// Several endpoints then get the same requests.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["address", "program", "inputs_out", "replay"])]
    pub(crate) inputs: Option<PathBuf>,
    /// Write the discovered inputs of the requests to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) inputs_out: Option<PathBuf>,
    /// The server's process, if it runs on this machine: its CPU time and memory are reported too.
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Replay this log of requests: lines of {"at_ms": 0, "body": {...}} or {"at_ms": 0, "path": "/"}. The log
    /// defines the requests, their times and the duration. It has at most 1,000,000 requests and 256 MiB.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["suite", "rate", "duration", "warm_up", "scans", "address", "program"]
    )]
    pub(crate) replay: Option<PathBuf>,
    /// With --replay: factor of the recorded speed, from 0.000001 to 1,000,000.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "replay")]
    pub(crate) speed: f64,
    /// Write a mix of the suites of JSON-RPC, --rate per second for --duration, to this file as a log of at
    /// most 1,000,000 requests, and exit.
    #[arg(
        long,
        value_name = "FILE",
        requires = "rate",
        conflicts_with_all = [
            "replay", "scans", "connections", "threads", "warm_up", "runs", "timeout", "pid", "json", "html"
        ]
    )]
    pub(crate) generate: Option<PathBuf>,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the results to this file as one HTML page with plots.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
