//! Jumps of slots and of time: what a ledger still has after them, what epochs without a block leave, and the way back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chain_solana::{
    ControlCommand, ControlOutcome, ResetScope, SimulationRequest, StartPoint, TimeTarget,
};
use ledger::{Commitment, Slot};
use localnet::Config;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_clock::Clock;
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{system_program, sysvar};
use solana_signer::Signer;
use solana_stake_interface::instruction::{
    create_account_and_delegate_stake, deactivate_stake, withdraw,
};
use solana_stake_interface::stake_history::{MAX_ENTRIES, StakeHistory, StakeHistoryEntry};
use solana_stake_interface::state::{Authorized, Lockup};
use solana_system_interface::instruction::transfer;
use solana_transaction_error::TransactionError;
use solana_vote_interface::state::VoteStateV4;

use crate::control::{control, set};
use crate::fixture::{CLIENT, Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;
const STAKE_RENT: u64 = 2_282_880;
const YEAR_MS: u64 = 365 * 24 * 60 * 60 * 1_000;

#[expect(clippy::disallowed_methods, reason = "these tests are about the time that passes")]
fn now() -> Instant {
    Instant::now()
}

fn travel(node: &Node, to: TimeTarget) -> ControlOutcome {
    control(node, ControlCommand::Travel(to)).expect("forward")
}

fn sysvar<T: serde::de::DeserializeOwned>(node: &Node, key: &Pubkey) -> T {
    let account = node.account_at(Commitment::Processed, key).expect("the sysvar");
    bincode::deserialize(account.0.data()).expect("its form")
}

fn clock(node: &Node) -> Clock {
    sysvar(node, &sysvar::clock::ID)
}

fn slot(node: &Node, commitment: Commitment) -> Slot {
    node.reader.view(commitment).block().slot
}

/// The node's last vote: its slot and its time.
fn last_vote(node: &Node) -> (Slot, i64) {
    let account = node.account_at(Commitment::Processed, &node.vote_account).expect("an account");
    let state = VoteStateV4::deserialize(account.0.data(), &node.vote_account).expect("a state");
    (state.votes.back().map_or(0, |vote| vote.slot()), state.last_timestamp.timestamp)
}

/// A wallet that has `lamports` without a transaction.
fn rich(node: &Node, lamports: u64) -> Keypair {
    let wallet = Keypair::new();
    let account = AccountSharedData::new(lamports, 0, &system_program::ID);
    set(node, vec![(wallet.pubkey(), account)]).expect("it is written");
    wallet
}

#[test]
fn a_jump_of_slots_keeps_the_finalized_block() {
    for config in [on_demand(), Config { slot_ms: 60_000, ..on_demand() }] {
        let node = Node::start(&config);
        let key = Pubkey::new_unique();
        let airdrop =
            node.faucet.airdrop(crate::fixture::CLIENT.into(), key, SOL, node.blockhash());
        let airdrop = airdrop.expect("an airdrop");
        node.executed(&airdrop);
        for epoch in [1, 2, 50] {
            travel(&node, TimeTarget::Epoch(epoch));
            let history = node.history.snapshot();
            for commitment in [Commitment::Confirmed, Commitment::Finalized] {
                let named = slot(&node, commitment);
                assert!(history.block(named, commitment).is_some(), "{commitment:?} {named}");
            }
            let found = history.transaction(&airdrop, Commitment::Finalized).expect("it is kept");
            assert!(history.block(found.slot, Commitment::Finalized).is_some());
            assert_eq!(history.signatures_for_address(&key).map(|all| all.len()), Some(1));
            assert_eq!(history.first_slot(), Some(0));
        }
        node.stop();
    }
}

#[test]
fn a_revert_after_a_jump_keeps_the_history_below() {
    let node = Node::start(&on_demand());
    let key = Pubkey::new_unique();
    let airdrop = node.airdrop(&key, SOL);
    let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
    travel(&node, TimeTarget::Epoch(2));
    assert_eq!(node.forks.revert(CLIENT, id).wait(), Ok(()));
    let history = node.history.snapshot();
    assert!(history.transaction(&airdrop.signature(), Commitment::Finalized).is_some());
    for commitment in [Commitment::Confirmed, Commitment::Finalized] {
        assert!(history.block(slot(&node, commitment), commitment).is_some(), "{commitment:?}");
    }
    node.stop();
}

#[test]
fn a_ledger_directory_has_the_blocks_before_a_jump() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = Config { dir: Some(dir.path().to_owned()), ..on_demand() };
    let node = Node::start(&config);
    let airdrop = node.airdrop(&Pubkey::new_unique(), SOL);
    travel(&node, TimeTarget::Epoch(3));
    node.airdrop(&Pubkey::new_unique(), SOL);
    node.stop();
    let node = Node::start(&config);
    let history = node.history.snapshot();
    assert!(history.transaction(&airdrop.signature(), Commitment::Finalized).is_some());
    assert_eq!(history.first_slot(), Some(0));
    node.stop();
}

