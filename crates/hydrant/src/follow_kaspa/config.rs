//! The settings of `hydrant follow-kaspa`: flags and configuration file, merged and checked.
//!
//! Not here: the settings that every node has (`node::config`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::follow_kaspa::{
    FollowError, ImportConfig, ImportProgress, PeerConfig, SnapshotConfig, SourceConfig,
};
use anyhow::{Context, Result, bail, ensure};
use chain_kaspa::{ChainConfig, DEPTH_DEFAULT};
use kaspa::Network;
use store::{Directory, DirectoryContents};

use crate::bounds;
use crate::config_file;
use crate::follow_kaspa::flags::{FollowKaspaFlags, KaspaFollowerFlags};
use crate::node::kaspa::ports::KaspaPorts;
use crate::node::{Merge, NodeConfig, NodeError, ProducerDefaults};

/// The name of the snapshot file in the directory of `--ledger`.
const SNAPSHOT_FILE: &str = "kaspa.snapshot";
/// The form of a source's URL, for refusals.
const SOURCE_FORM: &str = "the form is ws[s]://HOST:PORT";
/// The form of a peer's address, for refusals.
const PEER_FORM: &str = "the form is HOST[:PORT]";
/// Time that a start from the file may have to catch up with.
const SNAPSHOT_INTERVAL_DEFAULT: Duration = Duration::from_secs(600);

/// The settings of `hydrant follow-kaspa`.
pub(crate) struct KaspaSettings {
    pub(crate) node: NodeConfig,
    pub(crate) chain: KaspaConfig,
}

/// The settings of a followed chain of Kaspa.
pub struct KaspaConfig {
    pub(crate) network: Network,
    /// The sources, the preferred one first.
    pub(crate) sources: Vec<SourceConfig>,
    /// The sources that answer requests in JSON.
    pub(crate) json_sources: Vec<SourceConfig>,
    /// The peers that send the UTXO set of the pruning point, if there is no snapshot file.
    pub(crate) import_peers: Vec<PeerConfig>,
    pub(crate) import_progress: Arc<ImportProgress>,
    /// Chain blocks that a reorganization may remove.
    pub(crate) reorg_depth: usize,
    pub(crate) snapshot_interval: Duration,
    /// Whether methods that change the source are forwarded.
    pub(crate) allow_unsafe_rpc: bool,
}

/// The flags merged with the file: a flag overrides the file, lists are concatenated.
pub(crate) fn with_file(flags: FollowKaspaFlags) -> Result<FollowKaspaFlags> {
    let Some(path) = flags.config.config.clone() else { return Ok(flags) };
    let file = config_file::read_toml(config_file::FLAG, &path, FollowKaspaFlags::from_toml)?;
    Ok(flags.merge(file))
}

impl KaspaSettings {
    /// Settings from flags. Reads every file that they name except the snapshot, and checks every number.
    pub(crate) fn from_flags(flags: &FollowKaspaFlags) -> Result<Self> {
        bounds::check(&bounds::follow_kaspa(&flags.follower))?;
        let defaults =
            ProducerDefaults { has_tpu: false, replay_slots_min: 0, min_slot_wait_ms: 0 };
        let mut node = NodeConfig::from_flags(&flags.to_node_flags(), &defaults)?;
        ensure!(!node.reset || node.ledger_dir.is_some(), "--reset requires --ledger");
        ensure!(
            !flags.follower.allow_unsafe_rpc || !flags.serving.allow_origin.is_empty(),
            "--allow-unsafe-rpc requires --allow-origin: otherwise web pages of any site may call these methods"
        );
        node.kaspa_ports = KaspaPorts {
            wrpc_borsh: flags.follower.wrpc_borsh_port,
            wrpc_json: flags.follower.wrpc_json_port,
            rpc: flags.listen.rpc_port,
            grpc: flags.follower.grpc_port,
        };
        let chain = KaspaConfig::from_flags(&flags.follower)?;
        ensure!(
            chain.import_peers.is_empty() || node.ledger_dir.is_some(),
            "--import-peer requires --ledger"
        );
        node.check_kaspa_ports(chain.network)?;
        Ok(Self { node, chain })
    }
}

