//! The limits of the server, with their defaults and their costs.

use http_server::{AllowedOrigins, HttpConfig};
use hyper::header::HeaderName;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Range of `head_bytes_max`. The buffer of hyper is never shorter, and parsing a longer head would take more than some
/// hundred microseconds.
const HEAD_BYTES: std::ops::RangeInclusive<usize> = 8 * 1024..=32 * 1024;

/// Default length limit of a request's body in bytes, as in Agave.
const BODY_BYTES_MAX: usize = 50 * 1024;

/// Maximum of each time limit: a day.
const TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// The limits of the server. A request over one of them is refused with a message that names the limit.
///
/// Fields with `serde(skip)` have no key in the configuration file: only tests and benchmarks change them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Bytes of a request's body. Default 51,200, as in Agave. Memory: up to 65,536 for each connection that is
    /// sending one, and at most 256 MiB, or four bodies of this length, for all that are longer.
    pub body_bytes_max: Option<usize>,
    /// Bytes of a request's head, URI and all headers together. Default 16,384; from 8,192 to 32,768. Memory:
    /// up to this for each connection that is sending one.
    pub head_bytes_max: usize,
    /// Bytes of a request's URI. Default 8,192, enough for 100 addresses in a list.
    pub uri_bytes_max: usize,
    /// Bytes of each header that is parsed as a list, all its lines together: `If-None-Match`, `Accept`,
    /// `Accept-Encoding` and similar ones. Default 4,096, enough for 100 `ETag`s.
    #[serde(skip)]
    pub list_header_bytes_max: usize,
    /// Calls in a batch. Default 1,000: what fits into the default body.
    pub batch_max: usize,
    /// Connections at once, HTTP and WebSocket together. Default 10,000. Memory: about 26 KiB each.
    /// One more waits in the listener's backlog.
    pub connections_max: usize,
    /// Connections at once from one address (an IPv6 network of 64 bits). Default none: an address may have all
    /// connections except the last tenth, of which it gets one only if it has fewer than are left. One more connection
    /// gets a 429 and is closed. Behind a proxy all connections come from one address: a value of `connections_max`
    /// lets it have all of them.
    pub connections_per_address_max: Option<usize>,
    /// Milliseconds in which a request's head must be complete: from its first byte, or from the start of a connection.
    /// Default 30,000.
    pub header_timeout_ms: u64,
    /// Milliseconds that a connection may wait for its next request. Default 920,000: longer than proxies keep their
    /// connections to a server (Cloudflare 900 s, Google Cloud 600 s, nginx and AWS 60 s), because a request on a
    /// connection that the node closes at the same time is lost. While the last tenth of `connections_max` is in use,
    /// it is `header_timeout_ms`.
    pub keep_alive_ms: u64,
    /// Milliseconds in which a request's body must be complete. Default 10,000.
    pub body_timeout_ms: u64,
    /// Milliseconds from a request's arrival to the first byte of its response. Default 45,000: shorter than proxies
    /// wait for a server (HAProxy in Debian 50 s, nginx and AWS 60 s), so that the client gets a 429 with the reason,
    /// and not a 504 of the proxy while the node still computes. A deadline of the request's class may be shorter.
    pub first_byte_timeout_ms: u64,
    /// Milliseconds in which a client must read 64 KiB of a response that waits for it, or all that waits.
    /// Default 30,000.
    pub write_timeout_ms: u64,
    /// The request header that names a client, for rate limits and fair scheduling: for a node behind a proxy that sets
    /// it, such as `x-real-ip`. Its last value counts; a value that is an address is the same client as a direct
    /// connection from it. Any program that can reach the port can set it, too. Default none: a client is its address.
    #[serde(deserialize_with = "header_name")]
    pub client_header: Option<HeaderName>,
    /// Origins of web pages that may send requests. Default any, as in Agave. Not in the configuration file:
    /// there is a flag.
    #[serde(skip)]
    pub allowed_origins: AllowedOrigins,
    /// Addresses in one getMultipleAccounts. Default 100, as in Agave.
    pub multiple_accounts_max: usize,
    /// Bytes of account data, of all calls of a batch together, above which a read runs on the CPU pool and not
    /// on the thread that polls the socket. A byte counts 32 times if it is encoded as base58 or `jsonParsed`.
    /// Default 32,768, some ten microseconds of base64.
    pub inline_bytes_max: usize,
    /// Accounts above which a list is computed on the CPU pool. Default 16.
    #[serde(skip)]
    pub inline_accounts_max: usize,
    /// Milliseconds from a request's arrival to the last byte of its response above which it is logged; 0 logs
    /// none. Default 1,000. At most ten lines a second; the others are counted.
    pub slow_request_ms: u64,
    /// Milliseconds that a call waits for the slot that it requires (`minContextSlot`, or the header
    /// `hydrant-min-slot` of its request), if the node has not reached it; 0 refuses it at once with -32016, as Agave
    /// does. From 0 to 30,000. Default 0 on a local ledger, whose clients compare it with Agave, and 1,000 on a
    /// followed chain, where another replica may be a block ahead.
    pub min_slot_wait_ms: Option<u64>,
    /// Requests that may wait for a slot at once. Default 4,096. The last tenth is for clients that have few. Memory:
    /// about 4 KiB each, in addition to its connection.
    pub min_slot_waits_max: usize,
    /// Milliseconds without a new block, or without a newly confirmed one, after which the node reports that it
    /// is behind; at least four slots. Default 10,000.
    pub stall_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            body_bytes_max: None,
            head_bytes_max: 16 * 1024,
            uri_bytes_max: 8 * 1024,
            list_header_bytes_max: 4 * 1024,
            batch_max: 1_000,
            connections_max: 10_000,
            connections_per_address_max: None,
            header_timeout_ms: 30_000,
            keep_alive_ms: 920_000,
            body_timeout_ms: 10_000,
            first_byte_timeout_ms: 45_000,
            write_timeout_ms: 30_000,
            client_header: None,
            allowed_origins: AllowedOrigins::default(),
            multiple_accounts_max: 100,
            inline_bytes_max: 32 * 1024,
            inline_accounts_max: 16,
            slow_request_ms: 1_000,
            min_slot_wait_ms: None,
            min_slot_waits_max: 4_096,
            stall_ms: 10_000,
        }
    }
}

