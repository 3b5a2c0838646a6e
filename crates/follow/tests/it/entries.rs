//! The entries of a followed bank: requested only for a sink that needs them, and shown with their bank.

use std::sync::Arc;

use chain_solana::{EventSink, LedgerEvent};
use parking_lot::Mutex;
use testkit::geyser_source::Source;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate, SubscribeUpdateEntry};

use crate::follows::{Rig, config, source_config};
use crate::script::{Bank, blockhash, message, status};

/// A sink that stores of each block: its slot, and of each entry its number of hashes and of transactions.
#[derive(Clone, Default)]
struct Entries(Arc<Mutex<Vec<BlockEntries>>>);

type BlockEntries = (u64, Vec<(u64, u64)>);

impl EventSink for Entries {
    fn send(&mut self, event: &LedgerEvent) {
        let LedgerEvent::Frozen { block, .. } = event else { return };
        let entries = block.entries.iter().map(|it| (it.num_hashes, it.transaction_count));
        self.0.lock().push((block.id.slot, entries.collect()));
    }

    fn needs_entries(&self) -> bool {
        true
    }
}

fn entry(slot: u64, index: u64, hash: [u8; 32], transactions: u64) -> SubscribeUpdate {
    message(UpdateOneof::Entry(SubscribeUpdateEntry {
        slot,
        index,
        num_hashes: index + 5,
        hash: hash.to_vec(),
        executed_transaction_count: transactions,
        starting_transaction_index: u64::from(index > 0),
        bank_id: 0,
    }))
}

/// A confirmed bank with one transaction, an entry for it, and a tick.
fn bank(slot: u64) -> Vec<SubscribeUpdate> {
    let mut updates = Bank::new(slot, slot - 1, slot).frozen();
    for update in &mut updates {
        if let Some(UpdateOneof::BlockMeta(meta)) = &mut update.update_oneof {
            meta.entries_count = 2;
        }
    }
    let last = blockhash(slot, 0).to_bytes();
    updates.splice(1..1, [entry(slot, 0, [7; 32], 1), entry(slot, 1, last, 0)]);
    updates.push(status(slot, SlotStatus::SlotConfirmed));
    updates
}

/// The updates that a source sends to a client that does not subscribe to entries.
fn without_entries(mut updates: Vec<SubscribeUpdate>) -> Vec<SubscribeUpdate> {
    updates.retain(|update| !matches!(update.update_oneof, Some(UpdateOneof::Entry(_))));
    updates
}

const WHOLE: [(u64, u64); 2] = [(5, 1), (6, 0)];

#[tokio::test(flavor = "multi_thread")]
async fn a_banks_entries_are_shown_with_it() {
    let source = Source::new(None);
    let entries = Entries::default();
    let config = config(vec![source_config(&source).await]);
    let rig = Rig::start_with(config, vec![Box::new(entries.clone())]);
    source.send(bank(101));
    rig.wait_for_slots([101, 101, 100]).await;
    // After a cut the source sends all of the bank again.
    source.cut();
    rig.wait("a second session", |rig| rig.status.sessions() == 2).await;
    source.send(bank(102));
    rig.wait_for_slots([102, 102, 100]).await;
    assert_eq!(*entries.0.lock(), [(101, WHOLE.to_vec()), (102, WHOLE.to_vec())]);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_not_requested_if_no_server_needs_them() {
    let source = Source::new(None);
    let rig = Rig::start(config(vec![source_config(&source).await]));
    // It counts entries, and they are not waited for.
    source.send(without_entries(bank(101)));
    rig.wait_for_slots([101, 101, 100]).await;
    assert!(source.requests()[0].entry.is_empty());
    assert_eq!(rig.status.gaps(), 0);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_refuses_entries_is_followed_without_them() {
    let source = Source::new(None);
    source.refuse_entries();
    let entries = Entries::default();
    let config = config(vec![source_config(&source).await]);
    let rig = Rig::start_with(config, vec![Box::new(entries.clone())]);
    source.send(without_entries(bank(101)));
    rig.wait_for_slots([101, 101, 100]).await;
    assert_eq!(*entries.0.lock(), [(101, Vec::new())]);
    let requests = source.requests();
    assert_eq!((requests.len(), requests[0].entry.len()), (1, 0), "the refused one is not logged");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_loses_entries_is_followed_without_them() {
    let source = Source::new(None);
    let entries = Entries::default();
    let config = config(vec![source_config(&source).await]);
    let rig = Rig::start_with(config, vec![Box::new(entries.clone())]);
    let mut lossy = bank(101);
    lossy.remove(2);
    source.send(lossy);
    rig.wait_for_slots([101, 101, 100]).await;
    source.send(bank(102));
    rig.wait_for_slots([102, 102, 100]).await;
    assert_eq!(*entries.0.lock(), [(101, Vec::new()), (102, Vec::new())]);
    assert_eq!((rig.status.gaps(), rig.status.sessions()), (0, 1));
    rig.stop().await;
}
