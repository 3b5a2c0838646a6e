//! The final blocks that a log still has, for an archive that lacks them.
//!
//! In: the messages of the log, generation by generation (`generation_spans`). Out: final blocks in their order, each
//! slot once, up to the message that was the log's last one at the start.
//! Invariant: a record has the digests that it states. The sum over all accounts and the bank hash come from the
//! ingester and are not recomputed.
//! Behaviour on damage: damaged records are passed over, and so is a block whose parent is not the block before it. If
//! a block is missing, all generations that may have it are tried. If none has it, the oldest block after the gap
//! follows. The caller finds out from the parents of blocks that some are missing.
//! Bounds: those of the blocks above the root (`unrooted_blocks`), besides one record.
//! Not here: the ledger that follows the log (`log_follower`), the archive (`cluster_snapshot`).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use chain_solana::Block;
use chain_solana::wire::{BlockRecord, Mark, ReadRecord, Record, RecordReader, WireError};
use depot::Depot;
use ledger::Slot;
use replicated_log::{
    BATCH_MESSAGES_MAX, Log, LogError, LogReader, LogSpace, MessageKind, ReadError, StoredMessage,
};
use solana::VerificationLevel;
use solana_hash::Hash;

use crate::fault::check_level;
use crate::generation_spans::{GenerationSpan, GenerationSpans, MESSAGE_TIMEOUT};
use crate::unrooted_blocks::{UnrootedBlock, UnrootedBlocks};

/// Damaged messages that are passed over: as many as an object of a log has. If it is damaged, all are unreadable.
const DAMAGES_MAX: usize = BATCH_MESSAGES_MAX;

/// Reads final blocks from a log.
pub struct LoggedBlocks {
    spans: GenerationSpans,
    /// The log of the open span.
    log: Arc<dyn Log>,
    reader: Box<dyn LogReader>,
    /// `None` while a thread decodes a message.
    records: Option<RecordReader>,
    /// Sequence of the last message that was read.
    at: u64,
    /// Sequence of the last message to be read.
    end: u64,
    /// Whether messages are skipped up to the next head.
    is_skipping: bool,
    damages: usize,
    /// Records of the open span that could not be decoded.
    undecodable: usize,
    /// The slot of the last final block of the open span.
    span_slot: Slot,
    /// Whether a span could not be read to its end, and no block followed in another one.
    is_cut: bool,
    is_incomplete: bool,
    /// Whether a block of another chain was skipped.
    has_other_chain: bool,
    /// The lowest level of proof of an ingester whose records are used.
    level_min: Option<VerificationLevel>,
    unrooted: UnrootedBlocks,
    ready: VecDeque<Block>,
    /// The first needed slot.
    from: Slot,
    /// The last block that was returned.
    last: Option<LastBlock>,
    /// The oldest block after the last one, if blocks between them are missing.
    gap_end: Option<GapEnd>,
    /// Whether no other span has the missing blocks.
    accepts_gap: bool,
}

/// The oldest known block after missing ones.
#[derive(Clone, Copy)]
struct GapEnd {
    slot: Slot,
    /// The index of the span that has it.
    span: usize,
}

/// The last block that was returned.
#[derive(Clone, Copy)]
struct LastBlock {
    slot: Slot,
    blockhash: Hash,
}

/// The end of the messages of a generation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpanEnd {
    /// All of them were read.
    Complete,
    /// The generation fell silent, was removed, or has too many damages.
    Incomplete,
}

/// The relation of a block to the last one.
enum Succession {
    /// It is the next one.
    Next,
    /// Blocks between them are missing.
    Gap,
    /// It is the last one or before it.
    Repeated,
    /// Its parent is not the last one.
    OtherChain(LastBlock),
}

