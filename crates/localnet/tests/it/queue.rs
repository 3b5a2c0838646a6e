//! The queue in front of the executing thread: fair among clients, bounded, and dropped at the end.
//!
//! A ledger takes transactions before it is started: so the tests decide what waits when it begins to execute.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use chain_solana::{
    EventSink, ExecutedTransaction, LedgerEvent, QueueBound, SendError, VerifiedTransaction,
};
use localnet::{Config, GenesisAccount, Localnet};
use pool::ClientId;
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

/// A ledger that is open and executes nothing yet.
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

/// A transfer that asks for all compute units that there are.
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

/// What happens, in order. The ledger waits while the test takes none.
struct Events(Receiver<LedgerEvent>);

struct Sink(SyncSender<LedgerEvent>);

impl EventSink for Sink {
    fn send(&mut self, event: &LedgerEvent) {
        // A test that has ended listens no more.
        let _ = self.0.send(event.clone());
    }
}

impl Events {
    /// A sink that lets the ledger go on for `ahead` events.
    fn new(ahead: usize) -> (Self, Vec<Box<dyn EventSink>>) {
        let (send, events) = sync_channel(ahead);
        (Self(events), vec![Box::new(Sink(send))])
    }

    fn next(&self) -> LedgerEvent {
        self.0.recv_timeout(EVENT_TIMEOUT).expect("an event within patience")
    }

    /// The transactions that are executed next, but for votes; none once the ledger has ended.
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

    /// How many transactions are executed before this one.
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
    let (door, blockhash) = (localnet.transaction_service(), blockhash(&localnet));
    for n in 0..1_000 {
        let payer = &payers[n % payers.len()];
        door.send(FLOOD.into(), heavy(payer, n as u64, &blockhash)).expect("there is room");
    }
    let own = light(&other, 1, &blockhash);
    let signature = own.signature();
    door.send(OTHER.into(), own).expect("there is room");
    let stats = localnet.queue().stats();
    assert_eq!((stats.waiting.transactions, stats.clients), (1_001, 2));
    assert_eq!(stats.waiting.compute_units, 1_000 * 1_400_000 + 3_000);
    assert_eq!(stats.largest_client.transactions, 1_000);
    assert!(stats.waiting.bytes > 1_001 * 200, "{stats:?}");

    let (events, sinks) = Events::new(10_000);
    let running = localnet.start(sinks).expect("the ledger starts");
    assert_eq!(events.executed_before(&signature), 1);
    running.stop().expect("the ledger ends well");
}

#[test]
fn airdrops_of_one_client_do_not_delay_anothers_and_come_before_what_they_pay_for() {
    let localnet = open(long_slots(), &[]);
    let (door, blockhash) = (localnet.transaction_service(), blockhash(&localnet));
    let alice = Keypair::new();
    for n in 0..500 {
        let to = Keypair::new().pubkey();
        door.airdrop(FLOOD.into(), to, SOL + n, blockhash).expect("there is room");
    }
    let airdrop =
        door.airdrop(FLOOD.into(), alice.pubkey(), SOL, blockhash).expect("there is room");
    let paid = light(&alice, 1, &blockhash);
    let signature = paid.signature();
    door.send(FLOOD.into(), paid).expect("there is room");
    let other = door.airdrop(OTHER.into(), Pubkey::new_unique(), SOL, blockhash);
    let other = other.expect("there is room");

    let (events, sinks) = Events::new(10_000);
    let running = localnet.start(sinks).expect("the ledger starts");
    let mut order = Vec::new();
    while order.len() < 503 {
        order.extend(events.executed().expect("all are executed"));
    }
    let place = |wanted: &Signature| {
        let at = order.iter().position(|one| one.signature() == *wanted);
        at.expect("it was executed")
    };
    assert!(place(&airdrop) < place(&signature));
    assert_eq!(order[place(&signature)].meta.status, Ok(()));
    // A visit of 1,420,000 units at 23,000 each.
    assert!(place(&other) <= 62, "{}", place(&other));
    running.stop().expect("the ledger ends well");
}

