//! The configuration of executions, and their results so far, for metrics and servers: counters, and the first
//! difference.
//!
//! Bounds: a counter for each result and field, one difference, one sentence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use chain_solana::{ExecutionDifference, ExecutionSummary, ResultField};
use metrics::{Exposition, MetricKind};

/// Banks that wait at most, by default.
const BANKS_MAX: usize = 8;

/// Which transactions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutionConfig {
    /// Transactions that are executed in a second in the long run, as whole banks. `None` for all transactions.
    pub transactions_per_s: Option<u64>,
    /// Banks that wait for their execution at most.
    pub banks_max: usize,
}

impl Default for ExecutionConfig {
    /// All transactions, and some seconds of a cluster.
    fn default() -> Self {
        Self { transactions_per_s: None, banks_max: BANKS_MAX }
    }
}

/// The result of a bank that became the tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BankResult {
    /// All transactions were executed, and no result differs.
    Equal,
    /// No result differs, and some transactions were not executed.
    Partial,
    /// A result differs.
    Differs,
    /// Not executed: it is not part of the sample.
    NotSampled,
    /// Not executed: too many banks, or too many bytes, waited for a thread.
    QueueFull,
    /// Not executed: its fork was left before.
    LeftFork,
    /// Not executed: it is the first bank of an epoch, which changes accounts and features before its transactions.
    EpochStart,
    /// Not executed: it has no Clock.
    NoClock,
    /// Not executed to its end: the execution panicked.
    Panicked,
}

impl BankResult {
    pub(crate) const ALL: [Self; 9] = [
        Self::Equal,
        Self::Partial,
        Self::Differs,
        Self::NotSampled,
        Self::QueueFull,
        Self::LeftFork,
        Self::EpochStart,
        Self::NoClock,
        Self::Panicked,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Partial => "partial",
            Self::Differs => "differs",
            Self::NotSampled => "not_sampled",
            Self::QueueFull => "queue_full",
            Self::LeftFork => "left_fork",
            Self::EpochStart => "epoch_start",
            Self::NoClock => "no_clock",
            Self::Panicked => "panicked",
        }
    }

    fn is_skipped(self) -> bool {
        !matches!(self, Self::Equal | Self::Partial | Self::Differs)
    }
}

/// The result of a transaction of an executed bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionResult {
    Equal,
    Differs,
    /// Not executed: it names a builtin program that the VM does not have.
    UnknownProgram,
    /// Not executed: the state of an account that it names is unknown, because the bank paid rewards to it or a
    /// transaction before it could not be executed.
    UnknownAccount,
    /// Not executed: it had no effect, not even a fee (SIMD-0290).
    NoOp,
}

impl TransactionResult {
    pub(crate) const ALL: [Self; 5] =
        [Self::Equal, Self::Differs, Self::UnknownProgram, Self::UnknownAccount, Self::NoOp];

    fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Differs => "differs",
            Self::UnknownProgram => "unknown_program",
            Self::UnknownAccount => "unknown_account",
            Self::NoOp => "no_op",
        }
    }

    fn is_executed(self) -> bool {
        matches!(self, Self::Equal | Self::Differs)
    }
}

/// The execution of a followed chain so far.
#[derive(Debug, Default)]
pub(crate) struct ExecutionStatus {
    transactions_per_s: Option<u64>,
    banks: [AtomicU64; BankResult::ALL.len()],
    transactions: [AtomicU64; TransactionResult::ALL.len()],
    differences: [AtomicU64; ResultField::ALL.len()],
    nanos: AtomicU64,
    pub(crate) queued_banks: AtomicU64,
    pub(crate) queued_bytes: AtomicU64,
    first_difference: ArcSwapOption<ExecutionDifference>,
    last_skip: ArcSwapOption<String>,
}

impl ExecutionStatus {
    pub(crate) fn new(transactions_per_s: Option<u64>) -> Self {
        Self { transactions_per_s, ..Self::default() }
    }

    pub(crate) fn count_bank(&self, result: BankResult) {
        self.banks[result as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_transaction(&self, result: TransactionResult) {
        self.transactions[result as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_time(&self, time: Duration) {
        self.nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Counts a difference. The first one stays.
    pub(crate) fn report(&self, difference: ExecutionDifference) {
        self.differences[difference.field as usize].fetch_add(1, Ordering::Relaxed);
        if self.first_difference.load().is_none() {
            self.first_difference.store(Some(Arc::new(difference)));
        }
    }

    /// Says why a transaction could not be executed.
    pub(crate) fn set_last_skip(&self, text: String) {
        self.last_skip.store(Some(Arc::new(text)));
    }

    pub(crate) fn summary(&self) -> ExecutionSummary {
        let bank = |result: BankResult| self.banks[result as usize].load(Ordering::Relaxed);
        let skipped = BankResult::ALL.into_iter().filter(|result| result.is_skipped());
        let transactions = |is_executed: bool| -> u64 {
            let all = TransactionResult::ALL.into_iter();
            let counted = all.filter(|result| result.is_executed() == is_executed);
            counted.map(|it| self.transactions[it as usize].load(Ordering::Relaxed)).sum()
        };
        ExecutionSummary {
            transactions_per_s: self.transactions_per_s,
            equal_banks: bank(BankResult::Equal),
            differing_banks: bank(BankResult::Differs),
            partial_banks: bank(BankResult::Partial),
            skipped_banks: skipped.map(bank).sum(),
            executed_transactions: transactions(true),
            skipped_transactions: transactions(false),
            first_difference: self.first_difference.load().as_deref().copied(),
            last_skip: self.last_skip.load().as_deref().cloned(),
        }
    }

    pub(crate) fn write(&self, out: &mut Exposition) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let help = "Banks that became the tip, by the result of their execution.";
        let name = "hydrant_follow_execution_banks_total";
        let mut family = out.family(name, MetricKind::Counter, help);
        for result in BankResult::ALL {
            family.put(&[("result", result.name())], count(&self.banks[result as usize]));
        }
        let help = "Transactions of executed banks, by the result of the comparison.";
        let name = "hydrant_follow_execution_transactions_total";
        let mut family = out.family(name, MetricKind::Counter, help);
        for result in TransactionResult::ALL {
            family.put(&[("result", result.name())], count(&self.transactions[result as usize]));
        }
        let help = "Results that are not those that the source reported, by field.";
        let name = "hydrant_follow_execution_differences_total";
        let mut family = out.family(name, MetricKind::Counter, help);
        for field in ResultField::ALL {
            family.put(&[("field", field.name())], count(&self.differences[field as usize]));
        }
        let help = "Time of the threads that execute transactions.";
        let name = "hydrant_follow_execution_microseconds_total";
        out.single(name, MetricKind::Counter, help, count(&self.nanos) / 1_000);
        let help = "Banks that wait for a thread that executes them.";
        let name = "hydrant_follow_execution_queued_banks";
        out.single(name, MetricKind::Gauge, help, count(&self.queued_banks));
    }
}
