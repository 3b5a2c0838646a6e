//! Entries: when they come, and that blocks and their metadata count those that are sent.

use grpc::Config;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SubscribeRequest, SubscribeRequestFilterBlocks, SubscribeRequestFilterEntry,
};

use crate::client::{Subscription, connect, short};
use crate::commitments::everything;
use crate::ledger::{FIRST, ScriptedLedger, block_id, transaction};

fn with_entries(request: SubscribeRequest) -> SubscribeRequest {
    let filter = SubscribeRequestFilterEntry::default();
    SubscribeRequest { entry: [("e".to_owned(), filter)].into(), ..request }
}

/// A bank of three transactions in two entries, and a tick.
fn bank_with_entries(ledger: &mut ScriptedLedger) {
    ledger.open(FIRST);
    ledger.write(FIRST, 1, 9, b"one", Some(1));
    ledger.execute(transaction(FIRST, 0, 1, &[1]));
    ledger.execute(transaction(FIRST, 1, 2, &[1]));
    ledger.execute_unreported(transaction(FIRST, 2, 3, &[1]));
    ledger.set_entries(&[2, 1, 0]);
    ledger.freeze(FIRST);
    ledger.confirm(block_id(FIRST));
}

const ENTRIES: [&str; 3] =
    ["e: entry 101 0 2 from 0", "e: entry 101 1 1 from 2", "e: entry 101 2 0 from 3"];

#[tokio::test(flavor = "multi_thread")]
async fn entries_come_after_the_transactions_and_before_the_block() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let request = with_entries(everything(CommitmentLevel::Processed));
    let mut subscription = Subscription::start(&mut client, request).await;
    let confirmed = with_entries(everything(CommitmentLevel::Confirmed));
    let mut confirmed = Subscription::start(&mut client, confirmed).await;
    bank_with_entries(&mut ledger);
    let content = ["a: account 101 1 one"]
        .into_iter()
        .chain(["t: transaction 101 0 1", "t: transaction 101 1 2", "t: transaction 101 2 3"])
        .chain(ENTRIES);
    let processed: Vec<&str> = ["s: created_bank 101"]
        .into_iter()
        .chain(content.clone())
        .chain(["s: completed 101", "m: meta 101 3", "s: processed 101", "s: confirmed 101"])
        .collect();
    assert_eq!(subscription.take(processed.len()).await, processed);
    let released: Vec<&str> = ["s: created_bank 101", "s: completed 101", "s: processed 101"]
        .into_iter()
        .chain(content)
        .chain(["m: meta 101 3", "s: confirmed 101"])
        .collect();
    assert_eq!(confirmed.take(released.len()).await, released);
    // And the same from the log.
    let request = with_entries(everything(CommitmentLevel::Processed));
    let request = SubscribeRequest { from_slot: Some(FIRST), ..request };
    let mut replayed = Subscription::start_unchecked(&mut client).await;
    replayed.send(request).await;
    assert_eq!(replayed.take(processed.len()).await, processed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_has_its_entries_if_its_filter_says_so_and_always_their_number() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let blocks = |include_entries| SubscribeRequestFilterBlocks {
        include_entries,
        ..SubscribeRequestFilterBlocks::default()
    };
    let request = SubscribeRequest {
        blocks: [("with".to_owned(), blocks(Some(true))), ("without".to_owned(), blocks(None))]
            .into(),
        blocks_meta: [("meta".to_owned(), Default::default())].into(),
        ..with_entries(SubscribeRequest::default())
    };
    let mut subscription = Subscription::start(&mut client, request).await;
    bank_with_entries(&mut ledger);
    let mut live = Vec::new();
    for expected in ENTRIES {
        let update = subscription.next().await.expect("an update");
        assert_eq!(short(&update), expected);
        let Some(UpdateOneof::Entry(entry)) = update.update_oneof else { unreachable!() };
        live.push(entry);
    }
    assert_eq!(live[1].num_hashes, 20);
    assert_eq!(live[1].hash, [2; 32]);
    assert!(live[1].bank_id > 0);
    let mut sent = Vec::new();
    for _ in 0..2 {
        let update = subscription.next().await.expect("an update").update_oneof;
        let Some(UpdateOneof::Block(block)) = update else { panic!("{update:?}") };
        assert_eq!(block.entries_count, 3);
        sent.push(block.entries);
    }
    assert_eq!(sent, [live, Vec::new()]);
    let update = subscription.next().await.expect("an update").update_oneof;
    let Some(UpdateOneof::BlockMeta(meta)) = update else { panic!("{update:?}") };
    assert_eq!((meta.entries_count, meta.executed_transaction_count), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_without_entries_says_that_there_are_none() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let request = with_entries(SubscribeRequest {
        blocks_meta: [("meta".to_owned(), Default::default())].into(),
        ..SubscribeRequest::default()
    });
    let mut subscription = Subscription::start(&mut client, request).await;
    ledger.bank_with_write(FIRST, 1);
    let update = subscription.next().await.expect("an update").update_oneof;
    let Some(UpdateOneof::BlockMeta(meta)) = update else { panic!("{update:?}") };
    assert_eq!(meta.entries_count, 0);
}
