//! Features, rent and slot time follow the chain.

use chain_solana::{Cluster as _, read_rent};
use ledger::Commitment;
use solana_feature_set::{enable_tx_v1, reduce_slot_time_to_200ms};
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_sdk_ids::{feature, sysvar};
use testkit::geyser_source::Source;
use yellowstone_grpc_proto::geyser::SubscribeUpdate;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;

use crate::follows::{Rig, config, source_config};
use crate::script::{Bank, account};
use crate::snapshot::SLOT;

/// The first slot of epoch 1, as `testkit` writes the epoch schedule.
const EPOCH_SLOTS: u64 = 8_192;

/// An update with the account of a feature that is activated at a slot.
fn activation(slot: u64, feature: &Pubkey) -> SubscribeUpdate {
    let data = [&[1][..], &slot.to_le_bytes()].concat();
    let mut update = account(slot, feature.to_bytes(), 1, data);
    if let Some(UpdateOneof::Account(it)) = &mut update.update_oneof
        && let Some(info) = &mut it.account
    {
        info.owner = feature::ID.to_bytes().to_vec();
    }
    update
}

#[tokio::test(flavor = "multi_thread")]
async fn features_rent_and_slot_time_follow_the_chain() {
    let source = Source::new(None);
    let rig = Rig::start(config(vec![source_config(&source).await]));
    let processed = || rig.reader.view(Commitment::Processed);
    let rent = || read_rent(&processed()).minimum_balance(0);
    assert!(!rig.cluster.features().is_active(&enable_tx_v1::ID));
    assert_eq!((rig.cluster.slot_ms(), rent()), (400, Rent::default().minimum_balance(0)));

    // The first bank of an epoch activates features, and the bank with another rent writes the sysvar.
    let half = Rent { lamports_per_byte: Rent::default().lamports_per_byte / 2, ..Rent::default() };
    let sysvar = bincode::serialize(&half).expect("rent");
    let mut bank = Bank::new(EPOCH_SLOTS, SLOT, 1).frozen();
    let writes = [
        activation(EPOCH_SLOTS, &enable_tx_v1::ID),
        activation(EPOCH_SLOTS, &reduce_slot_time_to_200ms::ID),
        account(EPOCH_SLOTS, sysvar::rent::ID.to_bytes(), 1, sysvar),
    ];
    bank.splice(1..1, writes);
    source.send(bank);
    rig.wait("epoch 1", |rig| rig.slots()[0] == EPOCH_SLOTS).await;
    assert_eq!(rig.cluster.features().activated_slot(&enable_tx_v1::ID), Some(EPOCH_SLOTS));
    assert_eq!(rent(), half.minimum_balance(0));
    assert_eq!(rig.cluster.slot_ms(), 400, "slots are shorter an epoch after the activation");

    source.send(Bank::new(2 * EPOCH_SLOTS, EPOCH_SLOTS, 2).frozen());
    rig.wait("epoch 2", |rig| rig.slots()[0] == 2 * EPOCH_SLOTS).await;
    rig.wait("slots of 200 ms", |rig| rig.cluster.slot_ms() == 200).await;
    rig.stop().await;
}
