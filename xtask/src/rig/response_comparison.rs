//! Comparison of the validator's and the follower's responses to the same calls.
//!
//! Shape: while a run is recorded, only the validator is called, so that there are many responses. Afterwards, the
//! blocks and transactions of each slot are requested once both have the slot as final. Calls about the current state
//! are made on both about the same final slot (`nodes`), and again if they differ (`repeats`). Slots that a node lacks
//! are left out (`known_slots`).
//! Bounds: a round compares the slots that became final, for at most [`ROUND_TIME`], and [`CALLS_PER_ROUND`] calls
//! about now. If it is [`SLOTS_BEHIND_MAX`] slots behind, it leaves slots out, and counts them. Of a method, the first
//! [`EXAMPLES_MAX`] differences are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::rig::calls::{self, Call};
use crate::rig::clock::now;
use crate::rig::followers::Follower;
use crate::rig::json_rpc::call;
use crate::rig::known_slots::{KnownSlots, REACH};
use crate::rig::nodes::{FollowerKind, Nodes, Pair, final_slot};
use crate::rig::reasons::{normalize_response, reason};
use crate::rig::repeats::{Outcome, REPEATS_MAX, compare_repeatedly, repeated_params};

/// Calls about now, in one round.
const CALLS_PER_ROUND: usize = 6;
/// Time limit for the slots that one round compares.
const ROUND_TIME: Duration = Duration::from_millis(600);
/// Slots behind the newest final one: both have it.
const SLOTS_BEHIND: u64 = 8;
/// The validator stores the newest slots only.
const SLOTS_BEHIND_MAX: u64 = 300;
/// Not recorded: it is about the blocks above the final slot too, which are others in a replay.
const NOT_RECORDED: &str = "getRecentPrioritizationFees";
/// Keys that getMultipleAccounts accepts.
const ACCOUNTS_MAX: usize = 100;
/// Differences of a method that are stored.
const EXAMPLES_MAX: usize = 3;

/// Counts and first differences of a method.
#[derive(Default)]
struct Method {
    equal: usize,
    /// The responses differed, and were equal at a newer slot.
    equal_later: usize,
    different: usize,
    /// The nodes were never at the same slot.
    not_compared: usize,
    /// Calls about slots that a node lacks.
    left_out: usize,
    examples: Vec<Value>,
    /// Differences that vanished at a newer slot.
    examples_equal_later: Vec<Value>,
}

/// Slots that were not compared, by reason.
#[derive(Default)]
struct SlotsLeftOut {
    /// The comparison was too far behind.
    behind: u64,
    in_gaps: u64,
    before_restart: u64,
}

/// A response of the validator for the recording.
pub(crate) struct Recorded {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    /// The final slot that it is about; `None` if it is the same at all later ones.
    pub(crate) slot: Option<u64>,
    /// The slot of the block that it is about.
    pub(crate) block_slot: Option<u64>,
    pub(crate) response: Value,
}

/// State of the comparison over all rounds.
pub(crate) struct ResponseComparison {
    nodes: Nodes,
    addresses: PathBuf,
    methods: BTreeMap<&'static str, Method>,
    known: KnownSlots,
    next_slot: Option<u64>,
    next_call: usize,
    slots: u64,
    left_out: SlotsLeftOut,
    failures: usize,
    last_failure: String,
    /// The validator's responses, while a run is recorded.
    recorded: Option<Vec<Recorded>>,
}

impl ResponseComparison {
    /// Compares from the follower's first block on.
    pub(crate) fn new(nodes: Nodes, addresses: PathBuf, is_recorded: bool) -> Self {
        Self {
            nodes,
            addresses,
            methods: BTreeMap::new(),
            known: KnownSlots::default(),
            next_slot: None,
            next_call: 0,
            slots: 0,
            left_out: SlotsLeftOut::default(),
            failures: 0,
            last_failure: String::new(),
            recorded: is_recorded.then(Vec::new),
        }
    }