impl KaspaConfig {
    /// Follows the chain of a network (`mainnet`, `testnet-10`, `simnet`, `devnet`) as these kaspads have it, the first
    /// healthy one of them. A source is the URL of the port for wRPC in Borsh (`ws[s]://HOST:PORT`).
    ///
    /// # Errors
    ///
    /// There is no such network, or a URL is not valid.
    pub fn new(network: &str, sources: &[&str]) -> Result<Self, NodeError> {
        let flags = KaspaFollowerFlags {
            network: Some(network.to_owned()),
            source: sources.iter().map(|&url| url.to_owned()).collect(),
            ..KaspaFollowerFlags::default()
        };
        Self::from_flags(&flags).map_err(NodeError::new)
    }

    /// Forwards requests in JSON to these kaspads, by the URLs of their ports for wRPC in JSON.
    ///
    /// # Errors
    ///
    /// A URL is not valid.
    pub fn with_json_sources(self, urls: &[&str]) -> Result<Self, NodeError> {
        let urls: Vec<String> = urls.iter().map(|&url| url.to_owned()).collect();
        let json_sources = parse_sources("JSON source", &urls).map_err(NodeError::new)?;
        Ok(Self { json_sources, ..self })
    }

    /// Imports the UTXO set of the pruning point from the first of these peers that sends it, if the ledger's directory
    /// has no snapshot file. Without a directory ([`NodeConfig::with_ledger`]) nothing is imported. A peer is the
    /// address of a kaspad's port for other nodes (`HOST[:PORT]`).
    ///
    /// # Errors
    ///
    /// An address is not valid.
    pub fn with_import_peers(self, addresses: &[&str]) -> Result<Self, NodeError> {
        let addresses: Vec<String> = addresses.iter().map(|&address| address.to_owned()).collect();
        let import_peers = parse_peers(&addresses, self.network).map_err(NodeError::new)?;
        Ok(Self { import_peers, ..self })
    }

    /// Returns the progress of the import with which the node starts. Other threads can read it while
    /// [`crate::NodeBuilder::serve`] imports, and cancel the import: then `serve` returns an error.
    pub fn import_progress(&self) -> &Arc<ImportProgress> {
        &self.import_progress
    }

    /// Follows reorganizations that remove up to this many chain blocks: from 1 to 1,000, and the nearer of the two for
    /// other numbers.
    pub fn with_reorg_depth(self, blocks: usize) -> Self {
        Self { reorg_depth: blocks.clamp(1, chain_kaspa::DEPTH_LIMIT), ..self }
    }

    fn from_flags(flags: &KaspaFollowerFlags) -> Result<Self> {
        ensure!(!flags.source.is_empty(), "--source is required: the kaspad to follow");
        let network = flags.network.as_deref().map(|name| name.parse::<Network>());
        let network = network.transpose().context("--network")?.unwrap_or(Network::Mainnet);
        let interval = flags.snapshot_interval.map(Duration::from_secs);
        Ok(Self {
            network,
            sources: parse_sources("--source", &flags.source)?,
            json_sources: parse_sources("--json-source", &flags.json_source)?,
            import_peers: parse_peers(&flags.import_peer, network)?,
            import_progress: Arc::default(),
            reorg_depth: flags.reorg_depth.unwrap_or(DEPTH_DEFAULT),
            snapshot_interval: interval.unwrap_or(SNAPSHOT_INTERVAL_DEFAULT),
            allow_unsafe_rpc: flags.allow_unsafe_rpc,
        })
    }

    /// Returns the path of the snapshot file. `None`: the UTXO set is not stored.
    pub(crate) fn snapshot_path(&self, node: &NodeConfig) -> Option<PathBuf> {
        node.ledger_dir.as_deref().map(|dir| dir.join(SNAPSHOT_FILE))
    }

    /// Returns the settings of the snapshot file.
    pub(crate) fn snapshot_config(&self, node: &NodeConfig) -> Option<SnapshotConfig> {
        let interval = self.snapshot_interval;
        self.snapshot_path(node).map(|path| SnapshotConfig { path, interval })
    }

