//! The queue in front of the executing thread: accepted transactions that are not executed yet.
//!
//! In: verified transactions and bundles of them from any thread, refused at once if the queue is full. Out: one at a
//! time to the executing thread, fairly among clients (`round_robin`). Calls (`control_queue`) come before waiting
//! transactions, but each has a price: the compute units that the executing thread could have executed meanwhile.
//! Transactions of that price are executed before the next call.
//! Bounds: `queue_max` transactions, and `queue_compute_units_max` compute units that they request. A client and a fee
//! payer have a share of both. Calls have bounds of their own.
//! Invariant: every accepted transaction is executed, or counted as dropped once the queue is closed. Every call gets a
//! reply.

mod control_queue;
mod cost;
mod retry_counters;
mod round_robin;
#[cfg(test)]
mod simulation;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chain_solana::{
    BundleCall, BundleReply, BundleSender, QueueBound, SendError, Sender, TransactionSender,
    VerifiedTransaction, pending,
};
use clients::ClientId;
use parking_lot::{Condvar, Mutex};
use solana_pubkey::Pubkey;

use control_queue::ControlQueue;
pub use control_queue::{CallKind, CallStats};
pub(crate) use control_queue::{CallRefusal, CommandRequest, ControlRequest, ForkRequest};
pub(crate) use retry_counters::RetryCounters;
pub use retry_counters::RetryStats;
pub(crate) use round_robin::Limits;
pub use round_robin::QueuedLoad;
use round_robin::{Refusal, RoundRobin, UNITS_MAX};

/// Compute units of compiling a byte of code: 10 MB take up to 60 ms, in which the executing thread executes about
/// 50,000,000 units.
const CODE_BYTE_UNITS: u64 = 5;

/// Compute units that the executing thread executes in a microsecond, about.
const UNITS_PER_US: u128 = 800;

/// The queue, shared by all threads.
pub struct TransactionQueue {
    inner: Mutex<Inner>,
    /// Compute units that each transaction may use, whatever it requests.
    compute_unit_limit: Option<u64>,
    arrived: Condvar,
    /// By [`QueueBound::ALL`].
    refused: [AtomicU64; QueueBound::ALL.len()],
    dropped: AtomicU64,
    code_surcharge_units: AtomicU64,
    retries: Arc<RetryCounters>,
}

struct Inner {
    waiting: RoundRobin<QueueItem>,
    calls: ControlQueue,
    /// Compute units of transactions that are executed before the next call.
    owed_units: i64,
    is_closed: bool,
    /// The executing thread waits for a transaction or a call.
    is_awaited: bool,
}

/// Waiting transactions, and counts of refused and dropped ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// All waiting transactions.
    pub waiting: QueuedLoad,
    /// Number of clients with waiting transactions.
    pub clients: usize,
    /// The largest load of one client, for each quantity separately.
    pub largest_client: QueuedLoad,
    /// Transactions refused at each bound, in the order of [`QueueBound::ALL`].
    pub refused: [u64; QueueBound::ALL.len()],
    /// Transactions that waited when the ledger ended, and were not executed.
    pub dropped: u64,
    /// Compute units that transactions cost in addition because code had to be compiled for them, since the start.
    pub code_surcharge_units: u64,
    /// The calls.
    pub calls: CallStats,
    /// The transactions that could not run yet.
    pub retries: RetryStats,
}

/// What the executing thread executes at once.
pub(crate) enum QueueItem {
    /// One transaction.
    Transaction(SentTransaction),
    /// All of these, or none.
    Bundle(Bundle),
}

/// A transaction and the client that sent it.
pub(crate) struct SentTransaction {
    pub(crate) sender: Sender,
    pub(crate) transaction: VerifiedTransaction,
    /// Whether it has paid for the code that has to be compiled for it.
    pub(crate) has_paid_for_code: bool,
    /// The height of the last block in which it is tried again, if it was tried before.
    pub(crate) retry_until: Option<u64>,
}

/// Transactions that are executed together, and where the result goes.
pub(crate) struct Bundle {
    pub(crate) sender: Sender,
    /// Whether it has paid for the code that has to be compiled for it.
    pub(crate) has_paid_for_code: bool,
    pub(crate) transactions: Vec<VerifiedTransaction>,
    pub(crate) reply: BundleReply,
}

/// The next item of the queue.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are transactions: a box is an allocation each"
)]
pub(crate) enum Popped {
    /// Execute this.
    Execute(QueueItem),
    /// Carry this out, then [charge](Receiver::charge_call) it.
    Call(ControlRequest),
    /// The queue is empty.
    Empty,
    /// The queue was closed.
    Closed,
}

