//! The queue in front of the executing thread: fair among clients, bounded, and dropped at the end.
//!
//! A ledger accepts transactions before it is started, so the tests decide what waits when execution starts.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use chain_solana::{
    EventSink, ExecutedTransaction, LedgerEvent, QueueBound, SendError, VerifiedTransaction,
};
use clients::ClientId;
use ledger::Commitment;
use localnet::{Config, GenesisAccount, Localnet};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;

use crate::fixture::signed;

const SOL: u64 = 1_000_000_000;
const FLOOD: ClientId = ClientId(7);
const OTHER: ClientId = ClientId(8);
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// A ledger that is open and does not execute yet.
fn open(config: Config, wallets: &[&Keypair]) -> Localnet {
    let wallet = |keypair: &&Keypair| GenesisAccount {
        address: keypair.pubkey(),
        account: AccountSharedData::new(1_000 * SOL, 0, &solana_sdk_ids::system_program::ID),
    };
    let accounts = wallets.iter().map(wallet).collect();
    localnet::open(&Config { accounts, ..config }).expect("the ledger opens")
}

/// Blocks that do not end while a test runs.
fn long_slots() -> Config {
    Config { slot_ms: 3_600_000, ..Config::default() }
}

fn blockhash(localnet: &Localnet) -> Hash {
    localnet.reader().view(ledger::Commitment::Processed).meta().last_blockhash()
}

/// A transfer that requests the maximum of compute units.
fn heavy(payer: &Keypair, lamports: u64, blockhash: &Hash) -> VerifiedTransaction {
    let data = [&[2], 1_400_000_u32.to_le_bytes().as_slice()].concat();
    let program_id = solana_sdk_ids::compute_budget::ID;
    let limit = Instruction { program_id, accounts: Vec::new(), data };
    verified(&[limit, transfer(&payer.pubkey(), &payer.pubkey(), lamports)], payer, blockhash)
}

fn light(payer: &Keypair, lamports: u64, blockhash: &Hash) -> VerifiedTransaction {
    verified(&[transfer(&payer.pubkey(), &payer.pubkey(), lamports)], payer, blockhash)
}

fn verified(
    instructions: &[Instruction],
    payer: &Keypair,
    blockhash: &Hash,
) -> VerifiedTransaction {
    VerifiedTransaction::verify(signed(instructions, &[payer], blockhash)).expect("it is good")
}

/// The events in order. The ledger waits while the test receives none.
struct Events(Receiver<LedgerEvent>);

struct Sink(SyncSender<LedgerEvent>);

impl EventSink for Sink {
    fn send(&mut self, event: &LedgerEvent) {
        // A test that has ended no longer receives.
        let _ = self.0.send(event.clone());
    }
}

impl Events {
    /// A sink that buffers `ahead` events.
    fn new(ahead: usize) -> (Self, Vec<Box<dyn EventSink>>) {
        let (send, events) = sync_channel(ahead);
        (Self(events), vec![Box::new(Sink(send))])
    }

    fn next(&self) -> LedgerEvent {
        self.0.recv_timeout(EVENT_TIMEOUT).expect("an event before the timeout")
    }

    /// The transactions that are executed next, without votes. `None` once the ledger has ended.
    fn executed(&self) -> Option<Vec<Arc<ExecutedTransaction>>> {
        loop {
            match self.0.recv_timeout(EVENT_TIMEOUT).ok()? {
                LedgerEvent::Executed(all) => {
                    let own = all.iter().filter(|one| !one.is_vote).cloned().collect::<Vec<_>>();
                    if !own.is_empty() {
                        return Some(own);
                    }
                }
                _ => continue,
            }
        }
    }

    /// The number of transactions that are executed before this one.
    fn executed_before(&self, signature: &Signature) -> usize {
        let mut before = 0;
        loop {
            for one in self.executed().expect("it is executed") {
                if one.signature() == *signature {
                    return before;
                }
                before += 1;
            }
        }
    }
}