    /// Compares slots and some calls about now. A node that does not respond is counted, but not as a difference.
    pub(crate) fn round(&mut self, follower: &Follower) {
        if let Err(err) = self.compare_slots(follower) {
            self.fail(&err);
        }
        let calls = calls::about_now(&self.addresses);
        for _ in 0..CALLS_PER_ROUND {
            let (method, params) = &calls[self.next_call % calls.len()];
            self.next_call += 1;
            let outcome = match self.recorded {
                Some(_) => self.record_now(method, params.clone(), None),
                None => self.compare_now(method, params),
            };
            if let Err(err) = outcome {
                self.fail(&err);
            }
        }
    }

    fn fail(&mut self, err: &anyhow::Error) {
        self.failures += 1;
        self.last_failure = format!("{err:#}");
    }

    /// Leaves out the slots up to the first final one of the validator that was killed and started again.
    pub(crate) fn restart_validator(&mut self, slot: u64) {
        self.known.restart_validator(slot);
    }

    fn compare_slots(&mut self, follower: &Follower) -> Result<()> {
        if follower.kind == FollowerKind::Replica && follower.is_restarted() {
            self.known.restart_replica();
        }
        // A follower stores its history since the last jump, so it has no older one after a restart. A replica stores
        // none: its history starts after the snapshot that it loaded last.
        if self.known.first() == 0 || self.known.may_lack_blocks() {
            let first = call(self.nodes.follower, "getFirstAvailableBlock", &json!([]))?;
            // The first one is the archive's. The follower does not have its transactions.
            self.known.start_at(first["result"].as_u64().unwrap_or_default() + 1);
        }
        let newest = final_slot(self.nodes.validator)?.min(final_slot(self.nodes.follower)?);
        let behind = if self.recorded.is_some() { 0 } else { SLOTS_BEHIND };
        let newest = newest.saturating_sub(behind);
        self.record_jumps(follower)?;
        let mut slot = self.next_slot.unwrap_or_else(|| self.known.first() + REACH);
        let first = self.known.first_after_restart();
        if slot < first {
            self.left_out.before_restart += first - slot;
            slot = first;
        }
        let first = self.known.first();
        if slot < first {
            self.left_out.in_gaps += first - slot;
            slot = first;
        }
        if slot + SLOTS_BEHIND_MAX < newest {
            self.left_out.behind += newest - slot;
            slot = newest;
        }
        if self.next_slot.is_some_and(|next| next < slot) {
            self.next_slot = Some(slot);
            self.known.skip_to(slot);
        }
        let started = now();
        while slot <= newest && started.elapsed() < ROUND_TIME {
            self.next_slot = Some(slot + 1);
            self.compare_slot(slot)?;
            slot += 1;
        }
        Ok(())
    }

    /// Reads the follower's counter of jumps. A jump is counted before its block is final, so the counter is read after
    /// the newest slot that is compared.
    fn record_jumps(&mut self, follower: &Follower) -> Result<()> {
        let Some(jumps) = follower.counters().jumps() else { return Ok(()) };
        let node = self.nodes.follower;
        self.known.record_jumps(jumps, || {
            let tip = call(node, "getSlot", &json!([{"commitment": "processed"}]))?;
            tip["result"].as_u64().context("no processed slot")
        })
    }

    fn compare_slot(&mut self, slot: u64) -> Result<()> {
        let call_validator = |(method, params): Call| call(self.nodes.validator, method, &params);
        let block = call_validator(calls::block(slot, "json"))?;
        let base64 = call_validator(calls::block(slot, "base64"))?;
        if self.recorded.is_some() {
            for (method, params) in calls::permanent_calls(slot, &block) {
                let response = call(self.nodes.validator, method, &params)?;
                self.store(method, params, None, Some(slot), response);
            }
            for (method, params) in calls::changing_calls(slot, &block, &base64) {
                self.record_now(method, params, Some(slot))?;
            }
            return Ok(());
        }
        let (get_block, params) = calls::block(slot, "json");
        let ours = call(self.nodes.follower, get_block, &params)?;
        if self.known.is_in_gap(slot, &block, &ours) {
            self.left_out.in_gaps += 1;
            // A snapshot of the log has no statuses of transactions.
            if self.nodes.kind == FollowerKind::Replica {
                return Ok(());
            }
        } else {
            self.compare_block(slot, &block)?;
            self.slots += 1;
        }
        // Those of a gap are known too: the archive has the statuses of its transactions, and its blockhashes.
        for (method, params) in calls::changing_calls(slot, &block, &base64) {
            self.compare_now(method, &params)?;
        }
        Ok(())
    }

