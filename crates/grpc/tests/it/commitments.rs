//! The messages of a client of each commitment, in order, on forks.

use std::sync::Arc;

use chain_solana::{LedgerEvent, RevertReason};
use grpc::Config;
use ledger::BlockId;
use tonic::Code;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SubscribeRequest, SubscribeRequestFilterAccounts,
    SubscribeRequestFilterBlocksMeta, SubscribeRequestFilterSlots,
    SubscribeRequestFilterTransactions,
};

use crate::client::{Subscription, connect};
use crate::ledger::{FIRST, ScriptedLedger, block_id, transaction};

/// Everything that a state follower subscribes to.
pub(crate) fn everything(commitment: CommitmentLevel) -> SubscribeRequest {
    let slots =
        SubscribeRequestFilterSlots { filter_by_commitment: None, interslot_updates: Some(true) };
    SubscribeRequest {
        accounts: [("a".to_owned(), SubscribeRequestFilterAccounts::default())].into(),
        transactions: [("t".to_owned(), SubscribeRequestFilterTransactions::default())].into(),
        blocks_meta: [("m".to_owned(), SubscribeRequestFilterBlocksMeta {})].into(),
        slots: [("s".to_owned(), slots)].into(),
        commitment: Some(commitment.into()),
        ..SubscribeRequest::default()
    }
}