#[test]
fn a_flood_of_one_client_with_many_fee_payers_delays_anothers_transfer_by_one_transaction() {
    let payers: Vec<Keypair> = (0..20).map(|_| Keypair::new()).collect();
    let other = Keypair::new();
    let wallets: Vec<_> = payers.iter().chain([&other]).collect();
    let localnet = open(long_slots(), &wallets);
    let transactions = localnet.transaction_sender();
    let blockhash = blockhash(&localnet);
    for n in 0..1_000 {
        let payer = &payers[n % payers.len()];
        transactions
            .send(FLOOD.into(), heavy(payer, n as u64, &blockhash))
            .expect("there is space");
    }
    let own = light(&other, 1, &blockhash);
    let signature = own.signature();
    transactions.send(OTHER.into(), own).expect("there is space");
    let stats = localnet.queue().stats();
    assert_eq!((stats.waiting.transactions, stats.clients), (1_001, 2));
    assert_eq!(stats.waiting.compute_units, 1_000 * 1_400_000 + 3_000);
    assert_eq!(stats.largest_client.transactions, 1_000);
    assert!(stats.waiting.bytes > 1_001 * 200, "{stats:?}");

    let (events, sinks) = Events::new(10_000);
    let handle = localnet.start(sinks).expect("the ledger starts");
    assert_eq!(events.executed_before(&signature), 1);
    handle.stop().expect("the ledger ends well");
}

#[test]
fn airdrops_of_one_client_do_not_delay_anothers_and_come_before_the_transactions_they_fund() {
    let localnet = open(long_slots(), &[]);
    let faucet = localnet.faucet();
    let transactions = localnet.transaction_sender();
    let blockhash = blockhash(&localnet);
    let alice = Keypair::new();
    for n in 0..500 {
        let to = Keypair::new().pubkey();
        faucet.airdrop(FLOOD.into(), to, SOL + n, blockhash).expect("there is space");
    }
    let airdrop =
        faucet.airdrop(FLOOD.into(), alice.pubkey(), SOL, blockhash).expect("there is space");
    let paid = light(&alice, 1, &blockhash);
    let signature = paid.signature();
    transactions.send(FLOOD.into(), paid).expect("there is space");
    let other = faucet.airdrop(OTHER.into(), Pubkey::new_unique(), SOL, blockhash);
    let other = other.expect("there is space");

    let (events, sinks) = Events::new(10_000);
    let handle = localnet.start(sinks).expect("the ledger starts");
    let mut order = Vec::new();
    while order.len() < 503 {
        order.extend(events.executed().expect("all are executed"));
    }
    let position = |signature: &Signature| {
        let found = order.iter().position(|one| one.signature() == *signature);
        found.expect("it was executed")
    };
    assert!(position(&airdrop) < position(&signature));
    assert_eq!(order[position(&signature)].meta.status, Ok(()));
    // A visit of 1,420,000 units at 23,000 each.
    assert!(position(&other) <= 62, "{}", position(&other));
    handle.stop().expect("the ledger ends well");
}

#[test]
fn a_client_that_has_filled_its_share_leaves_space_for_others() {
    let [alice, bob] = [Keypair::new(), Keypair::new()];
    let config = Config { queue_max: 70, ..long_slots() };
    let localnet = open(config, &[&alice, &bob]);
    let transactions = localnet.transaction_sender();
    let blockhash = blockhash(&localnet);
    let refused =
        (0..).find_map(|n| transactions.send(FLOOD.into(), light(&alice, n, &blockhash)).err());
    let bound = QueueBound::PayerTransactions;
    assert_eq!(refused, Some(SendError::QueueFull { bound, queued: 30, limit: 30 }));
    let refused = (0..).find_map(|_| {
        let payer = Keypair::new();
        transactions.send(FLOOD.into(), light(&payer, 1, &blockhash)).err()
    });
    let bound = QueueBound::ClientTransactions;
    assert_eq!(refused, Some(SendError::QueueFull { bound, queued: 35, limit: 35 }));
    let text = refused.map(|err| err.to_string()).unwrap_or_default();
    assert_eq!(
        text,
        "transaction queue is full: 35 of this client waiting, at most 35 (--queue-max)"
    );
    transactions
        .send(OTHER.into(), light(&bob, 1, &blockhash))
        .expect("there is space for another");
    let refused: u64 = localnet.queue().stats().refused.iter().sum();
    assert_eq!(refused, 2);
}

