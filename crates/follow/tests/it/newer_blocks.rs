//! What blocks of Agave after 4.2 have, and those of 4.2 do not.

use std::collections::BTreeSet;
use std::sync::Arc;

use chain_solana::Block;
use ledger::Commitment;
use solana_transaction_error::TransactionError;
use testkit::geyser_source::Source;
use yellowstone_grpc_proto::geyser::SubscribeUpdate;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::solana::storage::confirmed_block as proto;

use crate::follows::{Rig, config, source_config};
use crate::script::{Bank, signature, transaction};

/// A transaction whose fee payer does not exist (SIMD-0290): it is in its block, pays no fee and writes nothing.
fn no_op(slot: u64, index: u64) -> SubscribeUpdate {
    let mut update = transaction(slot, index);
    let err = bincode::serialize(&TransactionError::AccountNotFound).expect("an error");
    if let Some(UpdateOneof::Transaction(it)) = &mut update.update_oneof
        && let Some(info) = &mut it.transaction
    {
        info.meta = Some(proto::TransactionStatusMeta {
            err: Some(proto::TransactionError { err }),
            pre_balances: vec![0],
            post_balances: vec![0],
            inner_instructions_none: true,
            log_messages_none: true,
            return_data_none: true,
            ..Default::default()
        });
    }
    update
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_op_transaction_is_in_its_block_without_effect() {
    let source = Source::new(None);
    let rig = Rig::start(config(vec![source_config(&source).await]));
    let mut bank = Bank::new(101, 100, 7).frozen();
    for update in &mut bank {
        if let Some(UpdateOneof::BlockMeta(meta)) = &mut update.update_oneof {
            meta.executed_transaction_count = 2;
        }
    }
    bank.splice(1..1, [no_op(101, 1)]);
    source.send(bank);
    rig.wait("the bank", |rig| rig.slots()[0] == 101).await;
    let history = rig.history.snapshot();
    let found = history.transaction(&signature(101, 1).into(), Commitment::Processed);
    let meta = &found.expect("it is in the block").meta;
    assert_eq!((meta.fee, &meta.status), (0, &Err(TransactionError::AccountNotFound)));
    let view = rig.reader.view(Commitment::Processed);
    assert_eq!(view.meta().transaction_count, 77 + 2);
    assert_eq!(rig.lamports(Commitment::Processed), 7);
    rig.stop().await;
}

fn reward(reward_type: proto::RewardType, lamports: i64) -> proto::Reward {
    proto::Reward {
        pubkey: "11111111111111111111111111111111".into(),
        lamports,
        reward_type: reward_type.into(),
        ..Default::default()
    }
}

fn bank_with_rewards(rewards: &[proto::Reward]) -> Vec<SubscribeUpdate> {
    let mut bank = Bank::new(101, 100, 7).frozen();
    for update in &mut bank {
        if let Some(UpdateOneof::BlockMeta(meta)) = &mut update.update_oneof {
            meta.rewards = Some(proto::Rewards { rewards: rewards.to_vec(), ..Default::default() });
        }
    }
    bank
}

/// Follows a bank with these rewards. Returns its block.
async fn follow_rewards(rewards: &[proto::Reward]) -> Arc<Block> {
    let source = Source::new(None);
    let rig = Rig::start(config(vec![source_config(&source).await]));
    source.send(bank_with_rewards(rewards));
    rig.wait("the bank", |rig| rig.slots()[0] == 101).await;
    let history = rig.history.snapshot();
    let block = Arc::clone(history.block(101, Commitment::Processed).expect("the bank"));
    rig.stop().await;
    block
}

/// A bank whose transactions fail for a reason of a later release.
fn bank_with_other_error() -> Vec<SubscribeUpdate> {
    let mut bank = Bank::new(101, 100, 7).frozen();
    for update in &mut bank {
        if let Some(UpdateOneof::Transaction(it)) = &mut update.update_oneof
            && let Some(info) = &mut it.transaction
        {
            let err = Some(proto::TransactionError { err: vec![255; 4] });
            info.meta = Some(proto::TransactionStatusMeta { err, ..Default::default() });
        }
    }
    bank
}

#[tokio::test(flavor = "multi_thread")]
async fn another_kind_of_reward_or_error_is_refused_with_its_name() {
    let other = proto::Reward { reward_type: 99, ..reward(proto::RewardType::Fee, 1) };
    for (bank, name) in [
        (bank_with_rewards(&[other]), "reward_type"),
        (bank_with_other_error(), "the reason of a failed transaction"),
    ] {
        let source = Source::new(None);
        let rig = Rig::start(config(vec![source_config(&source).await]));
        source.send(bank);
        let is_refused =
            |rig: &Rig| rig.status.last_stream_end().is_some_and(|text| text.contains(name));
        rig.wait(name, is_refused).await;
        assert_eq!(rig.slots()[0], 100);
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_debit_of_an_admission_ticket_is_a_reward_without_a_type() {
    let debit = reward(proto::RewardType::VatDebit, -1_600_000_000);
    let block = follow_rewards(&[debit, reward(proto::RewardType::Fee, 1)]).await;
    let rewards: BTreeSet<(i64, bool)> =
        block.rewards.iter().map(|it| (it.lamports, it.reward_type.is_some())).collect();
    assert_eq!(rewards, [(-1_600_000_000, false), (1, true)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reward_may_have_its_commission_in_basis_points() {
    let paid = |lamports, commission: &str, commission_bps: &str| proto::Reward {
        commission: commission.into(),
        commission_bps: commission_bps.into(),
        ..reward(proto::RewardType::Voting, lamports)
    };
    let block = follow_rewards(&[paid(1, "", "1050"), paid(2, "10", ""), paid(3, "", "")]).await;
    let commissions: BTreeSet<(i64, Option<u8>, Option<u16>)> =
        block.rewards.iter().map(|it| (it.lamports, it.commission, it.commission_bps)).collect();
    assert_eq!(commissions, [(1, None, Some(1_050)), (2, Some(10), None), (3, None, None)].into());
}
