//! The settings of `hydrant replica`: flags and configuration file, merged, checked, and with all files that they name
//! read.
//!
//! Not here: the settings that every node has (`node::config`), those of the log (`cluster_log`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::Endpoint;
use solana::VerificationLevel;

use crate::bounds;
use crate::cluster_log::ClusterLogConfig;
use crate::config_file;
use crate::node::config::cores;
use crate::node::flags::LogWriterFlags;
use crate::node::{Merge, NodeConfig, ProducerDefaults};
use crate::replica::flags::{ReplicaCommandFlags, ReplicaFlags, VerifyMin};

/// Slots behind the log above which the node is not ready: three seconds of 400 ms slots.
const LAG_MAX_SLOTS_DEFAULT: u64 = 8;
/// Number of retained snapshots. If the newest one is damaged, the one before is loaded.
const SNAPSHOTS_RETAINED_DEFAULT: usize = 3;
/// The default of `--snapshot-interval`: an eighth of the default of `--log-max-age`.
const SNAPSHOT_INTERVAL_DEFAULT: Duration = Duration::from_secs(45 * 60);

/// The settings of `hydrant replica`.
pub(crate) struct ReplicaSettings {
    pub(crate) node: NodeConfig,
    pub(crate) replica: ReplicaNodeConfig,
}

/// The settings of a ledger that is fed by a replicated log.
pub struct ReplicaNodeConfig {
    pub(crate) log: ClusterLogConfig,
    /// The lowest level of proof of an ingester whose records are read; `None`: every one.
    pub(crate) level_min: Option<VerificationLevel>,
    pub(crate) lag_max_slots: u64,
    pub(crate) resume_slots_min: u64,
    /// The directory of the copy of the newest snapshot.
    pub(crate) cache_dir: Option<PathBuf>,
    /// `None`: no snapshots are written.
    pub(crate) snapshot_interval: Option<Duration>,
    pub(crate) snapshots_kept: usize,
    pub(crate) load_threads: usize,
    /// Whether final blocks are archived.
    pub(crate) archive: bool,
    /// The RPC port that transactions are sent to.
    pub(crate) upstream: Option<Endpoint>,
}

/// The flags merged with the file: a flag overrides the file, lists are concatenated.
pub(crate) fn with_file(flags: ReplicaCommandFlags) -> Result<ReplicaCommandFlags> {
    let Some(path) = flags.config.config.clone() else { return Ok(flags) };
    let file = config_file::read_toml(config_file::FLAG, &path, ReplicaCommandFlags::from_toml)?;
    Ok(flags.merge(file))
}

impl ReplicaSettings {
    /// Settings from flags. Reads every file that they name, and checks every number.
    pub(crate) fn from_flags(flags: &ReplicaCommandFlags) -> Result<Self> {
        bounds::check(&bounds::replica(&flags.replica))?;
        let stored = &flags.node.ledger;
        ensure!(
            stored.ledger.is_none() && !stored.reset,
            "--ledger, --reset: a replica stores no ledger; --replica-cache-dir stores a copy of the newest snapshot"
        );
        ensure!(
            flags.node.log_writer == LogWriterFlags::default(),
            "--log-replicas, --log-max-age, --log-max-bytes, --log-allow-data-loss, --log-entries: a replica only reads \
             the log; the ingester creates it, and appends to it"
        );
        let mut node = NodeConfig::from_flags(&flags.node, &ProducerDefaults::FOLLOWED)?;
        node.check_ports(None)?;
        // The node does not append its blocks to the log that they come from.
        let log = node.cluster_log.take();
        let log = log.context("--log-url is required: the log that the replica reads")?;
        let replica = ReplicaNodeConfig::from_flags(&flags.replica, log)?;
        replica.check(&node)?;
        Ok(Self { node, replica })
    }
}

impl ReplicaNodeConfig {
    /// Reads the log of the cluster `local` at `log_url` (`nats://HOST:PORT`, `file:///DIR` or `s3://BUCKET/PREFIX`),
    /// whose snapshots are in the directory or bucket `depot_url`.
    pub fn new(log_url: &str, depot_url: &str) -> Self {
        Self::with_log(ClusterLogConfig::new(log_url, depot_url))
    }

