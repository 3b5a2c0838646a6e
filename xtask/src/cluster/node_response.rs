//! The responses of all nodes to a request, and the slot that they are about.
//!
//! Bounds: [`TRIES`] and [`TIMEOUT`] until all responses are about one slot.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cluster::calls::{Call, trim_histories};
use crate::rig::clock::now;
use crate::rig::http_client::{Response, exchange};
use crate::rig::replica_differences::normalize_response;
use crate::rig::response_comparison::difference;

/// Number of times that a request is sent until all responses are about one slot.
const TRIES: usize = 20;

/// "Minimum context slot has not been reached".
const SLOT_NOT_REACHED: i64 = -32_016;
/// Time limit of these requests. A node waits a second for a slot that it does not have.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A response, and the slot that it is about.
#[derive(Clone, Debug)]
pub(crate) struct NodeResponse {
    pub(crate) slot: Option<u64>,
    pub(crate) has_context: bool,
    status: u16,
    pub(crate) body: Value,
}

/// The reason for which responses must be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A final block: the response never changes, so the slot of the state does not matter.
    FinalBlock,
    /// The final state.
    FinalState,
    /// A state that forks change, or one without a context.
    NewerState,
}

impl Subject {
    pub(crate) fn from_commitment(commitment: &str) -> Self {
        if commitment == "finalized" { Self::FinalState } else { Self::NewerState }
    }
}

/// The responses of all nodes to a request.
pub(crate) enum Round {
    Responses(Vec<NodeResponse>),
    NotAtOneSlot,
}

/// Sends a call to all nodes until all responses are about one slot.
pub(crate) fn ask_all(nodes: &[SocketAddr], call: &Call, subject: Subject) -> Result<Round> {
    let mut slot = 0;
    let started = now();
    for _ in 0..TRIES {
        let mut responses = Vec::new();
        for node in nodes {
            let response =
                exchange(*node, &call.request(slot)).with_context(|| node.to_string())?;
            let response = NodeResponse::new(call.name(), &response)?;
            // All nodes have a final block. The newest slot of one may be on a fork that another one has left.
            if subject != Subject::FinalBlock {
                slot = slot.max(response.slot.unwrap_or(0));
            }
            responses.push(response);
        }
        let is_at_one_slot = responses.iter().all(|response| response.slot == responses[0].slot);
        let is_refused = responses.iter().any(|it| it.body["error"]["code"] == SLOT_NOT_REACHED);
        if (is_at_one_slot || subject == Subject::FinalBlock) && !is_refused {
            trim_histories(call.name(), responses.iter_mut().map(|response| &mut response.body));
            return Ok(Round::Responses(responses));
        }
        if started.elapsed() > TIMEOUT {
            break;
        }
    }
    Ok(Round::NotAtOneSlot)
}

/// Returns the first difference between the responses of replicas.
pub(crate) fn find_difference(responses: &[NodeResponse]) -> Option<String> {
    let (first, others) = responses.split_first()?;
    others.iter().enumerate().find_map(|(index, other)| {
        if first.status != other.status {
            return Some(format!("status {}, not {}", other.status, first.status));
        }
        let found = difference(&first.body, &other.body, String::new())?;
        Some(format!("replica {}: {found}", index + 1))
    })
}

impl NodeResponse {
    fn new(name: &str, response: &Response) -> Result<Self> {
        let body: Value = serde_json::from_slice(&response.body)
            .with_context(|| format!("{name}: {}", String::from_utf8_lossy(&response.body)))?;
        ensure!(response.status != 429 && response.status < 500, "{name}: {}", response.status);
        let context = body["result"]["context"]["slot"].as_u64();
        let header = response.header("hydrant-slot").and_then(|slot| slot.parse().ok());
        let body = normalize_response(name, body);
        Ok(Self {
            slot: context.or(header),
            has_context: context.is_some(),
            status: response.status,
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn response(body: Value) -> NodeResponse {
        NodeResponse { slot: Some(7), has_context: true, status: 200, body }
    }

    #[test]
    fn the_differing_replica_is_named() {
        let equal = [response(json!({"a": 1})), response(json!({"a": 1}))];
        assert_eq!(find_difference(&equal), None);
        let different =
            [response(json!({"a": 1})), response(json!({"a": 1})), response(json!({"a": 2}))];
        assert_eq!(find_difference(&different).unwrap(), "replica 2: .a: 2, not 1");
        let other = NodeResponse { status: 404, ..response(json!({"a": 1})) };
        assert_eq!(find_difference(&[response(json!(1)), other]).unwrap(), "status 404, not 200");
    }
}
