//! The configuration of a replica, and its defaults.

use std::path::PathBuf;
use std::time::Duration;

use chain_solana::HistoryLimits;
use query::LedgerConfig;
use solana::VerificationLevel;

/// Configuration of a replica: its sources and its bounds.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// Name of the cluster: of its log, and of its snapshots in the object store.
    pub cluster: String,
    /// Addresses and indices of the ledger.
    pub ledger: LedgerConfig,
    /// Limits of the retained history.
    pub history: HistoryLimits,
    /// The lowest level of proof of an ingester whose records are read. Records of a lower one are a fault of the log
    /// ([`Fault::Level`](crate::Fault)), and snapshots of one are not loaded. Default: `None`, every level.
    pub level_min: Option<VerificationLevel>,
    /// Maximum lag of a ready replica, in slots. Default: 8.
    pub lag_max_slots: u64,
    /// Minimum number of slots between the snapshot and the tip of a ready replica: subscribers can resume so far back.
    /// Default: 0.
    pub resume_slots_min: u64,
    /// Directory with a copy of the newest snapshot, from which a restart loads without the object store.
    pub cache_dir: Option<PathBuf>,
    /// Age of the newest snapshot at which the replica writes one, whichever replica wrote that. `None`: it writes none.
    /// Default: 45 minutes, an eighth of the time for which a log retains its messages by default.
    pub snapshot_interval: Option<Duration>,
    /// Number of the newest snapshots that are retained when one is written. Retained are also older ones that the log
    /// still needs, and those that are younger than an hour and than four times the time of a load. Default: 3.
    pub snapshots_kept: usize,
    /// Threads that decode the parts of a snapshot. Default: 2.
    pub load_threads: usize,
    /// Maximum bytes of decoded records that wait for the writing thread. A record that is larger waits alone. Default:
    /// 64 MiB.
    pub queue_bytes_max: usize,
    /// Maximum bytes of the accounts that differ between the ledger and a snapshot to jump to. Default: 4 GiB.
    pub changes_bytes_max: usize,
    /// Time between two attempts to reach the log, or to find a snapshot. Default: 2 s.
    pub retry_interval: Duration,
    /// Time between two attempts to read a damaged record, so that another server of the log can reply. Default: 0.7 s.
    pub reread_interval: Duration,
    /// Time without a way to continue, outages left out, after which the replica reports the fault to the ingesters
    /// ([`cluster_snapshot::fault_reports`]). Default: 30 s.
    pub report_delay: Duration,
    /// Time without a message after which the extent of the log is requested, and a newer generation. Default: 2 s.
    pub idle_check_interval: Duration,
}

impl ReplicaConfig {
    /// Returns the default configuration of a replica of `cluster`.
    pub fn new(cluster: &str, ledger: LedgerConfig, history: HistoryLimits) -> Self {
        Self {
            cluster: cluster.to_owned(),
            ledger,
            history,
            level_min: None,
            lag_max_slots: 8,
            resume_slots_min: 0,
            cache_dir: None,
            snapshot_interval: Some(Duration::from_secs(45 * 60)),
            snapshots_kept: 3,
            load_threads: 2,
            queue_bytes_max: 64 << 20,
            changes_bytes_max: 4 << 30,
            retry_interval: Duration::from_secs(2),
            reread_interval: Duration::from_millis(700),
            report_delay: Duration::from_secs(30),
            idle_check_interval: Duration::from_secs(2),
        }
    }
}