#[test]
fn stake_cools_down_over_a_jump_as_over_single_epochs() {
    // Each list of jumps ends in the same epochs.
    let outcomes = [[1, 1, 1, 1, 1, 1], [3, 0, 0, 3, 0, 0], [1, 2, 0, 2, 0, 1]].map(|jumps| {
        let node = Node::start(&Config { slots_per_epoch: 64, ..on_demand() });
        let staker = rich(&node, 5_000 * SOL);
        let stake = Keypair::new();
        let send = |instructions: &[_], signers: &[&Keypair]| {
            node.send(signed(instructions, signers, &node.blockhash())).meta.status.clone()
        };
        let jump = |epochs: &[u64]| {
            for epochs in epochs.iter().filter(|epochs| **epochs > 0) {
                let epoch = clock(&node).epoch + epochs;
                travel(&node, TimeTarget::Epoch(epoch));
            }
        };
        let delegate = create_account_and_delegate_stake(
            &staker.pubkey(),
            &stake.pubkey(),
            &node.vote_account,
            &Authorized::auto(&staker.pubkey()),
            &Lockup::default(),
            1_000 * SOL + STAKE_RENT,
        );
        assert_eq!(send(&delegate, &[&staker, &stake]), Ok(()));
        let out = || {
            let lamports = node.lamports(&stake.pubkey());
            let to = staker.pubkey();
            [withdraw(&stake.pubkey(), &staker.pubkey(), &to, lamports, None)]
        };
        jump(&jumps[..3]);
        let deactivate = [deactivate_stake(&stake.pubkey(), &staker.pubkey())];
        assert_eq!(send(&deactivate, &[&staker]), Ok(()));
        let early = send(&out(), &[&staker]);
        jump(&jumps[3..]);
        let late = send(&out(), &[&staker]);
        let history: StakeHistory = sysvar(&node, &sysvar::stake_history::ID);
        node.stop();
        (early, late, history)
    });
    for (early, late, history) in &outcomes {
        assert!(matches!(early, Err(TransactionError::InstructionError(0, _))), "{early:?}");
        assert_eq!(*late, Ok(()));
        let epochs: Vec<u64> = history.iter().map(|(epoch, _)| *epoch).collect();
        assert_eq!(epochs, [5, 4, 3, 2, 1, 0]);
        let of_staker = |epoch| {
            let entry = history.get(epoch).expect("no epoch is missing");
            (entry.activating, entry.deactivating)
        };
        let states = [0, 1, 2, 3, 4, 5].map(of_staker);
        let lamports = 1_000 * SOL;
        assert_eq!(states[0], (lamports, 0));
        assert!(states[3].1 >= lamports, "{states:?}");
        assert_eq!([states[1], states[2], states[4], states[5]], [(0, 0); 4]);
    }
}

