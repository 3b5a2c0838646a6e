//! Epochs: rewards, their recipients, and that a restart does not change them.

use std::sync::Arc;

use chain_solana::{Block, ExecutedTransaction};
use ledger::{Commitment, Slot};
use localnet::Config;
use solana_account::ReadableAccount;
use solana_feature_set::define_ltds_fee_only_semantics;
use solana_inflation::Inflation;
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_sdk_ids::{incinerator, stake};
use solana_signer::Signer;
use solana_stake_interface::instruction::{create_account_and_delegate_stake, deactivate_stake};
use solana_stake_interface::stake_history::StakeHistory;
use solana_stake_interface::state::{Authorized, Lockup, StakeStateV2};
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::{Reward, RewardType};

use crate::fixture::{Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;
const SLOTS: u64 = 32;
/// The rent-exempt reserve of a stake account.
const STAKE_RENT: u64 = 2_282_880;
/// Slots of 400 ms in a year, as in Agave.
const SLOTS_PER_YEAR: f64 = 78_892_314.984;

fn config() -> Config {
    Config { slots_per_epoch: SLOTS, ..on_demand() }
}

/// Makes blocks up to a slot, each with an airdrop, and returns them.
fn advance(node: &Node, slot: Slot) -> Vec<Arc<Block>> {
    let first = newest(node) + 1;
    while newest(node) < slot {
        node.airdrop(&Pubkey::new_from_array([7; 32]), SOL);
    }
    let history = node.history.snapshot();
    history.blocks(first..=slot, Commitment::Processed).cloned().collect()
}

fn newest(node: &Node) -> Slot {
    node.reader.view(Commitment::Confirmed).block().slot
}

fn rewards_of_kind(block: &Block, kind: RewardType) -> Vec<&Reward> {
    block.rewards.iter().filter(|reward| reward.reward_type == Some(kind)).collect()
}

fn all_lamports(node: &Node) -> u64 {
    let view = node.reader.view(Commitment::Confirmed);
    view.all().map(|(_, account)| account.0.lamports()).sum()
}

fn supply(node: &Node) -> u64 {
    node.reader.view(Commitment::Confirmed).meta().capitalization
}

/// The stake account of genesis.
fn own_stake(node: &Node) -> Pubkey {
    let view = node.reader.view(Commitment::Confirmed);
    let found = view.all().find(|(_, account)| account.0.owner() == &stake::ID);
    let (address, _) = found.expect("the node has a stake");
    Pubkey::try_from(address.as_bytes()).expect("an address of 32 bytes")
}

fn delegation(node: &Node, key: &Pubkey) -> solana_stake_interface::state::Stake {
    let account = node.account(key).expect("a stake account");
    let state: StakeStateV2 = bincode::deserialize(account.0.data()).expect("a stake state");
    state.stake().expect("it is delegated")
}

/// A node, and a wallet with `lamports`.
fn node_with_wallet(lamports: u64) -> (Node, Keypair) {
    let node = Node::start(&on_demand());
    let wallet = Keypair::new();
    node.airdrop(&wallet.pubkey(), lamports);
    (node, wallet)
}

/// Creates a stake account with `lamports` and delegates it to the node's vote account.
fn delegate(
    node: &Node,
    staker: &Keypair,
    account: &Keypair,
    lamports: u64,
) -> Arc<ExecutedTransaction> {
    let instructions = create_account_and_delegate_stake(
        &staker.pubkey(),
        &account.pubkey(),
        &node.vote_account,
        &Authorized::auto(&staker.pubkey()),
        &Lockup::default(),
        lamports,
    );
    node.send(signed(&instructions, &[staker, account], &node.blockhash()))
}

#[test]
fn an_epoch_pays_the_rate_of_inflation_and_the_supply_grows_by_it() {
    let node = Node::start(&config());
    let vote_account = node.vote_account;
    let stake_account = own_stake(&node);
    // A vote earns credits once 31 others follow it. In the first epoch no vote does, so no rewards are paid.
    let blocks = advance(&node, SLOTS + 1);
    let other = |reward: &&Reward| reward.reward_type != Some(RewardType::Fee);
    assert_eq!(blocks.iter().flat_map(|block| &block.rewards).find(other), None);
    assert_eq!(blocks[blocks.len() - 2].reward_partitions, Some(1));
    for epoch in 2..5 {
        let first = epoch * SLOTS;
        advance(&node, first - 1);
        let before = supply(&node);
        let had = node.lamports(&stake_account);
        assert_eq!(before, all_lamports(&node));
        let made = node.inflation.lamports(epoch, epoch - 1, before);
        assert!(made > 0);

        let blocks = advance(&node, first + 1);
        let [boundary, paying] = &blocks[..] else { panic!("two blocks") };
        assert_eq!(boundary.reward_partitions, Some(1));
        assert_eq!(paying.reward_partitions, None);
        // The commission is 0: the block lists the vote account with 0 lamports.
        let voting = rewards_of_kind(boundary, RewardType::Voting);
        assert_eq!(voting.len(), 1);
        assert_eq!(voting[0].pubkey, vote_account.to_string());
        assert_eq!(voting[0].lamports, 0);
        assert!(rewards_of_kind(boundary, RewardType::Staking).is_empty());
        let staking = rewards_of_kind(paying, RewardType::Staking);
        assert_eq!(staking.len(), 1);
        assert_eq!(staking[0].pubkey, stake_account.to_string());
        assert_eq!(staking[0].lamports, made as i64);
        assert_eq!(staking[0].post_balance, had + made);
        assert_eq!(node.lamports(&stake_account), had + made);
        // The reward is delegated as well.
        assert_eq!(delegation(&node, &stake_account).delegation.stake, had + made - STAKE_RENT);

        // Half of a block's fees is burnt, the other half is paid.
        let fees =
            |block: &Arc<Block>| block.transactions.iter().map(|tx| tx.meta.fee).sum::<u64>();
        let fees: u64 = blocks.iter().map(fees).sum();
        assert_eq!(supply(&node), before + made - fees / 2);
        assert_eq!(supply(&node), all_lamports(&node));
    }
    node.stop();
}

#[test]
fn an_epoch_of_400_ms_slots_pays_its_part_of_the_yearly_inflation() {
    let node = Node::start(&config());
    let year = f64::from(SLOTS as u32) / SLOTS_PER_YEAR;
    let lamports = supply(&node);
    let expected = Inflation::default().validator(year) * lamports as f64 * year;
    let made = node.inflation.lamports(1, 0, lamports) as f64;
    assert!((made / expected - 1.0).abs() < 1e-5, "{made} {expected}");
    node.stop();
}

#[test]
fn while_rewards_are_paid_the_sysvar_is_active_and_the_stake_program_refuses() {
    let node = Node::start(&config());
    let staker = Keypair::new();
    node.airdrop(&staker.pubkey(), 10 * SOL);
    let sysvar = |node: &Node| -> solana_epoch_rewards::EpochRewards {
        let account = node.account(&solana_sdk_ids::sysvar::epoch_rewards::ID);
        let account = account.expect("the sysvar");
        bincode::deserialize(account.0.data()).expect("its state")
    };
    advance(&node, 2 * SLOTS - 1);
    assert!(!sysvar(&node).active);
    let refused = delegate(&node, &staker, &Keypair::new(), 2 * SOL);
    assert_eq!(refused.slot, 2 * SLOTS);
    let err = refused.meta.status.clone().expect_err("rewards are being paid");
    // StakeError::EpochRewardsActive
    assert!(err.to_string().contains("custom program error: 0x10"), "{err}");
    let active = sysvar(&node);
    assert!(active.active);
    assert_eq!(active.distributed_rewards, 0);
    assert_eq!(active.distribution_starting_block_height, 2 * SLOTS + 1);
    assert_eq!(active.num_partitions, 1);
    let accepted = delegate(&node, &staker, &Keypair::new(), 2 * SOL);
    assert_eq!(accepted.meta.status, Ok(()));
    let paid = sysvar(&node);
    assert!(!paid.active);
    assert!(paid.total_rewards > 0);
    assert_eq!(paid.distributed_rewards, paid.total_rewards);
    assert_eq!(node.lamports(&solana_sdk_ids::sysvar::epoch_rewards::ID), 1_454_640);
    node.stop();
}

#[test]
fn a_clients_stake_earns_its_share_after_the_epoch_that_activated_it() {
    let node = Node::start(&config());
    let staker = Keypair::new();
    let account = Keypair::new();
    advance(&node, SLOTS + 5);
    node.airdrop(&staker.pubkey(), 60_000 * SOL);
    let delegated = 50_000 * SOL;
    let sent = delegate(&node, &staker, &account, delegated + STAKE_RENT);
    assert_eq!(sent.meta.status, Ok(()));
    let own = own_stake_other_than(&node, &account.pubkey());

    // In the epoch of its activation it earns nothing.
    let blocks = advance(&node, 2 * SLOTS + 1);
    let paid = |block: &Block| -> Vec<(String, i64)> {
        let rewards = rewards_of_kind(block, RewardType::Staking);
        rewards.iter().map(|reward| (reward.pubkey.clone(), reward.lamports)).collect()
    };
    let paying = blocks.last().expect("a block that pays");
    assert_eq!(paid(paying).len(), 1);
    assert_eq!(paid(paying)[0].0, own.to_string());
    let view = node.reader.view(Commitment::Confirmed);
    let key = ledger::Address::from(solana_sdk_ids::sysvar::stake_history::ID.to_bytes());
    let history = view.record(&key).expect("the stake history");
    let history: StakeHistory = bincode::deserialize(history.0.data()).expect("its state");
    assert_eq!(history.get(1).expect("epoch 1").activating, delegated);

    // In the next epoch each stake earns in proportion.
    let stakes = [&own, &account.pubkey()].map(|key| delegation(&node, key).delegation.stake);
    advance(&node, 3 * SLOTS - 1);
    let made = node.inflation.lamports(3, 2, supply(&node));
    let blocks = advance(&node, 3 * SLOTS + 1);
    let paid = paid(blocks.last().expect("a block that pays"));
    let reward = |key: &Pubkey| {
        let found = paid.iter().find(|(pubkey, _)| *pubkey == key.to_string());
        found.map_or(0, |(_, lamports)| *lamports as u64)
    };
    let total: u128 = stakes.iter().map(|stake| u128::from(*stake)).sum();
    for (key, stake) in [own, account.pubkey()].iter().zip(stakes) {
        let share = u128::from(made) * u128::from(stake) / total;
        assert_eq!(u128::from(reward(key)), share, "{key}");
    }
    assert!(
        made - reward(&own) - reward(&account.pubkey()) < 2,
        "at most one lamport is lost by rounding"
    );
    assert_eq!(supply(&node), all_lamports(&node));

    // A stake earns for the last time in the epoch of its deactivation.
    let stop = deactivate_stake(&account.pubkey(), &staker.pubkey());
    let sent = node.send(signed(&[stop], &[&staker], &node.blockhash()));
    assert_eq!(sent.meta.status, Ok(()));
    let blocks = advance(&node, 4 * SLOTS + 1);
    let last = rewards_of_kind(blocks.last().expect("a block"), RewardType::DeactivatedStake);
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].pubkey, account.pubkey().to_string());
    let blocks = advance(&node, 5 * SLOTS + 1);
    let rewards = &blocks.last().expect("a block").rewards;
    assert!(rewards.iter().all(|reward| reward.pubkey != account.pubkey().to_string()));
    node.stop();
}

