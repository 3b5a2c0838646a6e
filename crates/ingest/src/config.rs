//! The settings of an ingester, and the check of its log.

use std::sync::Arc;
use std::time::Duration;

use chain_solana::{Cluster, ClusterInfo, History};
use replicated_log::{LogError, LogSpace};
use solana::VerificationLevel;

/// Settings of an ingester.
#[derive(Clone, Debug)]
pub struct IngestConfig {
    /// The name of the cluster, as in the log and in the store of snapshots.
    pub cluster: String,
    /// The servers of the log without credentials, for the lines about their silence. Default: the name of the cluster.
    pub log_name: String,
    /// Time without an append after which another ingester takes over. A smaller value shortens the gap after a
    /// failure, and takes over from a leader that only pauses.
    pub lease: Duration,
    /// Maximum estimated bytes of queued events, and again of encoded blocks that wait for the log: twice this value
    /// in all.
    pub queue_bytes_max: usize,
    /// The random id of this process.
    pub ingester: [u8; 16],
    /// Whether a log is used that may lose acknowledged messages.
    pub allow_data_loss: bool,
    /// Whether blocks are logged with their entries, which the ledger then has to request.
    pub has_entries: bool,
    /// Time limit of the last appends after the ledger has ended.
    pub drain: Duration,
    /// Age at which the log removes messages. The leader removes older generations after it, and writes a snapshot if
    /// the newest one is older than a quarter of it.
    pub max_age: Duration,
    /// Interval at which the leader searches for old messages, reports of replicas and a due snapshot. A smaller value
    /// costs requests to the store, a larger one delays the end of a fault.
    pub upkeep_interval: Duration,
}

impl IngestConfig {
    /// Returns the default settings of an ingester.
    pub fn new(cluster: impl Into<String>, ingester: [u8; 16]) -> Self {
        let cluster: String = cluster.into();
        Self {
            log_name: cluster.clone(),
            cluster,
            lease: Duration::from_secs(3),
            queue_bytes_max: 1 << 30,
            ingester,
            allow_data_loss: false,
            has_entries: false,
            drain: Duration::from_secs(10),
            max_age: Duration::from_secs(6 * 3_600),
            upkeep_interval: Duration::from_secs(60),
        }
    }
}

/// The properties of the ledger's chain that snapshots have.
#[derive(Clone)]
pub struct ChainFacts {
    /// Properties that never change.
    pub info: Arc<ClusterInfo>,
    /// Stakes and inflation.
    pub cluster: Arc<dyn Cluster>,
    /// The blocks of the ledger.
    pub history: Arc<History>,
    /// The level of proof that a block needs before the ledger confirms it: [`VerificationLevel::Computed`] if it makes
    /// its blocks, `None` if it verifies nothing. Records and snapshots state it.
    pub level: Option<VerificationLevel>,
}

/// Why an ingester cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The thread that encodes blocks cannot start.
    #[error("cannot start the thread that encodes blocks")]
    Thread(#[source] std::io::Error),
    /// The log does not say how it stores messages.
    #[error("cannot check how the log stores messages")]
    Log(#[from] LogError),
    /// The log may lose messages that it has acknowledged. Change its settings, or allow it.
    #[error(
        "the log may lose acknowledged data: {}; --log-allow-data-loss accepts that", .faults.join("; ")
    )]
    NotDurable {
        /// The reasons.
        faults: Vec<String>,
    },
}

/// Refuses a log that may lose acknowledged messages, unless that is allowed. A log without a fence is refused always.
///
/// # Errors
///
/// The log may lose messages, has no fence, or does not respond.
pub async fn check_durability(
    space: &dyn LogSpace,
    allow_data_loss: bool,
) -> Result<(), IngestError> {
    let faults = space.durability_faults().await?;
    match faults.is_empty() || allow_data_loss {
        true => Ok(()),
        false => Err(IngestError::NotDurable { faults }),
    }
}
