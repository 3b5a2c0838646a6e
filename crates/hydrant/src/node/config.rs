//! The settings of a node: flags and configuration file, checked, with the files that they name read.
//!
//! Shape: [`NodeConfig::from_flags`] checks every number, then what depends on several settings. A producer's settings
//! are not here (`local::config`, `follow::config`, `follow_kaspa::config`); a producer only has [`ProducerDefaults`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use http_client::Endpoint;
use kaspa::Network;
use query::LedgerConfig;

use crate::announced::Announced;
use crate::api_key_file::ApiKeyFile;
use crate::bounds;
use crate::cluster_log::ClusterLogConfig;
use crate::grpc_setup;
use crate::index_flags;
use crate::log_format::LogFormat;
use crate::node::NodeFlags;
use crate::node::history::HistorySettings;
use crate::node::kaspa::ports::KaspaPorts;
use crate::otlp::parse_collector;
use crate::process_setup::{GrpcPort, RpcPorts};
use crate::serving_options::{ServingOptions, allowed_origins};

/// The port on which clients expect JSON-RPC.
const RPC_PORT_DEFAULT: u16 = 8899;
/// Bytes of the response cache: a thousand responses of a quarter of a megabyte.
const CACHE_BYTES_MAX_DEFAULT: u64 = 256 << 20;

/// Slots in the log of gRPC of an embedded node, and of a node whose blocks others make: those that are not final, and
/// one minute of 400 ms for followers that reconnect.
const REPLAY_SLOTS_MIN: u64 = 150;
/// Milliseconds that a call of such a node waits for the slot that it requires: two slots, in which a replica that is a
/// block behind another one gets it.
const MIN_SLOT_WAIT_MS: u64 = 1_000;

/// The settings that every node has.
pub struct NodeConfig {
    pub(crate) bind_address: IpAddr,
    pub(crate) announced: Announced,
    pub(crate) rpc_ports: RpcPorts,
    /// The port of gRPC. `None`: it is not served.
    pub(crate) grpc_port: Option<GrpcPort>,
    /// `None`: no transactions are accepted over QUIC.
    pub(crate) tpu_port: Option<u16>,
    /// The ports of a node of Kaspa, which has none of those above.
    pub(crate) kaspa_ports: KaspaPorts,
    pub(crate) endpoints_file: Option<PathBuf>,
    pub(crate) rpc: rpc_solana::Config,
    pub(crate) pubsub: rpc_solana::pubsub::Config,
    pub(crate) grpc: grpc::Config,
    pub(crate) quic: ::tpu::Config,
    /// The TPUs to which transactions that arrive over QUIC are forwarded.
    pub(crate) forward: Vec<SocketAddr>,
    /// Whether the console is served.
    pub(crate) console: bool,
    /// `None`: clients need no key.
    pub(crate) api_keys: Option<ApiKeyFile>,
    pub(crate) serving: ServingOptions,
    pub(crate) io_threads: usize,
    pub(crate) pool: cpu_pool::Config,
    /// The directory of the ledger. `None`: it is in memory.
    pub(crate) ledger_dir: Option<PathBuf>,
    /// Whether the ledger in the directory is removed first.
    pub(crate) reset: bool,
    pub(crate) ledger: LedgerConfig,
    pub(crate) history: HistorySettings,
    pub(crate) queue_max: usize,
    pub(crate) cache_bytes_max: u64,
    /// `None`: the blocks are not appended to a replicated log.
    pub(crate) cluster_log: Option<ClusterLogConfig>,
    pub(crate) quiet: bool,
    pub(crate) log: bool,
    pub(crate) log_format: LogFormat,
    /// The collector of spans. `None`: no spans are exported.
    pub(crate) otlp_endpoint: Option<Endpoint>,
}

/// The default values that depend on the producer of the ledger.
pub(crate) struct ProducerDefaults {
    /// Whether transactions are accepted over QUIC without `--tpu-port`.
    pub(crate) has_tpu: bool,
    /// Slots that the log of gRPC has at least.
    pub(crate) replay_slots_min: u64,
    /// Milliseconds that a call waits for the slot that it requires, without `rpc.min_slot_wait_ms`.
    pub(crate) min_slot_wait_ms: u64,
}

