//! From the queue to the ledger: repetitions dropped, shapes and signatures checked, in batches, on
//! threads of their own.
//!
//! Shape: a thread takes a batch, cheapest checks first: repeated → plausible → decoded → executed
//! already → signatures → the ledger's door → the relay, if there is one.
//! Bounds: one batch of 64 for each thread. While the ledger's queue is full a thread waits with what it
//! has, so that the fair queue in front fills up and decides who is refused; after `hand_over_ms` it is
//! refused itself.
//! Invariant: what is taken from the queue is accepted or counted under a cause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chain::{History, SendError, TransactionDoor, VerifiedTransaction, VerifyError};
use solana_transaction::versioned::VersionedTransaction;

use crate::clock;
use crate::config::Config;
use crate::counters::{Cause, Counters, Step, Steps};
use crate::dedup::Recent;
use crate::queue::FairQueue;
use crate::received::Received;
use crate::relay::Relay;
use crate::sanitize::is_plausible;

/// Transactions that a thread takes at once.
const BATCH: usize = 64;
/// How long a thread waits for work before it looks around.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long it waits before it asks a full ledger again.
const ASK_AGAIN: Duration = Duration::from_millis(1);

/// What all threads share.
struct Shared {
    config: Arc<Config>,
    queue: Arc<FairQueue>,
    counters: Arc<Counters>,
    recent: Recent,
    door: Arc<dyn TransactionDoor>,
    history: Option<Arc<History>>,
    relay: Option<Arc<Relay>>,
    is_ending: AtomicBool,
}

/// The threads between the queue and the ledger.
pub struct Stages {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Stages {
    /// Starts `config.verify_threads` of them.
    ///
    /// `history` says what has been executed already; `relay` gets what the ledger took.
    /// Errors: the system gives no more threads.
    pub fn start(
        config: Arc<Config>,
        queue: Arc<FairQueue>,
        counters: Arc<Counters>,
        door: Arc<dyn TransactionDoor>,
        history: Option<Arc<History>>,
        relay: Option<Arc<Relay>>,
    ) -> std::io::Result<Self> {
        let repeat = Duration::from_millis(config.repeat_ms);
        let shared = Arc::new(Shared {
            recent: Recent::new(config.repeats_max, repeat, clock::now()),
            queue,
            counters,
            door,
            history,
            relay,
            is_ending: AtomicBool::new(false),
            config,
        });
        let mut stages = Self { shared, threads: Vec::new() };
        for number in 0..stages.shared.config.verify_threads {
            let shared = Arc::clone(&stages.shared);
            let thread = std::thread::Builder::new().name(format!("verify-{number}"));
            // What was started ends with `stages` if this one does not start.
            stages.threads.push(thread.spawn(move || shared.run())?);
        }
        Ok(stages)
    }
}

impl Drop for Stages {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        self.shared.queue.close();
        for thread in self.threads.drain(..) {
            // A panic of it has been told by its hook already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.queue.pop(&mut batch, BATCH, PATIENCE) {
            let mut watch = Watch::start();
            self.recent.turn_over(watch.began);
            for received in batch.drain(..) {
                if let Err(cause) = self.handle(&received, &mut watch) {
                    self.counters.refuse(cause);
                }
            }
            self.counters.took(&watch.steps);
        }
    }

    /// All the way of one transaction.
    fn handle(&self, received: &Received, watch: &mut Watch) -> Result<(), Cause> {
        let mark = self.recent.insert(&received.bytes);
        watch.ended(Step::Repeated);
        let mark = mark.ok_or(Cause::Repeated)?;
        let checked = self.check(&received.bytes, watch);
        let handed_over = checked.and_then(|verified| {
            let blockhash = *verified.transaction().message.recent_blockhash();
            self.hand_over(verified).map(|()| blockhash)
        });
        let outcome = match handed_over {
            Ok(blockhash) => {
                let now = clock::now();
                self.counters.accept(now.saturating_duration_since(received.since));
                if let Some(relay) = &self.relay {
                    relay.offer(&received.bytes, blockhash, now);
                }
                Ok(())
            }
            Err(cause) => {
                // Refused for want of room, it may come again; what is wrong stays wrong.
                if matches!(cause, Cause::LedgerFull | Cause::Closed) {
                    self.recent.forget(mark);
                }
                Err(cause)
            }
        };
        watch.ended(Step::HandOver);
        outcome
    }