#[test]
fn a_jump_of_many_epochs_leaves_the_newest_of_them() {
    for warp_slot in [None, Some(32 * 5_000)] {
        let node = Node::start(&Config { slots_per_epoch: 32, warp_slot, ..on_demand() });
        if warp_slot.is_none() {
            travel(&node, TimeTarget::SlotAt { slot: 32 * 5_000, unix_ms: YEAR_MS * 100 });
        }
        let history: StakeHistory = sysvar(&node, &sysvar::stake_history::ID);
        let epochs: Vec<u64> = history.iter().map(|(epoch, _)| *epoch).collect();
        assert_eq!(epochs, (5_000 - MAX_ENTRIES as u64..5_000).rev().collect::<Vec<_>>());
        let effective = history.get(4_999).map(|entry| entry.effective);
        assert_eq!(effective, Some(1_000_000 * SOL - STAKE_RENT));
        node.airdrop(&Pubkey::new_unique(), SOL);
        node.stop();
    }
}

#[test]
fn a_jump_pays_the_rewards_that_are_due_before_it() {
    let node = Node::start(&Config { slots_per_epoch: 64, ..on_demand() });
    let stake_of_node = || {
        let view = node.reader.view(Commitment::Confirmed);
        let owned = |account: &solana::Account| account.0.owner() == &solana_sdk_ids::stake::ID;
        let found = view.all().find(|(_, account)| owned(account)).map(|(_, account)| account);
        found.expect("the node has a stake").0.lamports()
    };
    while slot(&node, Commitment::Confirmed) < 60 {
        node.airdrop(&Pubkey::new_unique(), SOL);
    }
    let before = stake_of_node();
    travel(&node, TimeTarget::Epoch(1));
    // The block that would pay is not made yet, and neither is it after the next journey.
    travel(&node, TimeTarget::Epoch(4));
    node.airdrop(&Pubkey::new_unique(), SOL);
    assert!(stake_of_node() > before, "the rewards of epoch 0 are lost");
    let sums = node.reader.view(Commitment::Confirmed);
    let all: u64 = sums.all().map(|(_, account)| account.0.lamports()).sum();
    assert_eq!(sums.meta().capitalization, all);
    drop(sums);
    node.stop();
}

#[test]
fn rewards_after_a_jump_survive_a_restart() {
    let paid = [false, true].map(|restarts| {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = Some(dir.path().to_owned());
        let config = Config { slots_per_epoch: 64, dir, ..on_demand() };
        let mut node = Node::start(&config);
        let staker = rich(&node, 5_000 * SOL);
        let stake = Keypair::new();
        while slot(&node, Commitment::Confirmed) < 50 {
            node.airdrop(&Pubkey::new_unique(), SOL);
        }
        let delegate = create_account_and_delegate_stake(
            &staker.pubkey(),
            &stake.pubkey(),
            &node.vote_account,
            &Authorized::auto(&staker.pubkey()),
            &Lockup::default(),
            1_000 * SOL + STAKE_RENT,
        );
        let sent = node.send(signed(&delegate, &[&staker, &stake], &node.blockhash()));
        assert_eq!(sent.meta.status, Ok(()));
        travel(&node, TimeTarget::Epoch(7));
        if restarts {
            node.stop();
            node = Node::start(&config);
        }
        node.airdrop(&Pubkey::new_unique(), SOL);
        let account = node.account(&stake.pubkey()).expect("it is there");
        node.stop();
        account.0.data()[124..].to_vec() // behind the meta, whose keys are random, and the voter
    });
    let credits = paid.map(|state| state[32..].to_vec());
    assert_eq!(credits[0], credits[1]);
}

