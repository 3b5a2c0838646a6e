//! Checks the transactions of banks on threads of their own: signatures, entries, balances and failed writes.
//!
//! In: the transactions of open banks as the writer prepares them, and whole banks. Out: a message to the writer for each
//! bank once all of its checks are done, with the first contradiction if there is one; and the votes among the transactions
//! with valid signatures, as soon as these are verified, also of open banks: a signed vote proves whatever bank it is in.
//! Shape: a bank is split into tasks, which any thread takes: [`CHUNK_MAX`] transactions, or entries with some
//! [`TASK_HASHES`] hashes. The last task of a bank sends the result.
//! Bounds: a task holds transactions that history has too, and there are no more banks than the verifier has above the root,
//! and those that are prepared while they are open. The tasks of a bank that is dropped are removed.
//! Not here: what follows from a contradiction (`verification`), the rule of entries (`verify`).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chain_solana::{Block, ExecutedTransaction, ResultOrigin, verify_signatures};
use ledger::BlockId;
use parking_lot::{Condvar, Mutex};
use solana::{Entry, TransactionCheck, TransactionFault, TransactionProof};
use solana_hash::Hash;
use tokio::sync::mpsc::WeakSender;
use verify::{ENTRY_HASHES_MAX, EntryError, SignedVote, verify_entries};

use crate::checked_bank::{CheckMetrics, CheckedBank};
use crate::clock::now;
use crate::error::FollowError;
use crate::stream::Message;
use crate::votes::VoteFilter;

mod balances;
#[cfg(test)]
mod tests;
mod transfers;

pub(crate) use balances::{BankBalances, WrittenBalance};

/// Threads at most. One verifies some 25,000 signatures, or 20 million hashes of entries, in a second.
const THREADS_MAX: usize = 4;
/// Transactions of a task: some milliseconds.
const CHUNK_MAX: usize = 64;
/// Hashes of a task: about one tick of mainnet, some milliseconds.
const TASK_HASHES: u64 = 1 << 16;
/// Hashes of a transaction with two signatures in the Merkle tree.
const HASHES_OF_TRANSACTION: u64 = 4;

/// The writer's end of the threads, which end when this value is dropped.
pub(crate) struct TransactionChecks {
    shared: Arc<Shared>,
    needs_entries: bool,
    banks: BTreeMap<BlockId, OpenCheck>,
}

/// A bank whose checks have started.
struct OpenCheck {
    bank: Arc<BankCheck>,
    /// Transactions that were queued, from the first one on.
    queued: usize,
}

/// The state of a bank that its tasks share.
struct BankCheck {
    id: BlockId,
    /// Tasks that are not done, and one for the end of the bank.
    open_tasks: AtomicUsize,
    is_cancelled: AtomicBool,
    /// Whether its balances were compared with its accounts.
    is_compared: AtomicBool,
    fault: Mutex<Option<TransactionFault>>,
}

struct Task {
    bank: Arc<BankCheck>,
    kind: TaskKind,
}

enum TaskKind {
    Signatures(Vec<Arc<ExecutedTransaction>>),
    /// Entries of the block, after this hash.
    Entries {
        block: Arc<Block>,
        start: Hash,
        entries: Range<usize>,
    },
    /// The end of the bank.
    Balances(Arc<Block>, BankBalances),
}

struct Shared {
    queue: Mutex<Queue>,
    is_filled: Condvar,
    messages: WeakSender<Message>,
    /// The votes to send; `None` if votes prove nothing.
    votes: Option<Arc<VoteFilter>>,
    metrics: Arc<CheckMetrics>,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    is_closed: bool,
}

