//! CPU time of a request to a replica that follows the log, and to a node that does not follow one.
//!
//! Shape: the nodes serve the same state of the same chain. They are measured alternately, with the same requests.
//! The CPU time of a node without requests, measured before each round, is subtracted.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cluster::node::Node;
use crate::rig::clock::{now, pause};
use crate::rig::http_client::{Connection, Request};

/// Rounds of each node. The median counts.
const ROUNDS: usize = 5;
/// Requests of a round.
const REQUESTS: u32 = 20_000;
/// Time in which a node's own work is measured.
const IDLE: Duration = Duration::from_secs(5);
const CLOCK: &str = "SysvarC1ock11111111111111111111111111111111";

/// Microseconds of CPU time for a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReadCost {
    pub(crate) replica_us: f64,
    pub(crate) plain_us: f64,
}

impl ReadCost {
    /// Returns the reads of a replica for each one of a plain node, in equal CPU time.
    pub(crate) fn ratio(&self) -> f64 {
        self.plain_us / self.replica_us
    }
}

/// Measures both nodes alternately.
pub(crate) fn measure_reads(replica: &Node, plain: &Node) -> Result<ReadCost> {
    let mut of_replica = Vec::new();
    let mut of_plain = Vec::new();
    for _ in 0..ROUNDS {
        of_replica.push(measure_round(replica)?);
        of_plain.push(measure_round(plain)?);
    }
    Ok(ReadCost { replica_us: median(of_replica), plain_us: median(of_plain) })
}

fn measure_round(node: &Node) -> Result<f64> {
    let before = node.cpu_seconds()?;
    let started = now();
    pause(IDLE);
    let idle = (node.cpu_seconds()? - before) / started.elapsed().as_secs_f64();
    let params = json!([CLOCK, {"encoding": "base64"}]);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "getAccountInfo", "params": params});
    let request = Request::post_json(&body.to_string());
    let mut connection = Connection::open(node.rpc)?;
    let before = node.cpu_seconds()?;
    let started = now();
    for _ in 0..REQUESTS {
        connection.exchange(&request).map_err(|failure| failure.error).context("a read")?;
    }
    let busy = node.cpu_seconds()? - before;
    let own = idle * started.elapsed().as_secs_f64();
    Ok((busy - own) * 1e6 / f64::from(REQUESTS))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dearer_read_of_a_replica_gives_a_ratio_below_one() {
        assert_eq!(ReadCost { replica_us: 20.0, plain_us: 10.0 }.ratio(), 0.5);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
