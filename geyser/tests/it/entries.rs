//! Entries are sent with their bank, and a bank does not wait for them forever.

use agave_geyser_plugin_interface::geyser_plugin_interface::SlotStatus;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;

use crate::client::{Subscription, connect};
use crate::validator::{Validator, sign_transaction};

/// A bank of two transactions, whose metadata counts three entries, up to its metadata.
fn content(validator: &Validator, slot: u64) {
    validator.status(slot, SlotStatus::CreatedBank);
    validator.transaction(slot, 0, &sign_transaction(1));
    validator.transaction(slot, 1, &sign_transaction(2));
    validator.block_meta(slot, 2);
}

/// The number of entries in the metadata of the next bank.
async fn next_count(updates: &mut Subscription) -> u64 {
    loop {
        let update = updates.next().await.expect("an update").update_oneof;
        if let Some(UpdateOneof::BlockMeta(meta)) = update {
            return meta.entries_count;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_has_its_entries_whatever_their_order() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    let mut updates = Subscription::start(&mut client).await;
    validator.status(100, SlotStatus::CreatedBank);
    validator.transaction(100, 0, &sign_transaction(1));
    validator.entry(100, 1);
    validator.entry(100, 0);
    validator.transaction(100, 1, &sign_transaction(2));
    // Entries have a thread of their own in the validator.
    validator.block_meta(100, 2);
    validator.status(100, SlotStatus::Processed);
    validator.entry(100, 2);
    let names = updates.until("processed 100").await;
    assert_eq!(
        names,
        [
            "created_bank 100",
            "transaction 100 0",
            "transaction 100 1",
            "entry 100 0 of 1 from 0",
            "entry 100 1 of 1 from 1",
            "entry 100 2 of 0 from 2",
            "completed 100",
            "meta 100 2",
            "processed 100",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_without_entries_is_served_as_before() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    let mut updates = Subscription::start(&mut client).await;
    content(&validator, 100);
    assert_eq!(next_count(&mut updates).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_whose_entries_are_lost_is_sent_when_it_is_the_root() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    let mut updates = Subscription::start(&mut client).await;
    validator.entry(100, 0);
    content(&validator, 100);
    validator.status(100, SlotStatus::Confirmed);
    content(&validator, 101);
    (0..3).for_each(|index| validator.entry(101, index));
    // 101 is whole, and 100 is not.
    assert_eq!(next_count(&mut updates).await, 3);
    validator.status(100, SlotStatus::Rooted);
    assert_eq!(next_count(&mut updates).await, 0);
    updates.until("finalized 100").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_the_validator_made_itself_has_no_entries() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    let mut updates = Subscription::start(&mut client).await;
    validator.status(100, SlotStatus::CreatedBank);
    validator.entry(100, 0);
    // Agave counts none.
    validator.block_meta(100, 0);
    assert_eq!(next_count(&mut updates).await, 0);
}