    /// Compares the calls about a block and its transactions.
    fn compare_block(&mut self, slot: u64, block: &Value) -> Result<()> {
        for (method, params) in calls::permanent_calls(slot, block) {
            let pair = self.nodes.both(method, &params)?;
            if self.known.reaches_missing(slot, method, &pair.validator) {
                self.methods.entry(method).or_default().left_out += 1;
                continue;
            }
            let pair = normalize_pair(self.nodes.kind, &self.known, method, pair);
            let outcome = if pair.is_equal() { Outcome::Equal } else { Outcome::Different(pair) };
            self.count(method, &params, outcome);
        }
        Ok(())
    }

    /// Compares the responses about one final slot, and about newer ones if they differ without a reason.
    fn compare_now(&mut self, method: &'static str, params: &Value) -> Result<()> {
        if self.known.needs_gap(method) {
            self.methods.entry(method).or_default().left_out += 1;
            return Ok(());
        }
        let nodes = self.nodes;
        let known = &self.known;
        let repeats_max = if self.reason(method).is_some() { 0 } else { REPEATS_MAX };
        let outcome = compare_repeatedly(repeats_max, |repeat, above| {
            if let Some(slot) = above {
                nodes.wait_above(slot)?;
            }
            let params = repeated_params(method, params, repeat);
            let pair = nodes.both_at_one_slot(method, &params)?;
            Ok(pair.map(|pair| normalize_pair(nodes.kind, known, method, pair)))
        })?;
        let outcome = match outcome {
            Outcome::Different(pair) if known.is_missing_boundary(&pair.follower) => {
                self.methods.entry(method).or_default().left_out += 1;
                return Ok(());
            }
            Outcome::Different(pair) if self.are_accounts_equal(method, &pair)? => {
                Outcome::EqualLater(pair)
            }
            other => other,
        };
        self.count(method, params, outcome);
        Ok(())
    }

    /// Whether getMultipleAccounts responds equally about the accounts that differ between two responses to
    /// getProgramAccounts. A validator's scan reads versions of its own newest root, and the final slot of a cluster may be
    /// below it all the time.
    fn are_accounts_equal(&self, method: &str, pair: &Pair) -> Result<bool> {
        let keys = if method == "getProgramAccounts" { differing_accounts(pair) } else { None };
        let Some(keys) = keys else { return Ok(false) };
        let params = json!([keys, {"commitment": "finalized", "encoding": "base64"}]);
        let accounts = self.nodes.both_at_one_slot("getMultipleAccounts", &params)?;
        Ok(accounts.is_some_and(|pair| pair.is_equal() && pair.validator["error"].is_null()))
    }

    fn count(&mut self, method: &'static str, params: &Value, outcome: Outcome) {
        let entry = self.methods.entry(method).or_default();
        match outcome {
            Outcome::Equal => entry.equal += 1,
            Outcome::NotCompared => entry.not_compared += 1,
            Outcome::EqualLater(pair) => {
                entry.equal_later += 1;
                store_example(&mut entry.examples_equal_later, params, &pair);
            }
            Outcome::Different(pair) => {
                entry.different += 1;
                store_example(&mut entry.examples, params, &pair);
            }
        }
    }

    fn record_now(&mut self, method: &'static str, params: Value, of: Option<u64>) -> Result<()> {
        let (slot, response) = self.nodes.call_validator(method, &params)?;
        self.store(method, params, Some(slot), of, response);
        Ok(())
    }

