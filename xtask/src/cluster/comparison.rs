//! Comparison of the responses of all replicas to the same requests, and with those of the producer.
//!
//! Shape: a request is sent to each replica, with the newest slot that one of them has shown. If all responses are
//! about one slot, they are compared; otherwise it is sent again. Final blocks are compared once, each with its
//! transactions.
//! Invariant: a response that names its slot and is about the final state must be equal at once. One without a context
//! may be about another slot than its header says, and one about newer blocks of another fork at the same slot; a
//! difference of these counts unless the responses to the same request are equal afterwards.
//! Bounds: [`REPEATS`], [`STATE_CALLS`] calls and [`BLOCKS`] blocks in a round, [`EXAMPLES_MAX`]
//! differences.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cluster::calls::{self, Call, SLOTS_BEFORE};
use crate::cluster::node_response::{Round, Subject, ask_all, find_difference};
use crate::rig::clock::now;
use crate::rig::http_client::exchange;
use crate::rig::json_rpc;
use crate::rig::replica_differences::describe_own_responses;
use crate::rig::response_comparison::difference;

/// Number of times that it is sent again after a difference that a fork or a missing context may explain.
const REPEATS: usize = 3;
/// Calls about the state in a round.
const STATE_CALLS: usize = 24;
/// Final blocks that a round compares.
const BLOCKS: u64 = 20;
/// Time limit of the blocks of a whole comparison.
const BLOCKS_TIMEOUT: Duration = Duration::from_secs(30);
/// Slots behind the newest final one.
const SLOTS_BEHIND: u64 = 2;
/// Differences that are stored.
const EXAMPLES_MAX: usize = 20;
/// The commitments of the calls about the state.
const COMMITMENTS: [&str; 3] = ["finalized", "confirmed", "processed"];
/// Calls whose response on the producer must equal those of the replicas.
const PRODUCER_CALLS: [&str; 6] = [
    "getAccountInfo",
    "getBalance",
    "getBlock",
    "getBlockTime",
    "getMultipleAccounts",
    "getTransaction",
];
/// "Slot was skipped, or missing due to ledger jump": the replica began after the block.
const MISSING_BLOCK: i64 = -32_007;

/// Counts of a method or route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) equal: u64,
    pub(crate) equal_later: u64,
    pub(crate) different: u64,
    /// Responses of all replicas that are not the producer's.
    pub(crate) wrong: u64,
    /// The replicas were never at one slot.
    pub(crate) not_compared: u64,
    /// A replica does not have the block.
    pub(crate) left_out: u64,
}

/// The comparisons of a run.
#[derive(Default)]
pub(crate) struct Comparison {
    /// A node that gets each request, too, so that its caches fill like those of the replicas. Its responses are not
    /// compared.
    uncompared_node: Option<SocketAddr>,
    methods: BTreeMap<&'static str, Counts>,
    examples: Vec<Value>,
    next_call: usize,
    next_slot: Option<u64>,
    pub(crate) blocks: u64,
    pub(crate) skipped_blocks: u64,
    failures: u64,
    last_failure: String,
}

impl Comparison {
    /// Creates a comparison whose requests are also sent to a node that is not compared.
    pub(crate) fn with_uncompared_node(node: SocketAddr) -> Self {
        Self { uncompared_node: Some(node), ..Self::default() }
    }

    /// Compares some calls about the state, and the blocks that became final, until `end`. The producer may be down, or
    /// paused.
    pub(crate) fn compare(
        &mut self,
        nodes: &[SocketAddr],
        producer: Option<SocketAddr>,
        addresses: &[String],
        end: Instant,
    ) {
        if let Err(err) = self.compare_blocks(nodes, producer, end) {
            self.fail(&err);
        }
        for _ in 0..STATE_CALLS {
            if now() > end {
                return;
            }
            let commitment = COMMITMENTS[self.next_call % COMMITMENTS.len()];
            let calls = calls::state_calls(commitment, addresses);
            let call = &calls[self.next_call / COMMITMENTS.len() % calls.len()];
            self.next_call += 1;
            self.compare_call(nodes, producer, call, Subject::from_commitment(commitment));
        }
        if let Some(address) = addresses.last() {
            for call in calls::history_calls(address) {
                self.compare_call(nodes, producer, &call, Subject::NewerState);
            }
        }
    }