impl ProducerDefaults {
    /// The defaults of a node whose blocks others make.
    pub(crate) const FOLLOWED: Self = Self {
        has_tpu: false,
        replay_slots_min: REPLAY_SLOTS_MIN,
        min_slot_wait_ms: MIN_SLOT_WAIT_MS,
    };
}

impl Default for NodeConfig {
    /// A node on 127.0.0.1: JSON-RPC on port 8899, WebSocket on 8900, gRPC on 10000, no QUIC, no console; of Kaspa, wRPC
    /// on the ports of kaspad, no JSON-RPC; its ledger in memory; no output, no log.
    fn default() -> Self {
        let cores = cores();
        let grpc = grpc::Config::default();
        Self {
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            announced: Announced::default(),
            rpc_ports: RpcPorts { rpc: RPC_PORT_DEFAULT, pubsub: None },
            grpc_port: Some(GrpcPort::Preferably(grpc_setup::PORT_DEFAULT)),
            tpu_port: None,
            kaspa_ports: KaspaPorts::default(),
            endpoints_file: None,
            rpc: rpc_solana::Config::default(),
            pubsub: rpc_solana::pubsub::Config::default(),
            grpc: grpc::Config {
                replay_slots_max: grpc.replay_slots_max.max(REPLAY_SLOTS_MIN),
                ..grpc
            },
            quic: ::tpu::Config::default(),
            forward: Vec::new(),
            console: false,
            api_keys: None,
            serving: ServingOptions::default(),
            io_threads: (cores / 2).max(1),
            pool: cpu_pool::Config { threads: cores, ..cpu_pool::Config::default() },
            ledger_dir: None,
            reset: false,
            ledger: LedgerConfig::new(localnet::ADDRESSES_MAX_DEFAULT),
            history: HistorySettings::default(),
            queue_max: localnet::QUEUE_MAX_DEFAULT,
            cache_bytes_max: CACHE_BYTES_MAX_DEFAULT,
            cluster_log: None,
            quiet: true,
            log: false,
            log_format: LogFormat::default(),
            otlp_endpoint: None,
        }
    }
}

impl NodeConfig {
    /// Serves on free ports, which [`NodeHandle::addresses`](crate::NodeHandle::addresses) names.
    pub fn with_free_ports(mut self) -> Self {
        self.rpc_ports = RpcPorts { rpc: 0, pubsub: None };
        self.grpc_port = self.grpc_port.map(|_| GrpcPort::Exactly(0));
        self.tpu_port = self.tpu_port.map(|_| 0);
        let rpc = self.kaspa_ports.rpc.map(|_| 0);
        let grpc = self.kaspa_ports.grpc.map(|_| 0);
        self.kaspa_ports = KaspaPorts { wrpc_borsh: Some(0), wrpc_json: Some(0), rpc, grpc };
        self
    }

    /// Serves JSON-RPC on this port; 0 is a free one. A node of Kaspa serves it only with this setting.
    pub fn with_rpc_port(mut self, port: u16) -> Self {
        self.rpc_ports = RpcPorts { rpc: port, pubsub: None };
        self.kaspa_ports.rpc = Some(port);
        self
    }

    /// Serves kaspad's gRPC on this port; 0 is a free one. It has no effect on other nodes.
    pub fn with_kaspa_grpc_port(mut self, port: u16) -> Self {
        self.kaspa_ports.grpc = Some(port);
        self
    }

    /// Accepts transactions over QUIC on this UDP port; 0 is a free one.
    pub fn with_tpu_port(self, port: u16) -> Self {
        Self { tpu_port: Some(port), ..self }
    }

    /// Stores the ledger in this directory, and continues an existing one.
    pub fn with_ledger(self, dir: impl Into<PathBuf>) -> Self {
        Self { ledger_dir: Some(dir.into()), ..self }
    }

    /// Appends the blocks to the replicated log at `log_url` (`nats://HOST:PORT`, `file:///DIR` or `s3://BUCKET/PREFIX`),
    /// as cluster `local`. The snapshots that the log starts with are stored in the directory or bucket `depot_url`.
    /// Without the feature `cluster` of this crate the node does not start.
    pub fn with_cluster_log(self, log_url: &str, depot_url: &str) -> Self {
        Self { cluster_log: Some(ClusterLogConfig::new(log_url, depot_url)), ..self }
    }

