//! The flags of every command that runs a node, and their texts in `--help`. They are also the keys of its
//! configuration file.
//!
//! Shape: [`NodeFlags`] has a group for each subject, because a module takes the group that it reads. `--help` lists the
//! flags under their headings, in the order of their declarations.
//! A command of a chain that lacks a subject, such as QUIC, takes the other groups only (`follow_kaspa::flags`).
//! Not here: the flags of one producer (`local::flags`, `follow::flags`), and the settings made of them (`config`).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::config_text::ConfigText;
use crate::log_format::LogFormat;
use crate::node::{Merge, merge_by_field};
use crate::process_setup::resolve_address;

/// The flags of a node, and the tables of its configuration file.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NodeFlags {
    #[arg(skip)]
    pub(crate) tables: TableSettings,
    #[command(flatten)]
    pub(crate) ledger: LedgerFlags,
    #[command(flatten)]
    pub(crate) history: HistoryFlags,
    #[command(flatten)]
    pub(crate) indices: IndexFlags,
    #[command(flatten)]
    pub(crate) listen: ListenFlags,
    #[command(flatten)]
    pub(crate) grpc: GrpcFlags,
    #[command(flatten)]
    pub(crate) keys: KeyFlags,
    #[command(flatten)]
    pub(crate) console: ConsoleFlags,
    #[command(flatten)]
    pub(crate) quic: QuicFlags,
    #[command(flatten)]
    pub(crate) serving: ServingFlags,
    #[command(flatten)]
    pub(crate) threads: ThreadFlags,
    #[command(flatten)]
    pub(crate) requests: RequestFlags,
    #[command(flatten)]
    pub(crate) queue: QueueFlags,
    #[command(flatten)]
    pub(crate) bounds: BoundFlags,
    #[command(flatten)]
    pub(crate) cluster_log: ClusterLogFlags,
    #[command(flatten)]
    pub(crate) log_writer: LogWriterFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// The tables of the configuration file, which have settings without a flag.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TableSettings {
    /// Settings of HTTP and JSON-RPC.
    pub(crate) rpc: rpc_solana::Config,
    /// Settings of the CPU pool and of clients' rate limits.
    pub(crate) pool: cpu_pool::Config,
    /// Settings of WebSocket subscriptions.
    pub(crate) pubsub: rpc_solana::pubsub::Config,
    /// Settings of Yellowstone gRPC.
    pub(crate) grpc: grpc::Config,
    /// Settings of transactions over QUIC.
    pub(crate) quic: ::tpu::Config,
}

/// The configuration file. Its flags are not keys of the file.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ConfigFlags {
    /// Read settings from this TOML file: the long flags as keys, the tables rpc, pool, pubsub, quic and
    /// grpc, and dev, follow, follow-kaspa and replica for the flags of one command. Flags override the
    /// file.
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub(crate) config: Option<PathBuf>,
    /// Check the flags and the configuration file, report the first error, and exit.
    #[arg(long, help_heading = "Configuration")]
    pub(crate) check: bool,
}

/// Returns the group `name` of `flag` and `--config`. A flag that requires the group accepts its counterpart on the
/// command line or in the file; the settings that are made of both are checked again.
pub(crate) fn file_or(name: &'static str, flag: &'static str) -> ArgGroup {
    ArgGroup::new(name).args([flag, "config"]).multiple(true)
}

/// The stored ledger.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct LedgerFlags {
    /// Store the ledger in this directory, and continue an existing one.
    #[arg(short, long, value_name = "DIR", help_heading = "Ledger", display_order = 0)]
    pub(crate) ledger: Option<PathBuf>,
    /// Remove the ledger in --ledger first. Keep files of other programs.
    #[arg(short, long, help_heading = "Ledger", display_order = 1)]
    pub(crate) reset: bool,
}

/// The length of the history that is retained.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct HistoryFlags {
    /// Retain this many slots of history, not counting skipped ones; an empty slot takes about 3.6 KB
    /// [default: 10000].
    #[arg(long, value_name = "SLOTS", help_heading = "Ledger")]
    pub(crate) history_slots: Option<u64>,
    /// Retain at most this many bytes of history, about 2 KB for each transfer [default: 1073741824].
    #[arg(long, value_name = "BYTES", help_heading = "Ledger")]
    pub(crate) history_bytes: Option<u64>,
}