    /// Compares every call about the state once.
    pub(crate) fn compare_all(
        &mut self,
        nodes: &[SocketAddr],
        producer: Option<SocketAddr>,
        addresses: &[String],
    ) {
        if let Err(err) = self.compare_blocks(nodes, producer, now() + BLOCKS_TIMEOUT) {
            self.fail(&err);
        }
        for commitment in COMMITMENTS {
            for call in calls::state_calls(commitment, addresses) {
                self.compare_call(nodes, producer, &call, Subject::from_commitment(commitment));
            }
        }
    }

    /// Returns the sums over all methods.
    pub(crate) fn totals(&self) -> Counts {
        self.methods.values().fold(Counts::default(), |sum, counts| Counts {
            equal: sum.equal + counts.equal,
            equal_later: sum.equal_later + counts.equal_later,
            different: sum.different + counts.different,
            wrong: sum.wrong + counts.wrong,
            not_compared: sum.not_compared + counts.not_compared,
            left_out: sum.left_out + counts.left_out,
        })
    }

    /// Formats the stored differences as JSON.
    pub(crate) fn examples(&self) -> String {
        Value::Array(self.examples.clone()).to_string()
    }

    /// Formats a table with a line for each method and route.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "\n{} final blocks were compared, and {} were not because the comparison was behind. {} \
             requests failed{}{}.\n\n\
             | request | equal | equal when repeated | differ | not the producer's | not at one slot | left out | first \
             difference |\n|---|---|---|---|---|---|---|---|\n",
            self.blocks,
            self.skipped_blocks,
            self.failures,
            if self.last_failure.is_empty() { "" } else { ", the last one: " },
            self.last_failure,
        );
        for (name, counts) in &self.methods {
            let Counts { equal, equal_later, different, wrong, not_compared, left_out } = counts;
            let mut examples = self.examples.iter().filter(|it| it["request"] == *name);
            let first = examples.find_map(|it| it["first_difference"].as_str()).unwrap_or_default();
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "| {name} | {equal} | {equal_later} | {different} | {wrong} | {not_compared} | {left_out} | {first} |"
            );
        }
        let _ = writeln!(text, "\nNot compared: {}.", describe_own_responses());
        text
    }

    fn fail(&mut self, err: &anyhow::Error) {
        self.failures += 1;
        self.last_failure = format!("{err:#}");
    }

    fn compare_blocks(
        &mut self,
        nodes: &[SocketAddr],
        producer: Option<SocketAddr>,
        time_end: Instant,
    ) -> Result<()> {
        let first = read_slots(nodes, "getFirstAvailableBlock", &json!([]))?;
        let first = first.into_iter().max().context("no replica")? + 1 + SLOTS_BEFORE;
        let newest = read_slots(nodes, "getSlot", &json!([{"commitment": "finalized"}]))?;
        let newest = newest.into_iter().min().context("no replica")?.saturating_sub(SLOTS_BEHIND);
        let mut slot = self.next_slot.unwrap_or(first).max(first);
        if slot + 10 * BLOCKS < newest {
            self.skipped_blocks += newest - slot;
            slot = newest;
        }
        let end = newest.min(slot + BLOCKS);
        while slot < end && now() < time_end {
            self.compare_block(nodes, producer, slot)?;
            slot += 1;
        }
        self.next_slot = Some(slot);
        Ok(())
    }

    fn compare_block(
        &mut self,
        nodes: &[SocketAddr],
        producer: Option<SocketAddr>,
        slot: u64,
    ) -> Result<()> {
        let node = *nodes.first().context("no replica")?;
        let read = |encoding: &str| {
            let options = json!({"encoding": encoding, "maxSupportedTransactionVersion": 0});
            json_rpc::call(node, "getBlock", &json!([slot, options]))
        };
        let block = read("json")?;
        let start = slot.saturating_sub(SLOTS_BEFORE);
        let blocks = json_rpc::call(node, "getBlocks", &json!([start, slot]))?;
        let final_slots = blocks["result"].as_array().into_iter().flatten();
        let final_slots: Vec<u64> = final_slots.filter_map(Value::as_u64).collect();
        for call in calls::block_calls(slot, &block, &final_slots) {
            self.compare_call(nodes, producer, &call, Subject::FinalBlock);
        }
        if block["error"].is_null() {
            self.blocks += 1;
            for call in calls::changing_calls(slot, &block, &read("base64")?) {
                self.compare_call(nodes, producer, &call, Subject::NewerState);
            }
        }
        Ok(())
    }

    /// Compares the responses to a call, and counts the outcome.
    fn compare_call(
        &mut self,
        nodes: &[SocketAddr],
        producer: Option<SocketAddr>,
        call: &Call,
        subject: Subject,
    ) {
        let has_producer = subject != Subject::NewerState && PRODUCER_CALLS.contains(&call.name());
        let mut compared = nodes.to_vec();
        compared.extend(producer.filter(|_| has_producer));
        let mut first = None;
        for repeat in 0..=REPEATS {
            let responses = match ask_all(&compared, call, subject) {
                Ok(Round::Responses(responses)) => responses,
                Ok(Round::NotAtOneSlot) => {
                    if first.is_none() {
                        self.counts(call).not_compared += 1;
                        return;
                    }
                    continue;
                }
                Err(err) => {
                    self.fail(&err);
                    if first.is_none() {
                        return;
                    }
                    continue;
                }
            };
            // Without a slot to wait for: it may be behind the replicas.
            if let Some(node) = self.uncompared_node
                && let Err(err) = exchange(node, &call.request(0))
            {
                self.fail(&err.context(node));
            }
            let (of_replicas, of_producer) = responses.split_at(nodes.len());
            if of_replicas.iter().any(|response| response.body["error"]["code"] == MISSING_BLOCK) {
                self.counts(call).left_out += 1;
                return;
            }
            let have_context = of_replicas.iter().all(|response| response.has_context);
            let is_strict = match subject {
                Subject::FinalBlock => true,
                Subject::FinalState => have_context,
                Subject::NewerState => false,
            };
            let found = find_difference(of_replicas);
            let wrong = of_producer.first().and_then(|producer| {
                difference(&producer.body, &of_replicas.first()?.body, String::new())
            });
            match (&found, &wrong) {
                (None, None) if repeat == 0 => {
                    self.counts(call).equal += 1;
                    return;
                }
                (None, None) => {
                    self.counts(call).equal_later += 1;
                    return;
                }
                _ => {}
            }
            first = first.or(Some((found, wrong, responses)));
            if is_strict {
                break;
            }
        }
        let Some((found, wrong, responses)) = first else { return };
        if found.is_some() {
            self.counts(call).different += 1;
        } else {
            self.counts(call).wrong += 1;
        }
        if self.examples.len() < EXAMPLES_MAX {
            let bodies: Vec<&Value> = responses.iter().map(|response| &response.body).collect();
            self.examples.push(json!({
                "request": call.name(), "call": format!("{call:?}"), "slot": responses[0].slot,
                "first_difference": found.or(wrong), "responses": bodies,
            }));
        }
    }

    fn counts(&mut self, call: &Call) -> &mut Counts {
        self.methods.entry(call.name()).or_default()
    }
}

