//! Gaps in the log after the loss of its writer, or of a server that leads it.
//!
//! Shape: a leader is killed, and the slots of a replica show how long nothing was appended. The producer makes the
//! chain, so its own death is a gap of the chain: only that of the other ingester measures the takeover. If the
//! producer leads, it is killed and started again, up to [`TRIES`] times, until the other one leads.
//! Not here: faults whose outcome is checked (`chaos`).

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cluster::processes::Cluster;
use crate::rig::clock::{now, pause};
use crate::rig::json_rpc;

/// Times that the leadership is passed on.
const TRIES: usize = 6;
/// Time in which a gap is looked for. The log and the lease together take less.
const WINDOW: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The index of the ingester that does not make the chain.
const INGEST: usize = 1;
/// The replica that is watched.
const WATCHED: usize = 0;

/// The longest gaps, as far as they could be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Gaps {
    pub(crate) ingester: Option<Duration>,
    pub(crate) log: Option<Duration>,
}

/// Kills the leading ingester, and then the server that leads the log.
pub(crate) fn measure_gaps(cluster: &mut Cluster) -> Result<Gaps> {
    let mut gaps = Gaps::default();
    if pass_leadership_on(cluster)? {
        cluster.ingesters[INGEST].kill()?;
        gaps.ingester = Some(longest_gap(cluster)?);
        cluster.ingesters[INGEST].start()?;
        cluster.wait_until_healthy()?;
    } else {
        println!(
            "the failover of the ingester is left out: the producer leads after {TRIES} restarts"
        );
    }
    let leader = cluster.servers.as_ref().map(|servers| servers.leader()).transpose()?;
    if let Some(leader) = leader {
        cluster.servers.as_mut().context("no servers")?.kill(leader)?;
        gaps.log = Some(longest_gap(cluster)?);
        cluster.start_server(leader)?;
        cluster.wait_until_healthy()?;
    }
    Ok(gaps)
}

/// Restarts the producer until the other ingester leads. Returns `false` if it does not.
fn pass_leadership_on(cluster: &mut Cluster) -> Result<bool> {
    for _ in 0..TRIES {
        if cluster.find_leader() == Some(INGEST) {
            return Ok(true);
        }
        cluster.ingesters[0].kill()?;
        cluster.ingesters[0].start()?;
        cluster.wait_until_healthy()?;
    }
    Ok(cluster.find_leader() == Some(INGEST))
}

/// Returns the longest time in which a replica shows no new slot.
fn longest_gap(cluster: &Cluster) -> Result<Duration> {
    let replica = cluster.replicas[WATCHED].rpc;
    let params = json!([{"commitment": "processed"}]);
    let started = now();
    let mut longest = Duration::ZERO;
    let mut last_slot = None;
    let mut last_change = started;
    while started.elapsed() < WINDOW {
        let slot = json_rpc::call(replica, "getSlot", &params)?["result"].as_u64();
        if slot > last_slot {
            longest = longest.max(last_change.elapsed());
            last_slot = slot;
            last_change = now();
        }
        pause(POLL_INTERVAL);
    }
    Ok(longest.max(last_change.elapsed()))
}