    /// Settings from flags. Reads every file that they name, and checks every number.
    pub(crate) fn from_flags(flags: &NodeFlags, defaults: &ProducerDefaults) -> Result<Self> {
        bounds::check(&bounds::node(flags))?;
        let cores = cores();
        let ledger_dir = flags.ledger.ledger.clone();
        Ok(Self {
            bind_address: flags.listen.bind_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            announced: Announced::new(flags.listen.advertised_ip)?,
            rpc_ports: RpcPorts { rpc: rpc_port(flags), pubsub: None },
            grpc_port: grpc_setup::port(&flags.grpc, flags.listen.rpc_port)?,
            tpu_port: tpu_port(flags, defaults.has_tpu)?,
            kaspa_ports: KaspaPorts::default(),
            endpoints_file: endpoints_file(flags)?,
            rpc: rpc_config(flags, defaults.min_slot_wait_ms)?,
            pubsub: pubsub_config(flags)?,
            grpc: grpc_config(flags, defaults.replay_slots_min)?,
            quic: quic_config(flags)?,
            forward: flags.quic.forward.clone(),
            console: !flags.console.no_console,
            api_keys: flags.keys.api_keys.as_deref().map(ApiKeyFile::open).transpose()?,
            serving: ServingOptions::from_flags(&flags.serving, ledger_dir.as_deref())?,
            io_threads: flags.threads.io_threads.unwrap_or_else(|| (cores / 2).max(1)),
            pool: pool_config(flags, cores)?,
            ledger_dir,
            reset: flags.ledger.reset,
            ledger: ledger_config(flags)?,
            history: HistorySettings::from_flags(&flags.history),
            queue_max: flags.queue.queue_max.unwrap_or(localnet::QUEUE_MAX_DEFAULT),
            cache_bytes_max: flags.bounds.cache_bytes_max.unwrap_or(CACHE_BYTES_MAX_DEFAULT),
            cluster_log: ClusterLogConfig::from_flags(&flags.cluster_log, &flags.log_writer)?,
            quiet: flags.output.quiet,
            log: flags.output.log,
            log_format: flags.output.log_format.unwrap_or_default(),
            otlp_endpoint: flags
                .output
                .otlp_endpoint
                .as_deref()
                .map(parse_collector)
                .transpose()?,
        })
    }

    /// Refuses two TCP ports that exclude each other, which one of them could not be bound to. `faucet_port` is that of
    /// the faucet.
    pub(crate) fn check_ports(&self, faucet_port: Option<u16>) -> Result<()> {
        let RpcPorts { rpc, pubsub } = self.rpc_ports;
        let pubsub = pubsub.or_else(|| rpc.checked_add(1).filter(|_| rpc != 0));
        let grpc = self.grpc_port.and_then(|port| match port {
            GrpcPort::Exactly(port) => Some(port),
            GrpcPort::Preferably(_) => None,
        });
        self.check_different(&[
            ("--rpc-port", Some(rpc)),
            ("WebSocket, after --rpc-port,", pubsub),
            ("--grpc-port", grpc),
            ("--faucet-port", faucet_port),
        ])
    }

    /// Refuses two TCP ports of a node of Kaspa that exclude each other.
    pub(crate) fn check_kaspa_ports(&self, network: Network) -> Result<()> {
        self.check_different(&[
            ("--wrpc-borsh-port", Some(self.kaspa_ports.borsh(network))),
            ("--wrpc-json-port", Some(self.kaspa_ports.json(network))),
            ("--rpc-port", self.kaspa_ports.rpc),
            ("--grpc-port", self.kaspa_ports.grpc),
        ])
    }

    /// Refuses two of these ports, and of those that every node may have, if only one can be bound.
    fn check_different(&self, ports: &[(&'static str, Option<u16>)]) -> Result<()> {
        let at = |port: Option<u16>| port.map(|port| SocketAddr::new(self.bind_address, port));
        let own = ports.iter().map(|&(name, port)| (name, at(port)));
        let common = [
            ("--metrics-address", self.serving.metrics_address),
            ("--admin-address", self.serving.admin_address),
        ];
        let rows = own.chain(common);
        let bound = rows.filter_map(|(name, address)| Some((name, address?)));
        let bound: Vec<_> = bound.filter(|(_, address)| address.port() != 0).collect();
        for (number, (name, address)) in bound.iter().enumerate() {
            if let Some((other, _)) = bound[..number].iter().find(|(_, it)| overlap(*it, *address))
            {
                bail!("{name} {}: {other} has this port", address.port());
            }
        }
        Ok(())
    }
}

/// Whether only one of two addresses can be bound.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let contains = |all: SocketAddr, it: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || it.is_ipv4())
    };
    one.port() == other.port()
        && (one.ip() == other.ip() || contains(one, other) || contains(other, one))
}

