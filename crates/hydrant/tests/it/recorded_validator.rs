//! A recorded run of a real validator under load (`cargo xtask rig --record`), replayed to a follower: every part of every
//! bank hash is the one that the validator logged, and the responses are equal to those of the validator.
//!
//! Shape: the stream is sent slot by slot, so that the follower has the same final slot when a method is called.
//! Not here: reading the files of `tests/recorded_validator` (`recording`), the recording (`xtask/src/rig`).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use solana_hash::Hash;
use testkit::json_rpc_client::JsonRpcClient;
use yellowstone_grpc_proto::geyser::SubscribeUpdate;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;

use crate::followed_ledger::wait;
use crate::followed_methods::Served;
use crate::recording::{Chunk, FrozenBank, Recorded, Recording, Replay, read_responses};

/// The directory of the recording.
const RECORDING: &str = "recorded_validator";
/// Slots of an epoch of the recorded validator.
const SLOTS_PER_EPOCH: u64 = 64;

/// Returns the banks of the log by slot. A single validator never forks.
fn banks_by_slot(frozen_banks: Vec<FrozenBank>) -> BTreeMap<u64, FrozenBank> {
    frozen_banks.into_iter().map(|bank| (bank.slot, bank)).collect()
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
    let Recording { archive, chunks, rest, frozen_banks } = Recording::read(RECORDING);
    let answers = read_responses(RECORDING);
    let frozen_banks = banks_by_slot(frozen_banks);
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
    let slots: Vec<u64> = chunks.iter().map(|chunk| chunk.slot).collect();
    for Chunk { slot, updates } in chunks {
        replay.send(updates);
        let bank = replay.frozen_bank();
        assert_eq!(bank.slot, slot, "each bank is the tip once it is processed");
        if let Some(expected) = frozen_banks.get(&slot) {
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
    let Recording { archive, chunks, frozen_banks, .. } = Recording::read(RECORDING);
    let frozen_banks = banks_by_slot(frozen_banks);
    let replay = Replay::start(&archive);
    let status = &replay.following.status;
    let mut compared = 0;
    for Chunk { slot, updates } in chunks {
        let older: Vec<_> = updates.into_iter().filter_map(in_older_proto).collect();
        let (first, rest) = older.split_at(older.len() / 2);
        replay.source.send(first.to_vec());
        if slot % 30 == 0 {
            replay.source.cut();
        }
        replay.source.send(rest.to_vec());
        wait("the bank is the tip", || {
            replay.frozen_bank().slot == slot || status.mismatch().is_some()
        });
        assert_eq!((status.mismatch(), status.gaps()), (None, 0));
        if let Some(expected) = frozen_banks.get(&slot) {
            assert_eq!(&replay.frozen_bank(), expected, "slot {slot}");
            compared += 1;
        }
    }
    assert_eq!(compared, frozen_banks.len(), "every bank of the log");
    let requests = replay.source.requests();
    assert!(requests.len() >= 4, "{} streams", requests.len());
    replay.following.stop();
}