#[test]
fn a_simulation_without_a_clock_runs_at_the_time_of_now() {
    for is_manual in [false, true] {
        let node = Node::start(&Config { is_manual, ..on_demand() });
        let payer = Keypair::new();
        let account = AccountSharedData::new(SOL, 0, &system_program::ID);
        set(&node, vec![(payer.pubkey(), account)]).expect("it is written");
        node.forks.mine(CLIENT, 2).wait().expect("blocks");
        let time = |commitment| {
            let view = node.reader.view(commitment);
            let pay = transfer(&payer.pubkey(), &payer.pubkey(), 1);
            let names_clock =
                solana_instruction::AccountMeta::new_readonly(sysvar::clock::ID, false);
            let pay = solana_instruction::Instruction {
                accounts: [pay.accounts, vec![names_clock]].concat(),
                ..pay
            };
            let transaction = signed(&[pay], &[&payer], &view.meta().last_blockhash());
            let request = SimulationRequest {
                transaction,
                replace_recent_blockhash: false,
                inner_instructions: false,
            };
            let simulated = node.simulator.simulate(&view, request).expect("a simulation");
            assert_eq!(simulated.err, None);
            let clock = simulated.post_accounts.iter().find(|(key, _)| *key == sysvar::clock::ID);
            let clock: Clock =
                bincode::deserialize(clock.expect("it is named").1.data()).expect("its form");
            (clock.unix_timestamp, clock.slot)
        };
        let open = clock(&node);
        let before = open.unix_timestamp;
        let deadline = now() + Duration::from_secs(30);
        for commitment in Commitment::ALL {
            while time(commitment).0 <= before + 1 {
                assert!(now() < deadline, "{commitment:?}: the time stands still");
            }
            assert_eq!(
                time(commitment).1,
                slot(&node, Commitment::Processed),
                "where it would run"
            );
        }
        assert_eq!(clock(&node).slot, open.slot, "no block was made");
        // A paused clock stands still for simulations, too.
        control(&node, ControlCommand::PauseClock).expect("it is paused");
        let paused = time(Commitment::Processed);
        assert_eq!(time(Commitment::Processed), paused);
        node.stop();
    }
}

#[test]
fn a_revert_and_a_reset_take_the_time_back() {
    for config in [on_demand(), Config { slot_ms: 60_000, ..on_demand() }] {
        let node = Node::start(&config);
        let start = clock(&node).unix_timestamp;
        let is_near = |time: i64| (start..start + 60).contains(&time);
        let later = TimeTarget::UnixMs(start as u64 * 1_000 + 40 * YEAR_MS);
        for _ in 0..2 {
            let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
            travel(&node, later);
            assert!(!is_near(clock(&node).unix_timestamp));
            assert_eq!(node.forks.revert(CLIENT, id).wait(), Ok(()));
            assert!(is_near(clock(&node).unix_timestamp), "{:?}", clock(&node));
            node.forks.mine(CLIENT, 2).wait().expect("blocks");
        }
        for _ in 0..2 {
            travel(&node, later);
            node.forks.mine(CLIENT, 2).wait().expect("blocks");
            control(&node, ControlCommand::Reset(ResetScope::All)).expect("it is reset");
            assert!(is_near(clock(&node).unix_timestamp), "{:?}", clock(&node));
            node.forks.mine(CLIENT, 2).wait().expect("blocks");
            let (voted, voted_at) = last_vote(&node);
            assert_eq!(voted, slot(&node, Commitment::Confirmed), "it votes on");
            assert!(is_near(voted_at) && is_near(clock(&node).unix_timestamp));
        }
        node.stop();
    }
}

#[test]
fn a_revert_resumes_a_clock_that_was_paused_after_its_snapshot() {
    let node = Node::start(&Config { slot_ms: 20, ..Config::default() });
    let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
    control(&node, ControlCommand::PauseClock).expect("it is paused");
    assert_eq!(node.forks.revert(CLIENT, id).wait(), Ok(()));
    let newest = slot(&node, Commitment::Processed);
    node.opened(newest + 3);
    node.stop();
}

#[test]
fn a_resumed_clock_ends_no_slot_early() {
    let slot_ms = 300;
    let node = Node::start(&Config { slot_ms, ..Config::default() });
    control(&node, ControlCommand::PauseClock).expect("it is paused");
    let paused_at = now();
    let travelled = travel(&node, TimeTarget::Slot(1_000));
    while paused_at.elapsed() < Duration::from_millis(3 * slot_ms) {
        std::thread::yield_now();
    }
    let resumed_at = now();
    control(&node, ControlCommand::ResumeClock).expect("it is resumed");
    node.opened(travelled.slot + 1);
    assert!(resumed_at.elapsed() >= Duration::from_millis(slot_ms), "{:?}", resumed_at.elapsed());
    node.stop();
}