    fn with_log(log: ClusterLogConfig) -> Self {
        Self {
            log,
            level_min: None,
            lag_max_slots: LAG_MAX_SLOTS_DEFAULT,
            resume_slots_min: 0,
            cache_dir: None,
            snapshot_interval: Some(SNAPSHOT_INTERVAL_DEFAULT),
            snapshots_kept: SNAPSHOTS_RETAINED_DEFAULT,
            load_threads: cores(),
            archive: false,
            upstream: None,
        }
    }

    /// Stores a copy of the newest snapshot in this directory, and starts from it.
    pub fn with_cache_dir(self, dir: impl Into<PathBuf>) -> Self {
        Self { cache_dir: Some(dir.into()), ..self }
    }

    /// Writes a snapshot at this interval.
    pub fn with_snapshot_interval(self, interval: Duration) -> Self {
        Self { snapshot_interval: Some(interval), ..self }
    }

    /// Refuses settings that cannot work together.
    pub(crate) fn check(&self, node: &NodeConfig) -> Result<()> {
        if let Some(dir) = &self.cache_dir {
            check_cache_dir(dir, &self.log.depot_url)?;
        }
        let grpc_slots = node.grpc_port.as_ref().map_or(0, |_| node.grpc.replay_slots_max);
        let resumed_max = grpc_slots.max(node.pubsub.resume_blocks as u64);
        ensure!(
            self.resume_slots_min <= resumed_max,
            "--replica-resume-slots {}: subscribers can resume at most {resumed_max} slots back; raise \
             pubsub.resume_blocks or grpc.replay_slots_max, or lower --replica-resume-slots",
            self.resume_slots_min
        );
        Ok(())
    }

    fn from_flags(flags: &ReplicaFlags, log: ClusterLogConfig) -> Result<Self> {
        ensure!(
            flags.snapshot_interval != Some(0) || flags.snapshots_kept.is_none(),
            "--snapshots-kept: with --snapshot-interval 0 the replica writes no snapshot and removes none; leave it out"
        );
        let defaults = Self::with_log(log);
        Ok(Self {
            level_min: flags.verify_min.unwrap_or_default().required_level(),
            lag_max_slots: flags.replica_lag_max_slots.unwrap_or(defaults.lag_max_slots),
            resume_slots_min: flags.replica_resume_slots.unwrap_or(defaults.resume_slots_min),
            cache_dir: flags.replica_cache_dir.clone(),
            snapshot_interval: match flags.snapshot_interval {
                Some(0) => None,
                Some(seconds) => Some(Duration::from_secs(seconds)),
                None => defaults.snapshot_interval,
            },
            snapshots_kept: flags.snapshots_kept.unwrap_or(defaults.snapshots_kept),
            load_threads: flags.load_threads.unwrap_or(defaults.load_threads),
            archive: flags.archive,
            upstream: upstream(flags)?,
            ..defaults
        })
    }

    /// Returns the settings of the ledger in a node.
    pub(crate) fn for_ledger(&self, node: &NodeConfig) -> ::replica::ReplicaConfig {
        let history = node.history.for_solana();
        let cluster = &self.log.cluster;
        ::replica::ReplicaConfig {
            level_min: self.level_min,
            lag_max_slots: self.lag_max_slots,
            resume_slots_min: self.resume_slots_min,
            cache_dir: self.cache_dir.clone(),
            snapshot_interval: self.snapshot_interval,
            snapshots_kept: self.snapshots_kept,
            load_threads: self.load_threads,
            ..::replica::ReplicaConfig::new(cluster, node.ledger.clone(), history)
        }
    }
}

impl VerifyMin {
    /// Returns the lowest level that an ingester must have; `None` if every one is accepted.
    fn required_level(self) -> Option<VerificationLevel> {
        match self {
            Self::Off => None,
            Self::Sequence => Some(VerificationLevel::Sequence),
            Self::Agree => Some(VerificationLevel::Agreed),
            Self::Votes => Some(VerificationLevel::Voted),
        }
    }
}

/// Refuses a copy in the store itself: all snapshots but the newest one would be removed from it.
fn check_cache_dir(dir: &Path, depot_url: &str) -> Result<()> {
    let Some(depot) = depot_url.strip_prefix("file://") else { return Ok(()) };
    let find = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    ensure!(
        find(dir) != find(Path::new(depot)),
        "--replica-cache-dir {}: it is the directory of --depot, where all snapshots but the newest one would be \
         removed; name another one",
        dir.display()
    );
    Ok(())
}