impl LoggedBlocks {
    /// Opens the generations of the log that may have the blocks from the slot `from` on: first the newest one that
    /// continues from a block before that slot, or else the oldest one, whose blocks are later ones. Returns `None` if
    /// the log has no messages. Records of ingesters below `level_min` are passed over as damaged ones are.
    ///
    /// # Errors
    ///
    /// The log cannot be reached.
    pub async fn open(
        space: &dyn LogSpace,
        depot: &Depot,
        cluster: &str,
        from: Slot,
        level_min: Option<VerificationLevel>,
    ) -> Result<Option<Self>, LogError> {
        let found = GenerationSpans::find(space, depot, cluster, from).await?;
        let Some(spans) = found else { return Ok(None) };
        let span = spans.open_span();
        let log = Arc::clone(&span.log);
        let at = span.after;
        let end = span.last;
        let reader = log.read(at).await?;
        Ok(Some(Self {
            log,
            reader,
            records: None,
            at,
            end,
            // A log may be cut within a record.
            is_skipping: true,
            damages: 0,
            undecodable: 0,
            span_slot: 0,
            is_cut: false,
            is_incomplete: spans.is_incomplete(),
            spans,
            has_other_chain: false,
            level_min,
            unrooted: UnrootedBlocks::default(),
            ready: VecDeque::new(),
            from,
            last: None,
            gap_end: None,
            accepts_gap: false,
        }))
    }

    /// Returns the next final block, or `None` at the end of the log. The first blocks may be older than the needed one.
    ///
    /// # Errors
    ///
    /// The log cannot be reached.
    pub async fn next_block(&mut self) -> Result<Option<Block>, LogError> {
        loop {
            if let Some(block) = self.ready.pop_front() {
                self.span_slot = self.span_slot.max(block.id.slot);
                if self.accept_block(&block).await? {
                    return Ok(Some(block));
                }
                continue;
            }
            let Some(end) = self.read_message().await? else { continue };
            self.end_span(end);
            let is_open = match self.gap_end {
                // The span does not have the missing blocks.
                Some(gap_end) if !self.accepts_gap => {
                    if !self.spans.open_continuing(self.reached_slot()) {
                        self.accept_gap(gap_end);
                    }
                    true
                }
                _ => self.spans.open_later(self.reached_slot()),
            };
            if !is_open {
                self.is_incomplete |= self.is_cut;
                return Ok(None);
            }
            self.read_open_span().await?;
        }
    }

    /// Returns the slot of the last returned block, or the one before the first needed slot.
    fn reached_slot(&self) -> Slot {
        self.last.map_or_else(|| self.from.saturating_sub(1), |last| last.slot)
    }

    /// Returns whether a block is the next one to be returned. If blocks before it are missing, another span is opened
    /// that may have them.
    async fn accept_block(&mut self, block: &Block) -> Result<bool, LogError> {
        let slot = block.id.slot;
        match self.compare(block) {
            Succession::Next => self.is_cut = false,
            // A generation repeats the blocks above the one that it continues from.
            Succession::Repeated => return Ok(false),
            Succession::OtherChain(last) => {
                self.report_other_chain(slot, last);
                return Ok(false);
            }
            Succession::Gap if self.accepts_gap => self.is_incomplete |= self.is_cut,
            Succession::Gap => {
                let span = self.spans.open_index();
                let here = GapEnd { slot, span };
                let gap_end = self.gap_end.filter(|other| other.slot <= slot).unwrap_or(here);
                self.gap_end = Some(gap_end);
                let is_open = self.spans.open_continuing(self.reached_slot());
                if !is_open {
                    self.accept_gap(gap_end);
                }
                if is_open || gap_end.span != span {
                    self.read_open_span().await?;
                    return Ok(false);
                }
                self.is_incomplete |= self.is_cut;
            }
        }
        self.gap_end = None;
        self.accepts_gap = false;
        self.last = Some(LastBlock { slot, blockhash: block.blockhash });
        Ok(true)
    }

