//! From the fair queue to the ledger: threads drop duplicates and check shapes and signatures, in
//! batches.
//!
//! Shape: a thread pops a batch and runs the cheapest checks first: duplicate → plausible → decoded
//! → executed already → signatures → the ledger's transaction service → the forwarder, if there is
//! one.
//! Bounds: one batch of 64 for each thread, and [`PENDING_MAX`] checked transactions that wait for
//! the ledger's queue, about 4 KiB each. While a transaction of a client is pending, no more of
//! that client are popped, so the fair queue fills up and decides which of them are refused. Transactions of
//! other clients continue. After `hand_over_ms` a pending transaction is refused.
//! Invariant: every popped transaction is accepted or counted under a cause. The pending
//! transactions of one client stay in order within a thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chain_solana::{
    History, SendError, Sender, TransactionSender, VerifiedTransaction, VerifyError,
};
use clients::ClientId;
use ledger::Commitment;
use solana_transaction::versioned::VersionedTransaction;

use crate::clock;
use crate::config::Config;
use crate::counters::{Counters, DropReason, VerifyStep, VerifyStepTimes};
use crate::dedup::DedupFilter;
use crate::fair_queue::FairQueue;
use crate::forwarder::Forwarder;
use crate::sanitize::precheck;
use crate::transaction::ReceivedTransaction;

/// Transactions that a thread pops at once.
const BATCH: usize = 64;
/// Maximum time that a thread waits for transactions.
const POP_TIMEOUT: Duration = Duration::from_millis(100);
/// Transactions of a thread that may wait for the ledger's queue.
const PENDING_MAX: usize = 1_024;
/// Delay before a full ledger is tried again.
const LEDGER_RETRY_BACKOFF: Duration = Duration::from_millis(1);

/// State that all threads share.
struct Shared {
    config: Arc<Config>,
    queue: Arc<FairQueue>,
    counters: Arc<Counters>,
    dedup: DedupFilter,
    transaction_sender: Arc<dyn TransactionSender>,
    history: Option<Arc<History>>,
    forwarder: Option<Arc<Forwarder>>,
    is_ending: AtomicBool,
}

/// The threads between the fair queue and the ledger.
pub struct SigVerifyStage {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl SigVerifyStage {
    /// Starts `config.verify_threads` threads.
    ///
    /// `history` has the executed transactions; `forwarder` gets the transactions that the ledger
    /// accepted.
    /// Errors: the system has no more threads.
    pub fn start(
        config: Arc<Config>,
        queue: Arc<FairQueue>,
        counters: Arc<Counters>,
        transaction_sender: Arc<dyn TransactionSender>,
        history: Option<Arc<History>>,
        forwarder: Option<Arc<Forwarder>>,
    ) -> std::io::Result<Self> {
        let repeat = Duration::from_millis(config.repeat_ms);
        let shared = Arc::new(Shared {
            dedup: DedupFilter::new(config.repeats_max, repeat, clock::now()),
            queue,
            counters,
            transaction_sender,
            history,
            forwarder,
            is_ending: AtomicBool::new(false),
            config,
        });
        let mut stages = Self { shared, threads: Vec::new() };
        for number in 0..stages.shared.config.verify_threads {
            let shared = Arc::clone(&stages.shared);
            let thread = std::thread::Builder::new().name(format!("verify-{number}"));
            // If this thread does not start, dropping `stages` stops the others.
            stages.threads.push(thread.spawn(move || shared.run())?);
        }
        Ok(stages)
    }
}

impl Drop for SigVerifyStage {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        self.shared.queue.close();
        for thread in self.threads.drain(..) {
            // The panic hook has logged a panic already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut pending = VecDeque::new();
        loop {
            let is_open = self.pop(&mut batch, &pending);
            if !is_open && pending.is_empty() {
                return;
            }
            let mut timer = StageTimer::start();
            self.dedup.rotate(timer.started_at);
            // The oldest are sent first.
            self.hand_over_pending(&mut pending, timer.started_at);
            timer.record_step(VerifyStep::HandOver);
            for (received, sender) in batch.drain(..) {
                if let Err(cause) = self.handle(received, sender, &mut pending, &mut timer) {
                    self.counters.refuse(cause);
                }
            }
            self.counters.record_steps(&timer.steps);
        }
    }