/// The file of `--endpoints-file`, which is written when the node is ready.
fn endpoints_file(flags: &NodeFlags) -> Result<Option<PathBuf>> {
    let Some(path) = &flags.listen.endpoints_file else { return Ok(None) };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    ensure!(!path.is_dir(), "--endpoints-file {}: a directory", path.display());
    ensure!(
        dir.is_none_or(Path::is_dir),
        "--endpoints-file {}: its directory does not exist",
        path.display()
    );
    Ok(Some(path.clone()))
}

/// The number of cores that the process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn rpc_port(flags: &NodeFlags) -> u16 {
    flags.listen.rpc_port.unwrap_or(RPC_PORT_DEFAULT)
}

/// The port two after JSON-RPC's by default. If the system chooses that one, it chooses this one too.
fn tpu_port(flags: &NodeFlags, is_default: bool) -> Result<Option<u16>> {
    if flags.quic.tpu_port.is_some() || !is_default {
        return Ok(flags.quic.tpu_port);
    }
    let rpc_port = rpc_port(flags);
    if rpc_port == 0 {
        return Ok(Some(0));
    }
    rpc_port.checked_add(2).map(Some).with_context(|| {
        format!(
            "--rpc-port {rpc_port}: no port two after it exists for transactions over QUIC; \
             set --tpu-port (0 uses a free port)"
        )
    })
}

fn rpc_config(flags: &NodeFlags, min_slot_wait_ms: u64) -> Result<rpc_solana::Config> {
    let table = flags.tables.rpc.clone();
    let serving = &flags.serving;
    let config = rpc_solana::Config {
        body_bytes_max: flags.requests.rpc_max_request_body_size.or(table.body_bytes_max),
        connections_max: flags.bounds.connections_max.unwrap_or(table.connections_max),
        slow_request_ms: flags.output.slow_request_ms.unwrap_or(table.slow_request_ms),
        allowed_origins: allowed_origins(&serving.allow_origin, &serving.allow_host)?,
        min_slot_wait_ms: table.min_slot_wait_ms.or(Some(min_slot_wait_ms)),
        ..table
    };
    bounds::check(&bounds::rpc(&config))?;
    config.check()?;
    Ok(config)
}

fn pool_config(flags: &NodeFlags, cores: usize) -> Result<cpu_pool::Config> {
    let mut config = flags.tables.pool.clone();
    config.threads = flags.threads.cpu_threads.unwrap_or(cores);
    config.heavy.tasks_max = flags.bounds.heavy_max.unwrap_or(config.heavy.tasks_max);
    bounds::check(&bounds::pool(&config))?;
    Ok(config)
}

fn pubsub_config(flags: &NodeFlags) -> Result<rpc_solana::pubsub::Config> {
    let mut config = flags.tables.pubsub.clone();
    config.tracked_addresses_max =
        flags.bounds.max_tracked_addresses.unwrap_or(config.tracked_addresses_max);
    bounds::check(&bounds::pubsub(&config))?;
    config.check()?;
    Ok(config)
}

fn grpc_config(flags: &NodeFlags, replay_slots_min: u64) -> Result<grpc::Config> {
    let mut config = flags.tables.grpc.clone();
    bounds::check(&bounds::grpc(&config))?;
    ensure!(
        flags.grpc.no_grpc || flags.keys.api_keys.is_none() || config.x_token_file.is_none(),
        "grpc.x_token_file and --api-keys exclude each other: list the token as a key"
    );
    if !flags.grpc.no_grpc {
        grpc::Server::check(&config)?;
    }
    config.replay_slots_max = config.replay_slots_max.max(replay_slots_min);
    Ok(config)
}

fn quic_config(flags: &NodeFlags) -> Result<::tpu::Config> {
    let table = flags.tables.quic.clone();
    let config = ::tpu::Config {
        connections_max: flags.quic.tpu_connections_max.unwrap_or(table.connections_max),
        weights: flags.quic.identity_weights.clone().or_else(|| table.weights.clone()),
        ..table
    };
    bounds::check(&bounds::quic(&config))?;
    config.check()?;
    if let Some(path) = &config.weights {
        input_file::check(path, ::tpu::WEIGHTS_BYTES_MAX).context("--identity-weights")?;
    }
    Ok(config)
}