/// The maintained indices of accounts, and their keys.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct IndexFlags {
    /// Maintain only the indices that are named. Can be repeated [default: all indices].
    ///
    /// A request that needs a missing index scans all accounts of the program, or all accounts.
    #[arg(long, value_name = "INDEX", num_args = 1.., value_enum, help_heading = "Indices")]
    pub(crate) account_index: Vec<AccountIndex>,
    /// Exclude this key from every index; refuse requests by it. Can be repeated.
    #[arg(long, value_name = "KEY", num_args = 1.., help_heading = "Indices")]
    pub(crate) account_index_exclude_key: Vec<String>,
    /// Include only these keys in every index; refuse requests by other keys. Can be repeated.
    #[arg(
        long,
        value_name = "KEY",
        num_args = 1..,
        conflicts_with = "account_index_exclude_key",
        help_heading = "Indices"
    )]
    pub(crate) account_index_include_key: Vec<String>,
}

/// The addresses of a node: the bound ones, and the advertised one.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ListenFlags {
    /// Listen on this address, or on the address of this name [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", value_parser = resolve_address, help_heading = "Serving")]
    #[serde(deserialize_with = "address")]
    pub(crate) bind_address: Option<IpAddr>,
    /// Announce this address, or the address of this name [default: --bind-address; for 0.0.0.0 and ::
    /// the address on which a client's connection arrives].
    #[arg(
        long,
        alias = "gossip-host",
        value_name = "ADDRESS",
        value_parser = resolve_address,
        help_heading = "Serving"
    )]
    #[serde(deserialize_with = "address")]
    pub(crate) advertised_ip: Option<IpAddr>,
    /// Serve JSON-RPC, REST and WebSocket on this port, and WebSocket alone on the next one; 0 uses two
    /// free ports [default: 8899].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) rpc_port: Option<u16>,
    /// Write {"rpc": URL, "ws": URL, "tpu": ADDRESS, "grpc": URL} to this file when the node is ready.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) endpoints_file: Option<PathBuf>,
}

/// An address in a file, or the address of a name, as the flag takes both.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IpAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let context = |err| D::Error::custom(format!("{text}: {err}"));
    resolve_address(&text).map(Some).map_err(context)
}

/// The server of Yellowstone gRPC.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct GrpcFlags {
    /// Serve Yellowstone gRPC on this port; 0 uses a free port [default: 10000; a free port if it is
    /// taken, and with --rpc-port 0].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) grpc_port: Option<u16>,
    /// Do not serve Yellowstone gRPC.
    #[arg(long, conflicts_with = "grpc_port", help_heading = "Serving")]
    pub(crate) no_grpc: bool,
}

/// The clients that may use the node.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct KeyFlags {
    /// Serve only clients with an API key of this TOML file, with the limits of its tiers.
    ///
    /// The file is read again when it changes. `hydrant api-key new` creates keys.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) api_keys: Option<PathBuf>,
}

/// The console.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ConsoleFlags {
    /// Do not serve the console, the web page at `/` of the JSON-RPC port.
    #[arg(long, help_heading = "Serving")]
    pub(crate) no_console: bool,
}

/// The server of transactions over QUIC.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct QuicFlags {
    /// Accept transactions over QUIC on this UDP port; 0 uses a free port [default: two after --rpc-port;
    /// with `follow` and `replica` none].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) tpu_port: Option<u16>,
    /// Accept at most this many QUIC connections [default: 4000].
    #[arg(long, value_name = "COUNT", help_heading = "Serving")]
    pub(crate) tpu_connections_max: Option<usize>,
    /// Give the identities in this file a larger share of QUIC: lines of PUBKEY WEIGHT (all others have
    /// weight 1). The file is read again when it changes.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) identity_weights: Option<PathBuf>,
    /// Forward transactions that arrive over QUIC to this TPU. Can be repeated.
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Serving")]
    pub(crate) forward: Vec<SocketAddr>,
}

/// Web pages, TLS, the end of the node, its administration.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[command(
    group = file_or("tls_cert_source", "tls_cert"),
    group = file_or("tls_key_source", "tls_key")
)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ServingFlags {
    /// Allow web pages of this origin, such as `https://app.example`, and refuse all others with 403.
    /// Can be repeated [default: *, any].
    #[arg(long, value_name = "ORIGIN", help_heading = "Serving")]
    pub(crate) allow_origin: Vec<String>,
    /// Accept this name of the node, such as `node.example`, as its own. Can be repeated.
    ///
    /// Web pages that name it so are the node's own, and programs that name it so may use the faucet. Addresses,
    /// `localhost`, names without a dot and the machine's name need no flag. `*` is any name.
    #[arg(long, value_name = "NAME", help_heading = "Serving")]
    pub(crate) allow_host: Vec<String>,
    /// Serve HTTP, WebSocket and gRPC over TLS only, with the certificates in this PEM file, the node's
    /// own first. The file is read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key_source", help_heading = "Serving")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Read the key of --tls-cert from this PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert_source", help_heading = "Serving")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Answer /ready with 503 for this many seconds after the first signal, and serve everything, so that
    /// load balancers remove the node first [default: 0].
    #[arg(long, value_name = "SECONDS", help_heading = "Serving")]
    pub(crate) drain_delay: Option<u64>,
    /// Give requests this many seconds to finish when the node ends; a second signal ends it at once
    /// [default: 10].
    #[arg(long, value_name = "SECONDS", help_heading = "Serving")]
    pub(crate) drain_seconds: Option<u64>,
    /// Serve `hydrant admin` on this Unix socket, for the node's own user only [default: admin.sock in
    /// --ledger].
    #[arg(long, value_name = "PATH", help_heading = "Serving")]
    pub(crate) admin_socket: Option<PathBuf>,
    /// Serve `hydrant admin` on this loopback address, too, for every program of the machine
    /// [default: none].
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Serving")]
    pub(crate) admin_address: Option<SocketAddr>,
    /// Serve /metrics on this address, and not on the port of JSON-RPC.
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Serving")]
    pub(crate) metrics_address: Option<SocketAddr>,
}