    /// Pops a batch of clients without pending transactions. Returns `false` once there will be no
    /// more.
    fn pop(
        &self,
        batch: &mut Vec<(ReceivedTransaction, Sender)>,
        pending: &VecDeque<CheckedTransaction>,
    ) -> bool {
        if pending.is_empty() {
            return self.queue.pop(batch, BATCH, POP_TIMEOUT);
        }
        let mut full: Vec<ClientId> = pending.iter().map(|checked| checked.sender.client).collect();
        full.sort_unstable();
        full.dedup();
        let capacity = BATCH.min(PENDING_MAX.saturating_sub(pending.len()));
        let is_open = self.queue.pop_except(batch, capacity, &full);
        if batch.is_empty() {
            std::thread::park_timeout(LEDGER_RETRY_BACKOFF);
        }
        is_open
    }

    /// Checks one transaction and sends it to the ledger, or adds it to `pending`.
    fn handle(
        &self,
        received: ReceivedTransaction,
        sender: Sender,
        pending: &mut VecDeque<CheckedTransaction>,
        timer: &mut StageTimer,
    ) -> Result<(), DropReason> {
        let fingerprint = self.dedup.insert(&received.bytes);
        timer.record_step(VerifyStep::Repeated);
        let fingerprint = fingerprint.ok_or(DropReason::Repeated)?;
        let verified = self.check(&received.bytes, timer)?;
        let checked = CheckedTransaction {
            verified,
            received,
            sender,
            fingerprint,
            since: timer.last_step_at,
        };
        let is_overtaking = pending.iter().any(|other| other.sender.client == sender.client);
        let result =
            if is_overtaking { Err(HandOverError::Full) } else { self.hand_over(&checked) };
        timer.record_step(VerifyStep::HandOver);
        match result {
            Ok(()) => Ok(()),
            Err(HandOverError::Full) => {
                pending.push_back(checked);
                Ok(())
            }
            Err(HandOverError::Closed) => Err(DropReason::Closed),
        }
    }

    /// Sends pending transactions again, and refuses those that have waited too long.
    fn hand_over_pending(&self, pending: &mut VecDeque<CheckedTransaction>, now: Instant) {
        let timeout = Duration::from_millis(self.config.hand_over_ms);
        let is_ending = self.is_ending.load(Ordering::Relaxed);
        // Clients with a full share: their other transactions are not tried.
        let mut full: Vec<ClientId> = Vec::new();
        for checked in std::mem::take(pending) {
            let client = checked.sender.client;
            let tried = if full.contains(&client) {
                Err(HandOverError::Full)
            } else {
                self.hand_over(&checked)
            };
            match tried {
                Ok(()) => {}
                Err(HandOverError::Closed) => self.counters.refuse(DropReason::Closed),
                Err(HandOverError::Full) => {
                    if is_ending || now.saturating_duration_since(checked.since) >= timeout {
                        // The client may send it again.
                        self.dedup.forget(checked.fingerprint);
                        self.counters.refuse(DropReason::LedgerFull);
                    } else {
                        full.push(client);
                        pending.push_back(checked);
                    }
                }
            }
        }
    }

    /// Sends a transaction to the ledger.
    fn hand_over(&self, checked: &CheckedTransaction) -> Result<(), HandOverError> {
        let CheckedTransaction { verified, received, sender, fingerprint, .. } = checked;
        // A copy costs a hundredth of the verification, and a full queue drops refused transactions.
        match self.transaction_sender.send(*sender, verified.clone()) {
            Ok(()) => {}
            Err(SendError::QueueFull { .. } | SendError::UpstreamBusy { .. }) => {
                return Err(HandOverError::Full);
            }
            Err(SendError::NoLeader | SendError::NoUpstream | SendError::Closed) => {
                self.dedup.forget(*fingerprint);
                return Err(HandOverError::Closed);
            }
        }
        let now = clock::now();
        self.counters.accept(now.saturating_duration_since(received.since));
        if let Some(forwarder) = &self.forwarder {
            let blockhash = *verified.transaction().message.recent_blockhash();
            forwarder.forward(&received.bytes, blockhash, now);
        }
        Ok(())
    }