    /// Returns the settings of the import, if the node starts with one.
    pub(crate) fn import_config(&self, node: &NodeConfig) -> Option<ImportConfig> {
        if self.import_peers.is_empty() {
            return None;
        }
        let snapshot = self.snapshot_path(node).filter(|path| !path.exists())?;
        let peers = self.import_peers.clone();
        Some(ImportConfig::new(self.network, self.sources.clone(), peers, snapshot))
    }

    /// Returns the settings of the chain.
    pub(crate) fn chain_config(&self, node: &NodeConfig) -> ChainConfig {
        let defaults = ChainConfig::new(node.ledger.addresses_max);
        let history = node.history.for_kaspa();
        ChainConfig { depth_max: self.reorg_depth, history, ..defaults }
    }

    /// Checks that there is a state to start from. The snapshot file is not read, because that may take minutes.
    pub(crate) fn check(&self, node: &NodeConfig) -> Result<()> {
        if let Some(dir) = &node.ledger_dir
            && let Ok(DirectoryContents::Ledger) = Directory::inspect(dir, SNAPSHOT_FILE)
        {
            let dir = dir.display();
            bail!("--ledger: {dir} has a ledger of Solana; fix: name another directory");
        }
        let network = self.network;
        let path = self.snapshot_path(node).filter(|_| !node.reset);
        let has_import = node.ledger_dir.is_some() && !self.import_peers.is_empty();
        let has_snapshot = path.as_deref().is_some_and(|path| path.exists());
        if network != Network::Mainnet || has_snapshot || has_import {
            return Ok(());
        }
        let error = FollowError::NeedsSnapshot { network };
        match path {
            Some(path) => bail!("--ledger: {} does not exist: {error}", path.display()),
            None if node.reset => bail!("--reset removes {SNAPSHOT_FILE}: {error}"),
            None => bail!("--ledger is required, with {SNAPSHOT_FILE} in it: {error}"),
        }
    }
}

fn parse_sources(flag: &str, urls: &[String]) -> Result<Vec<SourceConfig>> {
    let source = |url: &String| {
        let source = SourceConfig::new(url.clone());
        ensure!(source.has_valid_url(), "{flag} {}: {SOURCE_FORM}", source.server());
        Ok(source)
    };
    urls.iter().map(source).collect()
}

fn parse_peers(addresses: &[String], network: Network) -> Result<Vec<PeerConfig>> {
    let peer = |address: &String| {
        let peer = PeerConfig::parse(address, network);
        // It may have a path with a secret.
        peer.with_context(|| format!("--import-peer: {PEER_FORM}"))
    };
    addresses.iter().map(peer).collect()
}

#[cfg(test)]
mod tests {
    use chain_kaspa::HistoryLimits;

    use super::*;

    fn settings(file: &str) -> Result<KaspaSettings> {
        KaspaSettings::from_flags(&FollowKaspaFlags::from_toml(file)?)
    }

    fn refusal(file: &str) -> String {
        format!("{:#}", settings(file).err().expect("it is refused"))
    }

    #[test]
    fn the_defaults_are_those_of_kaspad() {
        let settings = settings("[follow-kaspa]\nsource = [\"ws://a:1\"]").expect("valid settings");
        let KaspaSettings { node, chain } = settings;
        assert_eq!((chain.network, chain.reorg_depth), (Network::Mainnet, 100));
        let ports = node.kaspa_ports;
        assert_eq!((ports.borsh(chain.network), ports.json(chain.network)), (17_110, 18_110));
        assert_eq!(ports.borsh(Network::Simnet), 17_510);
        assert_eq!((ports.rpc, ports.grpc), (None, None));
        assert_eq!((node.grpc_port, node.tpu_port), (None, None));
    }

