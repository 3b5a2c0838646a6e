//! A recorded run of a real validator under load (`cargo xtask rig --record`), replayed to a follower: every part of every
//! bank hash is the one that the validator logged, and the responses are equal to those of the validator.
//!
//! In `tests/recorded_validator`: `snapshot-SLOT-HASH.tar.zst` is the validator's archive, `stream.zst` has the updates of
//! its plugin after that slot, `frozen_banks.log` its lines about these banks, and `answers.zst` its responses, one a line,
//! each with its final slot, or with none if it is equal at all later ones.
//! Shape: the stream is sent slot by slot, so that the follower has the same final slot when a method is called.
//! Not here: the recording (`xtask/src/rig`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use ledger::Commitment;
use prost::Message;
use serde_json::{Value, json};
use solana_hash::Hash;
use testkit::geyser_source::{self, slot_of};
use testkit::json_rpc_client::JsonRpcClient;
use tokio::runtime::Runtime;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate};

use crate::followed_ledger::{Following, config, wait};
use crate::followed_methods::Served;

/// Slots of an epoch of the recorded validator.
const SLOTS_PER_EPOCH: u64 = 64;

/// The values that the validator logs of a bank.
#[derive(Debug, PartialEq, Eq)]
struct FrozenBank {
    hash: String,
    signature_count: String,
    last_blockhash: String,
    capitalization: String,
    lt_checksum: String,
}

/// A recorded response of the validator.
struct Recorded {
    /// `None` if the response is equal at all later final slots.
    slot: Option<u64>,
    method: String,
    params: Value,
    answer: Value,
}

struct Recording {
    archive: PathBuf,
    /// The messages up to the one that a slot is processed, for each slot.
    chunks: BTreeMap<u64, Vec<SubscribeUpdate>>,
    /// The updates after the first block.
    rest: Vec<SubscribeUpdate>,
    frozen_banks: BTreeMap<u64, FrozenBank>,
    answers: Vec<Recorded>,
}

fn dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded_validator")
}

fn read_zst(name: &str) -> Vec<u8> {
    let file = std::fs::File::open(dir().join(name)).expect(name);
    zstd::decode_all(file).expect("a packed file")
}

impl Recording {
    fn read() -> Self {
        let archive = testkit::archive::find_recorded().expect("the archive");
        let log = std::fs::read_to_string(dir().join("frozen_banks.log")).expect("the log");
        let answers = String::from_utf8(read_zst("answers.zst")).expect("text");
        let mut chunks = BTreeMap::new();
        let mut rest = Vec::new();
        let bytes = read_zst("stream.zst");
        let mut messages = bytes.as_slice();
        while !messages.is_empty() {
            let update =
                SubscribeUpdate::decode_length_delimited(&mut messages).expect("a message");
            let processed = processed_slot(&update);
            rest.push(update);
            if let Some(slot) = processed {
                chunks.insert(slot, std::mem::take(&mut rest));
            }
        }
        Self {
            archive,
            chunks,
            rest,
            frozen_banks: log.lines().map(frozen_bank).collect(),
            answers: answers.lines().map(parse_recorded).collect(),
        }
    }
}

/// Returns the slot that a message reports as processed.
fn processed_slot(update: &SubscribeUpdate) -> Option<u64> {
    match &update.update_oneof {
        Some(UpdateOneof::Slot(it)) if it.status == i32::from(SlotStatus::SlotProcessed) => {
            Some(it.slot)
        }
        _ => None,
    }
}

/// The slot and the parts of a line.
fn frozen_bank(line: &str) -> (u64, FrozenBank) {
    let after = |name: &str| {
        let (_, rest) = line.split_once(name).expect(name);
        let word = rest.split_whitespace().next().expect("a word");
        word.trim_end_matches(',').to_owned()
    };
    let bank = FrozenBank {
        hash: after(" hash: "),
        signature_count: after("signature_count: "),
        last_blockhash: after("last_blockhash: "),
        capitalization: after("capitalization: "),
        lt_checksum: after("checksum: "),
    };
    (after("bank frozen: ").parse().expect("a slot"), bank)
}

fn parse_recorded(line: &str) -> Recorded {
    let mut line: Value = serde_json::from_str(line).expect("JSON");
    Recorded {
        slot: line["slot"].as_u64(),
        method: line["method"].as_str().expect("a method").to_owned(),
        params: line["params"].take(),
        answer: line["answer"].take(),
    }
}

/// A follower of the recording.
struct Replay {
    following: Following,
    source: geyser_source::Source,
    first: u64,
    /// Updates that the follower was sent, without those that it ignores.
    sent: u64,
    _runtime: Runtime,
}