    fn check(
        &self,
        bytes: &[u8],
        timer: &mut StageTimer,
    ) -> Result<VerifiedTransaction, DropReason> {
        let decoded = decode(bytes);
        timer.record_step(VerifyStep::Shape);
        let transaction = decoded.ok_or(DropReason::Malformed)?;
        let is_executed = match (&self.history, transaction.signatures.first()) {
            (Some(history), Some(signature)) => {
                history.snapshot().transaction(signature, Commitment::Processed).is_some()
            }
            _ => false,
        };
        timer.record_step(VerifyStep::Executed);
        if is_executed {
            return Err(DropReason::Executed);
        }
        let verified = VerifiedTransaction::verify(transaction).map_err(|err| match err {
            VerifyError::Sanitize(_) => DropReason::Malformed,
            VerifyError::Signature => DropReason::Signature,
        });
        timer.record_step(VerifyStep::Signatures);
        verified
    }
}

/// A verified transaction that is not in the ledger's queue yet.
struct CheckedTransaction {
    verified: VerifiedTransaction,
    received: ReceivedTransaction,
    sender: Sender,
    /// Its fingerprint in the dedup filter.
    fingerprint: u64,
    /// Time at which its verification finished.
    since: Instant,
}

/// Why the ledger did not accept a transaction.
enum HandOverError {
    /// The queue of the ledger is full.
    Full,
    /// The transaction service has ended.
    Closed,
}

fn decode(bytes: &[u8]) -> Option<VersionedTransaction> {
    precheck(bytes).then(|| wincode::deserialize_exact(bytes).ok())?
}

/// Measures the time of each step; one clock read a step.
struct StageTimer {
    started_at: Instant,
    last_step_at: Instant,
    steps: VerifyStepTimes,
}

impl StageTimer {
    fn start() -> Self {
        let now = clock::now();
        Self { started_at: now, last_step_at: now, steps: VerifyStepTimes::default() }
    }