impl TransactionQueue {
    pub(crate) fn new(limits: Limits, compute_unit_limit: Option<u64>) -> Self {
        let waiting = RoundRobin::new(limits);
        Self {
            inner: Mutex::new(Inner {
                waiting,
                calls: ControlQueue::default(),
                owed_units: 0,
                is_closed: false,
                is_awaited: false,
            }),
            compute_unit_limit,
            arrived: Condvar::new(),
            refused: Default::default(),
            dropped: AtomicU64::new(0),
            code_surcharge_units: AtomicU64::new(0),
            retries: Arc::default(),
        }
    }

    /// Appends a transaction to those of the same client and `payer`.
    pub(crate) fn push(
        &self,
        sender: Sender,
        payer: Pubkey,
        transaction: VerifiedTransaction,
    ) -> Result<(), SendError> {
        let load = self.measure_load(&transaction);
        let has_paid_for_code = false;
        let sent = SentTransaction { sender, transaction, has_paid_for_code, retry_until: None };
        self.push_item(sender, payer, load, QueueItem::Transaction(sent))
    }

    /// Appends a transaction that could not run before.
    pub(crate) fn push_again(&self, mut sent: SentTransaction) -> Result<(), SendError> {
        sent.has_paid_for_code = false;
        let load = self.measure_load(&sent.transaction);
        let payer = sent.transaction.fee_payer();
        self.push_item(sent.sender, payer, load, QueueItem::Transaction(sent))
    }