impl Replay {
    fn start(archive: &std::path::Path) -> Self {
        let source = geyser_source::Source::new(None);
        let runtime = Runtime::new().expect("a runtime");
        let address = runtime.block_on(source.serve());
        let following = Following::start_with(config(address), archive, Vec::new());
        let first = following.status.root() + 1;
        Self { following, source, first, sent: 0, _runtime: runtime }
    }

    /// Sends messages, and waits until the follower has handled them.
    fn send(&mut self, updates: Vec<SubscribeUpdate>) {
        let is_handled = |update: &&SubscribeUpdate| {
            let belongs_to_bank = match &update.update_oneof {
                Some(UpdateOneof::Slot(it)) => ![
                    i32::from(SlotStatus::SlotFirstShredReceived),
                    i32::from(SlotStatus::SlotCompleted),
                ]
                .contains(&it.status),
                _ => true,
            };
            // The source sends nothing below its client's first slot.
            slot_of(update) >= self.first && belongs_to_bank
        };
        self.sent += updates.iter().filter(is_handled).count() as u64;
        self.source.send(updates);
        let status = &self.following.status;
        wait("all updates are handled", || {
            self.handled_updates() >= self.sent || status.mismatch().is_some() || status.gaps() > 0
        });
        assert_eq!((status.mismatch(), status.last_gap()), (None, None));
        assert_eq!(self.handled_updates(), self.sent);
        // Other threads check a bank, and its root is applied later.
        wait("all roots are applied", || {
            self.metric("hydrant_follow_check_queue{of=\"unproven_banks\"}") == 0
                && self.metric("hydrant_follow_deferred_roots") == 0
        });
    }

    /// Updates that the follower has handled.
    fn handled_updates(&self) -> u64 {
        self.metric("hydrant_follow_events_total{event=\"update\"}")
    }

    fn metric(&self, name: &str) -> u64 {
        let mut out = metrics::Exposition::default();
        metrics::Collector::write(&*self.following.status, &mut out);
        let text = out.into_string();
        let value = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
        text.lines().find_map(value).expect(name)
    }

    /// The parts of the newest bank's hash.
    fn frozen_bank(&self) -> (u64, FrozenBank) {
        let view = self.following.reader.view(Commitment::Processed);
        let info = view.meta();
        let parts = &info.hash_components;
        let bank = FrozenBank {
            hash: info.bank_hash.to_string(),
            signature_count: parts.signature_count.to_string(),
            last_blockhash: parts.last_blockhash.to_string(),
            capitalization: info.capitalization.to_string(),
            lt_checksum: parts.lt_checksum.to_string(),
        };
        (view.block().slot, bank)
    }

    fn final_slot(&self) -> u64 {
        self.following.reader.view(Commitment::Finalized).block().slot
    }
}

/// The response to a call, as the rig recorded it.
fn respond(client: &mut JsonRpcClient, recorded: &Recorded, first: u64) -> Value {
    let Recorded { slot, method, params, .. } = recorded;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let request = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let response = client.exchange(request.as_bytes()).expect("a response");
    let mut response: Value = serde_json::from_slice(response.body).expect("JSON");
    let fields = response.as_object_mut().expect("an object");
    fields.retain(|key, _| key == "result" || key == "error");
    let context = response.pointer_mut("/result/context").and_then(Value::as_object_mut);
    if let Some(context) = context.filter(|_| slot.is_none()) {
        context.remove("slot");
    }
    if method == "getSignaturesForAddress"
        && let Some(all) = response.pointer_mut("/result").and_then(Value::as_array_mut)
    {
        all.retain(|it| it["slot"].as_u64().is_some_and(|slot| slot >= first));
    }
    response
}

/// Sorts the lists that are in the order of Agave's hash maps.
fn sort_lists(method: &str, response: &mut Value) {
    let lists: &[[&str; 2]] = match method {
        "getVoteAccounts" => {
            &[["/result/current", "votePubkey"], ["/result/delinquent", "votePubkey"]]
        }
        "getProgramAccounts" => &[["/result", "pubkey"], ["/result/value", "pubkey"]],
        _ => &[],
    };
    for [list, key] in lists {
        if let Some(all) = response.pointer_mut(list).and_then(Value::as_array_mut) {
            all.sort_by(|one, two| one[*key].as_str().cmp(&two[*key].as_str()));
        }
    }
    // The rig stores them sorted.
    if let Some(all) = response.pointer_mut("/result/rewards").and_then(Value::as_array_mut) {
        let key = |reward: &Value| {
            ["pubkey", "rewardType"].map(|field| reward[field].as_str().map(str::to_owned))
        };
        all.sort_by_cached_key(key);
    }
}

