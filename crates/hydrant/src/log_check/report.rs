//! The counts of a log, and the damages that were found, as text.

use std::collections::BTreeSet;
use std::fmt;

use indicatif::{HumanBytes, HumanCount};
use ledger::Slot;

/// Damages that are listed. Further ones are only counted.
const DAMAGES_SHOWN_MAX: usize = 200;

/// Names of all damages. Those of records are [`chain_solana::wire::WireError::NAMES`], and the same as a replica's and
/// an ingester's in `hydrant_log_faults_total`. docs/operations.md describes them.
pub(super) const DAMAGE_NAMES: [&str; 21] = [
    "missing",
    "repeated",
    "damaged",
    "unreadable",
    "gone",
    "version",
    "body",
    "digest",
    "value",
    "order",
    "length",
    "number",
    "chain",
    "term",
    "first_record",
    "parent",
    "slot",
    "mark",
    "root",
    "snapshot",
    "cut",
];

/// A damage of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    /// The message at which it was found.
    pub(super) sequence: u64,
    /// One of [`DAMAGE_NAMES`].
    pub(super) name: &'static str,
    pub(super) text: String,
}

/// A range of values that were seen in any order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent(Option<[u64; 2]>);

impl Extent {
    pub(super) fn add(&mut self, value: u64) {
        let [first, last] = self.0.unwrap_or([value; 2]);
        self.0 = Some([first.min(value), last.max(value)]);
    }

    pub(super) fn is_empty(self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => write!(f, "none"),
            Some([first, last]) => write!(f, "{first} to {last}"),
        }
    }
}

/// The counts of a log.
#[derive(Debug, Default)]
pub(super) struct LogReport {
    /// The first and the last message of the log.
    pub(super) extent: [u64; 2],
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Messages that retention removed while the log was read.
    pub(super) removed: u64,
    /// Messages that belong to damaged records.
    pub(super) skipped: u64,
    pub(super) numbers: Extent,
    pub(super) blocks: u64,
    pub(super) marks_records: u64,
    pub(super) marks: u64,
    pub(super) term_records: u64,
    pub(super) snapshot_records: u64,
    pub(super) slots: Extent,
    pub(super) root: Option<Slot>,
    pub(super) transactions: u64,
    pub(super) account_writes: u64,
    pub(super) terms: Extent,
    pub(super) writers: BTreeSet<[u8; 16]>,
    pub(super) damages_len: u64,
    pub(super) damages: Vec<Damage>,
}

impl LogReport {
    pub(super) fn add_damage(&mut self, damage: Damage) {
        debug_assert!(DAMAGE_NAMES.contains(&damage.name), "{damage:?} has no name of the list");
        self.damages_len += 1;
        if self.damages.len() < DAMAGES_SHOWN_MAX {
            self.damages.push(damage);
        }
    }
}

impl fmt::Display for LogReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, last] = self.extent;
        let bytes = HumanBytes(self.bytes);
        let count = HumanCount;
        writeln!(f, "Messages       {} from {first} to {last}, {bytes}", count(self.messages))?;
        if self.removed > 0 {
            writeln!(f, "Removed        {} messages while the log was read", count(self.removed))?;
        }
        writeln!(f, "Records        {}", self.numbers)?;
        writeln!(
            f,
            "Blocks         {}, slots {}, root {}",
            count(self.blocks),
            self.slots,
            self.root.map_or_else(|| "none".to_owned(), |root| root.to_string())
        )?;
        writeln!(f, "Transactions   {}", count(self.transactions))?;
        writeln!(f, "Account writes {}", count(self.account_writes))?;
        let records = count(self.marks_records);
        writeln!(f, "Marks          {} in {records} records", count(self.marks))?;
        writeln!(f, "Snapshots      {} named", count(self.snapshot_records))?;
        let changes = count(self.term_records);
        let writers = self.writers.len();
        writeln!(f, "Terms          {}, {changes} changes, {writers} ingesters", self.terms)?;
        for Damage { sequence, name, text } in &self.damages {
            writeln!(f, "Damage         message {sequence}: {name}: {text}")?;
        }
        let hidden = self.damages_len - self.damages.len() as u64;
        if hidden > 0 {
            writeln!(f, "Damage         {} more", count(hidden))?;
        }
        if self.skipped > 0 {
            let messages = count(self.skipped);
            writeln!(f, "Skipped        {messages} messages of damaged records")?;
        }
        write!(f, "Total          {} damages", count(self.damages_len))
    }
}
