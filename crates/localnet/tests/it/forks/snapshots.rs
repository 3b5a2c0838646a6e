//! Snapshots and reverts: one by one, nested, over epochs, with a ledger directory, and far too many.

use chain_solana::ForkControlError;
use ledger::Commitment;
use localnet::Config;
use solana_account::ReadableAccount;
use solana_keypair::Keypair;
use solana_signer::Signer;
use solana_system_interface::instruction::{create_account, transfer};

use super::{SOL, check_sums, has, manual, pay, slot};
use crate::fixture::{CLIENT, Node, on_demand, signed};

#[test]
fn a_revert_takes_back_accounts_transactions_and_blocks() {
    for finalize_after in [0, 1, 31] {
        let node = Node::start(&Config { finalize_after, ..on_demand() });
        let alice = Keypair::new();
        let bob = Keypair::new().pubkey();
        let new = Keypair::new();
        node.airdrop(&alice.pubkey(), 10 * SOL);
        let at = node.reader.view(Commitment::Confirmed);
        let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");

        let transaction = pay(&node, &alice, &bob, SOL);
        node.send(transaction.clone());
        let owner = spl_generic_token::token::ID;
        let create = create_account(&alice.pubkey(), &new.pubkey(), SOL, 82, &owner);
        node.send(signed(&[create], &[&alice, &new], &node.blockhash()));
        node.forks.mine(CLIENT, 20).wait().expect("blocks");
        let left_blockhash = node.blockhash();
        let left = slot(&node, Commitment::Confirmed);

        assert_eq!(node.forks.revert(CLIENT, id).wait(), Ok(()));
        let view = node.reader.view(Commitment::Confirmed);
        assert!(view.block().slot > left, "a slot is given once");
        assert_eq!(view.meta().block_height, at.meta().block_height + 1);
        assert_eq!(node.lamports(&alice.pubkey()), 10 * SOL);
        assert_eq!((node.lamports(&bob), node.lamports(&new.pubkey())), (0, 0));
        let finalized = node.account_at(Commitment::Finalized, &bob);
        assert!(finalized.is_none(), "also if it was final");
        assert!(!has(&node, &transaction));
        let history = node.history.snapshot();
        assert!(history.signatures_for_address(&bob).is_none());
        let parent = view.meta().parent;
        assert_eq!(parent, at.block());
        for gone in parent.slot + 1..=left {
            assert!(history.block(gone, Commitment::Processed).is_none(), "slot {gone}");
        }
        assert!(!view.meta().blockhashes.is_valid(&left_blockhash));
        check_sums(&node);

        // Sends the same transaction, with the same signature.
        node.send(transaction.clone());
        assert!(has(&node, &transaction));
        assert_eq!(node.lamports(&bob), SOL);
        let stale = signed(&[transfer(&alice.pubkey(), &bob, 7)], &[&alice], &left_blockhash);
        node.send_in_vain(stale, &alice);
        check_sums(&node);
        let unknown = node.forks.revert(CLIENT, id).wait();
        assert!(matches!(unknown, Err(ForkControlError::UnknownSnapshot { .. })), "{unknown:?}");
        node.stop();
    }
}

#[test]
fn snapshots_nest_and_a_revert_removes_the_later_ones() {
    let node = Node::start(&Config { finalize_after: 0, ..on_demand() });
    let alice = Keypair::new();
    let bob = Keypair::new().pubkey();
    node.airdrop(&alice.pubkey(), SOL);
    let mut ids = Vec::new();
    for n in 1..=4 {
        ids.push(node.forks.snapshot(CLIENT).wait().expect("a snapshot"));
        node.send(pay(&node, &alice, &bob, n * 1_000_000));
    }
    assert_eq!(node.lamports(&bob), 10_000_000);
    assert_eq!(node.forks.revert(CLIENT, ids[2]).wait(), Ok(()));
    assert_eq!(node.lamports(&bob), 3_000_000);
    for gone in [ids[2], ids[3], 0, 77, u64::MAX] {
        let refused = node.forks.revert(CLIENT, gone).wait();
        assert!(matches!(refused, Err(ForkControlError::UnknownSnapshot { id, .. }) if id == gone));
    }
    assert_eq!(node.forks.revert(CLIENT, ids[0]).wait(), Ok(()));
    assert_eq!(node.lamports(&bob), 0);
    // The usual loop of a test suite.
    for _ in 0..5 {
        let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
        node.send(pay(&node, &alice, &bob, 1_000_000));
        assert_eq!(node.lamports(&bob), 1_000_000);
        assert_eq!(node.forks.revert(CLIENT, id).wait(), Ok(()));
        assert_eq!(node.lamports(&bob), 0);
    }
    assert_eq!(node.forks.usage().snapshots, 0);
    check_sums(&node);
    node.stop();
}

#[test]
fn a_snapshot_without_later_blocks_is_reverted_without_a_block() {
    let node = Node::start(&on_demand());
    node.airdrop(&Keypair::new().pubkey(), SOL);
    let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
    let before = slot(&node, Commitment::Processed);
    assert_eq!(node.forks.revert(CLIENT, id).wait(), Ok(()));
    assert_eq!(slot(&node, Commitment::Processed), before);
    node.stop();
}