/// An invalid setting, with its value and the allowed ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value}: {expected}")]
pub struct ConfigError {
    /// The name of the setting, with its table.
    pub name: &'static str,
    /// The configured value of the setting.
    pub value: u64,
    /// A description of the allowed values.
    pub expected: &'static str,
}

impl Config {
    /// Returns the limits of JSON-RPC.
    pub fn jsonrpc(&self) -> jsonrpc::Config {
        jsonrpc::Config {
            batch_max: self.batch_max,
            inline_bytes_max: self.inline_bytes_max,
            first_byte_timeout_ms: self.first_byte_timeout_ms,
            slow_request_ms: self.slow_request_ms,
            min_slot_wait_ms: self.min_slot_wait_ms.unwrap_or(0),
            min_slot_waits_max: self.min_slot_waits_max,
        }
    }

    /// Returns the maximum length of a request's body in bytes.
    pub fn body_bytes_max(&self) -> usize {
        self.body_bytes_max.unwrap_or(BODY_BYTES_MAX)
    }

    /// Returns the limits of HTTP.
    pub fn http(&self) -> HttpConfig {
        HttpConfig {
            body_bytes_max: self.body_bytes_max(),
            head_bytes_max: self.head_bytes_max,
            uri_bytes_max: self.uri_bytes_max,
            list_header_bytes_max: self.list_header_bytes_max,
            connections_max: self.connections_max,
            connections_per_address_max: self.connections_per_address_max,
            header_timeout_ms: self.header_timeout_ms,
            keep_alive_ms: self.keep_alive_ms,
            body_timeout_ms: self.body_timeout_ms,
            write_timeout_ms: self.write_timeout_ms,
            client_header: self.client_header.clone(),
            allowed_origins: self.allowed_origins.clone(),
        }
    }

    /// Checks every number: with one of these at 0 the server could not serve some requests, or none.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_nonzero(&[
            ("rpc.body_bytes_max", self.body_bytes_max()),
            ("rpc.uri_bytes_max", self.uri_bytes_max),
            ("rpc.list_header_bytes_max", self.list_header_bytes_max),
            ("rpc.batch_max", self.batch_max),
            ("rpc.min_slot_waits_max", self.min_slot_waits_max),
            ("rpc.connections_max", self.connections_max),
            ("rpc.connections_per_address_max", self.connections_per_address_max.unwrap_or(1)),
            ("rpc.multiple_accounts_max", self.multiple_accounts_max),
        ])?;
        if !HEAD_BYTES.contains(&self.head_bytes_max) {
            return Err(ConfigError {
                name: "rpc.head_bytes_max",
                value: self.head_bytes_max as u64,
                expected: "from 8192 to 32768",
            });
        }
        check_timeouts(&[
            ("rpc.header_timeout_ms", self.header_timeout_ms),
            ("rpc.keep_alive_ms", self.keep_alive_ms),
            ("rpc.body_timeout_ms", self.body_timeout_ms),
            ("rpc.first_byte_timeout_ms", self.first_byte_timeout_ms),
            ("rpc.write_timeout_ms", self.write_timeout_ms),
        ])
    }
}

/// Refuses settings that are 0.
pub(crate) fn check_nonzero(settings: &[(&'static str, usize)]) -> Result<(), ConfigError> {
    match settings.iter().find(|(_, value)| *value == 0) {
        None => Ok(()),
        Some((name, _)) => Err(ConfigError { name, value: 0, expected: "at least 1" }),
    }
}

/// Refuses time limits of 0, and of more than a day.
pub(crate) fn check_timeouts(settings: &[(&'static str, u64)]) -> Result<(), ConfigError> {
    match settings.iter().find(|(_, ms)| !(1..=TIMEOUT_MS_MAX).contains(ms)) {
        None => Ok(()),
        Some((name, value)) => {
            Err(ConfigError { name, value: *value, expected: "from 1 to 86400000, a day" })
        }
    }
}

fn header_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<HeaderName>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.is_empty() {
        return Ok(None);
    }
    name.parse().map(Some).map_err(|_| {
        D::Error::custom(format!("rpc.client_header is {name:?}: not the name of a header"))
    })
}
