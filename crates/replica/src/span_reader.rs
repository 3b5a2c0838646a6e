//! Reads the final blocks of one generation of a log.
//!
//! In: the messages of a span of the generation (`generation_spans`). Out: its final blocks in their order.
//! Invariant: a record has the digests that it states. The sum over all accounts and the bank hash come from the
//! ingester and are not recomputed.
//! Behaviour on damage: damaged records are passed over. Blocks are missing then.
//! Bounds: those of the blocks above the root (`unrooted_blocks`), besides one record.
//! Not here: missing blocks, and the generations that may have them (`logged_blocks`).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use chain_solana::Block;
use chain_solana::wire::{BlockRecord, Mark, ReadRecord, Record, RecordReader, WireError};
use ledger::Slot;
use replicated_log::{
    BATCH_MESSAGES_MAX, Log, LogError, LogReader, MessageKind, ReadError, StoredMessage,
};
use solana::VerificationLevel;

use crate::fault::check_level;
use crate::generation_spans::{GenerationSpan, MESSAGE_TIMEOUT};
use crate::unrooted_blocks::{UnrootedBlock, UnrootedBlocks};

/// Damaged messages that are passed over: as many as an object of a log has. If it is damaged, all are unreadable.
const DAMAGES_MAX: usize = BATCH_MESSAGES_MAX;

/// Reads the final blocks of a span.
pub(crate) struct SpanReader {
    generation: u64,
    log: Arc<dyn Log>,
    /// `None` until the log is read at the position.
    reader: Option<Box<dyn LogReader>>,
    /// `None` while a thread decodes a message.
    records: Option<RecordReader>,
    /// Sequence of the last message that was read.
    at: u64,
    /// Sequence of the last message to be read.
    end: u64,
    /// Whether the span ended before its last message: it fell silent, was removed, or has too many damages.
    ended_early: bool,
    /// Whether messages are skipped up to the next head.
    is_skipping: bool,
    damages: usize,
    /// Records that could not be decoded.
    undecodable: usize,
    /// The lowest level of proof of an ingester whose records are used.
    level_min: Option<VerificationLevel>,
    unrooted: UnrootedBlocks,
    ready: VecDeque<Block>,
    /// The slot of the last final block, or 0.
    last_slot: Slot,
}

impl SpanReader {
    /// Starts to read a span. Records of ingesters below `level_min` are passed over as damaged ones are.
    pub(crate) fn new(span: &GenerationSpan, level_min: Option<VerificationLevel>) -> Self {
        Self {
            generation: span.generation,
            log: Arc::clone(&span.log),
            reader: None,
            records: None,
            at: span.after,
            end: span.last,
            ended_early: false,
            // A log may be cut within a record.
            is_skipping: true,
            damages: 0,
            undecodable: 0,
            level_min,
            unrooted: UnrootedBlocks::default(),
            ready: VecDeque::new(),
            last_slot: 0,
        }
    }

    /// Returns the next final block, or `None` at the end of the span. After an error the next call reads the same
    /// position again.
    ///
    /// # Errors
    ///
    /// The log cannot be reached.
    pub(crate) async fn next_block(&mut self) -> Result<Option<Block>, LogError> {
        loop {
            if let Some(block) = self.ready.pop_front() {
                self.last_slot = self.last_slot.max(block.id.slot);
                return Ok(Some(block));
            }
            if !self.read_message().await? {
                return Ok(None);
            }
        }
    }

    /// Whether the span ended before its last message. Opening the log again may return more blocks.
    pub(crate) fn ended_early(&self) -> bool {
        self.ended_early
    }

    /// Returns the slot of the last final block, or 0 if the span has had none.
    pub(crate) fn last_slot(&self) -> Slot {
        self.last_slot
    }