#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ThreadFlags {
    /// Use this many threads for network I/O and inline requests [default: half the number of cores, at
    /// least 1].
    #[arg(long, value_name = "COUNT", help_heading = "Serving")]
    pub(crate) io_threads: Option<usize>,
    /// Use this many threads, at a lower priority, for all other responses and for simulations
    /// [default: the number of cores].
    #[arg(long, value_name = "COUNT", help_heading = "Serving")]
    pub(crate) cpu_threads: Option<usize>,
}

/// The bounds of one request.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RequestFlags {
    /// Accept at most this many bytes in a request's body [default: 51200; 15728640 if cheat codes are
    /// served].
    #[arg(long, value_name = "BYTES", help_heading = "Bounds")]
    pub(crate) rpc_max_request_body_size: Option<usize>,
}

/// The queue of transactions.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct QueueFlags {
    /// Hold at most this many transactions that are not in a block yet, half of them of one client; more
    /// get 429 [default: 40000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) queue_max: Option<usize>,
}

/// The bounds of all requests, of connections and of the ledger.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct BoundFlags {
    /// Admit at most this many heavy requests, running and waiting, half of them of one client; more get
    /// 429 [default: 256].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) heavy_max: Option<usize>,
    /// Cache at most this many bytes of responses, which are valid until their data changes; 0 disables
    /// the cache [default: 268435456].
    #[arg(long, value_name = "BYTES", help_heading = "Bounds")]
    pub(crate) cache_bytes_max: Option<u64>,
    /// Accept at most this many connections, HTTP and WebSocket together [default: 10000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) connections_max: Option<usize>,
    /// Hold at most this many addresses in the ledger, about 100 bytes each once used
    /// [default: 64000000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) max_addresses: Option<u32>,
    /// Track at most this many distinct addresses in all subscribed sets; one that several clients track
    /// counts once [default: 10000000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) max_tracked_addresses: Option<usize>,
}

/// The replicated log of a cluster, and its store of snapshots.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[command(group = file_or("log_source", "log_url"), group = file_or("depot_source", "depot"))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ClusterLogFlags {
    /// Use the replicated log at this URL: nats://HOST:PORT[,nats://HOST:PORT], file:///DIR or
    /// s3://BUCKET/PREFIX. `replica` reads it, the other commands append their blocks.
    #[arg(long, value_name = "URL", requires = "depot_source", help_heading = "Replicated log")]
    pub(crate) log_url: Option<String>,
    /// Use this directory or bucket for the snapshots of the log: file:///DIR or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "URL", requires = "log_source", help_heading = "Replicated log")]
    pub(crate) depot: Option<String>,
    /// Use this name of the cluster in the log and the depot: letters, digits, _ and - [default: local].
    #[arg(long, value_name = "NAME", requires = "log_source", help_heading = "Replicated log")]
    pub(crate) log_cluster: Option<String>,
}

/// The settings of a log that a node creates and appends to.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct LogWriterFlags {
    /// Let NATS store the log on this many servers [default: 3].
    #[arg(long, value_name = "COUNT", requires = "log_source", help_heading = "Replicated log")]
    pub(crate) log_replicas: Option<u16>,
    /// Retain messages of the log for this many seconds [default: 21600].
    #[arg(long, value_name = "SECONDS", requires = "log_source", help_heading = "Replicated log")]
    pub(crate) log_max_age: Option<u64>,
    /// Retain at most this many bytes of the log, which NATS reserves [default: 68719476736].
    #[arg(long, value_name = "BYTES", requires = "log_source", help_heading = "Replicated log")]
    pub(crate) log_max_bytes: Option<u64>,
    /// Use a log that may lose acknowledged data, such as NATS without `sync_interval: always`.
    #[arg(long, requires = "log_source", help_heading = "Replicated log")]
    pub(crate) log_allow_data_loss: bool,
    /// Log the entries of blocks, which a followed source must send.
    #[arg(long, requires = "log_source", help_heading = "Replicated log")]
    pub(crate) log_entries: bool,
}