    /// Stores a response of the validator, with the slot that it is about and the slot of the block that it is about.
    fn store(
        &mut self,
        method: &'static str,
        params: Value,
        slot: Option<u64>,
        block_slot: Option<u64>,
        response: Value,
    ) {
        let response = normalize_response(self.nodes.kind, method, &self.known, slot, response);
        // Its slot was removed: the response is the same at each later one.
        let slot = slot.filter(|_| method != "getSignatureStatuses");
        let is_recorded = method != NOT_RECORDED && self.reason(method).is_none();
        if let Some(recorded) = self.recorded.as_mut().filter(|_| is_recorded) {
            recorded.push(Recorded { method, params, slot, block_slot, response });
        }
    }

    /// Returns the validator's recorded responses and stops recording.
    pub(crate) fn take_recorded(&mut self) -> Vec<Recorded> {
        self.recorded.take().unwrap_or_default()
    }

    fn reason(&self, method: &str) -> Option<&'static str> {
        reason(self.nodes.kind, method)
    }

    /// Returns the methods that differ without a known reason.
    pub(crate) fn list_unexplained(&self) -> Vec<&'static str> {
        let differ = |(name, it): (&&'static str, &Method)| {
            (it.different > 0 && self.reason(name).is_none()).then_some(*name)
        };
        self.methods.iter().filter_map(differ).collect()
    }

    /// Formats the state as one line.
    pub(crate) fn line(&self) -> String {
        let sum = |count: fn(&Method) -> usize| self.methods.values().map(count).sum::<usize>();
        format!(
            "responses: {} equal, {} equal when repeated, {} differ ({}), {} not at one slot, {} left out, \
             {} failed calls; {} slots, {} left out",
            sum(|it| it.equal),
            sum(|it| it.equal_later),
            sum(|it| it.different),
            self.list_unexplained().join(" "),
            sum(|it| it.not_compared),
            sum(|it| it.left_out),
            self.failures,
            self.slots,
            self.left_out.behind + self.left_out.in_gaps + self.left_out.before_restart,
        )
    }

    /// Formats a table with a line for each method.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "\nBlocks and transactions of {} slots were compared. Left out were {} slots in gaps of the follower or below its history, {} up \
             to the first final slot of a restarted validator, and {} because the comparison was behind. {} calls \
             failed{}{}.\n\n\
             | method | equal | equal when repeated | differ | not at one slot | left out | why, or the first \
             difference |\n|---|---|---|---|---|---|---|\n",
            self.slots,
            self.left_out.in_gaps,
            self.left_out.before_restart,
            self.left_out.behind,
            self.failures,
            if self.last_failure.is_empty() { "" } else { ", the last one: " },
            self.last_failure,
        );
        for (name, method) in &self.methods {
            let Method { equal, equal_later, different, not_compared, left_out, .. } = method;
            let first = method.examples.first().and_then(|it| it["first_difference"].as_str());
            let why = first.map_or("", |first| self.reason(name).unwrap_or(first));
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "| {name} | {equal} | {equal_later} | {different} | {not_compared} | {left_out} | {why} |"
            );
        }
        text
    }

    /// Returns the stored differences of each method as JSON: those that remained, and those that did not.
    pub(crate) fn differences(&self) -> String {
        let list = |examples: fn(&Method) -> &Vec<Value>| {
            let methods = self.methods.iter().map(|(name, method)| (*name, examples(method)));
            let differing = methods.filter(|(_, examples)| !examples.is_empty());
            let entry = |(name, examples): (&str, &Vec<Value>)| (name.to_owned(), json!(examples));
            Value::Object(differing.map(entry).collect())
        };
        let different = list(|it| &it.examples);
        let equal_later = list(|it| &it.examples_equal_later);
        json!({"different": different, "equal_when_repeated": equal_later}).to_string()
    }
}