#[test]
fn the_queue_is_bounded_in_compute_units_too() {
    let alice = Keypair::new();
    let config = Config { queue_compute_units_max: 14_000_000, ..long_slots() };
    let localnet = open(config, &[&alice]);
    let transactions = localnet.transaction_sender();
    let blockhash = blockhash(&localnet);
    let refused = (0..).find_map(|n| {
        let payer = Keypair::new();
        transactions.send(FLOOD.into(), heavy(&payer, n, &blockhash)).err()
    });
    let bound = QueueBound::ClientComputeUnits;
    let full = SendError::QueueFull { bound, queued: 7_000_000, limit: 7_000_000 };
    assert_eq!(refused, Some(full.clone()));
    assert!(full.to_string().ends_with(
        "7000000 compute units of this client waiting, at most 7000000 (--queue-compute-units-max)"
    ));
    transactions
        .send(OTHER.into(), heavy(&alice, 1, &blockhash))
        .expect("there is space for another");
}

#[test]
fn transactions_that_wait_when_the_ledger_ends_are_dropped_and_counted() {
    const SENT: u64 = 3_000;
    let alice = Keypair::new();
    let localnet = open(long_slots(), &[&alice]);
    let transactions = localnet.transaction_sender();
    let blockhash = blockhash(&localnet);
    for n in 0..SENT {
        transactions.send(FLOOD.into(), light(&alice, n, &blockhash)).expect("there is space");
    }
    let queue = Arc::clone(localnet.queue());
    // The ledger waits at the first event that the test does not receive.
    let (events, sinks) = Events::new(0);
    let history = Arc::clone(localnet.history());
    let starting = std::thread::spawn(move || localnet.start(sinks).expect("the ledger starts"));
    let first = events.executed().expect("some are executed");
    let handle = starting.join().expect("no panic");
    let stopping = std::thread::spawn(move || handle.stop());
    let mut executed = first.len() as u64;
    // The queue is closed while the executing thread waits for this thread.
    while queue.stats().dropped == 0 {
        std::thread::yield_now();
    }
    let mut completed = false;
    while let Ok(event) = events.0.recv_timeout(EVENT_TIMEOUT) {
        match event {
            LedgerEvent::Executed(all) => {
                executed += all.iter().filter(|one| !one.is_vote).count() as u64
            }
            LedgerEvent::Confirmed { .. } => completed = true,
            _ => {}
        }
    }
    stopping.join().expect("no panic").expect("the ledger ends well");
    let stats = queue.stats();
    assert_eq!(executed + stats.dropped, SENT);
    // One batch before the queue was closed, and at most the one that was running then.
    assert!(executed <= 3 * 256, "{executed} were executed");
    assert!(completed, "the open block is completed");
    assert_eq!(stats.waiting.transactions, 0);
    let recorded: usize = history
        .snapshot()
        .blocks(.., Commitment::Processed)
        .map(|block| block.transactions.len())
        .sum();
    assert_eq!(recorded as u64, executed, "what was executed is in a block");
    assert_eq!(
        transactions.send(OTHER.into(), light(&alice, 1, &blockhash)),
        Err(SendError::Closed)
    );
}

#[test]
fn blocks_are_completed_while_transactions_wait() {
    const SENT: usize = 6_000;
    let alice = Keypair::new();
    let localnet = open(Config { slot_ms: 2, ..Config::default() }, &[&alice]);
    let transactions = localnet.transaction_sender();
    let blockhash = blockhash(&localnet);
    for n in 0..SENT as u64 {
        transactions.send(FLOOD.into(), light(&alice, n, &blockhash)).expect("there is space");
    }
    let (events, sinks) = Events::new(100_000);
    let handle = localnet.start(sinks).expect("the ledger starts");
    let mut blocks = 0;
    let mut executed = 0;
    while executed < SENT / 2 {
        match events.next() {
            LedgerEvent::Executed(all) => executed += all.len(),
            LedgerEvent::Confirmed { .. } => blocks += 1,
            _ => {}
        }
    }
    // Half of them take some hundred milliseconds, and a slot takes two.
    assert!(blocks >= 2, "{blocks} blocks");
    handle.stop().expect("the ledger ends well");
}
