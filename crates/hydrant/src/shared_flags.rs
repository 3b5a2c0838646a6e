//! The flags that `hydrant dev` and `hydrant follow` share, and their texts in `--help`.
//!
//! They are groups, because `--help` lists flags in the order of their declarations, and each command has flags of its
//! own between them. Their fields are also keys of the configuration file of `hydrant dev`.
//! Not here: what the flags become (`config`, `follow`, `serving_options`).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use crate::log_format::LogFormat;
use crate::process_setup::address_of_name;

/// Where a node listens.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ListenFlags {
    /// Address to listen on, or a name that has one [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", value_parser = address_of_name, help_heading = "Serving")]
    pub(crate) bind_address: Option<IpAddr>,
}

/// What a node serves beside JSON-RPC, and to which clients.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ServiceFlags {
    /// Port for Yellowstone gRPC; 0 uses a free port [default: 10000; a free port if it is taken, and with
    /// --rpc-port 0].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) grpc_port: Option<u16>,
    /// Do not serve Yellowstone gRPC.
    #[arg(long, conflicts_with = "grpc_port", help_heading = "Serving")]
    pub(crate) no_grpc: bool,
    /// Serve only clients with an API key of this TOML file, with the limits of its tiers.
    ///
    /// It is read again when it changes. `hydrant api-key new` creates keys.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) api_keys: Option<PathBuf>,
    /// Do not serve the console, the web page at `/` of the JSON-RPC port.
    #[arg(long, help_heading = "Serving")]
    pub(crate) no_console: bool,
}

/// How a node serves: web pages, TLS, its end, its administration.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ServingFlags {
    /// Origin of web pages that may send requests, such as `https://app.example`. Pages of other origins
    /// get 403, also for WebSocket. Can be repeated [default: *, any].
    #[arg(long, value_name = "ORIGIN", help_heading = "Serving")]
    pub(crate) allow_origin: Vec<String>,
    /// A name of this node, such as `node.example`: web pages that name it so are the node's own, and
    /// programs that name it so may use the faucet. Addresses, `localhost`, names without a dot and the
    /// machine's name need no flag. `*` is any name. Can be repeated.
    #[arg(long, value_name = "NAME", help_heading = "Serving")]
    pub(crate) allow_host: Vec<String>,
    /// Serve HTTP, WebSocket and gRPC over TLS only, with the certificates in this PEM file, the node's
    /// own first; read again when it changes.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The PEM file with the key of --tls-cert.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Seconds that requests have to finish when the node ends; a second signal ends it at once
    /// [default: 10].
    #[arg(long, value_name = "SECONDS", help_heading = "Serving")]
    pub(crate) drain_seconds: Option<u64>,
    /// Unix socket for `hydrant admin`, for the node's own user only [default: admin.sock in --ledger].
    #[arg(long, value_name = "PATH", help_heading = "Serving")]
    pub(crate) admin_socket: Option<PathBuf>,
    /// Serve the same on this loopback address, to every program of the machine [default: none].
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Serving")]
    pub(crate) admin_address: Option<SocketAddr>,
    /// Serve /metrics on this address, and not on the port of JSON-RPC.
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Serving")]
    pub(crate) metrics_address: Option<SocketAddr>,
}

/// How large a ledger may become.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct CapacityFlags {
    /// Maximum number of addresses in the ledger, about 100 bytes each once used [default: 64000000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) max_addresses: Option<u32>,
}

/// The log.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct LogFlags {
    /// Log to standard error; RUST_LOG sets the filter (default: info).
    #[arg(long, help_heading = "Output")]
    pub(crate) log: bool,
    /// Format of the log [default: text].
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = "Output")]
    pub(crate) log_format: Option<LogFormat>,
}

/// Traces of requests.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct TraceFlags {
    /// Export spans of requests with a sampled `traceparent` to this collector, by OTLP over HTTP.
    #[arg(long, value_name = "URL", help_heading = "Output")]
    pub(crate) otlp_endpoint: Option<String>,
}

// A flag overrides the file, and lists are concatenated.

impl ListenFlags {
    pub(crate) fn or(self, file: Self) -> Self {
        Self { bind_address: self.bind_address.or(file.bind_address) }
    }
}

impl ServiceFlags {
    pub(crate) fn or(self, file: Self) -> Self {
        Self {
            grpc_port: self.grpc_port.or_else(|| file.grpc_port.filter(|_| !self.no_grpc)),
            no_grpc: self.no_grpc || (file.no_grpc && self.grpc_port.is_none()),
            api_keys: self.api_keys.or(file.api_keys),
            no_console: self.no_console || file.no_console,
        }
    }
}

impl ServingFlags {
    pub(crate) fn or(self, file: Self) -> Self {
        Self {
            allow_origin: concat(self.allow_origin, file.allow_origin),
            allow_host: concat(self.allow_host, file.allow_host),
            tls_cert: self.tls_cert.or(file.tls_cert),
            tls_key: self.tls_key.or(file.tls_key),
            drain_seconds: self.drain_seconds.or(file.drain_seconds),
            admin_socket: self.admin_socket.or(file.admin_socket),
            admin_address: self.admin_address.or(file.admin_address),
            metrics_address: self.metrics_address.or(file.metrics_address),
        }
    }
}

impl CapacityFlags {
    pub(crate) fn or(self, file: Self) -> Self {
        Self { max_addresses: self.max_addresses.or(file.max_addresses) }
    }
}

impl LogFlags {
    pub(crate) fn or(self, file: Self) -> Self {
        Self { log: self.log || file.log, log_format: self.log_format.or(file.log_format) }
    }
}

impl TraceFlags {
    pub(crate) fn or(self, file: Self) -> Self {
        Self { otlp_endpoint: self.otlp_endpoint.or(file.otlp_endpoint) }
    }
}

/// The values of the flags, then those of the file.
pub(crate) fn concat<T>(mut flags: Vec<T>, file: Vec<T>) -> Vec<T> {
    flags.extend(file);
    flags
}