/// Returns the result of a call that is a slot, of each node.
fn read_slots(nodes: &[SocketAddr], method: &str, params: &Value) -> Result<Vec<u64>> {
    let read = |node: &SocketAddr| {
        let response = json_rpc::call(*node, method, params)?;
        response["result"].as_u64().with_context(|| format!("{method}: {response}"))
    };
    nodes.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_request_with_its_first_difference() {
        let mut comparison = Comparison { blocks: 5, ..Comparison::default() };
        let counts = Counts { equal: 3, different: 1, ..Counts::default() };
        comparison.methods.insert("getBalance", counts);
        comparison.methods.insert("getSlot", Counts { equal: 2, ..Counts::default() });
        comparison
            .examples
            .push(json!({"request": "getBalance", "first_difference": ".value: 1, not 2"}));
        let table = comparison.table();
        assert!(table.contains("5 final blocks were compared"), "{table}");
        assert!(
            table.contains("| getBalance | 3 | 0 | 1 | 0 | 0 | 0 | .value: 1, not 2 |"),
            "{table}"
        );
        assert!(table.contains("| getSlot | 2 | 0 | 0 | 0 | 0 | 0 |  |"), "{table}");
        let totals = Counts { equal: 5, different: 1, ..Counts::default() };
        assert_eq!(comparison.totals(), totals);
    }
}
