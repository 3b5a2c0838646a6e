//! Simulation: on the state of a view, without a trace.

use chain_solana::SimulationRequest;
use ledger::Commitment;
use solana_account::ReadableAccount;
use solana_keypair::Keypair;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction_error::TransactionError;

use crate::fixture::{Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;

fn request(transaction: solana_transaction::versioned::VersionedTransaction) -> SimulationRequest {
    SimulationRequest { transaction, replace_recent_blockhash: false, inner_instructions: true }
}

#[test]
fn a_simulation_reports_what_would_be_and_changes_nothing() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    let bob = Keypair::new();
    node.airdrop(&alice.pubkey(), SOL);
    let pay = signed(
        &[transfer(&alice.pubkey(), &bob.pubkey(), 7_000_000)],
        &[&alice],
        &node.blockhash(),
    );
    let view = node.reader.view(Commitment::Confirmed);
    let simulated = node.simulator.simulate(&view, request(pay.clone())).expect("a simulation");
    assert_eq!(simulated.err, None);
    assert_eq!(simulated.slot, view.block().slot);
    assert_eq!(simulated.fee, 5_000);
    assert_eq!(simulated.pre_balances[..2], [SOL, 0]);
    assert_eq!(simulated.post_balances[..2], [SOL - 7_005_000, 7_000_000]);
    assert_eq!(simulated.post_accounts[1].0, bob.pubkey());
    assert_eq!(simulated.post_accounts[1].1.lamports(), 7_000_000);
    assert_eq!(node.lamports(&alice.pubkey()), SOL);
    // It was not executed, so it can still be executed, once.
    assert_eq!(node.send(pay.clone()).meta.status, Ok(()));
    let view = node.reader.view(Commitment::Confirmed);
    let simulated = node.simulator.simulate(&view, request(pay)).expect("a simulation");
    assert_eq!(simulated.err, Some(TransactionError::AlreadyProcessed));
    node.stop();
}

#[test]
fn a_transaction_that_was_executed_is_refused_for_its_blockhash_once_that_is_too_old() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    node.airdrop(&alice.pubkey(), SOL);
    let pay =
        signed(&[transfer(&alice.pubkey(), &alice.pubkey(), 1)], &[&alice], &node.blockhash());
    node.send(pay.clone());
    let simulated = || {
        let view = node.reader.view(Commitment::Confirmed);
        node.simulator.simulate(&view, request(pay.clone())).expect("a simulation").err
    };
    assert_eq!(simulated(), Some(TransactionError::AlreadyProcessed));
    // Each makes a block. A blockhash is valid for 150 of them, and 6 fewer in a simulation.
    for _ in 0..143 {
        node.airdrop(&alice.pubkey(), 1);
    }
    assert_eq!(simulated(), Some(TransactionError::AlreadyProcessed));
    node.airdrop(&alice.pubkey(), 1);
    assert_eq!(simulated(), Some(TransactionError::BlockhashNotFound));
    node.stop();
}

#[test]
fn a_simulation_sees_the_block_of_its_view() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    let before = node.reader.view(Commitment::Confirmed);
    node.airdrop(&alice.pubkey(), SOL);
    let pay =
        || signed(&[transfer(&alice.pubkey(), &alice.pubkey(), 1)], &[&alice], &node.blockhash());
    let replaced = SimulationRequest { replace_recent_blockhash: true, ..request(pay()) };
    let simulated = node.simulator.simulate(&before, replaced).expect("a simulation");
    assert_eq!(simulated.err, Some(TransactionError::AccountNotFound));
    assert_eq!(
        simulated.replacement_blockhash.map(|(hash, _)| hash),
        Some(before.meta().last_blockhash())
    );
    let now = node.reader.view(Commitment::Confirmed);
    assert_eq!(node.simulator.simulate(&now, request(pay())).expect("a simulation").err, None);
    node.stop();
}

#[test]
fn an_unknown_blockhash_fails_a_simulation_too() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    node.airdrop(&alice.pubkey(), SOL);
    let stale = solana_hash::Hash::new_from_array([9; 32]);
    let pay = signed(&[transfer(&alice.pubkey(), &alice.pubkey(), 1)], &[&alice], &stale);
    let view = node.reader.view(Commitment::Confirmed);
    let simulated = node.simulator.simulate(&view, request(pay)).expect("a simulation");
    assert_eq!(simulated.err, Some(TransactionError::BlockhashNotFound));
    assert!(simulated.logs.is_empty());
    node.stop();
}

#[test]
fn simulations_run_concurrently_with_each_other_and_with_execution() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    node.airdrop(&alice.pubkey(), SOL);
    let pay =
        signed(&[transfer(&alice.pubkey(), &alice.pubkey(), 1)], &[&alice], &node.blockhash());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let view = node.reader.view(Commitment::Processed);
                    let simulated = node.simulator.simulate(&view, request(pay.clone()));
                    assert_eq!(simulated.expect("a simulation").err, None);
                }
            });
        }
        for _ in 0..20 {
            node.airdrop(&Keypair::new().pubkey(), SOL);
        }
    });
    node.stop();
}