#[test]
fn a_client_that_has_filled_its_share_leaves_room_to_others() {
    let [alice, bob] = [Keypair::new(), Keypair::new()];
    let config = Config { queue_max: 70, ..long_slots() };
    let localnet = open(config, &[&alice, &bob]);
    let (door, blockhash) = (localnet.transaction_service(), blockhash(&localnet));
    let refused = (0..).find_map(|n| door.send(FLOOD.into(), light(&alice, n, &blockhash)).err());
    let bound = QueueBound::PayerTransactions;
    assert_eq!(refused, Some(SendError::QueueFull { bound, queued: 30, limit: 30 }));
    let refused = (0..).find_map(|_| {
        let payer = Keypair::new();
        door.send(FLOOD.into(), light(&payer, 1, &blockhash)).err()
    });
    let bound = QueueBound::ClientTransactions;
    assert_eq!(refused, Some(SendError::QueueFull { bound, queued: 35, limit: 35 }));
    let text = refused.map(|err| err.to_string()).unwrap_or_default();
    assert_eq!(
        text,
        "transaction queue is full: 35 of this client waiting, at most 35 (--queue-max)"
    );
    door.send(OTHER.into(), light(&bob, 1, &blockhash)).expect("there is room for another");
    let refused: u64 = localnet.queue().stats().refused.iter().sum();
    assert_eq!(refused, 2);
}

#[test]
fn the_queue_is_bounded_in_compute_units_too() {
    let alice = Keypair::new();
    let config = Config { queue_compute_units_max: 14_000_000, ..long_slots() };
    let localnet = open(config, &[&alice]);
    let (door, blockhash) = (localnet.transaction_service(), blockhash(&localnet));
    let refused = (0..).find_map(|n| {
        let payer = Keypair::new();
        door.send(FLOOD.into(), heavy(&payer, n, &blockhash)).err()
    });
    let bound = QueueBound::ClientComputeUnits;
    let full = SendError::QueueFull { bound, queued: 7_000_000, limit: 7_000_000 };
    assert_eq!(refused, Some(full.clone()));
    assert!(full.to_string().ends_with(
        "7000000 compute units of this client waiting, at most 7000000 (--queue-compute-units-max)"
    ));
    door.send(OTHER.into(), heavy(&alice, 1, &blockhash)).expect("there is room for another");
}

#[test]
fn what_waits_when_the_ledger_ends_is_dropped_and_counted() {
    const SENT: u64 = 3_000;
    let alice = Keypair::new();
    let localnet = open(long_slots(), &[&alice]);
    let (door, blockhash) = (localnet.transaction_service(), blockhash(&localnet));
    for n in 0..SENT {
        door.send(FLOOD.into(), light(&alice, n, &blockhash)).expect("there is room");
    }
    let queue = Arc::clone(localnet.queue());
    // The ledger stands still at the first event that the test does not take.
    let (events, sinks) = Events::new(0);
    let history = Arc::clone(localnet.history());
    let starting = std::thread::spawn(move || localnet.start(sinks).expect("the ledger starts"));
    let first = events.executed().expect("some are executed");
    let running = starting.join().expect("no panic");
    let stopping = std::thread::spawn(move || running.stop());
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
            LedgerEvent::Completed { .. } => completed = true,
            _ => {}
        }
    }
    stopping.join().expect("no panic").expect("the ledger ends well");
    let stats = queue.stats();
    assert_eq!(executed + stats.dropped, SENT);
    // A batch before the end, and at most what was executed of the one in which it came.
    assert!(executed <= 3 * 256, "{executed} were executed");
    assert!(completed, "the open block is completed");
    assert_eq!(stats.waiting.transactions, 0);
    let kept: usize = history.snapshot().blocks(..).map(|block| block.transactions.len()).sum();
    assert_eq!(kept as u64, executed, "what was executed is in a block");
    assert_eq!(door.send(OTHER.into(), light(&alice, 1, &blockhash)), Err(SendError::Closed));
}

#[test]
fn blocks_are_completed_while_transactions_wait() {
    const SENT: usize = 6_000;
    let alice = Keypair::new();
    let localnet = open(Config { slot_ms: 2, ..Config::default() }, &[&alice]);
    let (door, blockhash) = (localnet.transaction_service(), blockhash(&localnet));
    for n in 0..SENT as u64 {
        door.send(FLOOD.into(), light(&alice, n, &blockhash)).expect("there is room");
    }
    let (events, sinks) = Events::new(100_000);
    let running = localnet.start(sinks).expect("the ledger starts");
    let (mut blocks, mut executed) = (0, 0);
    while executed < SENT / 2 {
        match events.next() {
            LedgerEvent::Executed(all) => executed += all.len(),
            LedgerEvent::Completed { .. } => blocks += 1,
            _ => {}
        }
    }
    // Half of them take some hundred milliseconds, and a slot two.
    assert!(blocks >= 2, "{blocks} blocks");
    running.stop().expect("the ledger ends well");
}
