//! Bundles: all of their transactions in one block, each after those before it, or no trace of any.

use std::sync::mpsc::sync_channel;

use chain_solana::{
    BundleError, EventSink, LedgerEvent, QueueBound, SendError, Sender, SimulationRequest,
    VerifiedTransaction, WrittenAccounts,
};
use clients::ClientId;
use ledger::Commitment;
use localnet::{Config, GenesisAccount};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_instruction::error::InstructionError;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_sdk_ids::system_program;
use solana_signer::Signer;
use solana_system_interface::instruction::{create_account, transfer};
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;

use crate::fixture::{CLIENT, Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;

/// A ledger with these wallets, of 1,000 SOL each.
fn with_wallets(config: Config, wallets: &[&Keypair]) -> Config {
    let wallet = |keypair: &&Keypair| GenesisAccount {
        address: keypair.pubkey(),
        account: AccountSharedData::new(1_000 * SOL, 0, &system_program::ID),
    };
    Config { accounts: wallets.iter().map(wallet).collect(), ..config }
}

fn pay(from: &Keypair, to: &Pubkey, lamports: u64, blockhash: &Hash) -> VersionedTransaction {
    signed(&[transfer(&from.pubkey(), to, lamports)], &[from], blockhash)
}

#[test]
fn a_bundle_is_in_one_block_and_each_transaction_sees_those_before_it() {
    let alice = Keypair::new();
    let node = Node::start(&with_wallets(on_demand(), &[&alice]));
    let blockhash = node.blockhash();
    let bob = Keypair::new();
    let carol = Keypair::new();
    let dave = Pubkey::new_unique();
    let bundle = vec![
        pay(&alice, &bob.pubkey(), 100 * SOL, &blockhash),
        // Bob and Carol exist only since the transaction before.
        pay(&bob, &carol.pubkey(), 50 * SOL, &blockhash),
        pay(&carol, &dave, 20 * SOL, &blockhash),
        pay(&carol, &alice.pubkey(), 5 * SOL, &blockhash),
    ];
    let signatures: Vec<_> = bundle.iter().map(|one| one.signatures[0]).collect();
    let slot = node.send_bundle(bundle).wait().expect("a reply").expect("it is executed");
    let block = node.completed(|block| block.id.slot == slot);
    let own = block.transactions.iter().filter(|one| !one.is_vote);
    assert_eq!(own.map(|one| one.signature()).collect::<Vec<_>>(), signatures);
    assert!(block.transactions.iter().all(|one| one.meta.status.is_ok()));
    assert_eq!(node.lamports(&dave), 20 * SOL);
    assert_eq!(node.lamports(&bob.pubkey()), 50 * SOL - 5_000);
    assert_eq!(node.lamports(&carol.pubkey()), 25 * SOL - 10_000);
    assert_eq!(node.lamports(&alice.pubkey()), 905 * SOL - 5_000);
    // Bob's balances within the block are those between the transactions.
    let second = block.transactions.iter().find(|one| one.signature() == signatures[1]);
    assert_eq!(second.map(|one| one.meta.pre_balances[0]), Some(100 * SOL));
    assert!(node.history.snapshot().transaction(&signatures[3], Commitment::Confirmed).is_some());
}

#[test]
fn a_bundle_that_fails_in_the_middle_leaves_no_trace() {
    let alice = Keypair::new();
    let node = Node::start(&with_wallets(on_demand(), &[&alice]));
    let blockhash = node.blockhash();
    let bob = Keypair::new();
    let account = Keypair::new();
    let program = Pubkey::new_unique();
    let create = create_account(&alice.pubkey(), &account.pubkey(), SOL, 10, &program);
    let first = signed(&[create], &[&alice, &account], &blockhash);
    let too_much = pay(&bob, &alice.pubkey(), 500 * SOL, &blockhash);
    let second = pay(&alice, &bob.pubkey(), 100 * SOL, &blockhash);
    let last = pay(&alice, &program, SOL, &blockhash);
    let failed = too_much.signatures[0];
    let untouched = first.signatures[0];
    let before = node.reader.view(Commitment::Processed).meta().clone();
    let result = node.send_bundle(vec![first.clone(), second, too_much, last]).wait();
    let err = TransactionError::InstructionError(0, InstructionError::Custom(1));
    assert_eq!(result, Some(Err(BundleError::Transaction { signature: failed, err })));
    // No block was made for it, and the state is the same.
    let after = node.reader.view(Commitment::Processed).meta().clone();
    assert_eq!((after.block, after.transaction_count), (before.block, before.transaction_count));
    assert_eq!(after.capitalization, before.capitalization);
    assert!(node.history.snapshot().transaction(&untouched, Commitment::Processed).is_none());
    for key in [bob.pubkey(), account.pubkey(), program] {
        assert_eq!(node.account_at(Commitment::Processed, &key), None);
    }
    // The executing thread has not cached anything of it either: the same transaction is executed now.
    let executed = node.send(first);
    assert_eq!(executed.meta.status, Ok(()));
    assert_eq!(executed.meta.pre_balances, [1_000 * SOL, 0, 1]);
    assert_eq!(node.account(&account.pubkey()).map(|account| account.0.data().len()), Some(10));
}

#[test]
fn a_bundle_with_a_transaction_that_no_block_may_contain_is_dropped() {
    let alice = Keypair::new();
    let node = Node::start(&with_wallets(on_demand(), &[&alice]));
    let blockhash = node.blockhash();
    let bob = Pubkey::new_unique();
    let good = pay(&alice, &bob, SOL, &blockhash);
    let dropped = |last: VersionedTransaction, expected: TransactionError| {
        let signature = last.signatures[0];
        let result = node.send_bundle(vec![good.clone(), last]).wait();
        assert_eq!(result, Some(Err(BundleError::Transaction { signature, err: expected })));
        assert_eq!(node.lamports(&bob), 0);
    };
    let old = Hash::new_from_array([7; 32]);
    dropped(pay(&alice, &bob, 2 * SOL, &old), TransactionError::BlockhashNotFound);
    let poor = Keypair::new();
    dropped(pay(&poor, &bob, 1, &blockhash), TransactionError::AccountNotFound);
    dropped(good.clone(), TransactionError::AlreadyProcessed);
    node.send(good.clone());
    let again = node.send_bundle(vec![pay(&alice, &bob, 3 * SOL, &blockhash), good.clone()]).wait();
    let signature = good.signatures[0];
    let err = TransactionError::AlreadyProcessed;
    assert_eq!(again, Some(Err(BundleError::Transaction { signature, err })));
    assert_eq!(node.lamports(&bob), SOL);
}

#[test]
fn the_updates_of_a_bundle_are_sent_transaction_by_transaction() {
    struct Updates(std::sync::mpsc::SyncSender<LedgerEvent>);
    impl EventSink for Updates {
        fn send(&mut self, event: &LedgerEvent) {
            let _ = self.0.send(event.clone());
        }
        fn needs_account_updates(&self) -> bool {
            true
        }
    }
    let alice = Keypair::new();
    let (send, events) = sync_channel(1_000);
    let localnet = localnet::open(&with_wallets(on_demand(), &[&alice])).expect("it opens");
    let node = Node::run_with(localnet, vec![Box::new(Updates(send))]);
    let blockhash = node.blockhash();
    let bob = Pubkey::new_unique();
    let bundle = vec![pay(&alice, &bob, SOL, &blockhash), pay(&alice, &bob, 2 * SOL, &blockhash)];
    let signatures: Vec<_> = bundle.iter().map(|one| one.signatures[0]).collect();
    node.send_bundle(bundle).wait().expect("a reply").expect("it is executed");
    let mut of_bob = Vec::new();
    while let Ok(event) = events.try_recv() {
        let LedgerEvent::AccountsWritten { updates, .. } = event else { continue };
        let own = updates.iter().filter(|update| update.pubkey == bob);
        of_bob.extend(own.map(|update| (update.signature, update.account.0.lamports())));
    }
    assert_eq!(of_bob, [(Some(signatures[0]), SOL), (Some(signatures[1]), 3 * SOL)]);
}

#[test]
fn a_ledger_without_space_takes_all_of_a_bundle_or_nothing() {
    let alice = Keypair::new();
    let config = with_wallets(on_demand(), &[&alice]);
    let with_max = |addresses_max| Config { addresses_max, ..config.clone() };
    // The fewest addresses with which it starts.
    let mut too_few = 0_u32;
    let mut lowest = 4_096;
    while lowest - too_few > 1 {
        let middle = too_few.midpoint(lowest);
        match localnet::open(&with_max(middle)) {
            Ok(_) => lowest = middle,
            Err(_) => too_few = middle,
        }
    }
    // With one of these numbers the last bundle finds space for some of its accounts.
    for spare in 20..25 {
        let node = Node::start(&with_max(lowest + spare));
        let blockhash = node.blockhash();
        let mut paid = 0;
        loop {
            let keys: Vec<Pubkey> = (0..5).map(|_| Pubkey::new_unique()).collect();
            let bundle = keys.iter().map(|key| pay(&alice, key, SOL, &blockhash)).collect();
            let result = node.send_bundle(bundle).wait().expect("a reply");
            let exist = |key: &&Pubkey| node.account_at(Commitment::Processed, key).is_some();
            let existing = keys.iter().filter(exist).count();
            match result {
                Ok(_) => assert_eq!(existing, 5),
                Err(err) => {
                    assert_eq!((err, existing), (BundleError::LedgerFull, 0), "{spare}");
                    break;
                }
            }
            paid += 1;
            assert!(paid <= 5, "{spare}: there is no end");
        }
        // The executing thread has the balance of the bundles before.
        let back = node.send(pay(&alice, &alice.pubkey(), 1, &blockhash));
        assert_eq!(back.meta.pre_balances[0], 1_000 * SOL - paid * 5 * (SOL + 5_000));
    }
}

#[test]
fn the_queue_counts_each_transaction_of_a_bundle() {
    let alice = Keypair::new();
    let config = Config { queue_max: 16, ..with_wallets(on_demand(), &[&alice]) };
    let localnet = localnet::open(&config).expect("it opens");
    let bundles = localnet.bundle_sender();
    let queue = localnet.queue().clone();
    let blockhash = localnet.reader().view(Commitment::Processed).meta().last_blockhash();
    let bundle = |first: u64| -> Vec<VerifiedTransaction> {
        let to = alice.pubkey();
        let pay = |n| VerifiedTransaction::verify(pay(&alice, &to, n, &blockhash)).expect("good");
        (first..first + 5).map(pay).collect()
    };
    bundles.send_bundle(CLIENT.into(), bundle(1)).expect("there is space");
    assert_eq!(queue.stats().waiting.transactions, 5);
    assert_eq!(queue.stats().waiting.compute_units, 15_000);
    bundles.send_bundle(CLIENT.into(), bundle(10)).expect("there is space");
    let refused = bundles.send_bundle(CLIENT.into(), bundle(15)).err();
    let bound = QueueBound::ClientTransactions;
    assert_eq!(refused, Some(SendError::QueueFull { bound, queued: 10, limit: 6 }));
    // Another client has the space that is left.
    let waiting = bundles.send_bundle(ClientId(2).into(), bundle(20)).expect("there is space");
    // A ledger that ends answers what waits.
    let handle = localnet.start(Vec::new()).expect("the ledger starts");
    assert!(matches!(waiting.wait(), Some(Ok(_)) | None));
    handle.stop().expect("the ledger ends well");
    assert_eq!(bundles.send_bundle(CLIENT.into(), bundle(30)).err(), Some(SendError::Closed));
}

#[test]
fn a_flood_of_heavy_bundles_delays_anothers_transfer_by_one_of_them() {
    let flood = Keypair::new();
    let other = Keypair::new();
    let config = Config { slot_ms: 3_600_000, ..with_wallets(on_demand(), &[&flood, &other]) };
    let localnet = localnet::open(&config).expect("it opens");
    let bundles = localnet.bundle_sender();
    let transactions = localnet.transaction_sender();
    let blockhash = localnet.reader().view(Commitment::Processed).meta().last_blockhash();
    let data = [&[2], 1_400_000_u32.to_le_bytes().as_slice()].concat();
    let program_id = solana_sdk_ids::compute_budget::ID;
    let limit = Instruction { program_id, accounts: Vec::new(), data };
    let heavy = |n: u64| {
        let pay = transfer(&flood.pubkey(), &flood.pubkey(), n);
        let one = signed(&[limit.clone(), pay], &[&flood], &blockhash);
        VerifiedTransaction::verify(one).expect("good")
    };
    let mut calls = Vec::new();
    for n in 0..100 {
        let bundle = (0..5).map(|one| heavy(5 * n + one)).collect();
        calls.push(bundles.send_bundle(Sender::from(ClientId(7)), bundle).expect("there is space"));
    }
    let own = VerifiedTransaction::verify(pay(&other, &other.pubkey(), 1, &blockhash));
    let own = own.expect("good");
    let signature = own.signature();
    transactions.send(ClientId(8).into(), own).expect("there is space");
    let history = localnet.history().clone();
    let handle = localnet.start(Vec::new()).expect("the ledger starts");
    for call in calls {
        call.wait().expect("a reply").expect("it is executed");
    }
    let snapshot = history.snapshot();
    let executed = snapshot.transaction(&signature, Commitment::Processed).expect("executed");
    // After the block's vote and at most one bundle.
    assert!(executed.index <= 6, "{}", executed.index);
    handle.stop().expect("the ledger ends well");
}

#[test]
fn a_transaction_is_simulated_after_others() {
    let alice = Keypair::new();
    let node = Node::start(&with_wallets(on_demand(), &[&alice]));
    let blockhash = node.blockhash();
    let bob = Keypair::new();
    let carol = Pubkey::new_unique();
    let view = node.reader.view(Commitment::Processed);
    let run = |written: &WrittenAccounts, transaction: VersionedTransaction| {
        let request = SimulationRequest {
            transaction,
            replace_recent_blockhash: false,
            inner_instructions: false,
        };
        node.simulator.simulate_after(&view, written, request).expect("it is simulated")
    };
    let mut written = WrittenAccounts::default();
    let second = pay(&bob, &carol, SOL, &blockhash);
    assert_eq!(run(&written, second.clone()).err, Some(TransactionError::AccountNotFound));
    let first = run(&written, pay(&alice, &bob.pubkey(), 3 * SOL, &blockhash));
    assert_eq!(first.err, None);
    first.post_accounts.iter().for_each(|(key, account)| written.insert(*key, account));
    let simulated = run(&written, second.clone());
    assert_eq!((simulated.err, simulated.pre_balances[0]), (None, 3 * SOL));
    // The VM has nothing of it afterwards.
    let none = WrittenAccounts::default();
    assert_eq!(run(&none, second).err, Some(TransactionError::AccountNotFound));
}