fn ledger_config(flags: &NodeFlags) -> Result<LedgerConfig> {
    Ok(LedgerConfig {
        addresses_max: flags.bounds.max_addresses.unwrap_or(localnet::ADDRESSES_MAX_DEFAULT),
        indices: index_flags::from_flags(&flags.indices)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::flags::{GrpcFlags, ListenFlags, OutputFlags, ServingFlags};

    fn refusal(flags: &NodeFlags) -> String {
        let defaults =
            ProducerDefaults { has_tpu: false, replay_slots_min: 1, min_slot_wait_ms: 0 };
        let checked = NodeConfig::from_flags(flags, &defaults)
            .and_then(|config| config.check_ports(Some(9_900)));
        format!("{:#}", checked.expect_err("it is refused"))
    }

    #[test]
    fn what_a_start_would_refuse_is_refused_before() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("s".repeat(300));
        let missing = dir.path().join("none/endpoints.json");
        let serving = |serving| NodeFlags { serving, ..NodeFlags::default() };
        let listen = |file| {
            let listen = ListenFlags { endpoints_file: Some(file), ..ListenFlags::default() };
            NodeFlags { listen, ..NodeFlags::default() }
        };
        let output = OutputFlags {
            otlp_endpoint: Some("ftp://u:KEY@x".to_owned()),
            ..OutputFlags::default()
        };
        let mut token = NodeFlags::default();
        token.tables.grpc.x_token_file = Some("/dev/zero".into());
        for (flags, expected) in [
            (NodeFlags { output, ..NodeFlags::default() }, "--otlp-endpoint ftp://x: "),
            (
                serving(ServingFlags { admin_socket: Some(socket), ..ServingFlags::default() }),
                "--admin-socket ",
            ),
            (listen(dir.path().to_owned()), "--endpoints-file "),
            (listen(missing), "--endpoints-file "),
            (token, "grpc.x_token_file: /dev/zero: a device"),
        ] {
            let text = refusal(&flags);
            assert!(text.starts_with(expected) && !text.contains("KEY"), "{text}");
        }
    }

    #[test]
    fn a_port_has_one_server() {
        let services = |grpc_port| NodeFlags {
            grpc: GrpcFlags { grpc_port: Some(grpc_port), ..GrpcFlags::default() },
            ..NodeFlags::default()
        };
        let metrics = |address: &str| NodeFlags {
            serving: ServingFlags {
                metrics_address: Some(address.parse().expect("an address")),
                ..ServingFlags::default()
            },
            ..NodeFlags::default()
        };
        for (flags, expected) in [
            (services(8_899), "--grpc-port 8899: --rpc-port has this port"),
            (services(8_900), "--grpc-port 8900: WebSocket, after --rpc-port, has this port"),
            (services(9_900), "--faucet-port 9900: --grpc-port has this port"),
            (metrics("127.0.0.1:8899"), "--metrics-address 8899: --rpc-port has this port"),
            (metrics("[::]:8899"), "--metrics-address 8899: --rpc-port has this port"),
        ] {
            assert_eq!(refusal(&flags), expected);
        }
        let defaults = ProducerDefaults { has_tpu: true, replay_slots_min: 1, min_slot_wait_ms: 0 };
        for flags in [NodeFlags::default(), metrics("127.0.0.2:8899"), metrics("127.0.0.1:0")] {
            let config = NodeConfig::from_flags(&flags, &defaults).expect("valid settings");
            config.check_ports(None).expect("different ports");
        }
    }

    #[test]
    fn the_producer_decides_how_long_a_call_waits_for_a_slot() {
        let defaults =
            ProducerDefaults { has_tpu: false, replay_slots_min: 1, min_slot_wait_ms: 1_000 };
        let wait_ms = |table: Option<u64>| {
            let mut flags = NodeFlags::default();
            flags.tables.rpc.min_slot_wait_ms = table;
            let config = NodeConfig::from_flags(&flags, &defaults).expect("valid settings");
            config.rpc.min_slot_wait_ms
        };
        assert_eq!(wait_ms(None), Some(1_000));
        assert_eq!(wait_ms(Some(0)), Some(0));
        assert_eq!(wait_ms(Some(20)), Some(20));
    }
}
