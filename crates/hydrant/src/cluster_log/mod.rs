//! The replicated log that the blocks of a Solana ledger are appended to: its settings, its start and its end.
//!
//! Shape: [`ClusterLogConfig`] are the settings, checked. `open_sources` opens the log and the store of snapshots for
//! readers, [`open`] for a ledger whose blocks are appended, before that ledger. [`LedgerIngester`] is the ingester, which
//! stops after the ledger, so that the log gets its last block.
//! Invariant: a log that is down while the node runs does not affect its health. Metrics, the log lines and a line of
//! `/ready` report it.
//! Without the feature `cluster` there are the settings only, and a node with a log is refused.
//! Not here: the ingester (`ingest`).

#[cfg(feature = "cluster")]
mod ingester;
#[cfg(feature = "cluster")]
mod sources;
#[cfg(not(feature = "cluster"))]
mod without;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chain_solana::{Cluster, ClusterInfo, History, Reader};
use solana::VerificationLevel;

#[cfg(feature = "cluster")]
pub(crate) use self::ingester::{LedgerIngester, OpenedLog, open};
#[cfg(feature = "cluster")]
pub(crate) use self::sources::{LogSources, open_log, open_sources};
#[cfg(not(feature = "cluster"))]
pub(crate) use self::without::{LedgerIngester, OpenedLog, open};
use crate::missing_feature::require_cluster;
use crate::node::flags::{ClusterLogFlags, LogWriterFlags};

/// The name of a cluster without `--log-cluster`.
pub(crate) const CLUSTER_DEFAULT: &str = "local";
/// Servers that store the log of NATS: one may fail.
const REPLICAS_DEFAULT: u8 = 3;
/// Seconds of retention: several times the time in which a replica loads a snapshot.
const MAX_AGE_S_DEFAULT: u64 = 6 * 60 * 60;
/// Bytes of retention. NATS reserves them.
const MAX_BYTES_DEFAULT: u64 = 64 << 30;

/// The settings of a replicated log.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "a node with a log is refused"))]
pub(crate) struct ClusterLogConfig {
    pub(crate) url: String,
    pub(crate) depot_url: String,
    pub(crate) cluster: String,
    pub(crate) replicas: u8,
    pub(crate) max_age: Duration,
    pub(crate) max_bytes: u64,
    pub(crate) allow_data_loss: bool,
    pub(crate) has_entries: bool,
}

/// The ledger whose blocks are logged.
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "a node with a log is refused"))]
pub(crate) struct LoggedChain {
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) info: Arc<ClusterInfo>,
    pub(crate) cluster: Arc<dyn Cluster>,
    /// The level of proof that a block needs before the ledger confirms it; `None` if it verifies nothing.
    pub(crate) level: Option<VerificationLevel>,
}

impl ClusterLogConfig {
    /// The default settings of a log and of its store of snapshots.
    pub(crate) fn new(url: &str, depot_url: &str) -> Self {
        Self {
            url: url.to_owned(),
            depot_url: depot_url.to_owned(),
            cluster: CLUSTER_DEFAULT.to_owned(),
            replicas: REPLICAS_DEFAULT,
            max_age: Duration::from_secs(MAX_AGE_S_DEFAULT),
            max_bytes: MAX_BYTES_DEFAULT,
            allow_data_loss: false,
            has_entries: false,
        }
    }

    /// Settings from flags that were merged with the file. `None` without `--log-url`. A build without the feature
    /// `cluster` refuses that flag.
    pub(crate) fn from_flags(
        flags: &ClusterLogFlags,
        writer: &LogWriterFlags,
    ) -> Result<Option<Self>> {
        let Some(url) = &flags.log_url else {
            ensure!(flags.depot.is_none(), "--depot requires --log-url");
            return Ok(None);
        };
        require_cluster("--log-url")?;
        let depot_url = flags.depot.as_ref();
        let depot_url = depot_url.context("--log-url requires --depot: the store of snapshots")?;
        let defaults = Self::new(url, depot_url);
        let replicas = writer.log_replicas.map(u8::try_from).transpose();
        Ok(Some(Self {
            cluster: flags.log_cluster.clone().unwrap_or_else(|| defaults.cluster.clone()),
            replicas: replicas.context("--log-replicas")?.unwrap_or(defaults.replicas),
            max_age: writer.log_max_age.map_or(defaults.max_age, Duration::from_secs),
            max_bytes: writer.log_max_bytes.unwrap_or(defaults.max_bytes),
            allow_data_loss: writer.log_allow_data_loss,
            has_entries: writer.log_entries,
            ..defaults
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_requires_a_depot_and_a_depot_a_log() {
        let url = || Some("file:///log".to_owned());
        let writer = LogWriterFlags::default();
        let without_depot = ClusterLogFlags { log_url: url(), ..ClusterLogFlags::default() };
        let without_log = ClusterLogFlags { depot: url(), ..ClusterLogFlags::default() };
        for (flags, expected) in [
            (without_depot, "--log-url requires --depot"),
            (without_log, "--depot requires --log-url"),
        ] {
            let err = ClusterLogConfig::from_flags(&flags, &writer).expect_err("it is refused");
            let err = err.to_string();
            assert!(err.contains(expected), "{err}");
        }
        let both = ClusterLogFlags { log_url: url(), depot: url(), ..ClusterLogFlags::default() };
        let config = ClusterLogConfig::from_flags(&both, &writer).expect("valid settings");
        assert_eq!(config.map(|config| config.cluster), Some("local".to_owned()));
        let none = ClusterLogConfig::from_flags(&ClusterLogFlags::default(), &writer);
        assert!(none.expect("valid settings").is_none());
    }
}