fn start_point() -> StartPoint {
    let epoch_schedule = EpochSchedule::custom(432_000, 432_000, true);
    let slot = epoch_schedule.get_first_slot_in_epoch(700) + 1_000;
    let mut stake_history = StakeHistory::default();
    (188..700).for_each(|epoch| stake_history.add(epoch, StakeHistoryEntry::with_effective(epoch)));
    let unix_timestamp = 1_500_000_000;
    let epoch_start_timestamp = 1_499_999_000;
    StartPoint { slot, unix_timestamp, epoch_start_timestamp, epoch_schedule, stake_history }
}

#[test]
fn a_ledger_starts_where_another_cluster_is() {
    let start = start_point();
    let config = Config { start: Some(Arc::new(start.clone())), ..on_demand() };
    let node = Node::start(&config);
    for commitment in [Commitment::Confirmed, Commitment::Finalized] {
        assert_eq!(slot(&node, commitment), start.slot);
    }
    let now = clock(&node);
    assert_eq!((now.slot, now.epoch, now.leader_schedule_epoch), (start.slot + 1, 700, 701));
    assert_eq!(now.epoch_start_timestamp, start.epoch_start_timestamp);
    assert!((0..60).contains(&(now.unix_timestamp - start.unix_timestamp)), "{now:?}");
    assert_eq!(node.cluster_info.epoch_schedule, start.epoch_schedule);
    assert_eq!(
        (node.cluster_info.first_slot, node.history.snapshot().first_slot()),
        (start.slot, Some(start.slot))
    );
    for _ in 0..3 {
        node.airdrop(&Pubkey::new_unique(), SOL);
    }
    node.settle();
    assert_eq!(last_vote(&node).0, start.slot + 3);
    // The stakes of its epochs, and then those of this ledger.
    travel(&node, TimeTarget::Epoch(702));
    let history: StakeHistory = sysvar(&node, &sysvar::stake_history::ID);
    let newest: Vec<u64> = history.iter().take(4).map(|(epoch, _)| *epoch).collect();
    assert_eq!((newest, history.len()), (vec![701, 700, 699, 698], MAX_ENTRIES));
    assert_eq!(history.get(699).map(|entry| entry.effective), Some(699));
    assert_eq!(history.get(700), history.get(701));
    // A reset goes back to the time of the start.
    control(&node, ControlCommand::Reset(ResetScope::All)).expect("it is reset");
    assert!((0..60).contains(&(clock(&node).unix_timestamp - start.unix_timestamp)));
    node.stop();
}

#[test]
fn a_transaction_of_another_cluster_is_executed_once_if_asked() {
    for skips_blockhash_check in [false, true] {
        let node = Node::start(&Config { skips_blockhash_check, ..on_demand() });
        let alice = rich(&node, 10 * SOL);
        let bob = Pubkey::new_unique();
        let foreign = Hash::new_from_array([9; 32]);
        let pay = signed(&[transfer(&alice.pubkey(), &bob, SOL)], &[&alice], &foreign);
        let view = node.reader.view(Commitment::Confirmed);
        let request = SimulationRequest {
            transaction: pay.clone(),
            replace_recent_blockhash: false,
            inner_instructions: false,
        };
        let simulated = node.simulator.simulate(&view, request).expect("a simulation").err;
        drop(view);
        if skips_blockhash_check {
            assert_eq!(simulated, None);
            assert_eq!(node.send(pay.clone()).meta.status, Ok(()));
            node.send_in_vain(pay, &Keypair::new());
            assert_eq!(node.lamports(&bob), SOL);
        } else {
            assert_eq!(simulated, Some(TransactionError::BlockhashNotFound));
            node.send_in_vain(pay, &Keypair::new());
        }
        node.stop();
    }
}
