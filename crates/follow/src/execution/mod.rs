//! Executes the transactions of banks with the embedded VM, and compares the results with those that the source
//! reported, on threads of their own.
//!
//! In: banks that became the tip, with the state of their parent. Out: a message to the writer for each bank whose
//! results are all equal, and the [`ExecutionStatus`].
//! Shape: banks do not depend on each other, because each is executed on the accounts of its parent as the chain has
//! them. A thread takes one bank at a time, and executes its transactions in their order. It has a VM of its own, which
//! retains the programs that it compiled. With a limit of transactions, whole banks are the sample: any transaction may
//! depend on those before it in its bank.
//! Bounds: [`ExecutionConfig::banks_max`] banks with [`BYTES_MAX`] of replaced states wait. A bank beyond that is not
//! executed. A waiting bank retains the state that readers saw when it was queued. A VM has the bounds of
//! `svm::WorkingSet`.
//! Invariant: no bank waits for its execution to be shown, confirmed or stored. The threads have the lowest priority.
//! Not here: how a bank is executed (`bank_execution`), what bank hashes cover (`verification`).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ledger::BlockId;
use parking_lot::{Condvar, Mutex};
use tokio::sync::mpsc::WeakSender;

use crate::clock::now;
use crate::error::FollowError;
use crate::execution_status::{BankResult, ExecutionConfig, ExecutionStatus};
use crate::stream::Message;

mod bank_execution;
mod compare;
mod parent_state;
mod sampler;
#[cfg(test)]
mod tests;

use bank_execution::{BankVm, execute_bank};
use sampler::Sampler;

pub(crate) use bank_execution::BankToExecute;
pub(crate) use parent_state::StatesBefore;

/// Threads at most. Each has a VM, which may have 464 MiB of accounts and programs.
const THREADS_MAX: usize = 2;
/// Bytes of the states that these banks replaced.
const BYTES_MAX: usize = 128 << 20;
/// The lowest priority.
const NICE: i32 = 19;

/// The writer's end of the threads, which end when this value is dropped.
pub(crate) struct Execution {
    shared: Arc<Shared>,
    sampler: Option<Sampler>,
    banks_max: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    is_filled: Condvar,
    is_closed: AtomicBool,
    messages: WeakSender<Message>,
    status: Arc<ExecutionStatus>,
}

#[derive(Default)]
struct Queue {
    banks: VecDeque<BankToExecute>,
    bytes: usize,
}

impl Execution {
    /// Starts the threads.
    pub(crate) fn start(
        config: ExecutionConfig,
        messages: WeakSender<Message>,
        status: Arc<ExecutionStatus>,
    ) -> Result<Self, FollowError> {
        let started = Self::new(config, messages, status);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores.min(THREADS_MAX) {
            let shared = Arc::clone(&started.shared);
            let thread = std::thread::Builder::new().name(format!("follow-execute-{number}"));
            // If this thread does not start, dropping `started` stops the others.
            thread.spawn(move || shared.run()).map_err(FollowError::Thread)?;
        }
        Ok(started)
    }

    /// Creates the queue, without a thread.
    fn new(
        config: ExecutionConfig,
        messages: WeakSender<Message>,
        status: Arc<ExecutionStatus>,
    ) -> Self {
        let queue = Mutex::new(Queue::default());
        let is_filled = Condvar::new();
        let is_closed = AtomicBool::new(false);
        let shared = Arc::new(Shared { queue, is_filled, is_closed, messages, status });
        let sampler = config.transactions_per_s.map(Sampler::new);
        Self { shared, sampler, banks_max: config.banks_max }
    }

    /// Whether a bank with this number of transactions is to be executed: it is in the sample, and the queue has room.
    /// If not, it is counted. `now` is the time since the writer's start.
    pub(crate) fn admits(&mut self, transactions: usize, now: Duration) -> bool {
        let queue = self.shared.queue.lock();
        let is_full = queue.banks.len() >= self.banks_max || queue.bytes >= BYTES_MAX;
        drop(queue);
        if is_full {
            self.skip(BankResult::QueueFull);
            return false;
        }
        let is_sampled =
            self.sampler.as_mut().is_none_or(|sampler| sampler.admits(transactions, now));
        if !is_sampled {
            self.skip(BankResult::NotSampled);
        }
        is_sampled
    }

    /// Queues a bank that was admitted. With others that were admitted before it, the queue may be full now.
    pub(crate) fn push(&self, bank: BankToExecute) {
        let bytes = bank.bytes();
        let mut queue = self.shared.queue.lock();
        if queue.banks.len() >= self.banks_max || queue.bytes + bytes > BYTES_MAX {
            drop(queue);
            return self.skip(BankResult::QueueFull);
        }
        queue.bytes += bytes;
        queue.banks.push_back(bank);
        self.shared.count_queued(&queue);
        drop(queue);
        self.shared.is_filled.notify_one();
    }

    /// Counts a bank that is not executed.
    pub(crate) fn skip(&self, result: BankResult) {
        self.shared.status.count_bank(result);
    }

    /// Removes a bank that was dropped, if it still waits.
    pub(crate) fn remove(&self, id: BlockId) {
        let mut queue = self.shared.queue.lock();
        let Some(index) = queue.banks.iter().position(|bank| bank.block.id == id) else { return };
        if let Some(removed) = queue.banks.remove(index) {
            queue.bytes -= removed.bytes();
            self.shared.count_queued(&queue);
            drop(queue);
            self.skip(BankResult::LeftFork);
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        self.shared.is_closed.store(true, Ordering::Relaxed);
        *queue = Queue::default();
        self.shared.count_queued(&queue);
        drop(queue);
        self.shared.is_filled.notify_all();
    }
}

impl Shared {
    /// Takes the next bank. Returns `None` once the queue is closed.
    fn pop(&self) -> Option<BankToExecute> {
        let mut queue = self.queue.lock();
        loop {
            if self.is_closed.load(Ordering::Relaxed) {
                return None;
            }
            match queue.banks.pop_front() {
                Some(bank) => {
                    queue.bytes -= bank.bytes();
                    self.count_queued(&queue);
                    return Some(bank);
                }
                None => self.is_filled.wait(&mut queue),
            }
        }
    }

    fn count_queued(&self, queue: &Queue) {
        self.status.queued_banks.store(queue.banks.len() as u64, Ordering::Relaxed);
        self.status.queued_bytes.store(queue.bytes as u64, Ordering::Relaxed);
    }

    fn run(&self) {
        // Only this thread's priority. Raising the value is always allowed.
        let _ = rustix::process::setpriority_process(None, NICE);
        let mut vm = None;
        while let Some(bank) = self.pop() {
            if !self.execute(&mut vm, &bank) {
                return;
            }
        }
    }

    /// Executes a bank, and reports it if its results are equal. Returns `false` if the writer has ended.
    fn execute(&self, vm: &mut Option<BankVm>, bank: &BankToExecute) -> bool {
        let started = now();
        let run = AssertUnwindSafe(|| execute_bank(vm, bank, &self.status, &self.is_closed));
        let done = catch_unwind(run);
        self.status.add_time(started.elapsed());
        let result = match done {
            Ok(Some(result)) => result,
            Ok(None) => return false,
            // The panic hook has logged it. The VM may have accounts of this bank, and a part of a program.
            Err(_) => {
                *vm = None;
                BankResult::Panicked
            }
        };
        self.status.count_bank(result);
        if result != BankResult::Equal {
            return true;
        }
        let messages = self.messages.upgrade();
        let message = Message::Executed(bank.block.id);
        messages.is_some_and(|messages| messages.blocking_send(message).is_ok())
    }
}
