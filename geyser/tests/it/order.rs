//! The order of what clients get, whatever the order of the validator's threads.

use agave_geyser_plugin_interface::geyser_plugin_interface::SlotStatus;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, GetBlockHeightRequest, GetLatestBlockhashRequest, GetSlotRequest,
    IsBlockhashValidRequest,
};

use crate::client::{Subscription, connect, everything};
use crate::validator::{Validator, blockhash, sign_transaction};

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_is_sent_in_the_order_that_clients_rely_on() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    let mut updates = Subscription::start(&mut client).await;
    let one = sign_transaction(21);
    let two = sign_transaction(22);
    validator.status(100, SlotStatus::FirstShredReceived);
    validator.status(100, SlotStatus::CreatedBank);
    validator.write(100, 1, 1);
    validator.write_account_with(100, 2, 2, &[1], Some(&one)).expect("taken");
    validator.transaction(100, 1, &two);
    validator.write(100, 4, 3);
    // The metadata may come before the last transaction, and processed before both.
    validator.status(100, SlotStatus::Processed);
    validator.block_meta(100, 2);
    validator.status(100, SlotStatus::Completed);
    validator.transaction(100, 0, &one);
    validator.status(100, SlotStatus::Confirmed);
    validator.status(100, SlotStatus::Rooted);
    let names = updates.until("finalized 100").await;
    assert_eq!(
        names,
        [
            "created_bank 100",
            "account 100 1 by 0",
            "account 100 2 by 21",
            "transaction 100 1",
            "account 100 4 by 0",
            "transaction 100 0",
            "completed 100",
            "meta 100 2",
            "processed 100",
            "confirmed 100",
            "finalized 100",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_before_its_bank_is_whole_waits_and_a_skipped_one_is_filled_in() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    let mut updates = Subscription::start(&mut client).await;
    validator.bank(100);
    validator.status(101, SlotStatus::CreatedBank);
    validator.status(101, SlotStatus::Confirmed);
    validator.block_meta(101, 0);
    // 102 is never reported as confirmed, and 103 makes it final.
    validator.bank(102);
    validator.bank(103);
    validator.status(103, SlotStatus::Rooted);
    let names = updates.until("finalized 103").await;
    let statuses: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|it| {
            ["processed", "confirmed", "finalized"].iter().any(|name| it.starts_with(name))
        })
        .collect();
    assert_eq!(
        statuses,
        [
            "processed 100",
            "processed 101",
            "confirmed 100",
            "confirmed 101",
            "processed 102",
            "processed 103",
            "confirmed 102",
            "confirmed 103",
            "finalized 100",
            "finalized 101",
            "finalized 102",
            "finalized 103",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_slot_is_another_bank_and_a_dead_one_has_its_reason() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    let mut updates = Subscription::start(&mut client).await;
    validator.status(100, SlotStatus::CreatedBank);
    validator.write(100, 1, 1);
    validator.bank(100);
    validator.status(101, SlotStatus::CreatedBank);
    validator.status(101, SlotStatus::Dead("bad block".to_owned()));
    let mut ids = Vec::new();
    let mut dead = None;
    while dead.is_none() {
        let update = updates.next().await.expect("an update").update_oneof.expect("content");
        match update {
            UpdateOneof::Account(update) => ids.push(update.bank_id),
            UpdateOneof::Slot(slot) if slot.dead_error.is_some() => dead = slot.dead_error,
            _ => {}
        }
    }
    assert_eq!(dead.as_deref(), Some("bad block"));
    assert_eq!(ids.len(), 2);
    assert!(ids[0].is_some() && ids[1] > ids[0], "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn content_before_the_first_announced_bank_is_not_sent() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    let mut updates = Subscription::start(&mut client).await;
    // The replay of the ledger at a start: no bank is announced.
    validator.write(99, 1, 1);
    validator.transaction(99, 0, &sign_transaction(9));
    validator.block_meta(99, 1);
    validator.status(99, SlotStatus::Rooted);
    validator.bank(100);
    let names = updates.until("processed 100").await;
    assert_eq!(names[0], "created_bank 100");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_finalized_gets_the_last_write_of_each_account() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    validator.status(100, SlotStatus::CreatedBank);
    validator.write_account_with(100, 1, 1, b"old", None).expect("taken");
    validator.write_account_with(100, 1, 2, b"new", None).expect("taken");
    validator.block_meta(100, 0);
    validator.status(100, SlotStatus::Rooted);
    let mut request = everything(CommitmentLevel::Finalized);
    request.from_slot = Some(100);
    // The bank is in the log once a stream at processed has seen it.
    let mut processed = everything(CommitmentLevel::Processed);
    processed.from_slot = Some(100);
    let mut all = wait_for_log(&mut client, processed).await;
    all.until("finalized 100").await;
    let mut updates = Subscription::with(&mut client, request).await;
    let data = loop {
        let update = updates.next().await.expect("an update").update_oneof.expect("content");
        if let UpdateOneof::Account(update) = update {
            break update.account.expect("an account").data;
        }
    };
    assert_eq!(&data[..], b"new");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_read_the_newest_whole_banks() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    let err = client.get_slot(GetSlotRequest { commitment: Some(0) }).await.expect_err("no bank");
    assert_eq!(err.code(), tonic::Code::Unavailable);
    let mut updates = Subscription::start(&mut client).await;
    for slot in 100..=260 {
        validator.bank(slot);
    }
    validator.status(101, SlotStatus::Rooted);
    updates.until("finalized 101").await;
    let slot = client.get_slot(GetSlotRequest { commitment: Some(0) }).await.expect("a slot");
    assert_eq!(slot.into_inner().slot, 260);
    let slot = client.get_slot(GetSlotRequest { commitment: Some(2) }).await.expect("a slot");
    assert_eq!(slot.into_inner().slot, 101);
    let height = GetBlockHeightRequest { commitment: Some(2) };
    let height = client.get_block_height(height).await.expect("a height").into_inner();
    assert_eq!(height.block_height, 91);
    let latest = GetLatestBlockhashRequest { commitment: Some(0) };
    let latest = client.get_latest_blockhash(latest).await.expect("a blockhash").into_inner();
    assert_eq!(latest.blockhash, blockhash(260).to_string());
    assert_eq!(latest.last_valid_block_height, 250 + 150);
    for (slot, valid) in [(260, true), (110, true), (109, false), (300, false)] {
        let blockhash = blockhash(slot).to_string();
        let request = IsBlockhashValidRequest { blockhash, commitment: Some(0) };
        let answer = client.is_blockhash_valid(request).await.expect("an answer").into_inner();
        assert_eq!((answer.slot, answer.valid), (260, valid), "{slot}");
    }
}

/// Subscribes from a slot as soon as the log has it.
async fn wait_for_log(
    client: &mut crate::client::Client,
    request: yellowstone_grpc_proto::geyser::SubscribeRequest,
) -> Subscription {
    loop {
        let info = yellowstone_grpc_proto::geyser::SubscribeReplayInfoRequest {};
        let info = client.subscribe_replay_info(info).await.expect("an answer").into_inner();
        if info.first_available.is_some() {
            return Subscription::with(client, request).await;
        }
        tokio::task::yield_now().await;
    }
}