impl TransactionChecks {
    /// Starts the threads. With `needs_entries` a bank without all of its entries is a contradiction. With `votes` the
    /// votes that it selects are sent.
    pub(crate) fn start(
        messages: WeakSender<Message>,
        needs_entries: bool,
        votes: Option<Arc<VoteFilter>>,
        metrics: Arc<CheckMetrics>,
    ) -> Result<Self, FollowError> {
        let started = Self::new(messages, needs_entries, votes, metrics);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores.min(THREADS_MAX) {
            let shared = Arc::clone(&started.shared);
            let thread = std::thread::Builder::new().name(format!("follow-check-{number}"));
            // If this thread does not start, dropping `started` stops the others.
            thread.spawn(move || shared.run()).map_err(FollowError::Thread)?;
        }
        Ok(started)
    }

    /// Creates the queue, without a thread.
    fn new(
        messages: WeakSender<Message>,
        needs_entries: bool,
        votes: Option<Arc<VoteFilter>>,
        metrics: Arc<CheckMetrics>,
    ) -> Self {
        let queue = Mutex::new(Queue::default());
        let is_filled = Condvar::new();
        let shared = Arc::new(Shared { queue, is_filled, messages, votes, metrics });
        Self { shared, needs_entries, banks: BTreeMap::new() }
    }

    /// Queues those of the bank's transactions that were not queued yet. They are in order, and `from` is how many are
    /// before them.
    pub(crate) fn add_transactions(
        &mut self,
        id: BlockId,
        from: usize,
        transactions: &[Arc<ExecutedTransaction>],
    ) {
        let open = self.banks.entry(id).or_insert_with(|| OpenCheck::new(id));
        let Some(known) = open.queued.checked_sub(from) else { return };
        let new = transactions.get(known..).unwrap_or_default();
        let tasks = new.chunks(CHUNK_MAX).map(|chunk| TaskKind::Signatures(chunk.to_vec()));
        let tasks: Vec<_> = tasks.map(|kind| open.new_task(kind)).collect();
        open.queued += new.len();
        self.shared.metrics.open_banks.store(self.banks.len() as u64, Ordering::Relaxed);
        self.shared.push(tasks);
    }

    /// Queues the rest of a whole bank. Its result follows.
    pub(crate) fn finish(&mut self, block: &Arc<Block>, balances: BankBalances) {
        let id = block.id;
        self.add_transactions(id, 0, &block.transactions);
        let Some(open) = self.banks.get(&id) else { return };
        let mut tasks = Vec::new();
        if self.needs_entries {
            match split_entries(block) {
                Ok(parts) => tasks.extend(parts.into_iter().map(|kind| open.new_task(kind))),
                Err(check) => open.bank.report(check, None),
            }
        }
        let bank = Arc::clone(&open.bank);
        tasks.push(Task { bank, kind: TaskKind::Balances(Arc::clone(block), balances) });
        self.shared.push(tasks);
    }

    /// The proof of a bank's transactions if its checks find no contradiction.
    pub(crate) fn proof(&self) -> TransactionProof {
        match self.needs_entries {
            true => TransactionProof::Proven,
            false => TransactionProof::Counted,
        }
    }

    /// Removes a bank that ended or was dropped, or whose result is known.
    pub(crate) fn remove(&mut self, id: BlockId) {
        let Some(open) = self.banks.remove(&id) else { return };
        self.shared.metrics.open_banks.store(self.banks.len() as u64, Ordering::Relaxed);
        open.bank.is_cancelled.store(true, Ordering::Relaxed);
        self.shared.remove_tasks(|task| task.bank.id == id);
    }
}

impl Drop for TransactionChecks {
    fn drop(&mut self) {
        for open in self.banks.values() {
            open.bank.is_cancelled.store(true, Ordering::Relaxed);
        }
        self.shared.queue.lock().is_closed = true;
        self.shared.remove_tasks(|_| true);
        self.shared.metrics.open_banks.store(0, Ordering::Relaxed);
        self.shared.is_filled.notify_all();
    }
}

impl OpenCheck {
    fn new(id: BlockId) -> Self {
        let bank = BankCheck {
            id,
            open_tasks: AtomicUsize::new(1),
            is_cancelled: AtomicBool::new(false),
            is_compared: AtomicBool::new(false),
            fault: Mutex::new(None),
        };
        Self { bank: Arc::new(bank), queued: 0 }
    }

