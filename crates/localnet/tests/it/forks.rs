//! Blocks on request, snapshots, reverts and reorganizations: what readers, senders and sinks see.

mod events;
mod model;
mod snapshots;

use chain_solana::{ForkControlError, ForkTransactions, MINE_MAX, VerifiedTransaction};
use lattice::LtHash;
use ledger::{Commitment, Slot};
use localnet::{Config, ConfigError, LocalnetError};
use solana::lt_hash;
use solana_account::ReadableAccount;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;

use crate::fixture::{CLIENT, Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;
/// An hour: no slot ends by the clock within a test.
const HOUR_MS: u64 = 3_600_000;

/// A ledger whose blocks end on request only.
fn manual() -> Config {
    Config { slot_ms: 0, is_manual: true, ..Config::default() }
}

fn slot(node: &Node, commitment: Commitment) -> Slot {
    node.reader.view(commitment).block().slot
}

/// A transfer on the newest final blockhash, which no reorganization leaves.
fn pay(node: &Node, from: &Keypair, to: &Pubkey, lamports: u64) -> VersionedTransaction {
    let blockhash = node.reader.view(Commitment::Finalized).meta().last_blockhash();
    signed(&[transfer(&from.pubkey(), to, lamports)], &[from], &blockhash)
}

/// Whether history has a transaction.
fn has(node: &Node, transaction: &VersionedTransaction) -> bool {
    let history = node.history.snapshot();
    history.transaction(&transaction.signatures[0], Commitment::Processed).is_some()
}

/// Whether the sums over all accounts are those of the newest block.
fn check_sums(node: &Node) {
    let view = node.reader.view(Commitment::Confirmed);
    let mut sum = LtHash::EMPTY;
    let mut lamports = 0;
    for (address, account) in view.all() {
        let pubkey = Pubkey::try_from(address.as_bytes()).expect("an address is a key");
        sum.mix_in(&lt_hash(&pubkey, &account.0));
        lamports += account.0.lamports();
    }
    assert_eq!(view.meta().capitalization, lamports);
    assert_eq!(view.meta().hash_components.lt_checksum.to_bytes(), sum.checksum());
}

#[test]
fn blocks_are_made_on_request_by_any_clock() {
    for slot_ms in [0, HOUR_MS] {
        let node = Node::start(&Config { slot_ms, finalize_after: 2, ..Config::default() });
        assert_eq!(node.forks.mine(CLIENT, 1).wait(), Ok(1));
        assert_eq!(node.forks.mine(CLIENT, 4).wait(), Ok(5));
        assert_eq!(slot(&node, Commitment::Confirmed), 5);
        assert_eq!(slot(&node, Commitment::Finalized), 3);
        let history = node.history.snapshot();
        assert_eq!(history.blocks(1..=5, Commitment::Confirmed).count(), 5);
        let airdrop =
            node.faucet.airdrop(CLIENT.into(), Keypair::new().pubkey(), SOL, node.blockhash());
        node.executed(&airdrop.expect("an airdrop"));
        let next = node.forks.mine(CLIENT, 1).wait().expect("it is mined");
        assert!(next > 5);
        check_sums(&node);
        node.stop();
    }
}

#[test]
fn a_number_of_blocks_out_of_range_is_refused() {
    let node = Node::start(&manual());
    for blocks in [0, MINE_MAX + 1, u64::MAX] {
        let what = "the number of blocks";
        let expected = Err(ForkControlError::OutOfRange { what, value: blocks, max: MINE_MAX });
        assert_eq!(node.forks.mine(CLIENT, blocks).wait(), expected);
    }
    assert_eq!(node.forks.mine(CLIENT, MINE_MAX).wait(), Ok(MINE_MAX));
    let forks = std::sync::Arc::clone(&node.forks);
    node.stop();
    assert_eq!(forks.mine(CLIENT, 1).wait(), Err(ForkControlError::Closed));
    assert_eq!(forks.snapshot(CLIENT).wait(), Err(ForkControlError::Closed));
}

#[test]
fn transactions_wait_for_a_manual_block() {
    let node = Node::start(&manual());
    let alice = Keypair::new();
    let airdrop = |to: &Pubkey| {
        let sent = node.faucet.airdrop(CLIENT.into(), *to, SOL, node.blockhash());
        sent.expect("an airdrop")
    };
    let first = airdrop(&alice.pubkey());
    // A call that is executed after the transaction arrived does not execute it.
    node.forks.snapshot(CLIENT).wait().expect("a snapshot");
    assert_eq!(node.lamports(&alice.pubkey()), 0);
    assert_eq!(node.forks.mine(CLIENT, 2).wait(), Ok(2));
    assert_eq!(node.lamports(&alice.pubkey()), SOL);
    let history = node.history.snapshot();
    let executed = history.transaction(&first, Commitment::Confirmed).expect("it is confirmed");
    assert_eq!(executed.slot, 1, "the first block has it");
    node.stop();
}

#[test]
fn a_manual_ledger_has_no_clock() {
    let refused = localnet::open(&Config { slot_ms: 400, ..manual() });
    let err = refused.map(|_| ()).expect_err("both are set");
    assert!(
        matches!(err, LocalnetError::Config(ConfigError::ManualSlots { slot_ms: 400 })),
        "{err}"
    );
}

#[test]
fn a_reorganization_keeps_drops_or_replaces_transactions() {
    let node = Node::start(&Config { finalize_after: 8, ..on_demand() });
    let alice = Keypair::new();
    let bob = Keypair::new().pubkey();
    node.airdrop(&alice.pubkey(), 10 * SOL);
    node.forks.mine(CLIENT, 10).wait().expect("blocks");
    let transactions: Vec<_> = (1..=3).map(|n| pay(&node, &alice, &bob, n * 1_000_000)).collect();
    for transaction in &transactions {
        node.send(transaction.clone());
    }
    let newest = slot(&node, Commitment::Confirmed);
    let height = node.reader.view(Commitment::Confirmed).meta().block_height;

    let same =
        node.forks.reorg(CLIENT, 2, ForkTransactions::Reexecute).wait().expect("not too deep");
    // The open block is left as well.
    assert_eq!(same.reverted, [newest - 1, newest, newest + 1]);
    assert_eq!(same.entered, [newest + 2, newest + 3, newest + 4]);
    assert_eq!((same.executed, same.dropped), (2, 0));
    assert_eq!(node.lamports(&bob), 6_000_000);
    assert!(transactions.iter().all(|transaction| has(&node, transaction)));
    let history = node.history.snapshot();
    let parent = history.block(newest + 2, Commitment::Confirmed).expect("a block").parent.slot;
    assert_eq!(parent, newest - 2);
    for left in same.reverted {
        assert!(history.block(left, Commitment::Processed).is_none(), "slot {left}");
    }
    let view = node.reader.view(Commitment::Confirmed);
    assert_eq!(view.meta().block_height, height + 1);
    check_sums(&node);

    // The newest three are left: the blocks of the second and the third transfer, and an empty one.
    let dropped = node.forks.reorg(CLIENT, 3, ForkTransactions::Drop).wait().expect("not too deep");
    assert_eq!((dropped.executed, dropped.dropped, dropped.entered.len()), (0, 0, 4));
    assert_eq!(node.lamports(&bob), 1_000_000);
    assert_eq!(
        transactions.iter().map(|one| has(&node, one)).collect::<Vec<_>>(),
        [true, false, false]
    );
    check_sums(&node);

    // One that was executed before, one that was dropped, and one that no block may contain.
    let stale = solana_hash::Hash::new_from_array([9; 32]);
    let stale = signed(&[transfer(&alice.pubkey(), &bob, 1)], &[&alice], &stale);
    let given = [&transactions[0], &transactions[1], &stale].map(|transaction| {
        VerifiedTransaction::verify(transaction.clone()).expect("a good transaction")
    });
    let given = ForkTransactions::Replace(given.into());
    let replaced = node.forks.reorg(CLIENT, 1, given).wait().expect("not too deep");
    assert_eq!((replaced.executed, replaced.dropped), (1, 2));
    let signatures: Vec<_> = replaced.reasons.iter().map(|(signature, _)| *signature).collect();
    assert_eq!(signatures, [transactions[0].signatures[0], stale.signatures[0]]);
    assert_eq!(node.lamports(&bob), 3_000_000);
    // What was dropped can be sent again.
    node.settle();
    node.send(transactions[2].clone());
    assert_eq!(node.lamports(&bob), 6_000_000);
    check_sums(&node);
    node.stop();
}

#[test]
fn transactions_of_an_open_block_are_in_the_last_block_of_the_new_fork() {
    let node = Node::start(&Config { slot_ms: HOUR_MS, finalize_after: 4, ..Config::default() });
    let alice = Keypair::new();
    let bob = Keypair::new().pubkey();
    let airdrop = node.faucet.airdrop(CLIENT.into(), alice.pubkey(), SOL, node.blockhash());
    node.executed(&airdrop.expect("an airdrop"));
    node.forks.mine(CLIENT, 6).wait().expect("blocks");
    let transaction = pay(&node, &alice, &bob, SOL / 2);
    let verified = VerifiedTransaction::verify(transaction.clone()).expect("a good transaction");
    node.transaction_sender.send(CLIENT.into(), verified).expect("the queue has space");
    node.executed(&transaction.signatures[0]);
    let done =
        node.forks.reorg(CLIENT, 1, ForkTransactions::Reexecute).wait().expect("not too deep");
    assert_eq!((done.executed, done.reverted.len(), done.entered.len()), (1, 2, 2));
    assert_eq!(node.lamports(&bob), SOL / 2);
    let history = node.history.snapshot();
    let executed = history.transaction(&transaction.signatures[0], Commitment::Confirmed);
    assert_eq!(executed.map(|executed| executed.slot), done.entered.last().copied());
    node.stop();
}

#[test]
fn a_reorganization_that_reaches_final_blocks_is_refused() {
    let node = Node::start(&Config { finalize_after: 3, ..on_demand() });
    node.forks.mine(CLIENT, 10).wait().expect("blocks");
    for depth in [4, 5, 1_000, u64::MAX] {
        let refused = node.forks.reorg(CLIENT, depth, ForkTransactions::Reexecute).wait();
        assert_eq!(refused, Err(ForkControlError::TooDeep { depth, unfinalized: 3 }));
    }
    let none = node.forks.reorg(CLIENT, 0, ForkTransactions::Reexecute).wait();
    assert_eq!(none, Err(ForkControlError::OutOfRange { what: "depth", value: 0, max: 3 }));
    assert_eq!(slot(&node, Commitment::Confirmed), 10, "nothing has changed");
    node.forks.reorg(CLIENT, 3, ForkTransactions::Reexecute).wait().expect("not too deep");
    assert_eq!(slot(&node, Commitment::Finalized), 11 + 1, "one block more than were left");
    node.stop();
}
