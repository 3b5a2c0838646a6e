//! The queue in front of the executing thread: what was taken and is not executed yet.
//!
//! In: verified transactions of any thread, refused at once if there is no room. Out: one by one, to the one thread
//! that executes them, fairly among clients (`round_robin`).
//! Bounds: `queue_max` transactions and `queue_compute_units_max` compute units that they ask for, of which a client
//! and a fee payer have a share.
//! Invariant: each transaction that was taken is executed, or counted as dropped once the queue is closed.

mod cost;
mod round_robin;
#[cfg(test)]
mod simulation;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use chain_solana::{QueueBound, SendError, Sender, VerifiedTransaction};
use parking_lot::{Condvar, Mutex};
use solana_pubkey::Pubkey;

pub(crate) use round_robin::Limits;
pub use round_robin::Load;
use round_robin::{Refusal, RoundRobin};

/// The queue, as all threads share it.
pub struct TransactionQueue {
    inner: Mutex<Inner>,
    arrived: Condvar,
    /// By [`QueueBound::ALL`].
    refused: [AtomicU64; QueueBound::ALL.len()],
    dropped: AtomicU64,
}

struct Inner {
    waiting: RoundRobin<VerifiedTransaction>,
    is_closed: bool,
    /// The executing thread waits for something to come.
    is_awaited: bool,
}

/// What waits in the queue, and what became of the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// All that waits.
    pub waiting: Load,
    /// How many clients have something waiting.
    pub clients: usize,
    /// The most that one client has waiting, of each quantity by itself.
    pub largest_client: Load,
    /// How many transactions were refused at each bound, in the order of [`QueueBound::ALL`].
    pub refused: [u64; QueueBound::ALL.len()],
    /// How many waited when the ledger ended, and were not executed.
    pub dropped: u64,
}

/// What the executing thread finds in the queue.
pub(crate) enum Next {
    /// Execute this.
    Execute(VerifiedTransaction),
    /// Nothing waits.
    Empty,
    /// The ledger is to end.
    Closed,
}

impl TransactionQueue {
    pub(crate) fn new(limits: Limits) -> Self {
        let waiting = RoundRobin::new(limits);
        Self {
            inner: Mutex::new(Inner { waiting, is_closed: false, is_awaited: false }),
            arrived: Condvar::new(),
            refused: Default::default(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Puts a transaction behind those of the same client and `payer`.
    pub(crate) fn send(
        &self,
        sender: Sender,
        payer: Pubkey,
        transaction: VerifiedTransaction,
    ) -> Result<(), SendError> {
        let load = Load {
            transactions: 1,
            compute_units: cost::compute_units(transaction.transaction()).into(),
            bytes: transaction.memory_bytes() as u64,
        };
        let mut inner = self.inner.lock();
        if inner.is_closed {
            return Err(SendError::Closed);
        }
        let pushed = inner.waiting.push(sender, payer, load, transaction);
        let wakes = pushed.is_ok() && inner.is_awaited;
        drop(inner);
        if wakes {
            self.arrived.notify_one();
        }
        pushed.map_err(|Refusal { bound, queued, limit }| {
            self.refused[bound as usize].fetch_add(1, Ordering::Relaxed);
            tracing::debug!(client = %sender.client, ?bound, queued, limit, "transaction refused");
            SendError::QueueFull { bound, queued, limit }
        })
    }

    /// Takes nothing more in and drops what waits; nothing was promised of it yet.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.is_closed = true;
            let limits = Limits { transactions: 0, compute_units: 0 };
            std::mem::replace(&mut inner.waiting, RoundRobin::new(limits))
        };
        self.arrived.notify_one();
        let Load { transactions, compute_units, .. } = waiting.load();
        self.dropped.fetch_add(transactions, Ordering::Relaxed);
        if transactions > 0 {
            tracing::warn!(
                transactions,
                compute_units,
                "the ledger ends: transactions that waited for execution are dropped"
            );
        }
    }

    /// What waits, and what became of the rest. Looks at every client that has something waiting.
    pub fn stats(&self) -> QueueStats {
        let inner = self.inner.lock();
        QueueStats {
            waiting: inner.waiting.load(),
            clients: inner.waiting.clients(),
            largest_client: inner.waiting.largest(),
            refused: self.refused.each_ref().map(|count| count.load(Ordering::Relaxed)),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}

/// The end of the queue that the executing thread has. Dropped, it closes the queue.
pub(crate) struct Receiver(Arc<TransactionQueue>);

impl Receiver {
    pub(crate) fn new(queue: Arc<TransactionQueue>) -> Self {
        Self(queue)
    }

    /// The next transaction, if one waits.
    pub(crate) fn try_next(&self) -> Next {
        self.0.inner.lock().next()
    }

    /// The next transaction; waits for one until then, or for ever.
    pub(crate) fn next(&self, until: Option<Instant>) -> Next {
        let mut inner = self.0.inner.lock();
        loop {
            match inner.next() {
                Next::Empty => {}
                next => return next,
            }
            inner.is_awaited = true;
            let is_late = match until {
                Some(until) => self.0.arrived.wait_until(&mut inner, until).timed_out(),
                None => {
                    self.0.arrived.wait(&mut inner);
                    false
                }
            };
            inner.is_awaited = false;
            if is_late {
                return inner.next();
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Inner {
    fn next(&mut self) -> Next {
        if self.is_closed {
            return Next::Closed;
        }
        self.waiting.pop().map_or(Next::Empty, Next::Execute)
    }
}
