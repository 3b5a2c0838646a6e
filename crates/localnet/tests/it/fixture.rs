//! A ledger that makes a block for every transaction, and the actions of a client.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use chain_solana::{
    Block, BundleCall, BundleSender, EventSink, ExecutedTransaction, Faucet, ForkControl, History,
    LedgerControl, LedgerEvent, Reader, Simulator, TransactionSender, VerifiedTransaction,
};
use clients::ClientId;
use ledger::{Address, Commitment};
use localnet::{AccountBytes, Config, Localnet, LocalnetHandle, TransactionQueue};
use solana::Account;
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;

pub(crate) const CLIENT: ClientId = ClientId(1);

/// How long a test waits for an event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Node {
    pub(crate) transaction_sender: Arc<dyn TransactionSender>,
    pub(crate) bundle_sender: Arc<dyn BundleSender>,
    pub(crate) simulator: Arc<dyn Simulator>,
    pub(crate) faucet: Arc<dyn Faucet>,
    pub(crate) forks: Arc<dyn ForkControl>,
    pub(crate) control: Arc<dyn LedgerControl>,
    pub(crate) queue: Arc<TransactionQueue>,
    pub(crate) account_bytes: Arc<AccountBytes>,
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) cluster_info: chain_solana::ClusterInfo,
    pub(crate) inflation: chain_solana::InflationSchedule,
    pub(crate) vote_account: Pubkey,
    pub(crate) faucet_pubkey: Pubkey,
    events: Receiver<LedgerEvent>,
    handle: Option<LocalnetHandle>,
}

/// Forwards events, each transaction in its own event.
struct Sink(SyncSender<LedgerEvent>);

impl EventSink for Sink {
    fn send(&mut self, event: &LedgerEvent) {
        let events = match event {
            LedgerEvent::Executed(all) => all
                .iter()
                .map(|executed| LedgerEvent::Executed([Arc::clone(executed)].into()))
                .collect(),
            event => vec![event.clone()],
        };
        for event in events {
            // A test that has ended no longer receives.
            let _ = self.0.send(event);
        }
    }
}

/// A block for every transaction, finalized one block later.
pub(crate) fn on_demand() -> Config {
    Config { slot_ms: 0, finalize_after: 1, ..Config::default() }
}

impl Node {
    pub(crate) fn start(config: &Config) -> Self {
        Self::run(localnet::open(config).expect("the ledger opens"))
    }

    pub(crate) fn run(localnet: Localnet) -> Self {
        Self::run_with(localnet, Vec::new())
    }

    /// Runs a ledger that sends its events to `sinks` as well, before this node sees them.
    pub(crate) fn run_with(localnet: Localnet, mut sinks: Vec<Box<dyn EventSink>>) -> Self {
        let (send, events) = sync_channel(100_000);
        sinks.push(Box::new(Sink(send)));
        Self {
            transaction_sender: localnet.transaction_sender(),
            bundle_sender: localnet.bundle_sender(),
            simulator: localnet.simulator(),
            faucet: localnet.faucet(),
            forks: localnet.fork_control(),
            control: localnet.control(),
            queue: Arc::clone(localnet.queue()),
            account_bytes: Arc::clone(localnet.account_bytes()),
            reader: localnet.reader().clone(),
            history: Arc::clone(localnet.history()),
            cluster_info: localnet.cluster_info().clone(),
            inflation: localnet.inflation().clone(),
            vote_account: localnet.vote_account(),
            faucet_pubkey: localnet.faucet_pubkey(),
            events,
            handle: Some(localnet.start(sinks).expect("the ledger starts")),
        }
    }

    pub(crate) fn stop(mut self) {
        let handle = self.handle.take().expect("a node is stopped once");
        handle.stop().expect("the ledger ends well");
    }

    pub(crate) fn blockhash(&self) -> Hash {
        self.reader.view(Commitment::Processed).meta().last_blockhash()
    }