    fn record_step(&mut self, step: VerifyStep) {
        let now = clock::now();
        self.steps.add(step, now.saturating_duration_since(self.last_step_at));
        self.last_step_at = now;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use chain_solana::QueueBound;
    use parking_lot::Mutex;
    use solana_keypair::Keypair;
    use solana_message::{Message, VersionedMessage};
    use solana_pubkey::Pubkey;
    use solana_signature::Signature;
    use solana_signer::Signer;

    use super::*;
    use crate::transaction::{PeerId, TransactionSink};

    /// A ledger that accepts `left` transactions, and none of `full_for`.
    struct BoundedLedger {
        left: Mutex<usize>,
        full_for: Option<ClientId>,
        taken: Mutex<Vec<(Sender, Signature)>>,
    }

    impl BoundedLedger {
        fn new(left: usize) -> Self {
            Self { left: Mutex::new(left), full_for: None, taken: Mutex::default() }
        }
    }

    impl TransactionSender for BoundedLedger {
        fn send(&self, sender: Sender, transaction: VerifiedTransaction) -> Result<(), SendError> {
            let mut left = self.left.lock();
            if *left == 0 || self.full_for == Some(sender.client) {
                let bound = QueueBound::ClientTransactions;
                return Err(SendError::QueueFull { bound, queued: 0, limit: 0 });
            }
            *left -= 1;
            self.taken.lock().push((sender, transaction.signature()));
            Ok(())
        }
    }

    fn transfer(lamports: u64) -> Vec<u8> {
        let payer = Keypair::new();
        let to = Pubkey::new_from_array([3; 32]);
        let transfer =
            solana_system_interface::instruction::transfer(&payer.pubkey(), &to, lamports);
        let message = Message::new(&[transfer], Some(&payer.pubkey()));
        let transaction =
            VersionedTransaction::try_new(VersionedMessage::Legacy(message), &[&payer]);
        wincode::serialize(&transaction.expect("signed")).expect("fits")
    }

    /// Runs transactions through a stage. Returns the counts.
    fn run(capacity: usize, transactions: Vec<Vec<u8>>) -> (u64, Vec<(&'static str, u64)>) {
        let config = Arc::new(Config { hand_over_ms: 5, ..Config::default() });
        let counters = Arc::<Counters>::default();
        let queue = Arc::new(FairQueue::new(1_000, Arc::clone(&counters)));
        let since = clock::now();
        let mut batch: Vec<_> = transactions
            .into_iter()
            .map(|bytes| ReceivedTransaction { bytes: Bytes::from(bytes), peer: PeerId(0), since })
            .collect();
        queue.push_batch(&mut batch);
        let transaction_sender = Arc::new(BoundedLedger::new(capacity));
        queue.close();
        let stages = SigVerifyStage::start(
            config,
            queue,
            Arc::clone(&counters),
            transaction_sender,
            None,
            None,
        );
        for thread in stages.expect("threads").threads.drain(..) {
            thread.join().expect("no panic");
        }
        let metrics = counters.snapshot();
        let causes = metrics.drop_reasons().collect();
        (metrics.accepted, causes)
    }

    #[test]
    fn every_transaction_is_accepted_or_counted() {
        let good = transfer(1);
        let mut unsigned = transfer(2);
        unsigned[1] ^= 1;
        let mut longer = transfer(3);
        longer.push(0);
        let garbage = vec![7; 300];
        let all = vec![good.clone(), good.clone(), unsigned, longer, garbage, good, transfer(4)];
        let refused = vec![("repeated", 2), ("malformed", 2), ("signature", 1)];
        assert_eq!(run(100, all), (2, refused));
    }

    #[test]
    fn a_full_ledger_refuses_after_a_timeout_and_the_transaction_may_be_sent_again() {
        let one = transfer(1);
        assert_eq!(run(1, vec![one, transfer(2)]), (1, vec![("ledger_full", 1)]));
        // A duplicate is refused while the transaction waits. After a refusal it may be sent again.
        let config = Arc::new(Config { hand_over_ms: 5, ..Config::default() });
        let counters = Arc::<Counters>::default();
        let queue = Arc::new(FairQueue::new(1_000, Arc::clone(&counters)));
        let transaction_sender = Arc::new(BoundedLedger::new(0));
        let sink = Arc::clone(&queue);
        let stages = SigVerifyStage::start(
            config,
            queue,
            Arc::clone(&counters),
            transaction_sender,
            None,
            None,
        );
        let stages = stages.expect("threads");
        let bytes = transfer(2);
        let deadline = clock::now() + Duration::from_secs(60);
        for refused in 1..=2 {
            let bytes = Bytes::from(bytes.clone());
            sink.push_batch(&mut vec![ReceivedTransaction {
                bytes,
                peer: PeerId(0),
                since: clock::now(),
            }]);
            while counters.snapshot().count_refused(DropReason::LedgerFull) < refused {
                assert!(clock::now() < deadline, "it is not refused");
                std::thread::yield_now();
            }
        }
        drop(stages);
        assert_eq!(counters.snapshot().count_refused(DropReason::Repeated), 0);
    }

    #[test]
    fn one_clients_pending_transactions_do_not_delay_others() {
        let [flood, other] = [1, 2].map(ClientId);
        let config = Arc::new(Config { hand_over_ms: 86_400_000, ..Config::default() });
        let counters = Arc::<Counters>::default();
        let queue = Arc::new(FairQueue::new(1_000, Arc::clone(&counters)));
        let transaction_sender =
            Arc::new(BoundedLedger { full_for: Some(flood), ..BoundedLedger::new(1_000) });
        let stages = SigVerifyStage::start(
            config,
            Arc::clone(&queue),
            Arc::clone(&counters),
            Arc::clone(&transaction_sender) as Arc<dyn TransactionSender>,
            None,
            None,
        );
        let stages = stages.expect("threads");
        let put = |peer: u32, client: ClientId, lamports: std::ops::Range<u64>| -> Vec<Signature> {
            queue.set_peer_weight(PeerId(peer), client.into());
            let mut batch = Vec::new();
            let mut signatures = Vec::new();
            for lamports in lamports {
                let bytes = transfer(lamports);
                signatures.push(decode(&bytes).expect("a transaction").signatures[0]);
                batch.push(ReceivedTransaction {
                    bytes: Bytes::from(bytes),
                    peer: PeerId(peer),
                    since: clock::now(),
                });
            }
            queue.push_batch(&mut batch);
            signatures
        };
        put(0, flood, 1..300);
        let expected = put(1, other, 100..110);
        let deadline = clock::now() + Duration::from_secs(60);
        while transaction_sender.taken.lock().len() < expected.len() && clock::now() < deadline {
            std::thread::yield_now();
        }
        let taken = std::mem::take(&mut *transaction_sender.taken.lock());
        // In order, and counted for the client that sent them.
        let expected: Vec<_> = expected.into_iter().map(|one| (Sender::from(other), one)).collect();
        assert_eq!(taken, expected);
        drop(stages);
        let metrics = counters.snapshot();
        let all = 299 + metrics.accepted;
        let refused: u64 = metrics.drop_reasons().map(|(_, count)| count).sum();
        assert_eq!(
            refused + metrics.accepted,
            all,
            "a stop does not wait, and counts what is pending"
        );
    }
}