/// Returns the keys of the accounts that differ between two responses to getProgramAccounts, or that one lacks. `None` if
/// they are more than getMultipleAccounts accepts, or a response is not a list.
fn differing_accounts(pair: &Pair) -> Option<Vec<String>> {
    let list = |response: &Value| -> Option<BTreeMap<String, Value>> {
        let result = &response["result"];
        let accounts = result["value"].as_array().or_else(|| result.as_array())?;
        let entry = |it: &Value| Some((it["pubkey"].as_str()?.to_owned(), it["account"].clone()));
        accounts.iter().map(entry).collect()
    };
    let validator = list(&pair.validator)?;
    let follower = list(&pair.follower)?;
    let keys: BTreeSet<&String> = validator.keys().chain(follower.keys()).collect();
    let differing = keys.into_iter().filter(|key| validator.get(*key) != follower.get(*key));
    let differing: Vec<String> = differing.cloned().collect();
    (1..=ACCOUNTS_MAX).contains(&differing.len()).then_some(differing)
}

fn normalize_pair(kind: FollowerKind, known: &KnownSlots, method: &str, pair: Pair) -> Pair {
    let Pair { slot, validator, follower } = pair;
    let validator = normalize_response(kind, method, known, slot, validator);
    Pair { slot, validator, follower: normalize_response(kind, method, known, slot, follower) }
}

fn store_example(examples: &mut Vec<Value>, params: &Value, pair: &Pair) {
    if examples.len() < EXAMPLES_MAX {
        let first = difference(&pair.validator, &pair.follower, String::new());
        examples.push(json!({
            "slot": pair.slot, "params": params, "first_difference": first,
            "validator": pair.validator, "follower": pair.follower,
        }));
    }
}

/// Returns the path of the first difference between two values.
pub(crate) fn difference(theirs: &Value, ours: &Value, path: String) -> Option<String> {
    if theirs == ours {
        return None;
    }
    match (theirs, ours) {
        (Value::Object(one), Value::Object(two)) => {
            let keys = one.keys().chain(two.keys());
            keys.map(|key| (key, one.get(key), two.get(key))).find_map(|(key, one, two)| {
                let path = format!("{path}.{key}");
                difference(one.unwrap_or(&Value::Null), two.unwrap_or(&Value::Null), path)
            })
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            let mut pairs = one.iter().zip(two).enumerate();
            pairs.find_map(|(at, (one, two))| difference(one, two, format!("{path}[{at}]")))
        }
        (Value::Array(one), Value::Array(two)) => {
            Some(format!("{path}: {} values, not {}", two.len(), one.len()))
        }
        _ => {
            let short = |value: &Value| value.to_string().chars().take(80).collect::<String>();
            Some(format!("{path}: {}, not {}", short(ours), short(theirs)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_that_differ_between_two_scans_are_listed() {
        let account = |key: &str, lamports: u64| json!({"pubkey": key, "account": lamports});
        let scan = |list: Vec<Value>| json!({"result": list});
        let pair = |validator, follower| Pair { slot: Some(1), validator, follower };
        let validator = scan(vec![account("a", 1), account("b", 2), account("c", 3)]);
        let follower =
            json!({"result": {"value": [account("a", 1), account("b", 9), account("d", 4)]}});
        let differing = differing_accounts(&pair(validator.clone(), follower)).unwrap();
        assert_eq!(differing, ["b", "c", "d"]);
        assert_eq!(differing_accounts(&pair(validator.clone(), validator.clone())), None);
        assert_eq!(differing_accounts(&pair(validator, json!({"error": {"code": 1}}))), None);
        let many = (0..=ACCOUNTS_MAX).map(|key| account(&key.to_string(), 1)).collect();
        assert_eq!(differing_accounts(&pair(scan(many), scan(Vec::new()))), None);
    }

    #[test]
    fn the_first_difference_has_its_path() {
        let path = |one: Value, two: Value| difference(&one, &two, String::new());
        assert_eq!(path(json!({"a": [1, 2]}), json!({"a": [1, 3]})).unwrap(), ".a[1]: 3, not 2");
        assert_eq!(path(json!([1]), json!([])).unwrap(), ": 0 values, not 1");
        assert_eq!(path(json!({"a": 1}), json!({})).unwrap(), ".a: null, not 1");
        assert_eq!(path(json!({"a": 1}), json!({"a": 1})), None);
    }
}
