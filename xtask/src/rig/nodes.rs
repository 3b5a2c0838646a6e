//! The two nodes that are compared, and calls that are made of both about the same final slot.
//!
//! Shape: a response with a context names its slot. One without is requested between two calls of getSlot: if both name
//! the same slot, the response is about it. The node that is behind is called again until both responses are about one
//! slot.
//! Bounds: [`TRIES`], and [`NEWER_TRIES`] until both have a newer final slot.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::rig::clock::pause;
use crate::rig::json_rpc::call;

/// Maximum number of calls to a node until both responses are about the same slot.
const TRIES: u32 = 60;
/// Pause between two of these calls.
const PAUSE: Duration = Duration::from_millis(4);
/// Maximum number of polls for a newer final slot, and the interval between them; 20 s in total.
const NEWER_TRIES: u32 = 400;
const NEWER_PAUSE: Duration = Duration::from_millis(50);

/// The command of the node that is compared with the validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowerKind {
    /// `hydrant follow`.
    Follow,
    /// `hydrant ingest`: it follows, and appends its blocks to a replicated log.
    Ingest,
    /// `hydrant replica`: it reads the log.
    Replica,
}

#[derive(Clone, Copy)]
pub(crate) struct Nodes {
    pub(crate) validator: SocketAddr,
    pub(crate) follower: SocketAddr,
    pub(crate) kind: FollowerKind,
}

/// Both responses to a call, and the final slot that they are about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) slot: Option<u64>,
    pub(crate) validator: Value,
    pub(crate) follower: Value,
}

impl Pair {
    pub(crate) fn is_equal(&self) -> bool {
        self.validator == self.follower
    }
}

/// Returns the newest final slot of a node.
pub(crate) fn final_slot(node: SocketAddr) -> Result<u64> {
    let response = call(node, "getSlot", &json!([{"commitment": "finalized"}]))?;
    Ok(response["result"].as_u64().unwrap_or_default())
}

/// Returns the slot of the processed tip of a node.
pub(crate) fn processed_slot(node: SocketAddr) -> Result<u64> {
    let response = call(node, "getSlot", &json!([{"commitment": "processed"}]))?;
    response["result"].as_u64().context("no processed slot")
}

/// Calls a method. Returns the response and the final slot that it is about; `None` if the slot changed meanwhile.
fn ask(node: SocketAddr, method: &str, params: &Value) -> Result<(Option<u64>, Value)> {
    let before = final_slot(node)?;
    let response = call(node, method, params)?;
    if let Some(slot) = response["result"]["context"]["slot"].as_u64() {
        return Ok((Some(slot), response));
    }
    let is_same = final_slot(node)? == before;
    Ok((is_same.then_some(before), response))
}

impl Nodes {
    /// Returns the validator's response about a final slot, and the slot.
    pub(crate) fn call_validator(&self, method: &str, params: &Value) -> Result<(u64, Value)> {
        for _ in 0..TRIES {
            if let (Some(slot), response) = ask(self.validator, method, params)? {
                return Ok((slot, response));
            }
        }
        anyhow::bail!("the final slot changed during each of {TRIES} calls of {method}")
    }

    /// Returns the responses to a call that does not depend on time.
    pub(crate) fn both(&self, method: &str, params: &Value) -> Result<Pair> {
        let validator = call(self.validator, method, params)?;
        Ok(Pair { slot: None, validator, follower: call(self.follower, method, params)? })
    }

    /// Waits until both nodes have a final slot above `slot`.
    pub(crate) fn wait_above(&self, slot: u64) -> Result<()> {
        for _ in 0..NEWER_TRIES {
            if final_slot(self.validator)? > slot && final_slot(self.follower)? > slot {
                return Ok(());
            }
            pause(NEWER_PAUSE);
        }
        anyhow::bail!("no final slot above {slot}")
    }

    /// Returns responses about the same final slot, or `None` if there were none in [`TRIES`].
    pub(crate) fn both_at_one_slot(&self, method: &str, params: &Value) -> Result<Option<Pair>> {
        let mut theirs = ask(self.validator, method, params)?;
        let mut ours = ask(self.follower, method, params)?;
        for _ in 0..TRIES {
            match (theirs.0, ours.0) {
                (Some(one), Some(two)) if one == two => {
                    let slot = Some(one);
                    return Ok(Some(Pair { slot, validator: theirs.1, follower: ours.1 }));
                }
                (Some(one), Some(two)) if one < two => {
                    theirs = ask(self.validator, method, params)?;
                }
                (None, _) => theirs = ask(self.validator, method, params)?,
                _ => {
                    pause(PAUSE);
                    ours = ask(self.follower, method, params)?;
                }
            }
        }
        Ok(None)
    }
}
