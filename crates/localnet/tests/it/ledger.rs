//! Execution, blocks, commitment, nonces, restart.

use ledger::Commitment;
use localnet::Config;
use solana_account::ReadableAccount;
use solana_instruction::error::InstructionError;
use solana_keypair::Keypair;
use solana_signer::Signer;
use solana_system_interface::instruction::{advance_nonce_account, create_nonce_account, transfer};
use solana_transaction_error::TransactionError;

use crate::fixture::{CLIENT, Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;

#[test]
fn a_transfer_moves_lamports_and_pays_its_fee() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    let bob = Keypair::new();
    node.airdrop(&alice.pubkey(), SOL);
    let executed = node.send(signed(
        &[transfer(&alice.pubkey(), &bob.pubkey(), SOL / 4)],
        &[&alice],
        &node.blockhash(),
    ));
    assert_eq!(executed.meta.status, Ok(()));
    assert_eq!(executed.meta.fee, 5_000);
    assert_eq!(executed.meta.pre_balances[..2], [SOL, 0]);
    assert_eq!(executed.meta.post_balances[..2], [SOL - SOL / 4 - 5_000, SOL / 4]);
    assert_eq!(node.lamports(&bob.pubkey()), SOL / 4);
    let bank = node.reader.view(Commitment::Confirmed);
    let all: u64 = bank.all().map(|(_, account)| account.0.lamports()).sum();
    assert_eq!(bank.meta().capitalization, all);
    node.stop();
}

#[test]
fn a_failed_transaction_pays_and_changes_nothing_else() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    let bob = Keypair::new();
    node.airdrop(&alice.pubkey(), SOL);
    let executed = node.send(signed(
        &[transfer(&alice.pubkey(), &bob.pubkey(), 2 * SOL)],
        &[&alice],
        &node.blockhash(),
    ));
    assert!(matches!(executed.meta.status, Err(TransactionError::InstructionError(0, _))));
    assert_eq!(node.lamports(&alice.pubkey()), SOL - 5_000);
    assert_eq!(node.lamports(&bob.pubkey()), 0);
    node.stop();
}

#[test]
fn a_transaction_whose_program_does_not_load_pays_too() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    let wallet = Keypair::new().pubkey();
    node.airdrop(&alice.pubkey(), SOL);
    node.airdrop(&wallet, SOL);
    let call = solana_instruction::Instruction {
        program_id: wallet,
        accounts: Vec::new(),
        data: Vec::new(),
    };
    let executed = node.send(signed(&[call], &[&alice], &node.blockhash()));
    assert_eq!(executed.meta.status, Err(TransactionError::InvalidProgramForExecution));
    assert_eq!(node.lamports(&alice.pubkey()), SOL - 5_000);
    node.stop();
}

#[test]
fn the_same_transaction_is_not_executed_twice_and_an_unknown_blockhash_not_once() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    node.airdrop(&alice.pubkey(), SOL);
    let to_self = [transfer(&alice.pubkey(), &alice.pubkey(), 1)];
    let transaction = signed(&to_self, &[&alice], &node.blockhash());
    node.send(transaction.clone());
    node.send_in_vain(transaction, &alice);
    let stale = solana_hash::Hash::new_from_array([9; 32]);
    node.send_in_vain(signed(&to_self, &[&alice], &stale), &alice);
    node.stop();
}

#[test]
fn every_accepted_transaction_is_executed() {
    let node = Node::start(&Config { slot_ms: 50, ..Config::default() });
    let alice = Keypair::new();
    let airdrop = node
        .faucet
        .airdrop(CLIENT.into(), alice.pubkey(), SOL, node.blockhash())
        .expect("an airdrop");
    node.confirmed(&airdrop);
    let blockhash = node.blockhash();
    // More than a batch between two publications, all waiting at once.
    let all: Vec<_> = (0..2_000u64)
        .map(|n| {
            let pay = [transfer(&alice.pubkey(), &alice.pubkey(), n)];
            let transaction = signed(&pay, &[&alice], &blockhash);
            chain_solana::VerifiedTransaction::verify(transaction).expect("a good transaction")
        })
        .collect();
    let signatures: Vec<_> = all.iter().map(|transaction| transaction.signature()).collect();
    for transaction in all {
        node.transaction_sender.send(CLIENT.into(), transaction).expect("the queue has space");
    }
    node.confirmed(signatures.last().expect("there are some"));
    let history = node.history.snapshot();
    let lost = signatures
        .iter()
        .filter(|signature| history.transaction(signature, Commitment::Processed).is_none());
    assert_eq!(lost.count(), 0);
    node.stop();
}

#[test]
fn a_repeated_airdrop_in_one_block_is_paid_twice() {
    let node = Node::start(&Config { slot_ms: 200, ..Config::default() });
    let alice = Keypair::new().pubkey();
    let blockhash = node.blockhash();
    let first = node.faucet.airdrop(CLIENT.into(), alice, SOL, blockhash).expect("an airdrop");
    let second = node.faucet.airdrop(CLIENT.into(), alice, SOL, blockhash).expect("an airdrop");
    assert_ne!(first, second);
    node.confirmed(&second);
    assert_eq!(node.lamports(&alice), 2 * SOL);
    node.stop();
}