    /// Estimates the bytes of the blocks in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.unrooted.bytes() + self.ready.iter().map(Block::bytes).sum::<u64>()
    }

    /// Logs the number of records that could not be decoded. The first one has a line of its own.
    pub(crate) fn report_undecodable(&self) {
        if self.undecodable > 1 {
            tracing::warn!(
                generation = self.generation,
                records = self.undecodable,
                "passed over records that cannot be decoded"
            );
        }
    }

    /// Reads the next message. Returns `false` at the end of the span.
    async fn read_message(&mut self) -> Result<bool, LogError> {
        if self.at >= self.end {
            return Ok(false);
        }
        let generation = self.generation;
        let wanted = self.at + 1;
        let next = tokio::time::timeout(MESSAGE_TIMEOUT, self.next_message()).await;
        let Ok(next) = next else {
            tracing::warn!(generation, wanted, "the log sends no message in {MESSAGE_TIMEOUT:?}");
            self.ended_early = true;
            return Ok(false);
        };
        match next {
            Ok(message) => self.push(message).await,
            Err(ReadError::Truncated { first: found, .. } | ReadError::Missing { found, .. })
                if found > wanted =>
            {
                self.skip_to(found);
            }
            Err(ReadError::Damaged { .. }) if self.damages < DAMAGES_MAX => {
                self.damages += 1;
                self.skip_to(wanted + 1);
            }
            Err(ReadError::Log(err)) => return Err(err),
            Err(err) => {
                tracing::warn!(generation, wanted, "cannot continue to read the log: {err}");
                self.ended_early = true;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the next message of the log, which is opened at the position first.
    async fn next_message(&mut self) -> Result<StoredMessage, ReadError> {
        let opened = match self.reader.take() {
            Some(reader) => reader,
            None => self.log.read(self.at).await?,
        };
        self.reader.insert(opened).next().await
    }

    /// Reads from this message on.
    fn skip_to(&mut self, sequence: u64) {
        self.at = sequence - 1;
        self.restart_records();
        self.reader = None;
    }

    /// Continues with the next head, whatever record it follows.
    fn restart_records(&mut self) {
        self.records = None;
        self.is_skipping = true;
    }

    async fn push(&mut self, message: StoredMessage) {
        let StoredMessage { sequence, kind, payload, .. } = message;
        if sequence <= self.at {
            return;
        }
        if sequence > self.at + 1 {
            self.restart_records();
        }
        self.at = sequence;
        let is_head = matches!(kind, MessageKind::Head);
        if self.is_skipping && !is_head {
            return;
        }
        let mut read = self.decode(is_head, payload.clone()).await;
        if read.is_err() && is_head {
            // The record that starts with this head may be undamaged.
            self.records = None;
            read = self.decode(true, payload).await;
        }
        match read {
            Ok(read) => {
                self.is_skipping = false;
                if let Some(ReadRecord { record, .. }) = read {
                    self.take_record(record);
                }
            }
            Err(err) => {
                if self.undecodable == 0 {
                    tracing::warn!(sequence, "passes over a record of the log: {err}");
                }
                self.undecodable += 1;
                self.restart_records();
            }
        }
    }

    /// Decodes a message on a thread that may wait: a block takes milliseconds.
    async fn decode(
        &mut self,
        is_head: bool,
        payload: Bytes,
    ) -> Result<Option<ReadRecord>, WireError> {
        let mut records = self.records.take().unwrap_or_default();
        let decoded = tokio::task::spawn_blocking(move || {
            let read = records.push(is_head, payload);
            (records, read)
        });
        match decoded.await {
            Ok((records, read)) => {
                self.records = Some(records);
                read
            }
            // The runtime ends.
            Err(_) => Ok(None),
        }
    }

    fn take_record(&mut self, record: Record) {
        if check_level(record.writer(), record.link().number, self.level_min).is_err() {
            return;
        }
        match record {
            Record::Block(record) => {
                let BlockRecord { link, parent_number, block, is_jump, .. } = *record;
                // The transactions of a block that the ingester jumped to are unknown.
                if !is_jump {
                    let block = Block { entries: Vec::new(), ..block };
                    self.unrooted.insert(link.number, UnrootedBlock { parent_number, block });
                }
            }
            Record::Marks(record) => {
                for mark in record.marks {
                    match mark {
                        Mark::Rooted(root) => self.ready.extend(self.unrooted.take_chain(root)),
                        Mark::Reverted { block, .. } => {
                            self.unrooted.remove(block.number);
                        }
                        Mark::TipMoved(_) | Mark::Confirmed(_) => {}
                    }
                }
            }
            Record::Term(_) | Record::Snapshot(_) => {}
        }
    }
}