    fn new_task(&self, kind: TaskKind) -> Task {
        self.bank.open_tasks.fetch_add(1, Ordering::Relaxed);
        Task { bank: Arc::clone(&self.bank), kind }
    }
}

impl BankCheck {
    fn report(&self, check: TransactionCheck, index: Option<u32>) {
        self.report_fault(TransactionFault { check, index, account: None });
    }

    /// Of several contradictions the first one stays, whichever thread finds it.
    fn report_fault(&self, fault: TransactionFault) {
        let mut known = self.fault.lock();
        *known = Some(known.map_or(fault, |known| known.min(fault)));
    }

    /// Verifies signatures up to the first wrong one. Returns the selected votes among the transactions before it.
    fn check_signatures(
        &self,
        transactions: &[Arc<ExecutedTransaction>],
        votes: Option<&VoteFilter>,
    ) -> Vec<SignedVote> {
        let mut found = Vec::new();
        for executed in transactions {
            if self.is_cancelled.load(Ordering::Relaxed) {
                break;
            }
            if verify_signatures(&executed.transaction).is_err() {
                self.report(TransactionCheck::Signature, Some(executed.index));
                break;
            }
            found.extend(votes.and_then(|votes| votes.find_vote(executed)));
        }
        found
    }
}

impl Shared {
    fn push(&self, tasks: Vec<Task>) {
        if tasks.is_empty() {
            return;
        }
        let bytes: usize = tasks.iter().map(Task::bytes).sum();
        self.metrics.task_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.tasks.extend(tasks);
        self.count_queued(&queue);
        drop(queue);
        self.is_filled.notify_all();
    }

    /// Returns the next task; `None` once the queue is closed.
    fn pop(&self) -> Option<Task> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_closed {
                return None;
            }
            match queue.tasks.pop_front() {
                Some(task) => {
                    self.count_queued(&queue);
                    return Some(task);
                }
                None => self.is_filled.wait(&mut queue),
            }
        }
    }

    /// Removes queued tasks.
    fn remove_tasks(&self, is_removed: impl Fn(&Task) -> bool) {
        let mut queue = self.queue.lock();
        let mut bytes = 0;
        queue.tasks.retain(|task| {
            let is_removed = is_removed(task);
            bytes += if is_removed { task.bytes() } else { 0 };
            !is_removed
        });
        self.count_queued(&queue);
        self.metrics.task_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    fn count_queued(&self, queue: &Queue) {
        self.metrics.queued_tasks.store(queue.tasks.len() as u64, Ordering::Relaxed);
    }

    fn run(&self) {
        while let Some(task) = self.pop() {
            if !self.run_task(task) {
                return;
            }
        }
    }

    /// Runs a task, and sends what it finds. False if the writer has ended.
    fn run_task(&self, task: Task) -> bool {
        let bytes = task.bytes() as u64;
        let Task { bank, kind } = task;
        let metrics = &self.metrics;
        let (check, nanos) = match &kind {
            TaskKind::Signatures(_) => (TransactionCheck::Signature, &metrics.signature_nanos),
            TaskKind::Entries { .. } => (TransactionCheck::Entries, &metrics.entry_nanos),
            TaskKind::Balances(..) => (TransactionCheck::Balance, &metrics.balance_nanos),
        };
        let started = now();
        let votes = self.votes.as_deref();
        let done = catch_unwind(AssertUnwindSafe(|| kind.run(&bank, votes)));
        nanos.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        metrics.task_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let votes = done.unwrap_or_else(|_| {
            // The panic hook has logged it. What cannot be checked is not proven.
            bank.report(check, None);
            Vec::new()
        });
        // The votes come before the result of their bank.
        if !votes.is_empty() && !self.send(Message::Votes(votes)) {
            return false;
        }
        let is_last = bank.open_tasks.fetch_sub(1, Ordering::AcqRel) == 1;
        !is_last || self.send_result(&bank)
    }

    /// Sends the result of a bank. False if the writer has ended.
    fn send_result(&self, bank: &BankCheck) -> bool {
        if bank.is_cancelled.load(Ordering::Relaxed) {
            return true;
        }
        let is_compared = bank.is_compared.load(Ordering::Relaxed);
        let checked = CheckedBank {
            bank: bank.id,
            fault: *bank.fault.lock(),
            results: if is_compared { ResultOrigin::Compared } else { ResultOrigin::Source },
        };
        self.send(Message::Checked(checked))
    }

    /// Sends a message to the writer. False if it has ended.
    fn send(&self, message: Message) -> bool {
        let messages = self.messages.upgrade();
        messages.is_some_and(|messages| messages.blocking_send(message).is_ok())
    }
}