/// A node's RPC port, with the key of `--upstream-key`.
fn upstream(flags: &ReplicaFlags) -> Result<Option<Endpoint>> {
    let Some(url) = flags.upstream.as_deref() else {
        ensure!(flags.upstream_key.is_none(), "--upstream-key needs --upstream");
        return Ok(None);
    };
    let endpoint = Endpoint::parse(url).context("--upstream")?;
    let Some(path) = &flags.upstream_key else { return Ok(Some(endpoint)) };
    let key = input_file::read_secret(path).context("--upstream-key")?;
    let endpoint = endpoint.with_api_key(&key);
    endpoint.map(Some).with_context(|| format!("--upstream-key {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeFlags;
    use crate::node::flags::{ClusterLogFlags, LedgerFlags};

    fn refusal(replica: ReplicaFlags, node: NodeFlags) -> String {
        let flags = ReplicaCommandFlags { replica, node, ..ReplicaCommandFlags::default() };
        let err = ReplicaSettings::from_flags(&flags).err().expect("it is refused");
        format!("{err:#}")
    }

    fn node_with_log() -> NodeFlags {
        let cluster_log = ClusterLogFlags {
            log_url: Some("file:///log".to_owned()),
            depot: Some("file:///depot".to_owned()),
            ..ClusterLogFlags::default()
        };
        NodeFlags { cluster_log, ..NodeFlags::default() }
    }

    #[test]
    fn a_refusal_names_the_flag() {
        let none = ReplicaFlags::default;
        let ledger = LedgerFlags { ledger: Some("dir".into()), reset: false };
        let log_writer = LogWriterFlags { log_entries: true, ..LogWriterFlags::default() };
        let upstream = |url: &str| ReplicaFlags { upstream: Some(url.to_owned()), ..none() };
        for (replica, node, expected) in [
            (none(), NodeFlags::default(), "--log-url is required"),
            (none(), NodeFlags { ledger, ..node_with_log() }, "--ledger, --reset: a replica"),
            (none(), NodeFlags { log_writer, ..node_with_log() }, "--log-replicas, --log-max-age"),
            (upstream("ws://a/KEY"), node_with_log(), "--upstream: ws://a: "),
            (
                ReplicaFlags { upstream_key: Some("key".into()), ..none() },
                node_with_log(),
                "--upstream-key needs --upstream",
            ),
            (
                ReplicaFlags { load_threads: Some(0), ..none() },
                node_with_log(),
                "--load-threads is 0",
            ),
            (
                ReplicaFlags { replica_cache_dir: Some("/depot/".into()), ..none() },
                node_with_log(),
                "--replica-cache-dir /depot/: it is the directory of --depot",
            ),
            (
                ReplicaFlags { replica_resume_slots: Some(151), ..none() },
                node_with_log(),
                "--replica-resume-slots 151: subscribers can resume at most 150 slots back",
            ),
            (
                ReplicaFlags { snapshot_interval: Some(0), snapshots_kept: Some(2), ..none() },
                node_with_log(),
                "--snapshots-kept: with --snapshot-interval 0",
            ),
        ] {
            let text = refusal(replica, node);
            assert!(text.starts_with(expected) && !text.contains("KEY"), "{text}");
        }
    }

    #[test]
    fn a_replica_does_not_append_to_the_log_that_it_reads() {
        let replica = ReplicaFlags { replica_resume_slots: Some(150), ..ReplicaFlags::default() };
        let node = node_with_log();
        let flags = ReplicaCommandFlags { replica, node, ..ReplicaCommandFlags::default() };
        let ReplicaSettings { node, replica } =
            ReplicaSettings::from_flags(&flags).expect("valid settings");
        assert!(node.cluster_log.is_none());
        assert_eq!(replica.log.url, "file:///log");
        assert_eq!(replica.for_ledger(&node).lag_max_slots, LAG_MAX_SLOTS_DEFAULT);
        assert_eq!(node.rpc.min_slot_wait_ms, Some(1_000));
    }
}