#[test]
fn a_real_validators_banks_and_answers_are_those_of_its_follower() {
    let Recording { archive, mut chunks, rest, frozen_banks, answers } = Recording::read();
    let mut replay = Replay::start(&archive);
    let first = replay.first;
    assert_eq!(frozen_banks.first_key_value().map(|(slot, _)| *slot), Some(first));
    let genesis = answers.iter().find(|it| it.method == "getGenesisHash").expect("it is recorded");
    let genesis: Hash =
        genesis.answer["result"].as_str().and_then(|it| it.parse().ok()).expect("it");
    let (mut served, sender) = Served::from_follower(&replay.following, genesis);
    let mut by_slot: BTreeMap<Option<u64>, Vec<Recorded>> = BTreeMap::new();
    for answer in answers {
        by_slot.entry(answer.slot).or_default().push(answer);
    }
    let at_the_end = by_slot.remove(&None).unwrap_or_default();
    let mut equal = BTreeMap::new();
    let mut compared_banks = 0;
    let mut failures = Vec::new();
    let mut compare = |answers: Vec<Recorded>| {
        for recorded in answers {
            let mut found = respond(&mut served.client, &recorded, first);
            let Recorded { slot, method, params, mut answer } = recorded;
            sort_lists(&method, &mut found);
            sort_lists(&method, &mut answer);
            if found == answer {
                *equal.entry(method).or_insert(0) += 1;
            } else {
                failures.push(format!(
                    "{method} {params} at {slot:?}\n  validator {answer}\n  follower  {found}"
                ));
            }
        }
    };
    let slots: Vec<u64> = chunks.keys().copied().collect();
    for slot in &slots {
        replay.send(chunks.remove(slot).expect("it is there"));
        let (at, bank) = replay.frozen_bank();
        assert_eq!(at, *slot, "each bank is the tip once it is processed");
        if let Some(expected) = frozen_banks.get(slot) {
            assert_eq!(&bank, expected, "slot {slot}");
            compared_banks += 1;
        }
        if let Some(answers) = by_slot.remove(&Some(replay.final_slot())) {
            compare(answers);
        }
    }
    replay.send(rest);
    compare(at_the_end);
    assert!(
        failures.is_empty(),
        "{} of the answers differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert_eq!(by_slot.keys().collect::<Vec<_>>(), [&None; 0], "every final slot was reached");
    assert_eq!(compared_banks, frozen_banks.len(), "every bank of the log");
    let epochs = slots[slots.len() - 1] / SLOTS_PER_EPOCH - first / SLOTS_PER_EPOCH;
    assert_eq!(epochs, 3, "boundaries of epochs");
    let status = &replay.following.status;
    assert!(status.verified() + 1 >= slots[slots.len() - 1], "verified: {}", status.verified());
    assert!(equal.len() >= 30, "methods: {equal:?}");
    drop((served, sender));
    replay.following.stop();
}

/// An update as a source of an older proto sends it, such as Triton's plugin of Yellowstone 12.6: no bank ids, no footers.
/// `None` if that proto has no such update.
fn in_older_proto(mut update: SubscribeUpdate) -> Option<SubscribeUpdate> {
    match update.update_oneof.as_mut()? {
        UpdateOneof::Account(it) => it.bank_id = None,
        UpdateOneof::Transaction(it) => it.bank_id = 0,
        UpdateOneof::BlockMeta(it) => it.bank_id = 0,
        UpdateOneof::Entry(it) => it.bank_id = 0,
        UpdateOneof::Slot(it) => it.bank_id = None,
        UpdateOneof::BlockFooter(_) => return None,
        _ => {}
    }
    Some(update)
}

#[test]
fn a_real_validators_banks_are_verified_without_bank_ids_and_over_cuts() {
    let Recording { archive, chunks, frozen_banks, .. } = Recording::read();
    let replay = Replay::start(&archive);
    let status = &replay.following.status;
    let mut compared = 0;
    for (slot, chunk) in chunks {
        let older: Vec<_> = chunk.into_iter().filter_map(in_older_proto).collect();
        let (first, rest) = older.split_at(older.len() / 2);
        replay.source.send(first.to_vec());
        if slot % 30 == 0 {
            replay.source.cut();
        }
        replay.source.send(rest.to_vec());
        wait("the bank is the tip", || {
            replay.frozen_bank().0 == slot || status.mismatch().is_some()
        });
        assert_eq!((status.mismatch(), status.gaps()), (None, 0));
        if let Some(expected) = frozen_banks.get(&slot) {
            assert_eq!(&replay.frozen_bank().1, expected, "slot {slot}");
            compared += 1;
        }
    }
    assert_eq!(compared, frozen_banks.len(), "every bank of the log");
    let requests = replay.source.requests();
    assert!(requests.len() >= 4, "{} streams", requests.len());
    replay.following.stop();
}