#[test]
fn a_snapshot_of_an_open_block_has_its_transactions() {
    let config = Config { slot_ms: super::HOUR_MS, ..Config::default() };
    let node = Node::start(&config);
    let alice = Keypair::new().pubkey();
    let airdrop = || {
        let sent = node.faucet.airdrop(crate::fixture::CLIENT.into(), alice, SOL, node.blockhash());
        node.executed(&sent.expect("an airdrop"));
    };
    airdrop();
    let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
    airdrop();
    let processed = |node: &Node| {
        let account = node.account_at(Commitment::Processed, &alice);
        account.map_or(0, |account| account.0.lamports())
    };
    assert_eq!(processed(&node), 2 * SOL);
    assert_eq!(node.forks.revert(CLIENT, id).wait(), Ok(()));
    assert_eq!(processed(&node), SOL);
    check_sums(&node);
    node.stop();
}

#[test]
fn thousands_of_snapshots_drop_the_oldest_ones() {
    let node = Node::start(&manual());
    let ids: Vec<u64> =
        (0..3_000).map(|_| node.forks.snapshot(CLIENT).wait().expect("a snapshot")).collect();
    let usage = node.forks.usage();
    assert_eq!((usage.snapshots, usage.snapshots_max), (1_024, 1_024));
    assert_eq!(usage.expired, 3_000 - 1_024);
    let refused = node.forks.revert(CLIENT, ids[0]).wait().expect_err("it was dropped");
    assert!(refused.to_string().contains("1024 snapshots"), "{refused}");
    assert_eq!(node.forks.revert(CLIENT, ids[2_999]).wait(), Ok(()));
    assert_eq!(node.forks.revert(CLIENT, ids[2_000]).wait(), Ok(()));
    assert_eq!(node.forks.usage().snapshots, 2_000 - (3_000 - 1_024));
    node.stop();
}

#[test]
fn a_snapshot_that_is_left_alone_is_dropped_and_the_ledger_goes_on() {
    let node = Node::start(&Config { finalize_after: 0, ..manual() });
    let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
    // Each block writes the sysvars, 160 KB: 2,048 blocks are below the bound of bytes.
    for _ in 0..9 {
        node.forks.mine(CLIENT, 256).wait().expect("blocks");
    }
    let usage = node.forks.usage();
    assert_eq!((usage.snapshots, usage.blocks, usage.expired), (0, 0, 1));
    assert!(node.forks.revert(CLIENT, id).wait().is_err());
    assert_eq!(slot(&node, Commitment::Finalized), 9 * 256);
    node.forks.mine(CLIENT, 100).wait().expect("blocks");
    check_sums(&node);
    node.stop();
}

#[test]
fn a_revert_over_the_ends_of_epochs_pays_and_votes_on() {
    let config = Config { slots_per_epoch: 32, finalize_after: 1, ..manual() };
    let node = Node::start(&config);
    node.forks.mine(CLIENT, 20).wait().expect("blocks");
    for blocks in [5, 13, 14, 40, 100] {
        let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
        node.forks.mine(CLIENT, blocks).wait().expect("blocks");
        check_sums(&node);
        assert_eq!(node.forks.revert(CLIENT, id).wait(), Ok(()));
        check_sums(&node);
        node.forks.mine(CLIENT, 3).wait().expect("blocks");
        check_sums(&node);
    }
    node.forks.mine(CLIENT, 70).wait().expect("blocks");
    check_sums(&node);
    let newest = slot(&node, Commitment::Confirmed);
    let account = node.account(&node.vote_account).expect("the vote account");
    let state = solana_vote_interface::state::VoteStateV4::deserialize(
        account.0.data(),
        &node.vote_account,
    );
    let votes = state.expect("a vote state").votes;
    assert_eq!(votes.back().map(|vote| vote.slot()), Some(newest - 1));
    node.stop();
}

#[test]
fn a_ledger_directory_has_nothing_of_what_was_reverted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = Config {
        dir: Some(dir.path().join("ledger")),
        slots_per_epoch: 32,
        finalize_after: 1,
        ..on_demand()
    };
    let alice = Keypair::new();
    let bob = Keypair::new().pubkey();
    let node = Node::start(&config);
    node.airdrop(&alice.pubkey(), SOL);
    let id = node.forks.snapshot(CLIENT).wait().expect("a snapshot");
    let transaction = pay(&node, &alice, &bob, SOL / 2);
    node.send(transaction.clone());
    // Past the end of an epoch.
    node.forks.mine(CLIENT, 40).wait().expect("blocks");
    assert_eq!(node.forks.revert(CLIENT, id).wait(), Ok(()));
    let (height, blockhash) = {
        let view = node.reader.view(Commitment::Confirmed);
        (view.meta().block_height, view.meta().last_blockhash())
    };
    node.stop();

    let node = Node::start(&config);
    assert_eq!(node.lamports(&alice.pubkey()), SOL);
    assert_eq!(node.lamports(&bob), 0);
    let view = node.reader.view(Commitment::Finalized);
    // The open block was completed at the end.
    assert_eq!(view.meta().block_height, height + 1);
    assert!(view.meta().blockhashes.is_valid(&blockhash));
    assert!(!has(&node, &transaction));
    check_sums(&node);
    node.send(transaction.clone());
    assert_eq!(node.lamports(&bob), SOL / 2);
    node.stop();

    let node = Node::start(&config);
    assert!(has(&node, &transaction));
    check_sums(&node);
    node.stop();
}