impl Task {
    /// Bytes of a task, without what history has.
    fn bytes(&self) -> usize {
        let list = match &self.kind {
            TaskKind::Signatures(transactions) => size_of_val(&**transactions),
            TaskKind::Entries { .. } => 0,
            TaskKind::Balances(_, balances) => balances.bytes(),
        };
        size_of::<Self>() + list
    }
}

impl TaskKind {
    /// Runs the check. Returns the votes among the transactions with valid signatures.
    fn run(self, bank: &BankCheck, votes: Option<&VoteFilter>) -> Vec<SignedVote> {
        match self {
            Self::Signatures(transactions) => return bank.check_signatures(&transactions, votes),
            Self::Entries { block, start, entries } => {
                let Some(entries) = block.entries.get(entries) else { return Vec::new() };
                let signatures = |entry: &Entry| {
                    let transactions = transactions_of(&block, entry).iter();
                    transactions.flat_map(|executed| &executed.transaction.signatures).collect()
                };
                let verified = verify_entries(start, entries, signatures, &bank.is_cancelled);
                if let Err(EntryError::Hash { index }) = verified {
                    let first = entries.get(index).map(|entry| entry.starting_transaction_index);
                    let first = first.and_then(|first| u32::try_from(first).ok());
                    bank.report(TransactionCheck::Entries, first);
                }
            }
            Self::Balances(block, balances) => match balances.compare(&block) {
                Ok(is_compared) => bank.is_compared.store(is_compared, Ordering::Relaxed),
                Err(fault) => bank.report_fault(fault),
            },
        }
        Vec::new()
    }
}

/// Splits the entries of a block into tasks. The error is a contradiction that needs no hash.
fn split_entries(block: &Arc<Block>) -> Result<Vec<TaskKind>, TransactionCheck> {
    // The feed has removed entries that are not whole.
    if block.entries.is_empty() {
        return Err(TransactionCheck::MissingEntries);
    }
    let mut parts = Vec::new();
    let mut start = block.previous_blockhash;
    let mut first = 0;
    let mut hashes = 0_u64;
    let mut all_hashes = 0_u64;
    for (index, entry) in block.entries.iter().enumerate() {
        all_hashes = all_hashes.saturating_add(entry.num_hashes);
        if all_hashes > ENTRY_HASHES_MAX {
            return Err(TransactionCheck::Entries);
        }
        let of_signatures = entry.transaction_count.saturating_mul(HASHES_OF_TRANSACTION);
        hashes = hashes.saturating_add(entry.num_hashes).saturating_add(of_signatures);
        let is_last = index + 1 == block.entries.len();
        if hashes >= TASK_HASHES || is_last {
            let block = Arc::clone(block);
            parts.push(TaskKind::Entries { block, start, entries: first..index + 1 });
            start = entry.hash;
            first = index + 1;
            hashes = 0;
        }
    }
    Ok(parts)
}

/// Returns the transactions of an entry.
fn transactions_of<'a>(block: &'a Block, entry: &Entry) -> &'a [Arc<ExecutedTransaction>] {
    let range = || {
        let first = usize::try_from(entry.starting_transaction_index).ok()?;
        let end = first.checked_add(usize::try_from(entry.transaction_count).ok()?)?;
        block.transactions.get(first..end)
    };
    range().unwrap_or_default()
}