#[test]
fn an_airdrop_of_more_than_the_faucet_has_fails_in_its_block() {
    let node = Node::start(&Config { faucet_lamports: 3 * SOL, ..on_demand() });
    let alice = Keypair::new().pubkey();
    assert_eq!(node.airdrop(&alice, 2 * SOL).meta.status, Ok(()));
    let insufficient = TransactionError::InstructionError(0, InstructionError::Custom(1));
    assert_eq!(node.airdrop(&alice, 2 * SOL).meta.status, Err(insufficient));
    assert_eq!(node.lamports(&alice), 2 * SOL);
    node.stop();
}

#[test]
fn commitment_follows_blocks() {
    let node = Node::start(&Config { finalize_after: 3, ..on_demand() });
    let keys: Vec<_> = (0..5).map(|_| Keypair::new().pubkey()).collect();
    for key in &keys {
        node.airdrop(key, SOL);
    }
    node.opened(6);
    let slot = |at| node.reader.view(at).block().slot;
    assert_eq!(slot(Commitment::Confirmed), 5);
    assert_eq!(slot(Commitment::Processed), 6);
    assert_eq!(slot(Commitment::Finalized), 2);
    assert!(node.account_at(Commitment::Finalized, &keys[1]).is_some());
    assert!(node.account_at(Commitment::Finalized, &keys[2]).is_none());
    node.stop();
}

#[test]
fn the_validator_votes_for_every_block() {
    let node = Node::start(&on_demand());
    let vote_account = node.vote_account;
    for _ in 0..40 {
        node.airdrop(&Keypair::new().pubkey(), SOL);
    }
    let account = node.account(&vote_account).expect("the vote account");
    let state =
        solana_vote_interface::state::VoteStateV4::deserialize(account.0.data(), &vote_account)
            .expect("a vote state");
    assert_eq!(state.votes.back().map(|vote| vote.slot()), Some(39));
    assert_eq!(state.root_slot, Some(8));
    assert!(state.credits() > 0);
    let block = node
        .history
        .snapshot()
        .block(40, Commitment::Processed)
        .cloned()
        .expect("the block is retained");
    assert!(block.transactions[0].is_vote);
    assert_eq!(block.transactions[0].meta.status, Ok(()));
    node.stop();
}

#[test]
fn a_durable_nonce_outlives_blockhashes_and_advances_on_failure_too() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    let nonce = Keypair::new();
    node.airdrop(&alice.pubkey(), 10 * SOL);
    let create = create_nonce_account(&alice.pubkey(), &nonce.pubkey(), &alice.pubkey(), SOL);
    let created = node.send(signed(&create, &[&alice, &nonce], &node.blockhash()));
    assert_eq!(created.meta.status, Ok(()));
    let stored = |node: &Node| {
        let account = node.account(&nonce.pubkey()).expect("the nonce account");
        solana_hash::Hash::new_from_array(
            account.0.data()[40..72].try_into().expect("32 bytes of nonce"),
        )
    };
    let first = stored(&node);
    let advance = advance_nonce_account(&nonce.pubkey(), &alice.pubkey());
    let pay = |lamports| transfer(&alice.pubkey(), &alice.pubkey(), lamports);
    node.airdrop(&alice.pubkey(), SOL);

    let good = signed(&[advance.clone(), pay(1)], &[&alice], &first);
    assert_eq!(node.send(good.clone()).meta.status, Ok(()));
    let second = stored(&node);
    assert_ne!(first, second);
    node.send_in_vain(good, &alice);

    let failing = signed(&[advance, pay(100 * SOL)], &[&alice], &second);
    assert!(node.send(failing).meta.status.is_err());
    let third = stored(&node);
    assert_ne!(second, third);
    node.stop();
}

#[test]
fn a_ledger_directory_continues_where_it_ended() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = Config { dir: Some(dir.path().join("ledger")), ..on_demand() };
    let alice = Keypair::new();
    let node = Node::start(&config);
    let genesis = node.cluster_info.genesis_hash;
    let identity = node.cluster_info.identity;
    let airdrop = node.airdrop(&alice.pubkey(), SOL);
    let again =
        signed(&[transfer(&alice.pubkey(), &alice.pubkey(), 1)], &[&alice], &node.blockhash());
    let sent = node.send(again.clone());
    node.stop();

    let node = Node::start(&config);
    assert_eq!(node.cluster_info.genesis_hash, genesis);
    assert_eq!(node.cluster_info.identity, identity);
    assert_eq!(node.lamports(&alice.pubkey()), SOL - 5_000);
    let history = node.history.snapshot();
    let stored = history
        .transaction(&airdrop.signature(), Commitment::Processed)
        .expect("history is stored");
    assert_eq!(stored.meta.post_balances, airdrop.meta.post_balances);
    node.send_in_vain(again, &alice);
    let next = node.airdrop(&alice.pubkey(), SOL);
    assert!(next.slot > sent.slot);
    node.stop();
}