fn own_stake_other_than(node: &Node, other: &Pubkey) -> Pubkey {
    let view = node.reader.view(Commitment::Confirmed);
    let stakes = view.all().filter(|(_, account)| account.0.owner() == &stake::ID);
    let mut keys = stakes.filter_map(|(address, _)| Pubkey::try_from(address.as_bytes()).ok());
    keys.find(|key| key != other).expect("the node has a stake")
}

#[test]
fn a_ledger_that_was_closed_between_an_epoch_and_its_payment_pays_as_well() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = Config { dir: Some(dir.path().join("ledger")), ..config() };
    let node = Node::start(&config);
    let stake_account = own_stake(&node);
    advance(&node, 2 * SLOTS - 1);
    let made = node.inflation.lamports(2, 1, supply(&node));
    // Stopping completes the open block, the first of the epoch.
    node.stop();

    let node = Node::start(&config);
    let history = node.history.snapshot();
    let boundary = history
        .block(2 * SLOTS, Commitment::Processed)
        .expect("the first block of the epoch is stored");
    assert_eq!(boundary.reward_partitions, Some(1));
    assert_eq!(rewards_of_kind(boundary, RewardType::Voting).len(), 1);
    let had = node.lamports(&stake_account);
    let blocks = advance(&node, 2 * SLOTS + 1);
    let staking = rewards_of_kind(&blocks[0], RewardType::Staking);
    assert_eq!(staking.len(), 1);
    assert_eq!(staking[0].lamports, made as i64);
    assert_eq!(staking[0].post_balance, had + made);
    assert_eq!(supply(&node), all_lamports(&node));
    advance(&node, 3 * SLOTS - 2);
    // The open block is completed, and pays its leader.
    node.stop();
    let node = Node::start(&config);
    assert_eq!(newest(&node), 3 * SLOTS - 1);
    let made = node.inflation.lamports(3, 2, supply(&node));
    node.stop();

    // Paid rewards are not paid again.
    let node = Node::start(&config);
    advance(&node, 3 * SLOTS + 3);
    node.stop();
    let node = Node::start(&config);
    assert_eq!(node.lamports(&stake_account), staking[0].post_balance + made);
    assert_eq!(supply(&node), all_lamports(&node));
    node.stop();
}

