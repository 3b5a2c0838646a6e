//! One append: records in order, each linked to the one before it, and the chain as the log has it afterwards.
//!
//! Bounds: [`BATCH_MESSAGES_MAX`] messages, and [`BATCH_BYTES_MAX`] or one record.
//! Invariant: marks of one batch are in one record, unless a block comes between them, or there are more than a record
//! may have.
//! Not here: the choice of blocks and marks (`fill_batch`).

use chain_solana::RevertReason;
use chain_solana::wire::{
    self, BlockName, EncodedBlock, EncodedRecord, MARKS_MAX, Mark, MarksRecord, TermRecord,
    WireError, WriterId, encode_marks, encode_term, read_head,
};
use replicated_log::{BATCH_MESSAGES_MAX, LogMessage};

use crate::log_chain::{Damage, LogChain};
use crate::own_chain::ItemNumber;

const _: () = assert!(
    wire::MESSAGE_BYTES_MAX <= replicated_log::MESSAGE_BYTES_MAX
        && wire::RECORD_MESSAGES_MAX <= BATCH_MESSAGES_MAX,
    "a log refuses the longest record"
);

/// Bytes after which a batch takes no more blocks. More save round trips, and delay the first block of the batch.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// A batch that can be appended.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// The log must end here.
    pub(crate) after: u64,
    pub(crate) messages: Vec<LogMessage>,
    /// The log with the batch.
    pub(crate) chain: LogChain,
    /// The items that the batch makes superfluous.
    pub(crate) items: Vec<ItemNumber>,
    /// The items whose blocks are in the batch.
    pub(crate) blocks: Vec<ItemNumber>,
    pub(crate) records: usize,
}

/// Why a batch cannot be made. Both are faults of this program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchError {
    #[error(transparent)]
    Damage(#[from] Damage),
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// A batch that is being made.
pub(crate) struct BatchBuilder {
    batch: Batch,
    writer: WriterId,
    unix_ms: u64,
    bytes: usize,
    records_max: usize,
    /// Marks that were applied to the chain, and have no record yet.
    marks: Vec<Mark>,
}

impl BatchBuilder {
    /// A batch after the last record of the log.
    pub(crate) fn new(log: &LogChain, writer: WriterId, unix_ms: u64, records_max: usize) -> Self {
        let batch = Batch {
            after: log.position(),
            messages: Vec::new(),
            chain: log.clone(),
            items: Vec::new(),
            blocks: Vec::new(),
            records: 0,
        };
        Self { batch, writer, unix_ms, bytes: 0, records_max, marks: Vec::new() }
    }

    /// The log with everything that was added.
    pub(crate) fn chain(&self) -> &LogChain {
        &self.batch.chain
    }

    /// Whether another mark fits.
    pub(crate) fn has_space(&self) -> bool {
        let records = self.batch.records + usize::from(!self.marks.is_empty());
        records < self.records_max
            && self.batch.messages.len() + 1 < BATCH_MESSAGES_MAX
            && self.bytes < BATCH_BYTES_MAX
    }

    /// Notes that an item needs no more than this batch.
    pub(crate) fn finish_item(&mut self, number: ItemNumber) {
        self.batch.items.push(number);
    }

    /// Adds the start of this writer's term.
    pub(crate) fn add_term(&mut self, reason: String) -> Result<(), BatchError> {
        let link = self.batch.chain.next_link();
        let term = TermRecord { link, writer: self.writer, made_at_ms: self.unix_ms, reason };
        self.add_record(&encode_term(&term), true)
    }

    /// Adds a block. Returns `false` if it does not fit into this batch.
    pub(crate) fn add_block(
        &mut self,
        number: ItemNumber,
        content: &EncodedBlock,
        parent: u64,
    ) -> Result<bool, BatchError> {
        let is_first = self.batch.messages.is_empty() && self.marks.is_empty();
        if !is_first && self.bytes + content.bytes() > BATCH_BYTES_MAX {
            return Ok(false);
        }
        if !is_first && !self.has_space() {
            return Ok(false);
        }
        self.flush_marks()?;
        let record = content.to_record(self.batch.chain.next_link(), self.writer, parent);
        if self.batch.messages.len() + 1 + record.bodies.len() > BATCH_MESSAGES_MAX {
            return Ok(false);
        }
        self.add_record(&record, true)?;
        self.batch.blocks.push(number);
        Ok(true)
    }

    /// Adds a mark of a block of the log.
    pub(crate) fn add_mark(&mut self, number: u64, mark: impl FnOnce(BlockName) -> Mark) {
        let Some(name) = self.batch.chain.name(number) else { return };
        let mark = mark(name);
        self.batch.chain.apply_mark(&mark);
        self.marks.push(mark);
    }

    /// Adds the removal of a block and of its descendants, the newest first.
    pub(crate) fn add_reverts(&mut self, numbers: &[u64], reason: &RevertReason) {
        for number in numbers {
            let reason = reason.clone();
            self.add_mark(*number, |block| Mark::Reverted { block, reason });
        }
    }

    /// Returns the batch. It has no messages if nothing was added.
    pub(crate) fn finish(mut self) -> Result<Batch, BatchError> {
        self.flush_marks()?;
        Ok(self.batch)
    }

    /// Writes the marks so far as records.
    fn flush_marks(&mut self) -> Result<(), BatchError> {
        let marks = std::mem::take(&mut self.marks);
        for part in marks.chunks(MARKS_MAX) {
            let record = MarksRecord {
                link: self.batch.chain.next_link(),
                writer: self.writer,
                made_at_ms: self.unix_ms,
                marks: part.to_vec(),
            };
            self.add_record(&encode_marks(&record), false)?;
        }
        Ok(())
    }

    fn add_record(&mut self, record: &EncodedRecord, has_effects: bool) -> Result<(), BatchError> {
        let Batch { after, messages, chain, records, .. } = &mut self.batch;
        messages.push(LogMessage::head(record.head.clone()));
        messages.extend(record.bodies.iter().cloned().map(LogMessage::body));
        let sequence = *after + messages.len() as u64;
        let head = read_head(&record.head)?;
        match has_effects {
            true => chain.apply(&head, sequence)?,
            false => chain.advance(&head, sequence)?,
        }
        self.bytes += record.bytes();
        *records += 1;
        Ok(())
    }
}
