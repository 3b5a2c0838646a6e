//! Checks a log message by message.
//!
//! In: messages in the order of the log. Out: counts, and each damage with its name and position.
//! Checked: sequences without a gap, everything that [`RecordReader`] checks (digests, links, writers, lengths), and
//! names of blocks that a record before has: parents, marks in order.

use chain_solana::wire::{
    BlockName, BlockRecord, Mark, MarksRecord, Record, RecordReader, SnapshotRecord,
};
use replicated_log::{MessageKind, StoredMessage};

use crate::log_check::block_window::BlockWindow;
use crate::log_check::report::{Damage, LogReport};

#[cfg(test)]
mod tests;

/// The state of a check.
pub(super) struct LogChecker {
    records: RecordReader,
    report: LogReport,
    /// The sequence that is read next.
    next: u64,
    /// Whether a record lacks messages.
    is_open: bool,
    /// Whether messages are skipped until the next head.
    is_skipping: bool,
    /// Whether the next record follows one that was read: false for the first record, and after a damage.
    is_continued: bool,
    window: BlockWindow,
}

impl LogChecker {
    /// Creates the check of a log from its first to its last message. `first` is 0 if the log is empty.
    pub(super) fn new(first: u64, last: u64) -> Self {
        Self {
            records: RecordReader::new(),
            report: LogReport { extent: [first, last], ..LogReport::default() },
            next: first.max(1),
            is_open: false,
            // A log may be cut within a record.
            is_skipping: first > 1,
            is_continued: false,
            window: BlockWindow::default(),
        }
    }

    /// The counts and the damages so far.
    pub(super) fn report(&self) -> &LogReport {
        &self.report
    }

    /// The number of damages so far.
    pub(super) fn damages_len(&self) -> u64 {
        self.report.damages_len
    }

    /// The sequence that is read next.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The last sequence that is read.
    pub(super) fn last_sequence(&self) -> u64 {
        self.report.extent[1]
    }

    /// Whether all messages were read.
    pub(super) fn is_complete(&self) -> bool {
        self.next > self.last_sequence()
    }

    /// Skips the messages below `first`, which retention removed before they were read. The log is not damaged.
    pub(super) fn skip_removed(&mut self, first: u64) {
        self.report.removed += first.saturating_sub(self.next);
        self.start_over(first);
    }

    /// Skips the messages below `readable`, which cannot be read. The damage was added.
    pub(super) fn skip_unreadable(&mut self, readable: u64) {
        self.report.skipped += readable.saturating_sub(self.next);
        self.start_over(readable);
    }

    fn start_over(&mut self, next: u64) {
        self.next = next;
        self.records = RecordReader::new();
        self.is_open = false;
        self.is_skipping = true;
        self.is_continued = false;
    }

    /// Adds a damage at the message that is read next.
    pub(super) fn add_damage(&mut self, name: &'static str, text: String) {
        let sequence = self.next;
        self.report.add_damage(Damage { sequence, name, text });
    }

    /// Checks the next message.
    pub(super) fn push(&mut self, message: StoredMessage) {
        let StoredMessage { sequence, kind, payload, .. } = message;
        if sequence < self.next {
            return self.add_damage("repeated", format!("message {sequence} came again"));
        }
        if sequence > self.next {
            let missing = sequence - self.next;
            self.add_damage("missing", format!("{missing} messages before message {sequence}"));
            self.start_over(sequence);
        }
        self.report.messages += 1;
        self.report.bytes += payload.len() as u64;
        let is_head = kind == MessageKind::Head;
        if self.is_skipping && !is_head {
            self.report.skipped += 1;
            self.next += 1;
            return;
        }
        let mut pushed = self.records.push(is_head, payload.clone());
        if let Err(err) = &pushed {
            self.add_damage(err.name(), err.to_string());
            self.start_over(self.next);
            // The record that begins with this head may be undamaged.
            if is_head {
                pushed = self.records.push(true, payload);
            }
        }
        match pushed {
            Ok(record) => {
                self.is_skipping = false;
                self.is_open = record.is_none();
                if let Some(read) = record {
                    self.add_record(&read.record);
                }
            }
            Err(_) => {
                self.records = RecordReader::new();
                self.report.skipped += 1;
            }
        }
        self.next += 1;
    }

    /// Ends the check after the last message.
    pub(super) fn finish(&mut self) {
        if self.is_open && self.is_complete() {
            self.add_damage("cut", "the last record lacks messages".to_owned());
        }
    }

    fn add_record(&mut self, record: &Record) {
        let link = record.link();
        let report = &self.report;
        let is_first = report.extent[0] == 1 && report.numbers.is_empty() && report.skipped == 0;
        self.report.numbers.add(link.number);
        if !self.is_continued {
            self.window.restart(link.number);
        }
        self.report.terms.add(record.writer().term);
        self.report.writers.insert(record.writer().ingester);
        match record {
            Record::Block(block) => self.add_block(block),
            Record::Marks(marks) => self.add_marks(marks),
            Record::Term(_) => self.report.term_records += 1,
            Record::Snapshot(snapshot) => self.add_snapshot(snapshot),
        }
        if is_first && !matches!(record, Record::Snapshot(_)) {
            let text = format!("the first record is a {}, not a snapshot", record.name());
            self.add_damage("first_record", text);
        }
        self.is_continued = true;
    }

    fn add_block(&mut self, record: &BlockRecord) {
        let block = &record.block;
        let number = record.link.number;
        self.report.blocks += 1;
        self.report.slots.add(block.id.slot);
        self.report.transactions += block.transactions.len() as u64;
        self.report.account_writes += record.accounts.len() as u64;
        let parent = BlockName { slot: block.parent.slot, number: record.parent_number };
        if let Some(fault) = self.window.find_fault(parent) {
            let text = format!("the parent of block {} (record {number}): {fault}", block.id.slot);
            self.add_damage("parent", text);
        }
        if block.id.slot <= block.parent.slot {
            let text = format!("block {} is not after {}", block.id.slot, block.parent.slot);
            self.add_damage("slot", text);
        }
        self.window.insert(BlockName { slot: block.id.slot, number });
    }

    fn add_marks(&mut self, record: &MarksRecord) {
        self.report.marks_records += 1;
        for mark in &record.marks {
            self.report.marks += 1;
            let name = match mark {
                Mark::TipMoved(name) | Mark::Confirmed(name) | Mark::Rooted(name) => *name,
                Mark::Reverted { block, .. } => *block,
            };
            if let Some(fault) = self.window.find_fault(name) {
                let text = format!("record {}: {fault}", record.link.number);
                self.add_damage("mark", text);
            }
            if let Mark::Rooted(root) = mark {
                if let Some(earlier) = self.report.root.filter(|earlier| *earlier > root.slot) {
                    let text = format!("block {} is rooted after {earlier}", root.slot);
                    self.add_damage("root", text);
                }
                self.report.root = self.report.root.max(Some(root.slot));
            }
        }
    }

    fn add_snapshot(&mut self, record: &SnapshotRecord) {
        self.report.snapshot_records += 1;
        let number = record.block.number;
        // The first record of a generation continues from the snapshot's block, which is not in this generation.
        if number.saturating_add(1) == record.link.number {
            self.window.restart(number);
            self.window.insert(record.block);
        } else if let Some(fault) = self.window.find_fault(record.block) {
            let text =
                format!("record {} names {}: {fault}", record.link.number, record.manifest_key);
            self.add_damage("snapshot", text);
        }
    }
}
