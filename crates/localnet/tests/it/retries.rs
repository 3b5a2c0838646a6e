//! Transactions that cannot run yet: they land once the account that they need is written.

use chain_solana::{EditedAccounts, VerifiedTransaction};
use clients::ClientId;
use ledger::Commitment;
use localnet::{Config, RetryStats};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_sdk_ids::system_program;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;

use crate::control;
use crate::fixture::{CLIENT, Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;
/// Blocks of the 2 s after which Agave sends a transaction again.
const INTERVAL_BLOCKS: u64 = 5;

/// A transfer of a wallet that has no account yet.
fn build_transfer(payer: &Keypair, blockhash: &Hash) -> VersionedTransaction {
    let instruction = transfer(&payer.pubkey(), &payer.pubkey(), 1);
    signed(&[instruction], &[payer], blockhash)
}

/// Sends a transaction that may be tried again.
fn send(node: &Node, transaction: VersionedTransaction, retries: u32) -> Signature {
    let verified = VerifiedTransaction::verify(transaction).expect("a good transaction");
    let verified = verified.with_retries(retries);
    let signature = verified.signature();
    node.transaction_sender.send(CLIENT.into(), verified).expect("the queue has space");
    signature
}

fn retries(node: &Node) -> RetryStats {
    node.queue.stats().retries
}

/// Waits until every transaction was tried. Commands overtake those that were not.
fn wait_until_tried(node: &Node) {
    while node.queue.stats().waiting.transactions > 0 {
        std::thread::yield_now();
    }
    node.settle();
}

fn has_landed(node: &Node, signature: &Signature) -> bool {
    node.history.snapshot().transaction(signature, Commitment::Processed).is_some()
}

#[test]
fn a_transaction_lands_once_its_payer_is_funded() {
    for config in [on_demand(), Config { slot_ms: 50, ..Config::default() }] {
        let node = Node::start(&config);
        let poor = Keypair::new();
        let other = Keypair::new();
        let signature = send(&node, build_transfer(&poor, &node.blockhash()), u32::MAX);
        node.airdrop(&other.pubkey(), SOL);
        assert!(!has_landed(&node, &signature));
        assert_eq!(retries(&node).waiting, 1);
        node.airdrop(&poor.pubkey(), SOL);
        let executed = node.confirmed(&signature);
        assert_eq!(executed.meta.status, Ok(()));
        let RetryStats { waiting, bytes, retried, .. } = retries(&node);
        assert_eq!((waiting, bytes, retried), (0, 0, 1));
        node.stop();
    }
}

#[test]
fn a_payer_that_is_funded_too_little_is_tried_again() {
    let node = Node::start(&on_demand());
    let poor = Keypair::new();
    let signature = send(&node, build_transfer(&poor, &node.blockhash()), u32::MAX);
    wait_until_tried(&node);
    let wallet = |lamports| {
        let account = AccountSharedData::new(lamports, 0, &system_program::ID);
        EditedAccounts::from([(poor.pubkey(), account)])
    };
    control::set(&node, wallet(4_000)).expect("it is written");
    wait_until_tried(&node);
    assert!(!has_landed(&node, &signature));
    control::set(&node, wallet(SOL)).expect("it is written");
    assert_eq!(node.confirmed(&signature).meta.status, Ok(()));
    assert_eq!(retries(&node).retried, 2);
    node.stop();
}

#[test]
fn blocks_on_request_try_a_transaction_in_the_next_block() {
    let config = Config { is_manual: true, ..on_demand() };
    let node = Node::start(&config);
    let poor = Keypair::new();
    let mine = || node.forks.mine(CLIENT, 1).wait().expect("a block");
    let signature = send(&node, build_transfer(&poor, &node.blockhash()), u32::MAX);
    mine();
    let airdrop = node.faucet.airdrop(CLIENT.into(), poor.pubkey(), SOL, node.blockhash());
    let airdrop = airdrop.expect("an airdrop");
    mine();
    assert!(has_landed(&node, &airdrop) && !has_landed(&node, &signature));
    mine();
    assert!(has_landed(&node, &signature));
    node.stop();
}

#[test]
fn without_retries_a_transaction_is_tried_once() {
    let node = Node::start(&on_demand());
    let poor = Keypair::new();
    let fence = Keypair::new();
    let signature = send(&node, build_transfer(&poor, &node.blockhash()), 0);
    node.airdrop(&poor.pubkey(), SOL);
    node.airdrop(&fence.pubkey(), SOL);
    assert!(!has_landed(&node, &signature));
    assert_eq!(retries(&node), RetryStats::default());
    node.stop();
}

#[test]
fn the_number_of_retries_bounds_the_wait() {
    let node = Node::start(&on_demand());
    let fence = Keypair::new();
    let early = Keypair::new();
    let late = Keypair::new();
    let once = send(&node, build_transfer(&early, &node.blockhash()), 1);
    let twice = send(&node, build_transfer(&late, &node.blockhash()), 2);
    for _ in 0..=INTERVAL_BLOCKS {
        node.airdrop(&fence.pubkey(), SOL);
    }
    node.settle();
    assert_eq!((retries(&node).waiting, retries(&node).expired), (1, 1));
    node.airdrop(&early.pubkey(), SOL);
    node.airdrop(&late.pubkey(), SOL);
    node.confirmed(&twice);
    assert!(!has_landed(&node, &once));
    node.stop();
}

#[test]
fn a_transaction_that_waits_lands_once_however_often_it_is_sent() {
    let node = Node::start(&on_demand());
    let poor = Keypair::new();
    let fence = Keypair::new();
    let transaction = build_transfer(&poor, &node.blockhash());
    let signatures = [0; 3].map(|_| send(&node, transaction.clone(), u32::MAX));
    node.airdrop(&fence.pubkey(), SOL);
    assert_eq!(retries(&node).waiting, 1);
    node.airdrop(&poor.pubkey(), SOL);
    node.confirmed(&signatures[0]);
    node.airdrop(&fence.pubkey(), SOL);
    // One lamport to itself, and one fee.
    assert_eq!(node.lamports(&poor.pubkey()), SOL - 5_000);
    assert_eq!((retries(&node).waiting, retries(&node).retried), (0, 1));
    node.stop();
}

#[test]
fn a_transaction_waits_across_a_revert() {
    let node = Node::start(&on_demand());
    let poor = Keypair::new();
    let fence = Keypair::new();
    let snapshot = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
    let signature = send(&node, build_transfer(&poor, &node.blockhash()), u32::MAX);
    node.airdrop(&fence.pubkey(), SOL);
    node.forks.revert(CLIENT, snapshot).wait().expect("it is there");
    node.airdrop(&fence.pubkey(), SOL);
    assert!(!has_landed(&node, &signature));
    node.airdrop(&poor.pubkey(), SOL);
    node.confirmed(&signature);
    node.stop();
}

/// A client sends as many transactions that cannot run as it may, and writes their payer again and again.
#[test]
fn a_client_that_floods_retries_does_not_cost_others_theirs() {
    let node = Node::start(&on_demand());
    let hostile = ClientId(7);
    let honest = ClientId(8);
    let poor = Keypair::new();
    let payer = Pubkey::new_unique();
    let blockhash = node.blockhash();
    let unpaid = |lamports| {
        let instruction = transfer(&payer, &payer, lamports);
        let message = Message::new_with_blockhash(&[instruction], Some(&payer), &blockhash);
        let message = VersionedMessage::Legacy(message);
        let transaction = VersionedTransaction { signatures: vec![Signature::default()], message };
        let verified = VerifiedTransaction::verify_except(transaction, |_| true);
        verified.expect("it is well-formed").with_retries(u32::MAX)
    };
    for lamports in 0..3_000 {
        while node.transaction_sender.send(hostile.into(), unpaid(lamports)).is_err() {
            std::thread::yield_now();
        }
    }
    wait_until_tried(&node);
    let RetryStats { waiting, refused, .. } = retries(&node);
    assert!(refused > 0 && waiting <= 2_048, "{waiting} wait, {refused} were refused");
    let verified = VerifiedTransaction::verify(build_transfer(&poor, &blockhash)).expect("good");
    let verified = verified.with_retries(u32::MAX);
    let signature = verified.signature();
    node.transaction_sender.send(honest.into(), verified).expect("the queue has space");
    for lamports in 1..4 {
        // Too little for a fee: all of its transactions are tried again.
        let account = AccountSharedData::new(lamports, 0, &system_program::ID);
        control::set(&node, EditedAccounts::from([(payer, account)])).expect("it is written");
        wait_until_tried(&node);
    }
    node.airdrop(&poor.pubkey(), SOL);
    node.confirmed(&signature);
    node.stop();
}
