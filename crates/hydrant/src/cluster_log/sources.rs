//! The log and the store of snapshots, opened for a reader.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use depot::{Depot, DepotConfig};
use replicated_log::{LogConfig, LogSpace, open_log_space};

use super::ClusterLogConfig;

/// Bytes in transit to and from the log.
const IN_FLIGHT_BYTES: usize = 4 << 20;
/// Time limit of one request to the log: two elections of a NATS server take up to 9 s each.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A log, and the store of its snapshots.
pub(crate) struct LogSources {
    pub(crate) space: Arc<dyn LogSpace>,
    pub(crate) depot: Depot,
}

/// Opens the log and the store of snapshots. Neither is written.
pub(crate) async fn open_sources(config: &ClusterLogConfig) -> Result<LogSources> {
    let space = open_log(config).await.context("--log-url")?;
    let depot = Depot::open(&config.depot_url, &DepotConfig::default()).context("--depot")?;
    Ok(LogSources { space, depot })
}

/// Opens the log.
pub(crate) async fn open_log(config: &ClusterLogConfig) -> Result<Arc<dyn LogSpace>> {
    let ClusterLogConfig { url, cluster, replicas, max_age, max_bytes, .. } = config;
    let log = LogConfig {
        url: url.clone(),
        cluster: cluster.clone(),
        replicas: *replicas,
        max_age: *max_age,
        max_bytes: *max_bytes,
        in_flight_bytes: IN_FLIGHT_BYTES,
        request_timeout: REQUEST_TIMEOUT,
    };
    Ok(open_log_space(&log).await?)
}