    /// Returns an item that was just taken to the front of the queue of its client and fee payer, where it
    /// costs as much more as compiling `code_bytes` does.
    pub(crate) fn requeue_for_code(&self, mut item: QueueItem, code_bytes: usize) {
        let (sender, payer, load) = match &mut item {
            QueueItem::Transaction(sent) => {
                sent.has_paid_for_code = true;
                let load = self.measure_load(&sent.transaction);
                (sent.sender, sent.transaction.fee_payer(), load)
            }
            QueueItem::Bundle(bundle) => {
                bundle.has_paid_for_code = true;
                let load = self.measure_bundle(&bundle.transactions);
                (bundle.sender, bundle_payer(&bundle.transactions), load)
            }
        };
        let surcharge = CODE_BYTE_UNITS * code_bytes as u64;
        self.code_surcharge_units.fetch_add(surcharge, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        if inner.is_closed {
            drop(inner);
            self.dropped.fetch_add(load.transactions, Ordering::Relaxed);
            return;
        }
        inner.waiting.push_front(sender, payer, load, surcharge, item);
    }

    /// The counters of the transactions that could not run yet.
    pub(crate) fn retries(&self) -> &Arc<RetryCounters> {
        &self.retries
    }

    fn push_item(
        &self,
        sender: Sender,
        payer: Pubkey,
        load: QueuedLoad,
        work: QueueItem,
    ) -> Result<(), SendError> {
        let mut inner = self.inner.lock();
        if inner.is_closed {
            return Err(SendError::Closed);
        }
        let pushed = inner.waiting.push(sender, payer, load, work);
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

    fn measure_load(&self, transaction: &VerifiedTransaction) -> QueuedLoad {
        let compute_units = match self.compute_unit_limit {
            Some(limit) => limit.min(UNITS_MAX.into()),
            None => cost::compute_units(transaction.transaction()).into(),
        };
        QueuedLoad { transactions: 1, compute_units, bytes: transaction.memory_bytes() as u64 }
    }

    fn measure_bundle(&self, transactions: &[VerifiedTransaction]) -> QueuedLoad {
        let mut load = QueuedLoad::default();
        transactions.iter().for_each(|transaction| load.add(self.measure_load(transaction)));
        load
    }

    /// Appends a call to those of the same client. A refused one gets the refusal as its result, too.
    pub(crate) fn push_call(
        &self,
        client: ClientId,
        call: ControlRequest,
    ) -> Result<(), CallRefusal> {
        let mut inner = self.inner.lock();
        let pushed = if inner.is_closed {
            Err((call, CallRefusal::Closed))
        } else {
            inner.calls.push(client, call)
        };
        let wakes = pushed.is_ok() && inner.is_awaited;
        drop(inner);
        if wakes {
            self.arrived.notify_one();
        }
        pushed.map_err(|(call, refusal)| {
            call.refuse(refusal);
            refusal
        })
    }

    /// Closes the queue and drops the waiting transactions, whose execution was not confirmed to any client.
    pub(crate) fn close(&self) {
        let (waiting, calls) = {
            let mut inner = self.inner.lock();
            inner.is_closed = true;
            let limits = Limits { transactions: 0, compute_units: 0 };
            let waiting = std::mem::replace(&mut inner.waiting, RoundRobin::new(limits));
            (waiting, std::mem::take(&mut inner.calls))
        };
        // Their callers get an error.
        drop(calls);
        self.arrived.notify_one();
        let QueuedLoad { transactions, compute_units, .. } = waiting.load();
        self.dropped.fetch_add(transactions, Ordering::Relaxed);
        if transactions > 0 {
            tracing::warn!(
                transactions,
                compute_units,
                "the ledger ends: transactions that waited for execution are dropped"
            );
        }
    }

    /// The queue's statistics. Cost: one step for each client with waiting transactions.
    pub fn stats(&self) -> QueueStats {
        let inner = self.inner.lock();
        QueueStats {
            waiting: inner.waiting.load(),
            clients: inner.waiting.clients(),
            largest_client: inner.waiting.largest(),
            refused: self.refused.each_ref().map(|count| count.load(Ordering::Relaxed)),
            dropped: self.dropped.load(Ordering::Relaxed),
            code_surcharge_units: self.code_surcharge_units.load(Ordering::Relaxed),
            calls: inner.calls.stats(),
            retries: self.retries.stats(),
        }
    }
}

impl TransactionSender for TransactionQueue {
    fn send(&self, sender: Sender, transaction: VerifiedTransaction) -> Result<(), SendError> {
        self.push(sender, transaction.fee_payer(), transaction)
    }
}

impl BundleSender for TransactionQueue {
    fn send_bundle(
        &self,
        sender: Sender,
        transactions: Vec<VerifiedTransaction>,
    ) -> Result<BundleCall, SendError> {
        let load = self.measure_bundle(&transactions);
        let payer = bundle_payer(&transactions);
        let (call, reply) = pending();
        let bundle = Bundle { sender, has_paid_for_code: false, transactions, reply };
        self.push_item(sender, payer, load, QueueItem::Bundle(bundle))?;
        Ok(call)
    }
}

/// Returns the fee payer of a bundle's first transaction.
fn bundle_payer(transactions: &[VerifiedTransaction]) -> Pubkey {
    transactions.first().map(VerifiedTransaction::fee_payer).unwrap_or_default()
}

/// The executing thread's end of the queue. Closes the queue when dropped.
pub(crate) struct Receiver(Arc<TransactionQueue>);

impl Receiver {
    pub(crate) fn new(queue: Arc<TransactionQueue>) -> Self {
        Self(queue)
    }

    /// The next transaction, if one waits.
    pub(crate) fn try_next(&self) -> Popped {
        self.0.inner.lock().next_transaction()
    }

    /// Sets the price of the last call by its time: transactions of that price come before the next call.
    pub(crate) fn charge_call(&self, took: Duration) {
        let units = took.as_micros().saturating_mul(UNITS_PER_US);
        self.0.inner.lock().owed_units = i64::try_from(units).unwrap_or(i64::MAX).max(1);
    }

    /// The next call or transaction. Waits for one until the given time, or without limit.
    pub(crate) fn next(&self, until: Option<Instant>) -> Popped {
        self.wait_for(until, Inner::next)
    }

    /// The next call. Waits for one; transactions stay in the queue.
    pub(crate) fn next_call(&self) -> Popped {
        self.wait_for(None, Inner::next_call)
    }

    fn wait_for(&self, until: Option<Instant>, next_of: impl Fn(&mut Inner) -> Popped) -> Popped {
        let mut inner = self.0.inner.lock();
        loop {
            match next_of(&mut inner) {
                Popped::Empty => {}
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
                return next_of(&mut inner);
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
    fn next(&mut self) -> Popped {
        if self.owed_units > 0 && !self.is_closed {
            match self.next_transaction() {
                Popped::Empty => self.owed_units = 0,
                next => return next,
            }
        }
        match self.next_call() {
            Popped::Empty => self.next_transaction(),
            next => next,
        }
    }

    fn next_call(&mut self) -> Popped {
        if self.is_closed {
            return Popped::Closed;
        }
        self.calls.pop().map_or(Popped::Empty, Popped::Call)
    }

    fn next_transaction(&mut self) -> Popped {
        if self.is_closed {
            return Popped::Closed;
        }
        let Some((item, units)) = self.waiting.pop_with_cost() else { return Popped::Empty };
        self.owed_units = self.owed_units.saturating_sub(units).max(0);
        Popped::Execute(item)
    }
}