#[test]
fn a_ledger_without_inflation_pays_no_rewards() {
    let node = Node::start(&Config { inflation: Inflation::new_fixed(0.0), ..config() });
    let stake_account = own_stake(&node);
    let had = node.lamports(&stake_account);
    let blocks = advance(&node, 2 * SLOTS + 1);
    assert_eq!(node.lamports(&stake_account), had);
    assert!(blocks.iter().all(|block| rewards_of_kind(block, RewardType::Staking).is_empty()));
    assert_eq!(supply(&node), all_lamports(&node));
    node.stop();
}

#[test]
fn the_leader_gets_half_of_the_signature_fees_and_all_priority_fees() {
    let (node, alice) = node_with_wallet(SOL);
    let identity = node.cluster_info.identity;
    let had = node.lamports(&identity);
    // ComputeBudgetInstruction::SetComputeUnitPrice and SetComputeUnitLimit.
    let budget = |tag: u8, value: &[u8]| solana_instruction::Instruction {
        program_id: solana_sdk_ids::compute_budget::ID,
        accounts: Vec::new(),
        data: [&[tag], value].concat(),
    };
    let instructions = [
        budget(3, &1_000_000u64.to_le_bytes()),
        budget(2, &10_000u32.to_le_bytes()),
        transfer(&alice.pubkey(), &alice.pubkey(), 1),
    ];
    let sent = node.send(signed(&instructions, &[&alice], &node.blockhash()));
    assert_eq!(sent.meta.fee, 5_000 + 10_000);
    let block = node
        .history
        .snapshot()
        .block(sent.slot, Commitment::Processed)
        .cloned()
        .expect("its block");
    let vote = block.transactions[0].meta.fee;
    assert_eq!(vote, 10_000, "the identity pays, and the vote account votes");
    let gets = (vote + 5_000) / 2 + 10_000;
    let [reward] = &block.rewards[..] else { panic!("one reward: {:?}", block.rewards) };
    assert_eq!(reward.reward_type, Some(RewardType::Fee));
    assert_eq!(reward.pubkey, identity.to_string());
    assert_eq!(reward.lamports, gets as i64);
    assert_eq!(reward.post_balance, node.lamports(&identity));
    assert_eq!(node.lamports(&identity), had - vote + gets);
    assert_eq!(supply(&node), all_lamports(&node));
    node.stop();
}

