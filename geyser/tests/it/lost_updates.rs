//! Lost updates: the validator continues, and no client gets a stream with a gap.

use agave_geyser_plugin_interface::geyser_plugin_interface::{
    ReplicaAccountInfo, ReplicaAccountInfoVersions, SlotStatus,
};

use crate::client::{Subscription, connect};
use crate::validator::Validator;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_closes_the_clients_and_the_next_bank_is_a_new_beginning() {
    // A write of 1 MB never fits.
    let validator = Validator::load(r#", "queue_bytes_max": 100000"#);
    let mut client = connect(validator.address()).await;
    let mut updates = Subscription::start(&mut client).await;
    validator.bank(100);
    updates.until("processed 100").await;
    validator.status(101, SlotStatus::CreatedBank);
    validator
        .write_account_with(101, 1, 2, &vec![0; 1_000_000], None)
        .expect("the validator continues");
    // Until the plugin's thread has seen the loss everything is dropped, and the publisher closes the clients with the
    // next event.
    let mut slot = 102;
    let end = loop {
        validator.bank(slot);
        slot += 1;
        let next = tokio::time::timeout(std::time::Duration::from_millis(20), updates.end()).await;
        if let Ok(end) = next {
            break end;
        }
    };
    assert_eq!(end.code(), tonic::Code::Internal);
    assert!(end.message().contains("lagged"), "{}", end.message());
    let mut updates = Subscription::start(&mut client).await;
    validator.bank(slot);
    let names = updates.until(&format!("processed {slot}")).await;
    assert!(names.contains(&format!("created_bank {slot}")), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_of_another_interface_is_refused_and_closes_the_clients() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    let mut updates = Subscription::start(&mut client).await;
    validator.bank(100);
    updates.until("processed 100").await;
    let old = ReplicaAccountInfo {
        pubkey: &[1; 32],
        lamports: 1,
        owner: &[1; 32],
        executable: false,
        rent_epoch: 0,
        data: &[],
        write_version: 1,
    };
    let old = ReplicaAccountInfoVersions::V0_0_1(&old);
    let err = validator.plugin.update_account(old, 101, false).expect_err("another interface");
    assert!(err.to_string().contains("Agave 4.2.2"), "{err}");
    let end = loop {
        validator.bank(102);
        let next = tokio::time::timeout(std::time::Duration::from_millis(20), updates.end()).await;
        if let Ok(end) = next {
            break end;
        }
    };
    assert_eq!(end.code(), tonic::Code::Internal);
}

#[tokio::test(flavor = "multi_thread")]
async fn banks_that_never_become_whole_are_bounded() {
    let validator = Validator::load("");
    let mut client = connect(validator.address()).await;
    let mut updates = Subscription::start(&mut client).await;
    for slot in 100..2_148 {
        validator.status(slot, SlotStatus::CreatedBank);
    }
    updates.until("created_bank 2147").await;
    // One more than the bound, and an event that carries the loss.
    validator.status(2_148, SlotStatus::CreatedBank);
    validator.bank(2_149);
    assert_eq!(updates.end().await.code(), tonic::Code::Internal);
}
