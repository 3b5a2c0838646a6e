//! `from_slot`: what was published in the last slots.

use grpc::Config;
use tonic::Code;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SubscribeReplayInfoRequest, SubscribeRequest,
};

use crate::client::{Subscription, connect};
use crate::commitments::everything;
use crate::ledger::{FIRST, TestLedger, block_id};

fn from(slot: u64, commitment: CommitmentLevel) -> SubscribeRequest {
    SubscribeRequest { from_slot: Some(slot), ..everything(commitment) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_gives_what_was_sent_and_goes_on_live() {
    let mut ledger = TestLedger::start(Config::default());
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
        let mut replayed = Subscription::unchecked(&mut client).await;
        replayed.send(from(FIRST, level)).await;
        assert_eq!(replayed.take(count).await, expected, "{level:?}");

        let mut later = Subscription::unchecked(&mut client).await;
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
    let mut ledger = TestLedger::start(Config { replay_slots_max: 5, ..Config::default() });
    let mut client = connect(ledger.address()).await;
    let mut live = Subscription::start(&mut client, everything(CommitmentLevel::Processed)).await;
    for slot in FIRST..FIRST + 10 {
        ledger.bank_with_write(slot, 1);
    }
    live.take(10 * 6).await;
    let info = client.subscribe_replay_info(SubscribeReplayInfoRequest {}).await;
    let first = info.expect("an answer").into_inner().first_available;
    assert_eq!(first, Some(FIRST + 5));

    let mut gone = Subscription::unchecked(&mut client).await;
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
async fn a_client_that_is_ahead_of_a_ledger_that_started_again_gets_no_slot_twice() {
    let mut ledger = TestLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    // Nothing is published yet. The root is not sent again, and everything after it is.
    let mut rooted = Subscription::unchecked(&mut client).await;
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
    let mut ledger = TestLedger::start(config);
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
