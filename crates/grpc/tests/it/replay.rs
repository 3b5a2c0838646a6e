//! `from_slot`: the published updates of the last slots.

use std::collections::HashMap;
use std::sync::Arc;

use chain_solana::RevertReason;
use grpc::Config;
use ledger::BlockId;
use tonic::Code;
use tonic::transport::Endpoint;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SubscribeReplayInfoRequest, SubscribeRequest, SubscribeRequestPing,
};

use crate::client::{Subscription, connect, connect_with};
use crate::commitments::everything;
use crate::ledger::{FIRST, ScriptedLedger, block_id, new_block, transaction};

fn from(slot: u64, commitment: CommitmentLevel) -> SubscribeRequest {
    SubscribeRequest { from_slot: Some(slot), ..everything(commitment) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_gives_what_was_sent_and_goes_on_live() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let mut levels = Vec::new();
    for level in
        [CommitmentLevel::Processed, CommitmentLevel::Confirmed, CommitmentLevel::Finalized]
    {
        let live = Subscription::start(&mut client, everything(level)).await;
        levels.push((level, live));
    }
    for slot in FIRST..FIRST + 20 {
        ledger.bank_with_write(slot, 1);
        if slot >= FIRST + 3 {
            ledger.root(block_id(slot - 3));
        }
    }
    for (level, mut live) in levels {
        let mut count = 20 * 3 + 20 + 17; // created, completed, processed; confirmed; finalized
        count += match level {
            CommitmentLevel::Processed | CommitmentLevel::Confirmed => 20 * 2,
            CommitmentLevel::Finalized => 17 * 2,
        };
        let expected = live.take(count).await;
        let mut replayed = Subscription::start_unchecked(&mut client).await;
        replayed.send(from(FIRST, level)).await;
        assert_eq!(replayed.take(count).await, expected, "{level:?}");

        let mut later = Subscription::start_unchecked(&mut client).await;
        later.send(from(FIRST + 10, level)).await;
        let slot_of = |text: &String| -> u64 {
            let slot = text.split(' ').nth(2).expect("a slot");
            slot.parse().expect("a number")
        };
        let of_later: Vec<_> = expected.iter().filter(|it| slot_of(it) >= FIRST + 10).collect();
        let found = later.take(of_later.len()).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), of_later, "{level:?}");
        // Both are live now. The banks of the loop's rounds before came too.
        replayed.take(level as usize).await;
        later.take(level as usize).await;
        let next = FIRST + 20 + level as u64;
        ledger.open(next);
        let created = format!("s: created_bank {next}");
        assert_eq!(replayed.take(1).await, std::slice::from_ref(&created));
        assert_eq!(later.take(1).await, [created]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_gone_is_out_of_range_and_a_later_one_is_waited_for() {
    let mut ledger = ScriptedLedger::start(Config { replay_slots_max: 5, ..Config::default() });
    let mut client = connect(ledger.address()).await;
    let mut live = Subscription::start(&mut client, everything(CommitmentLevel::Processed)).await;
    for slot in FIRST..FIRST + 10 {
        ledger.bank_with_write(slot, 1);
        ledger.root(block_id(slot));
    }
    live.take(10 * 7).await;
    let info = client.subscribe_replay_info(SubscribeReplayInfoRequest {}).await;
    let first = info.expect("an answer").into_inner().first_available;
    assert_eq!(first, Some(FIRST + 5));

    let mut gone = Subscription::start_unchecked(&mut client).await;
    gone.send(from(FIRST + 4, CommitmentLevel::Processed)).await;
    let status = gone.end().await;
    assert_eq!(status.code(), Code::OutOfRange);
    assert!(status.message().contains("the first available slot is 106"), "{status}");

    let request = from(FIRST + 10, CommitmentLevel::Processed);
    let mut next = Subscription::start(&mut client, request).await;
    ledger.open(FIRST + 10);
    assert_eq!(next.take(1).await, ["s: created_bank 111"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_of_slots_removes_nothing_from_the_log() {
    let mut ledger = ScriptedLedger::start(Config { replay_slots_max: 5, ..Config::default() });
    let mut client = connect(ledger.address()).await;
    let mut live = Subscription::start(&mut client, everything(CommitmentLevel::Processed)).await;
    let slots = [FIRST, FIRST + 1, FIRST + 400_000, FIRST + 900_000];
    slots.iter().for_each(|slot| ledger.bank_with_write(*slot, 1));
    let all = live.take(4 * 6).await;
    let mut replayed = Subscription::start_unchecked(&mut client).await;
    replayed.send(from(FIRST, CommitmentLevel::Processed)).await;
    assert_eq!(replayed.take(4 * 6).await, all);
    // Banks from before the jump still become final: their content follows.
    let mut finalized = Subscription::start_unchecked(&mut client).await;
    finalized.send(from(FIRST, CommitmentLevel::Finalized)).await;
    finalized.take(4 * 4).await;
    ledger.root(block_id(FIRST));
    finalized.take(1 + 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_ahead_of_a_ledger_that_started_again_gets_no_slot_twice() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    // Nothing is published yet. The root is not sent again, and everything after it is.
    let mut rooted = Subscription::start_unchecked(&mut client).await;
    rooted.send(from(FIRST - 1, CommitmentLevel::Processed)).await;
    assert_eq!(rooted.end().await.code(), Code::OutOfRange);
    let mut levels = Vec::new();
    for level in
        [CommitmentLevel::Processed, CommitmentLevel::Confirmed, CommitmentLevel::Finalized]
    {
        let all = Subscription::start(&mut client, from(FIRST, level)).await;
        let ahead = Subscription::start(&mut client, from(FIRST + 3, level)).await;
        levels.push((level, all, ahead));
    }
    for slot in FIRST..FIRST + 6 {
        ledger.bank_with_write(slot, 1);
        ledger.root(block_id(slot));
    }
    let slot_of = |text: &String| -> u64 {
        let slot = text.split(' ').nth(2).expect("a slot");
        slot.parse().expect("a number")
    };
    for (level, mut all, mut ahead) in levels {
        // Five statuses, the write and the meta.
        let expected = all.take(6 * 7).await;
        let expected: Vec<_> = expected.iter().filter(|it| slot_of(it) >= FIRST + 3).collect();
        assert_eq!(expected.len(), 3 * 7, "{level:?}");
        let found = ahead.take(expected.len()).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{level:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_bounded_in_bytes_and_a_bank_that_left_it_closes_those_that_wait_for_it() {
    let config = Config { replay_bytes_max: 100_000, ..Config::default() };
    let mut ledger = ScriptedLedger::start(config);
    let mut client = connect(ledger.address()).await;
    let mut processed =
        Subscription::start(&mut client, everything(CommitmentLevel::Processed)).await;
    let mut finalized =
        Subscription::start(&mut client, everything(CommitmentLevel::Finalized)).await;
    for slot in FIRST..FIRST + 10 {
        ledger.open(slot);
        ledger.write(slot, 1, 9, &[b'x'; 30_000], None);
        ledger.freeze(slot);
    }
    ledger.root(block_id(FIRST));
    assert_eq!(finalized.end().await.code(), Code::Internal);
    processed.take(10 * 5 + 2).await;
    let info = client.subscribe_replay_info(SubscribeReplayInfoRequest {}).await;
    let first = info.expect("an answer").into_inner().first_available;
    assert_eq!(first, Some(FIRST + 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn left_forks_push_no_slot_out_before_it_is_final() {
    let mut ledger = ScriptedLedger::start(Config { replay_slots_max: 5, ..Config::default() });
    let mut client = connect(ledger.address()).await;
    let mut finalized =
        Subscription::start(&mut client, everything(CommitmentLevel::Finalized)).await;
    ledger.bank_with_write(FIRST, 1);
    let left = FIRST + 1..FIRST + 21;
    for slot in left.clone() {
        ledger.open_on(block_id(slot), block_id(FIRST));
        ledger.write(slot, 1, 9, b"left", None);
        ledger.freeze(slot);
        ledger.confirm(block_id(slot));
        let error = "a reorganisation".to_owned();
        ledger.revert(block_id(slot), RevertReason::Dead { error });
    }
    // More than five slots wait for their root.
    let tip = left.end + 9;
    ledger.open_on(block_id(left.end), block_id(FIRST));
    ledger.write(left.end, 1, 9, b"data", None);
    ledger.freeze(left.end);
    for slot in left.end + 1..=tip {
        ledger.bank_with_write(slot, 1);
    }

    let confirmed = format!("s: confirmed {tip}");
    assert!(metas_until(&mut finalized, &confirmed).await.is_empty(), "nothing is final");

    // A replay has the slots of the chain, and none of those that were left.
    let chain = std::iter::once(FIRST).chain(left.end..=tip);
    let expected: Vec<_> = chain.map(|slot| format!("m: meta {slot} 0")).collect();
    let mut replayed = Subscription::start_unchecked(&mut client).await;
    replayed.send(from(FIRST, CommitmentLevel::Confirmed)).await;
    assert_eq!(metas_until(&mut replayed, &confirmed).await, expected);

    ledger.root(block_id(tip));
    ledger.open(tip + 1);
    let last = format!("s: created_bank {}", tip + 1);
    let found = metas_until(&mut finalized, &last).await;
    assert_eq!(found, expected, "each slot of the chain becomes final");
    let info = client.subscribe_replay_info(SubscribeReplayInfoRequest {}).await;
    assert_eq!(info.expect("an answer").into_inner().first_available, Some(tip - 3));
}

/// The metadata of blocks that come before some update.
async fn metas_until(subscription: &mut Subscription, last: &str) -> Vec<String> {
    let mut metas = Vec::new();
    loop {
        let update = subscription.take(1).await.remove(0);
        if update == last {
            return metas;
        }
        if update.starts_with("m: ") {
            metas.push(update);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_changes_its_filters_during_a_replay() {
    const SLOTS: u64 = 50;
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let mut live = Subscription::start(&mut client, everything(CommitmentLevel::Processed)).await;
    for slot in FIRST..FIRST + SLOTS {
        ledger.open(slot);
        ledger.write(slot, 1, 9, &[b'x'; 60_000], None);
        ledger.freeze(slot);
    }
    let expected = live.take(SLOTS as usize * 5).await;

    // Its window holds one account, so most of the replay is unread when a request comes.
    let small = |endpoint: Endpoint| endpoint.initial_stream_window_size(65_535);
    let mut client = connect_with(ledger.address(), small).await;
    let mut slow = Subscription::start_unchecked(&mut client).await;
    slow.send(from(FIRST, CommitmentLevel::Processed)).await;
    let mut found = slow.take(30).await;
    for id in 0..5 {
        slow.send(everything(CommitmentLevel::Processed)).await;
        let ping = Some(SubscribeRequestPing { id });
        slow.send(SubscribeRequest { ping, ..Default::default() }).await;
        loop {
            let next = slow.take(1).await.remove(0);
            if next == format!(": pong {id}") {
                break;
            }
            found.push(next);
        }
    }
    assert!(found.len() < expected.len() / 2, "the replay runs: {}", found.len());
    found.extend(slow.take(expected.len() - found.len()).await);
    assert_eq!(found, expected);
    ledger.open(FIRST + SLOTS);
    assert_eq!(slow.take(1).await, live.take(1).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_filters_keep_the_slot_that_a_client_waits_for() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let request = from(FIRST + 2, CommitmentLevel::Processed);
    let mut ahead = Subscription::start(&mut client, request).await;
    ahead.replace(everything(CommitmentLevel::Processed)).await;
    for slot in FIRST..FIRST + 3 {
        ledger.bank_with_write(slot, 1);
    }
    assert_eq!(ahead.take(1).await, ["s: created_bank 103"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_of_slots_keeps_the_log() {
    let mut ledger = ScriptedLedger::start(Config { replay_slots_max: 5, ..Config::default() });
    let mut client = connect(ledger.address()).await;
    let mut finalized =
        Subscription::start(&mut client, everything(CommitmentLevel::Finalized)).await;
    for slot in FIRST..FIRST + 4 {
        ledger.bank_with_write(slot, 1);
    }
    let after = FIRST + 432_000;
    ledger.open_on(block_id(after), block_id(FIRST + 3));
    ledger.write(after, 1, 9, b"data", None);
    ledger.freeze(after);
    ledger.root(block_id(FIRST));
    loop {
        if finalized.take(1).await == ["m: meta 101 0"] {
            break;
        }
    }
    let info = client.subscribe_replay_info(SubscribeReplayInfoRequest {}).await;
    assert_eq!(info.expect("an answer").into_inner().first_available, Some(FIRST));
    // A second bank of a slot takes no further slot; the next one does.
    ledger.open_on(BlockId { slot: after, version: 1 }, block_id(FIRST + 3));
    ledger.open(after + 1);
    let mut last = Subscription::start_unchecked(&mut client).await;
    last.send(from(FIRST + 1, CommitmentLevel::Processed)).await;
    assert_eq!(last.take(1).await, ["s: created_bank 102"]);
    // The log may still have the oldest slot when the replay begins: it drops it with the newest.
    let newest = format!("s: created_bank {}", after + 1);
    while last.take(1).await != [newest.as_str()] {}
    let info = client.subscribe_replay_info(SubscribeReplayInfoRequest {}).await;
    assert_eq!(info.expect("an answer").into_inner().first_available, Some(FIRST + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_blocks_are_replayed_without_accounts() {
    let stored = (97..FIRST).map(|slot| {
        let executed = Arc::new(transaction(slot, 0, 1, &[1]));
        new_block(block_id(slot), block_id(slot - 1), vec![executed], Vec::new())
    });
    let mut ledger = ScriptedLedger::start_with(Config::default(), stored.collect());
    let mut client = connect(ledger.address()).await;
    let info = client.subscribe_replay_info(SubscribeReplayInfoRequest {}).await;
    assert_eq!(info.expect("an answer").into_inner().first_available, Some(FIRST));
    let mut whole = Subscription::start_unchecked(&mut client).await;
    whole.send(from(98, CommitmentLevel::Processed)).await;
    let status = whole.end().await;
    assert_eq!(status.code(), Code::OutOfRange);
    assert!(status.message().contains("101 (97 without accounts"), "{status}");

    ledger.bank_with_write(FIRST, 1);
    ledger.root(block_id(FIRST));
    for (level, at) in [
        (CommitmentLevel::Processed, "processed"),
        (CommitmentLevel::Confirmed, "confirmed"),
        (CommitmentLevel::Finalized, "finalized"),
    ] {
        let mut request = SubscribeRequest { accounts: HashMap::new(), ..from(98, level) };
        request.slots.values_mut().for_each(|slots| slots.filter_by_commitment = Some(true));
        let mut restored = Subscription::start_unchecked(&mut client).await;
        restored.send(request).await;
        for slot in 98..FIRST {
            let of_slot = [
                format!("t: transaction {slot} 0 1"),
                format!("m: meta {slot} 1"),
                format!("s: {at} {slot}"),
            ];
            assert_eq!(restored.take(3).await, of_slot);
        }
        assert_eq!(restored.take(2).await, ["m: meta 101 0".to_owned(), format!("s: {at} 101")]);
    }
    // Later banks are whole.
    let mut whole = Subscription::start_unchecked(&mut client).await;
    whole.send(from(FIRST, CommitmentLevel::Processed)).await;
    assert_eq!(whole.take(2).await, ["s: created_bank 101", "a: account 101 1 data"]);
}
