//! The flags of `hydrant follow`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ::follow::{OnMismatch, VerifyMode};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::log_format::LogFormat;
use crate::process_setup::address_of_name;

/// The flags of `hydrant follow`.
#[derive(Args, Clone, Debug)]
pub(crate) struct FollowFlags {
    /// The URL of a server of Yellowstone gRPC that sends everything. May be repeated: the first healthy one
    /// is followed.
    #[arg(long, value_name = "URL", required = true, help_heading = "Chain")]
    pub(crate) source: Vec<String>,
    /// A file with the x-token of the sources.
    #[arg(long, value_name = "FILE", help_heading = "Chain")]
    pub(crate) x_token: Option<PathBuf>,
    /// A full snapshot archive, or the URL of the RPC port of a node that serves one.
    /// It may be left out if --ledger has a state.
    #[arg(
        long,
        value_name = "FILE|URL",
        required_unless_present = "ledger",
        help_heading = "Chain"
    )]
    pub(crate) snapshot: Option<String>,
    /// An incremental archive on top of the snapshot file.
    #[arg(long, value_name = "FILE", help_heading = "Chain")]
    pub(crate) incremental_snapshot: Option<PathBuf>,
    /// Store the followed state in this directory, and start from the state that it has. A snapshot is read only if
    /// it has none.
    #[arg(long, value_name = "DIR", help_heading = "Chain")]
    pub(crate) ledger: Option<PathBuf>,
    /// Remove the state in --ledger first.
    #[arg(long, requires = "ledger", help_heading = "Chain")]
    pub(crate) reset: bool,
    /// Where downloaded archives are stored [default: the current directory].
    #[arg(long, value_name = "DIR", help_heading = "Chain")]
    pub(crate) snapshot_dir: Option<PathBuf>,
    /// Bytes of an archive that is downloaded, at most [default: 549755813888].
    #[arg(long, value_name = "BYTES", help_heading = "Chain")]
    pub(crate) snapshot_bytes_max: Option<u64>,
    /// The RPC port of a node of the chain: it names genesis, and the cluster's nodes if no source has gossip
    /// [default: the URL of --snapshot; without one, genesis is that of --ledger].
    #[arg(long, value_name = "URL", help_heading = "Chain")]
    pub(crate) upstream: Option<String>,
    /// A file with the API key that requests to --upstream, and to the URL of --snapshot, send.
    #[arg(long, value_name = "FILE", help_heading = "Chain")]
    pub(crate) upstream_key: Option<PathBuf>,
    /// Where transactions go [default: leaders].
    #[arg(long, value_name = "TO", value_enum, help_heading = "Chain")]
    pub(crate) send: Option<SendTo>,
    /// How banks are verified [default: sequence].
    #[arg(long, value_name = "MODE", value_enum, help_heading = "Chain")]
    pub(crate) verify: Option<Verify>,
    /// With --verify agree: the URL of an independent server of Yellowstone gRPC, which sends the SlotHashes
    /// sysvar. May be repeated.
    #[arg(long, value_name = "URL", help_heading = "Chain")]
    pub(crate) verify_source: Vec<String>,
    /// A file with the x-token of a --verify-source. May be repeated, in the same order.
    #[arg(long, value_name = "FILE", help_heading = "Chain")]
    pub(crate) verify_x_token: Vec<PathBuf>,
    /// How many of the --verify-source must list a bank's hash [default: all].
    #[arg(long, value_name = "COUNT", help_heading = "Chain")]
    pub(crate) verify_sources_min: Option<usize>,
    /// What follows a bank whose computed hash is not the one that the chain says [default: stop].
    #[arg(long, value_name = "ACTION", value_enum, help_heading = "Chain")]
    pub(crate) on_mismatch: Option<MismatchAction>,
    /// Slots behind the source from which on the node is unhealthy [default: 128].
    #[arg(long, value_name = "COUNT", help_heading = "Chain")]
    pub(crate) slots_behind_max: Option<u64>,
    /// Number of slots whose blocks are retained [default: 10000].
    #[arg(long, value_name = "COUNT", help_heading = "Chain")]
    pub(crate) history_slots: Option<u64>,

    /// Address to listen on, or a name that has one [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", value_parser = address_of_name, help_heading = "Serving")]
    pub(crate) bind_address: Option<IpAddr>,
    /// Port of JSON-RPC and REST; WebSocket has the next one; 0 lets the system choose [default: 8899].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) rpc_port: Option<u16>,
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
    /// Read the key api-keys and the table grpc, the limits of the gRPC server, from this TOML file.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) config: Option<PathBuf>,
    /// Write the addresses of all ports to this file, as JSON, once the node serves.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) endpoints_file: Option<PathBuf>,
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
    /// Maximum number of transactions that are not in a block yet, or not at the upstream; more get 429
    /// [default: 40000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) queue_max: Option<usize>,
    /// Maximum number of addresses in the ledger, about 100 bytes each once used [default: 64000000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) max_addresses: Option<u32>,

    /// No banner and no progress.
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Log to standard error; RUST_LOG sets the filter (default: info).
    #[arg(long, help_heading = "Output")]
    pub(crate) log: bool,
    /// Format of the log [default: text].
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = "Output")]
    pub(crate) log_format: Option<LogFormat>,
    /// Export spans of requests with a sampled `traceparent` to this collector, by OTLP over HTTP.
    #[arg(long, value_name = "URL", help_heading = "Output")]
    pub(crate) otlp_endpoint: Option<String>,
}

/// The values of `--send`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SendTo {
    /// To the leaders of the next slots over QUIC, until they are in a block or have expired.
    #[default]
    Leaders,
    /// To sendTransaction of the upstream.
    Upstream,
}

/// The file of `--config`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FollowFile {
    /// As the flag.
    pub(crate) api_keys: Option<PathBuf>,
    /// The table `[grpc]`.
    pub(crate) grpc: grpc::Config,
}

/// The values of `--verify`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Verify {
    /// A source's commitments are shown at once.
    Off,
    /// The hash of each bank is computed and compared with the one that its child lists.
    #[default]
    Sequence,
    /// In addition, independent sources list the hash (--verify-source).
    Agree,
    /// Validators with more than two thirds of the stake have signed the hash, or that of a descendant.
    Votes,
}

impl From<Verify> for VerifyMode {
    fn from(verify: Verify) -> Self {
        match verify {
            Verify::Off => Self::Off,
            Verify::Sequence => Self::Sequence,
            Verify::Agree => Self::Agree,
            Verify::Votes => Self::Votes,
        }
    }
}

/// The values of `--on-mismatch`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum MismatchAction {
    /// The node is unhealthy, and takes no newer bank.
    #[default]
    Stop,
    /// The node is unhealthy until the bank is right, and shows newer banks as processed only.
    Report,
}

impl From<MismatchAction> for OnMismatch {
    fn from(action: MismatchAction) -> Self {
        match action {
            MismatchAction::Stop => Self::Stop,
            MismatchAction::Report => Self::Report,
        }
    }
}