/// A bank that writes account 1 twice and executes a transaction.
fn full_bank(ledger: &mut ScriptedLedger, slot: u64) {
    ledger.open(slot);
    ledger.write(slot, 1, 9, b"old", Some(1));
    ledger.write(slot, 2, 9, b"two", Some(1));
    ledger.execute(transaction(slot, 0, 1, &[1, 2]));
    ledger.write(slot, 1, 9, b"new", None);
    ledger.freeze(slot);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_comes_in_the_order_of_its_life() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let request = everything(CommitmentLevel::Processed);
    let mut subscription = Subscription::start(&mut client, request).await;
    full_bank(&mut ledger, FIRST);
    ledger.confirm(block_id(FIRST));
    ledger.root(block_id(FIRST));
    let expected = [
        "s: created_bank 101",
        "a: account 101 1 old",
        "a: account 101 2 two",
        "t: transaction 101 0 1",
        "a: account 101 1 new",
        "s: completed 101",
        "m: meta 101 1",
        "s: processed 101",
        "s: confirmed 101",
        "s: finalized 101",
    ];
    assert_eq!(subscription.take(10).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_of_the_ledger_closes_every_client_and_nothing_before_it_is_replayed() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let levels =
        [CommitmentLevel::Processed, CommitmentLevel::Confirmed, CommitmentLevel::Finalized];
    let mut subscriptions = Vec::new();
    for level in levels {
        let subscription = Subscription::start(&mut client, everything(level)).await;
        subscriptions.push(subscription);
    }
    full_bank(&mut ledger, FIRST);
    let taken = subscriptions[0].take(8).await;
    assert_eq!(taken.last().map(String::as_str), Some("s: processed 101"));
    ledger.jump(FIRST + 50, FIRST);
    for subscription in &mut subscriptions {
        let status = subscription.end().await;
        assert_eq!(status.code(), Code::DataLoss);
        let text = "the node has no blocks between slot 101 and slot 151: subscribe again, from slot 152 on or \
                    without from_slot";
        assert_eq!(status.message(), text);
    }
    let from = |from_slot| SubscribeRequest {
        from_slot: Some(from_slot),
        ..everything(CommitmentLevel::Processed)
    };
    let mut live = Subscription::start(&mut client, everything(CommitmentLevel::Processed)).await;
    // Before the first bank after the jump.
    let mut resumed = Subscription::start(&mut client, from(FIRST + 51)).await;
    for next in [None, Some(FIRST + 51)] {
        if let Some(slot) = next {
            full_bank(&mut ledger, slot);
            live.take(8).await;
        }
        for slot in [FIRST, FIRST + 50] {
            let mut early = Subscription::start_unchecked(&mut client).await;
            early.send(from(slot)).await;
            assert_eq!(early.end().await.code(), Code::OutOfRange);
        }
    }
    let mut replayed = Subscription::start_unchecked(&mut client).await;
    replayed.send(from(FIRST + 51)).await;
    assert_eq!(replayed.take(1).await, ["s: created_bank 152"]);
    assert_eq!(resumed.take(1).await, ["s: created_bank 152"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn confirmed_and_finalized_get_each_account_once_when_the_bank_gets_there() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let [mut confirmed, mut finalized] = [
        Subscription::start(&mut client, everything(CommitmentLevel::Confirmed)).await,
        Subscription::start(&mut client, everything(CommitmentLevel::Finalized)).await,
    ];
    full_bank(&mut ledger, FIRST);
    ledger.confirm(block_id(FIRST));
    ledger.root(block_id(FIRST));
    let statuses = ["s: created_bank 101", "s: completed 101", "s: processed 101"];
    let content =
        ["a: account 101 2 two", "a: account 101 1 new", "t: transaction 101 0 1", "m: meta 101 1"];
    assert_eq!(confirmed.take(3).await, statuses);
    assert_eq!(confirmed.take(4).await, content);
    assert_eq!(confirmed.take(2).await, ["s: confirmed 101", "s: finalized 101"]);
    assert_eq!(finalized.take(3).await, statuses);
    assert_eq!(finalized.take(1).await, ["s: confirmed 101"]);
    assert_eq!(finalized.take(4).await, content);
    assert_eq!(finalized.take(1).await, ["s: finalized 101"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ancestors_get_each_status_before_their_descendants() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let request = SubscribeRequest {
        slots: [("s".to_owned(), SubscribeRequestFilterSlots::default())].into(),
        ..SubscribeRequest::default()
    };
    let mut subscription = Subscription::start(&mut client, request).await;
    for slot in FIRST..FIRST + 3 {
        ledger.open(slot);
        ledger.freeze(slot);
    }
    // Slot 102 is confirmed first, 103 is rooted without that.
    ledger.confirm(block_id(FIRST + 1));
    ledger.root(block_id(FIRST));
    ledger.root(block_id(FIRST + 2));
    let expected = [
        "processed 101",
        "processed 102",
        "processed 103",
        "confirmed 101",
        "confirmed 102",
        "finalized 101",
        "confirmed 103",
        "finalized 102",
        "finalized 103",
    ];
    let expected: Vec<_> = expected.iter().map(|text| format!("s: {text}")).collect();
    assert_eq!(subscription.take(9).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reverted_bank_is_never_released_and_its_replacement_has_another_id() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let mut processed =
        Subscription::start(&mut client, everything(CommitmentLevel::Processed)).await;
    let mut confirmed =
        Subscription::start(&mut client, everything(CommitmentLevel::Confirmed)).await;
    let dead = block_id(FIRST);
    full_bank(&mut ledger, FIRST);
    ledger.revert(dead, RevertReason::Dead { error: "broken".to_owned() });
    let second = BlockId { slot: FIRST, version: 999 };
    ledger.open_on(second, block_id(FIRST - 1));
    ledger.freeze_block(second);
    ledger.confirm(second);

    let mut ids = Vec::new();
    for _ in 0..13 {
        let update = processed.next().await.expect("an update");
        if let Some(UpdateOneof::Slot(slot)) = update.update_oneof {
            ids.push((slot.status, slot.bank_id.expect("a bank id"), slot.dead_error));
        }
    }
    let broken = Some("broken".to_owned());
    let expected = [(5, 1, None), (4, 1, None), (0, 1, None), (6, 1, broken), (5, 2, None)];
    assert_eq!(ids[..5], expected);
    let expected = [
        "created_bank 101",
        "completed 101",
        "processed 101",
        "dead 101",
        "created_bank 101",
        "completed 101",
        "processed 101",
    ];
    let expected: Vec<_> = expected.iter().map(|text| format!("s: {text}")).collect();
    assert_eq!(confirmed.take(7).await, expected);
    assert_eq!(confirmed.take(2).await, ["m: meta 101 0", "s: confirmed 101"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_a_bank_that_was_whole_at_once_come_once_and_before_it_is_completed() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let request = everything(CommitmentLevel::Processed);
    let mut subscription = Subscription::start(&mut client, request).await;
    ledger.open(FIRST);
    ledger.write(FIRST, 1, 9, b"one", Some(1));
    let executed = [transaction(FIRST, 0, 1, &[1]), transaction(FIRST, 1, 2, &[1])];
    executed.iter().for_each(|it| ledger.execute_unreported(it.clone()));
    ledger.freeze(FIRST);
    // The bank became the processed tip.
    ledger.send(&LedgerEvent::Executed(executed.map(Arc::new).into()));
    ledger.send(&LedgerEvent::TipMoved { block: block_id(FIRST) });
    ledger.confirm(block_id(FIRST));
    let expected = [
        "s: created_bank 101",
        "a: account 101 1 one",
        "t: transaction 101 0 1",
        "t: transaction 101 1 2",
        "s: completed 101",
        "m: meta 101 2",
        "s: processed 101",
        "s: confirmed 101",
    ];
    assert_eq!(subscription.take(8).await, expected);
}