    #[test]
    fn invalid_settings_are_refused_by_name() {
        let with = |lines: &str| format!("[follow-kaspa]\nsource = [\"ws://a:1\"]\n{lines}");
        for (file, expected) in [
            ("[follow-kaspa]\nnetwork = \"simnet\"".to_owned(), "--source is required"),
            (
                "[follow-kaspa]\nsource = [\"http://u:KEY@a:1/KEY\"]".to_owned(),
                "--source http://a:1: the form is ws[s]://HOST:PORT",
            ),
            (with("json-source = [\"ws://a\"]"), "--json-source ws://a: the form is"),
            (with("network = \"main\""), "--network: \"main\" is not a network of Kaspa"),
            (with("reorg-depth = 5000"), "--reorg-depth is 5000: must be from 1 to 1000"),
            (
                with("wrpc-json-port = 17110"),
                "--wrpc-json-port 17110: --wrpc-borsh-port has this port",
            ),
            (
                format!("rpc-port = 18110\n{}", with("")),
                "--rpc-port 18110: --wrpc-json-port has this port",
            ),
            (with("grpc-port = 17110"), "--grpc-port 17110: --wrpc-borsh-port has this port"),
            (format!("reset = true\n{}", with("")), "--reset requires --ledger"),
            (with("import-peer = [\"a:1\"]"), "--import-peer requires --ledger"),
            (with("import-peer = [\"http://a:1/KEY\"]"), "--import-peer: the form is HOST[:PORT]"),
            (with("allow-unsafe-rpc = true"), "--allow-unsafe-rpc requires --allow-origin"),
        ] {
            let text = refusal(&file);
            assert!(text.starts_with(expected) && !text.contains("KEY"), "{text}");
        }
        // The port after it is not needed, as it is on Solana.
        let last = format!("rpc-port = 65535\n{}", with(""));
        assert_eq!(settings(&last).expect("valid settings").node.kaspa_ports.rpc, Some(65_535));
        let listed = "allow-origin = [\"https://wallet.example\"]\n";
        settings(&format!("{listed}{}", with("allow-unsafe-rpc = true"))).expect("valid settings");
    }

    #[test]
    fn history_has_the_limits_of_the_node() {
        let limits = |lines: &str| {
            let file = format!("{lines}[follow-kaspa]\nsource = [\"ws://a:1\"]");
            let KaspaSettings { node, chain } = settings(&file).expect("valid settings");
            chain.chain_config(&node).history
        };
        let defaults = HistoryLimits::default();
        assert_eq!(limits(""), defaults);
        assert_eq!(limits("history-slots = 7\n"), HistoryLimits { blocks_max: 7, ..defaults });
        assert_eq!(limits("history-bytes = 9\n"), HistoryLimits { bytes_max: 9, ..defaults });
    }

    #[test]
    fn mainnet_needs_a_snapshot_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = format!(
            "ledger = \"{}\"\n[follow-kaspa]\nsource = [\"ws://a:1\"]",
            dir.path().display()
        );
        let KaspaSettings { node, chain } = settings(&file).expect("valid settings");
        let text = format!("{:#}", chain.check(&node).expect_err("there is no file"));
        assert!(
            text.contains("kaspa.snapshot does not exist: mainnet cannot be followed"),
            "{text}"
        );
        std::fs::write(dir.path().join(SNAPSHOT_FILE), "").expect("it is written");
        chain.check(&node).expect("the file is there");
        let reset = settings(&format!("reset = true\n{file}")).expect("valid settings");
        let text = format!("{:#}", reset.chain.check(&reset.node).expect_err("it is removed"));
        assert!(text.starts_with("--reset removes kaspa.snapshot: mainnet"), "{text}");
        let importing = format!("reset = true\n{file}\nimport-peer = [\"a\", \"b:1\"]");
        let importing = settings(&importing).expect("valid settings");
        importing.chain.check(&importing.node).expect("the set is imported");
        let names: Vec<String> =
            importing.chain.import_peers.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a:16111", "b:1"]);
        let without = "[follow-kaspa]\nsource = [\"ws://a:1\"]";
        let KaspaSettings { node, chain } = settings(without).expect("valid settings");
        let text = format!("{:#}", chain.check(&node).expect_err("there is no ledger"));
        assert!(text.starts_with("--ledger is required"), "{text}");
    }
}