    /// Returns the relation of a block to the last one. A gap among blocks before the first needed slot is ignored.
    fn compare(&self, next: &Block) -> Succession {
        let is_needed = next.parent.slot >= self.from;
        match self.last {
            None if is_needed => Succession::Gap,
            None => Succession::Next,
            Some(last) if next.id.slot <= last.slot => Succession::Repeated,
            Some(last) if next.parent.slot > last.slot && is_needed => Succession::Gap,
            Some(last) if next.parent.slot > last.slot => Succession::Next,
            Some(last) if next.parent.slot < last.slot => Succession::OtherChain(last),
            Some(last) if next.previous_blockhash != last.blockhash => Succession::OtherChain(last),
            Some(_) => Succession::Next,
        }
    }

    /// Continues with the block after the gap: no span has the missing ones.
    fn accept_gap(&mut self, gap_end: GapEnd) {
        self.accepts_gap = true;
        self.spans.reopen(gap_end.span);
    }

    /// Notes the end of the open span.
    fn end_span(&mut self, end: SpanEnd) {
        match end {
            SpanEnd::Complete => self.spans.note_end(self.span_slot),
            SpanEnd::Incomplete => self.is_cut = true,
        }
        if self.undecodable > 1 {
            let generation = self.spans.open_span().generation;
            let records = self.undecodable;
            tracing::warn!(generation, records, "passed over records that cannot be decoded");
        }
    }

    /// Logs the first skipped block of another chain: a log with two chains may have many.
    fn report_other_chain(&mut self, slot: Slot, last: LastBlock) {
        if !std::mem::replace(&mut self.has_other_chain, true) {
            tracing::error!(
                slot,
                after = last.slot,
                "skipped a final block of the log: its parent is not the last block; later ones are not reported"
            );
        }
    }

    /// Reads the open span from its start.
    async fn read_open_span(&mut self) -> Result<(), LogError> {
        let GenerationSpan { generation, log, after, last, .. } = self.spans.open_span();
        tracing::debug!(generation, "reads final blocks of another generation of the log");
        self.log = Arc::clone(log);
        self.at = *after;
        self.end = *last;
        self.reader = self.log.read(self.at).await?;
        self.damages = 0;
        self.undecodable = 0;
        self.span_slot = 0;
        self.restart_records();
        self.unrooted = UnrootedBlocks::default();
        self.ready.clear();
        Ok(())
    }

    /// Reads the next message of the open generation. Returns how the generation ended once it has no further message,
    /// otherwise `None`.
    async fn read_message(&mut self) -> Result<Option<SpanEnd>, LogError> {
        if self.at >= self.end {
            return Ok(Some(SpanEnd::Complete));
        }
        let wanted = self.at + 1;
        let next = tokio::time::timeout(MESSAGE_TIMEOUT, self.reader.next()).await;
        let Ok(next) = next else {
            tracing::warn!(wanted, "the log sends no message in {MESSAGE_TIMEOUT:?}");
            return Ok(Some(SpanEnd::Incomplete));
        };
        match next {
            Ok(message) => self.push(message).await,
            Err(ReadError::Truncated { first: found, .. } | ReadError::Missing { found, .. })
                if found > wanted =>
            {
                self.skip_to(found).await?;
            }
            Err(ReadError::Damaged { .. }) if self.damages < DAMAGES_MAX => {
                self.damages += 1;
                self.skip_to(wanted + 1).await?;
            }
            Err(ReadError::Log(err)) => return Err(err),
            Err(err) => {
                tracing::warn!(wanted, "cannot continue to read the log: {err}");
                return Ok(Some(SpanEnd::Incomplete));
            }
        }
        Ok(None)
    }

    /// Whether a generation could not be read to its end, and no other one has the blocks after that point. Opening the
    /// log again may return more blocks.
    pub fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Estimates the bytes of the blocks in memory.
    pub fn bytes(&self) -> u64 {
        self.unrooted.bytes() + self.ready.iter().map(Block::bytes).sum::<u64>()
    }

    /// Reads from this message on.
    async fn skip_to(&mut self, sequence: u64) -> Result<(), LogError> {
        self.at = sequence - 1;
        self.restart_records();
        self.reader = self.log.read(self.at).await?;
        Ok(())
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
