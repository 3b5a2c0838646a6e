//! CPU time of a request to a replica that follows the log, and to a node that does not follow one.
//!
//! Shape: the nodes serve the same state of the same chain. In each round, both get the same requests, one node after
//! the other. The CPU time of a node without requests, measured just before, is subtracted. A request costs 15 to 40 us,
//! depending on the other programs on the machine, so only the values of one round are compared.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cluster::node::Node;
use crate::percentiles::{find_percentile, sort_values};
use crate::rig::clock::{now, pause};
use crate::rig::http_client::{Connection, Request};

/// Rounds. The node that is measured first alternates.
const ROUNDS: usize = 24;
/// Requests to a node in a round.
const REQUESTS: u32 = 20_000;
/// Time in which a node's own work is measured.
const IDLE: Duration = Duration::from_secs(3);
const CLOCK: &str = "SysvarC1ock11111111111111111111111111111111";

/// Microseconds of CPU time for a request in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RoundCost {
    replica_us: f64,
    plain_us: f64,
}

/// The cost of reads in all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReadCost {
    /// Median of the microseconds of CPU time for a request.
    pub(crate) replica_us: f64,
    pub(crate) plain_us: f64,
    /// Reads of a replica for each read of the other node, in equal CPU time: quartiles of the ratios of the rounds.
    pub(crate) ratios: [f64; 3],
}

impl ReadCost {
    /// `None` without rounds.
    fn new(rounds: &[RoundCost]) -> Option<Self> {
        let replica_us = sort_values(rounds.iter().map(|round| round.replica_us));
        let plain_us = sort_values(rounds.iter().map(|round| round.plain_us));
        let ratios = sort_values(rounds.iter().map(|round| round.plain_us / round.replica_us));
        let ratio = |percent| find_percentile(&ratios, percent);
        Some(Self {
            replica_us: find_percentile(&replica_us, 50)?,
            plain_us: find_percentile(&plain_us, 50)?,
            ratios: [ratio(25)?, ratio(50)?, ratio(75)?],
        })
    }

    /// Returns the reads of a replica for each read of the other node, in equal CPU time: the median of the rounds.
    pub(crate) fn ratio(&self) -> f64 {
        let [_, median, _] = self.ratios;
        median
    }
}

/// Measures both nodes.
pub(crate) fn measure_reads(replica: &Node, plain: &Node) -> Result<ReadCost> {
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let cost = if round % 2 == 0 {
            let replica_us = measure_node(replica)?;
            RoundCost { replica_us, plain_us: measure_node(plain)? }
        } else {
            let plain_us = measure_node(plain)?;
            RoundCost { replica_us: measure_node(replica)?, plain_us }
        };
        rounds.push(cost);
    }
    ReadCost::new(&rounds).context("no rounds")
}

/// Returns the microseconds of CPU time for a request.
fn measure_node(node: &Node) -> Result<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_are_compared_within_each_round() {
        let round = |replica_us, plain_us| RoundCost { replica_us, plain_us };
        // The machine is twice as slow in the second and the third round.
        let rounds = [round(20.0, 10.0), round(40.0, 20.0), round(40.0, 30.0), round(20.0, 18.0)];
        let cost = ReadCost::new(&rounds).expect("there are rounds");
        assert_eq!((cost.replica_us, cost.plain_us), (20.0, 18.0));
        assert_eq!((cost.ratios, cost.ratio()), ([0.5, 0.5, 0.75], 0.5));
        assert_eq!(ReadCost::new(&[]), None);
    }
}