    fn check(&self, bytes: &[u8], watch: &mut Watch) -> Result<VerifiedTransaction, Cause> {
        let decoded = decode(bytes);
        watch.ended(Step::Shape);
        let transaction = decoded.ok_or(Cause::Malformed)?;
        let is_executed = match (&self.history, transaction.signatures.first()) {
            (Some(history), Some(signature)) => history.snapshot().transaction(signature).is_some(),
            _ => false,
        };
        watch.ended(Step::Executed);
        if is_executed {
            return Err(Cause::Executed);
        }
        let verified = VerifiedTransaction::verify(transaction).map_err(|err| match err {
            VerifyError::Sanitize(_) => Cause::Malformed,
            VerifyError::Signature => Cause::Signature,
        });
        watch.ended(Step::Signatures);
        verified
    }

    /// Waits for room in the ledger's queue, for a while.
    fn hand_over(&self, verified: VerifiedTransaction) -> Result<(), Cause> {
        let mut asked: Option<Instant> = None;
        let patience = Duration::from_millis(self.config.hand_over_ms);
        loop {
            // A copy costs a hundredth of the check, and a full queue takes what it is given with it.
            match self.door.send(verified.clone()) {
                Ok(()) => return Ok(()),
                Err(SendError::Closed) => return Err(Cause::Closed),
                Err(SendError::QueueFull { .. }) => {}
            }
            let now = clock::now();
            let since = *asked.get_or_insert(now);
            if now.saturating_duration_since(since) >= patience
                || self.is_ending.load(Ordering::Relaxed)
            {
                return Err(Cause::LedgerFull);
            }
            std::thread::park_timeout(ASK_AGAIN);
        }
    }
}

fn decode(bytes: &[u8]) -> Option<VersionedTransaction> {
    is_plausible(bytes).then(|| wincode::deserialize_exact(bytes).ok())?
}

/// Where a batch's time goes: one look at the clock a step.
struct Watch {
    began: Instant,
    last: Instant,
    steps: Steps,
}

impl Watch {
    fn start() -> Self {
        let now = clock::now();
        Self { began: now, last: now, steps: Steps::default() }
    }

    fn ended(&mut self, step: Step) {
        let now = clock::now();
        self.steps.add(step, now.saturating_duration_since(self.last));
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use chain::{AirdropError, Simulation, SimulationError, SimulationRequest, View};
    use parking_lot::Mutex;
    use solana_hash::Hash;
    use solana_keypair::Keypair;
    use solana_message::{Message, VersionedMessage};
    use solana_pubkey::Pubkey;
    use solana_signature::Signature;
    use solana_signer::Signer;

    use super::*;
    use crate::received::{Outlet, PeerId};

    /// A ledger that has room for so many.
    struct Room(Mutex<usize>);

    impl TransactionDoor for Room {
        fn send(&self, _: VerifiedTransaction) -> Result<(), SendError> {
            let mut room = self.0.lock();
            if *room == 0 {
                return Err(SendError::QueueFull { queued: 0, limit: 0 });
            }
            *room -= 1;
            Ok(())
        }

        fn simulate(&self, _: &View, _: SimulationRequest) -> Result<Simulation, SimulationError> {
            Err(SimulationError::Panicked)
        }

        fn airdrop(&self, _: Pubkey, _: u64, _: Hash) -> Result<Signature, AirdropError> {
            Err(SendError::Closed.into())
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

    /// Puts transactions through, and says what was counted.
    fn run(room: usize, transactions: Vec<Vec<u8>>) -> (u64, Vec<(&'static str, u64)>) {
        let config = Arc::new(Config { hand_over_ms: 5, ..Config::default() });
        let counters = Arc::<Counters>::default();
        let queue = Arc::new(FairQueue::new(1_000, Arc::clone(&counters)));
        let since = clock::now();
        let mut batch: Vec<_> = transactions
            .into_iter()
            .map(|bytes| Received { bytes: Bytes::from(bytes), peer: PeerId(0), since })
            .collect();
        queue.take(&mut batch);
        let door = Arc::new(Room(Mutex::new(room)));
        queue.close();
        let stages = Stages::start(config, queue, Arc::clone(&counters), door, None, None);
        for thread in stages.expect("threads").threads.drain(..) {
            thread.join().expect("no panic");
        }
        let figures = counters.figures();
        let causes = figures.causes().collect();
        (figures.accepted, causes)
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
    fn a_full_ledger_refuses_after_a_while_and_forgets_that_it_saw_it() {
        let one = transfer(1);
        assert_eq!(run(1, vec![one, transfer(2)]), (1, vec![("ledger_full", 1)]));
        let two = transfer(2);
        assert_eq!(run(0, vec![two.clone(), two]), (0, vec![("ledger_full", 2)]));
    }
}