/// The output of a node: its lines, its log, its traces.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct OutputFlags {
    /// Print no banner, no progress and no status line.
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Log to standard error; RUST_LOG sets the filter (default: info,h2=error).
    #[arg(long, help_heading = "Output")]
    pub(crate) log: bool,
    /// Write the log in this format [default: text].
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = "Output")]
    pub(crate) log_format: Option<LogFormat>,
    /// Log requests that take longer than this many milliseconds, at most ten lines a second; 0 logs none
    /// [default: 1000].
    #[arg(long, value_name = "MS", help_heading = "Output")]
    pub(crate) slow_request_ms: Option<u64>,
    /// Export spans of requests with a sampled `traceparent` to this collector, by OTLP over HTTP.
    #[arg(long, value_name = "URL", help_heading = "Output")]
    pub(crate) otlp_endpoint: Option<String>,
}

/// An index of accounts, by its name on the command line.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccountIndex {
    /// By the program that owns the account.
    ProgramId,
    /// By the wallet that owns the token account.
    SplTokenOwner,
    /// By the mint of the token account.
    SplTokenMint,
    /// By the delegate of the token account; Agave has no such index.
    SplTokenDelegate,
    /// No index at all; it excludes the others.
    None,
}

impl NodeFlags {
    /// Reads the settings of a node from a configuration file.
    pub(crate) fn from_file(file: &mut ConfigText<'_>) -> Result<Self, toml::de::Error> {
        Ok(Self {
            tables: file.part()?,
            ledger: file.part()?,
            history: file.part()?,
            indices: file.part()?,
            listen: file.part()?,
            grpc: file.part()?,
            keys: file.part()?,
            console: file.part()?,
            quic: file.part()?,
            serving: file.part()?,
            threads: file.part()?,
            requests: file.part()?,
            queue: file.part()?,
            bounds: file.part()?,
            cluster_log: file.part()?,
            log_writer: file.part()?,
            output: file.part()?,
        })
    }
}

merge_by_field! {
    NodeFlags {
        tables, ledger, history, indices, listen, grpc, keys, console, quic, serving, threads, requests,
        queue, bounds, cluster_log, log_writer, output,
    }
}
merge_by_field!(ConfigFlags { config, check });
merge_by_field!(LedgerFlags { ledger, reset });
merge_by_field!(HistoryFlags { history_slots, history_bytes });
merge_by_field!(ListenFlags { bind_address, advertised_ip, rpc_port, endpoints_file });
merge_by_field!(KeyFlags { api_keys });
merge_by_field!(ConsoleFlags { no_console });
merge_by_field!(QuicFlags { tpu_port, tpu_connections_max, identity_weights, forward });
merge_by_field! {
    ServingFlags {
        allow_origin, allow_host, tls_cert, tls_key, drain_delay, drain_seconds, admin_socket, admin_address,
        metrics_address,
    }
}
merge_by_field!(ThreadFlags { io_threads, cpu_threads });
merge_by_field!(RequestFlags { rpc_max_request_body_size });
merge_by_field!(QueueFlags { queue_max });
merge_by_field! {
    BoundFlags {
        heavy_max, cache_bytes_max, connections_max, max_addresses, max_tracked_addresses,
    }
}
merge_by_field!(ClusterLogFlags { log_url, depot, log_cluster });
merge_by_field! {
    LogWriterFlags { log_replicas, log_max_age, log_max_bytes, log_allow_data_loss, log_entries }
}
merge_by_field!(OutputFlags { quiet, log, log_format, slow_request_ms, otlp_endpoint });

impl Merge for TableSettings {
    /// Returns the tables of the file, because flags have none.
    fn merge(self, file: Self) -> Self {
        file
    }
}

impl Merge for GrpcFlags {
    /// A flag overrides what contradicts it in the file.
    fn merge(self, file: Self) -> Self {
        Self {
            grpc_port: self.grpc_port.or_else(|| file.grpc_port.filter(|_| !self.no_grpc)),
            no_grpc: self.no_grpc || (file.no_grpc && self.grpc_port.is_none()),
        }
    }
}

impl Merge for IndexFlags {
    /// The named indices replace those of the file: indices of both would be more than either has.
    fn merge(self, file: Self) -> Self {
        Self {
            account_index: match self.account_index.is_empty() {
                true => file.account_index,
                false => self.account_index,
            },
            account_index_exclude_key: self
                .account_index_exclude_key
                .merge(file.account_index_exclude_key),
            account_index_include_key: self
                .account_index_include_key
                .merge(file.account_index_include_key),
        }
    }
}
