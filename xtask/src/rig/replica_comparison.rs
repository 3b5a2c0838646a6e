//! The replicas of a run, compared with each other at equal slots, as `cargo xtask cluster` compares them.
//!
//! Bounds: a comparison each [`INTERVAL`], for at most [`TIME_LIMIT`]: the validator is compared meanwhile, too.
//! Not here: the comparison itself (`cluster::comparison`), that with the validator (`response_comparison`).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::cluster::comparison::Comparison;
use crate::rig::clock::now;
use crate::rig::followers::Follower;
use crate::rig::nodes::FollowerKind;

/// Time between two comparisons.
const INTERVAL: Duration = Duration::from_secs(10);
/// Time limit of one comparison.
const TIME_LIMIT: Duration = Duration::from_secs(4);

/// A comparison of two or more replicas.
pub(crate) struct ReplicaComparison {
    replicas: Vec<SocketAddr>,
    addresses: PathBuf,
    comparison: Comparison,
    compared_at: Instant,
}

impl ReplicaComparison {
    /// Creates a comparison of the replicas among the followers; `None` if they are fewer than two.
    pub(crate) fn new(followers: &[Follower], addresses: PathBuf) -> Option<Self> {
        let replicas = followers.iter().filter(|it| it.kind == FollowerKind::Replica);
        let replicas: Vec<SocketAddr> = replicas.map(|it| it.rpc).collect();
        (replicas.len() > 1).then(|| Self {
            replicas,
            addresses,
            comparison: Comparison::default(),
            compared_at: now(),
        })
    }

    /// Compares calls about the state and the newest final blocks, if the last comparison was long enough ago.
    pub(crate) fn compare(&mut self) {
        if self.compared_at.elapsed() < INTERVAL {
            return;
        }
        let addresses = read_accounts(&self.addresses);
        self.comparison.compare(&self.replicas, None, &addresses, now() + TIME_LIMIT);
        self.compared_at = now();
    }

    /// Formats the state as one line.
    pub(crate) fn line(&self) -> String {
        let totals = self.comparison.totals();
        format!(
            "replicas with each other: {} equal responses, {} different, {} not at one slot, {} final blocks",
            totals.equal + totals.equal_later,
            totals.different,
            totals.not_compared,
            self.comparison.blocks,
        )
    }

    /// Formats a table with a line for each method and route.
    pub(crate) fn table(&self) -> String {
        format!("\nThe replicas, compared with each other.\n{}", self.comparison.table())
    }

    /// Returns the stored differences as JSON.
    pub(crate) fn differences(&self) -> String {
        self.comparison.examples()
    }

    /// Returns an error if responses of the replicas differ, or none was compared.
    pub(crate) fn check(&self) -> Result<()> {
        let totals = self.comparison.totals();
        ensure!(totals.equal > 0, "no responses of the replicas were compared with each other");
        ensure!(totals.different == 0, "{} responses of the replicas differ", totals.different);
        Ok(())
    }
}

/// Reads the accounts that the load has written to a file.
fn read_accounts(addresses: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(addresses).unwrap_or_default();
    let made: Value = serde_json::from_str(&text).unwrap_or_default();
    let accounts = made["accounts"].as_array().into_iter().flatten();
    accounts.filter_map(|account| account.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_of_the_load_are_read() {
        let file = std::env::temp_dir().join(format!("rig-{}-addresses", std::process::id()));
        assert_eq!(read_accounts(&file), Vec::<String>::new());
        std::fs::write(&file, r#"{"accounts": ["a", "b"], "mints": ["c"]}"#).unwrap();
        assert_eq!(read_accounts(&file), ["a", "b"]);
        std::fs::remove_file(&file).unwrap();
    }
}