#[test]
fn lamports_of_the_incinerator_are_burnt_with_the_block() {
    let (node, alice) = node_with_wallet(2 * SOL);
    let before = supply(&node);
    let burn = [transfer(&alice.pubkey(), &incinerator::ID, SOL)];
    let sent = node.send(signed(&burn, &[&alice], &node.blockhash()));
    assert_eq!(sent.meta.post_balances[1], SOL);
    assert_eq!(node.account(&incinerator::ID), None);
    let fees = (sent.meta.fee + 10_000) / 2;
    assert_eq!(supply(&node), before - SOL - fees);
    assert_eq!(supply(&node), all_lamports(&node));
    node.stop();
}

#[test]
fn each_transaction_has_its_cost_in_units() {
    let (node, alice) = node_with_wallet(SOL);
    let to = Pubkey::new_unique();
    let sent =
        node.send(signed(&[transfer(&alice.pubkey(), &to, SOL / 2)], &[&alice], &node.blockhash()));
    // 720 for the signature, 600 for two write locks, 3 for 12 bytes of data, 150 for the program, 8 for one page of
    // accounts.
    assert_eq!(sent.meta.cost_units, Some(720 + 600 + 3 + 150 + 8));
    let failing = transfer(&alice.pubkey(), &to, 2 * SOL);
    let sent = node.send(signed(&[failing], &[&alice], &node.blockhash()));
    assert_eq!(sent.meta.cost_units, Some(720 + 600 + 3 + 150 + 8));

    // A transaction that only pays has no logs, which is not the same as an empty list.
    let call =
        solana_instruction::Instruction { program_id: to, accounts: Vec::new(), data: Vec::new() };
    let message = Message::new_with_blockhash(&[call], Some(&alice.pubkey()), &node.blockhash());
    let message = VersionedMessage::Legacy(message);
    let sent = VersionedTransaction::try_new(message, &[&alice]).expect("signed");
    let sent = node.send(sent);
    assert!(sent.meta.status.is_err());
    assert_eq!(sent.meta.log_messages, None);
    assert_eq!(sent.meta.inner_instructions, None);
    assert_eq!(sent.meta.compute_units_consumed, Some(0));
    // By the newer rule its loaded accounts count, which is one page.
    let counts = node.account(&define_ltds_fee_only_semantics::ID).is_some();
    assert_eq!(sent.meta.cost_units, Some(720 + 300 + if counts { 8 } else { 0 }));
    node.stop();
}