    pub(crate) fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.account_at(Commitment::Confirmed, key)
    }

    pub(crate) fn account_at(&self, at: Commitment, key: &Pubkey) -> Option<Arc<Account>> {
        self.reader.view(at).record(&Address::from(key.to_bytes()))
    }

    pub(crate) fn lamports(&self, key: &Pubkey) -> u64 {
        self.account(key).map_or(0, |account| account.0.lamports())
    }

    /// Sends a transaction, and waits until its block is complete.
    pub(crate) fn send(&self, transaction: VersionedTransaction) -> Arc<ExecutedTransaction> {
        let verified = VerifiedTransaction::verify(transaction).expect("a good transaction");
        let signature = verified.signature();
        self.transaction_sender.send(CLIENT.into(), verified).expect("the queue has space");
        self.confirmed(&signature)
    }

    pub(crate) fn send_bundle(&self, transactions: Vec<VersionedTransaction>) -> BundleCall {
        let verify = |one| VerifiedTransaction::verify(one).expect("a good transaction");
        let transactions = transactions.into_iter().map(verify).collect();
        self.bundle_sender.send_bundle(CLIENT.into(), transactions).expect("the queue has space")
    }

    /// Sends a transaction that must not get into a block. An airdrop to `fence` ends the wait.
    pub(crate) fn send_in_vain(&self, transaction: VersionedTransaction, fence: &Keypair) {
        let verified = VerifiedTransaction::verify(transaction).expect("a good transaction");
        let signature = verified.signature();
        let before =
            self.history.snapshot().transaction(&signature, Commitment::Processed).cloned();
        self.transaction_sender.send(CLIENT.into(), verified).expect("the queue has space");
        self.airdrop(&fence.pubkey(), 1_000_000);
        let after = self.history.snapshot().transaction(&signature, Commitment::Processed).cloned();
        assert_eq!(before.map(|e| e.slot), after.map(|e| e.slot), "{signature} was executed");
    }

    pub(crate) fn airdrop(&self, to: &Pubkey, lamports: u64) -> Arc<ExecutedTransaction> {
        let signature = self
            .faucet
            .airdrop(CLIENT.into(), *to, lamports, self.blockhash())
            .expect("an airdrop");
        self.confirmed(&signature)
    }

    /// Waits until the executing thread has ended what it does, and drops all events of it.
    pub(crate) fn settle(&self) {
        let unknown = self.forks.revert(CLIENT, u64::MAX).wait();
        assert!(unknown.is_err(), "no snapshot has this id");
        self.drop_events();
    }

    pub(crate) fn confirmed(&self, signature: &Signature) -> Arc<ExecutedTransaction> {
        let block = self.completed(|block| {
            block.transactions.iter().any(|executed| executed.signature() == *signature)
        });
        let found = block.transactions.iter().find(|executed| executed.signature() == *signature);
        Arc::clone(found.expect("it was just found"))
    }

    /// Waits until a transaction is executed.
    pub(crate) fn executed(&self, signature: &Signature) {
        self.count_executed_before(signature);
    }

    /// Waits until a transaction is executed. Returns the number of others that were executed before it, without votes,
    /// since the last event that a test has seen.
    pub(crate) fn count_executed_before(&self, signature: &Signature) -> usize {
        let mut count = 0;
        loop {
            let event =
                self.events.recv_timeout(EVENT_TIMEOUT).expect("an event before the timeout");
            let LedgerEvent::Executed(executed) = event else { continue };
            if executed[0].signature() == *signature {
                return count;
            }
            count += usize::from(!executed[0].is_vote);
        }
    }

    /// Drops the events so far.
    pub(crate) fn drop_events(&self) {
        while self.events.try_recv().is_ok() {}
    }

    /// Waits until the block of a slot is open.
    pub(crate) fn opened(&self, expected: ledger::Slot) {
        loop {
            let event =
                self.events.recv_timeout(EVENT_TIMEOUT).expect("an event before the timeout");
            if matches!(event, LedgerEvent::BankCreated { block, .. } if block.slot == expected) {
                return;
            }
        }
    }

    /// The next completed block for which `is_match` holds.
    pub(crate) fn completed(&self, is_match: impl Fn(&Block) -> bool) -> Arc<Block> {
        loop {
            let event =
                self.events.recv_timeout(EVENT_TIMEOUT).expect("an event before the timeout");
            if let LedgerEvent::Confirmed { block, .. } = event
                && is_match(&block)
            {
                return block;
            }
        }
    }
}

pub(crate) fn signed(
    instructions: &[Instruction],
    signers: &[&Keypair],
    blockhash: &Hash,
) -> VersionedTransaction {
    let payer = signers[0].pubkey();
    let message = Message::new_with_blockhash(instructions, Some(&payer), blockhash);
    VersionedTransaction::try_new(VersionedMessage::Legacy(message), signers).expect("signers fit")
}
