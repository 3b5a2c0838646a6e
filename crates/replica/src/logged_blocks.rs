//! The final blocks that a log still has, for an archive that lacks them.
//!
//! In: the final blocks of one generation after the other (`generation_spans`, `span_reader`). Out: final blocks in
//! their order, each slot once, up to the message that was the log's last one at the start.
//! Invariant: that of `span_reader`, and each block follows the one before it, or blocks between them are missing.
//! Behaviour on damage: a block whose parent is not the block before it is passed over. If a block is missing, all
//! generations that may have it are tried. If none has it, the oldest block after the gap follows. A generation that
//! cannot be read is one that lacks the block. The caller finds out from the parents of blocks that some are missing.
//! Bounds: those of `span_reader`: one generation is read at a time.
//! Not here: the ledger that follows the log (`log_follower`), the archive (`cluster_snapshot`).

use std::error::Error;

use chain_solana::Block;
use depot::Depot;
use ledger::Slot;
use replicated_log::{LogError, LogSpace};
use solana::VerificationLevel;
use solana_hash::Hash;

use crate::generation_spans::GenerationSpans;
use crate::span_reader::SpanReader;

/// Reads final blocks from a log.
pub struct LoggedBlocks {
    spans: GenerationSpans,
    /// The reader of the open span.
    reader: SpanReader,
    /// The lowest level of proof of an ingester whose records are used.
    level_min: Option<VerificationLevel>,
    /// The first needed slot.
    from: Slot,
    /// The last block that was returned.
    last: Option<LastBlock>,
    /// The oldest block after the last one, if blocks between them are missing.
    gap_end: Option<GapEnd>,
    /// Whether a span could not be read to its end, and no block followed in another one.
    ended_early: bool,
    /// The error of such a span.
    failure: Option<LogError>,
    is_incomplete: bool,
    may_grow: bool,
    /// Whether a block of another chain was skipped.
    has_other_chain: bool,
}

/// The oldest known block after missing ones.
#[derive(Clone, Copy)]
struct GapEnd {
    slot: Slot,
    /// The index of the span that has it.
    span: usize,
    /// Whether no other span has the missing blocks.
    is_accepted: bool,
}

/// The last block that was returned.
#[derive(Clone, Copy)]
struct LastBlock {
    slot: Slot,
    blockhash: Hash,
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
        Ok(found.map(|spans| Self {
            reader: SpanReader::new(spans.open_span(), level_min),
            spans,
            level_min,
            from,
            last: None,
            gap_end: None,
            ended_early: false,
            failure: None,
            is_incomplete: false,
            may_grow: false,
            has_other_chain: false,
        }))
    }

    /// Returns the next final block, or `None` at the end of the log. The first blocks may be older than the needed one.
    ///
    /// # Errors
    ///
    /// A generation cannot be read, and no other one has the next block. The next call continues with the generation
    /// that was opened last: it reads on, or returns `None`, and the read is incomplete. Open the log again to retry all.
    pub async fn next_block(&mut self) -> Result<Option<Block>, LogError> {
        loop {
            let failure = match self.reader.next_block().await {
                Ok(Some(block)) => {
                    if self.accept_block(&block) {
                        return Ok(Some(block));
                    }
                    continue;
                }
                Ok(None) => None,
                Err(err) => Some(err),
            };
            self.end_span(failure);
            if self.open_next_span() {
                continue;
            }
            if let Some(err) = self.failure.take() {
                return Err(err);
            }
            self.is_incomplete |= self.ended_early;
            return Ok(None);
        }
    }

    /// Whether a generation could not be read to its end, and no other one has the blocks after that point. Opening the
    /// log again may return more blocks.
    pub fn is_incomplete(&self) -> bool {
        self.is_incomplete || self.spans.is_incomplete()
    }

    /// Whether blocks were missing that the newest generation may still get: it ends before them.
    pub fn may_grow(&self) -> bool {
        self.may_grow
    }

    /// Estimates the bytes of the blocks in memory.
    pub fn bytes(&self) -> u64 {
        self.reader.bytes()
    }

    /// Returns the slot of the last returned block, or the one before the first needed slot.
    fn reached_slot(&self) -> Slot {
        self.last.map_or_else(|| self.from.saturating_sub(1), |last| last.slot)
    }

    /// Returns whether a block is the next one to be returned. If blocks before it are missing, another span is opened
    /// that may have them.
    fn accept_block(&mut self, block: &Block) -> bool {
        let slot = block.id.slot;
        match self.compare(block) {
            Succession::Next => {}
            // A generation repeats the blocks above the one that it continues from.
            Succession::Repeated => return false,
            Succession::OtherChain(last) => {
                self.report_other_chain(slot, last);
                return false;
            }
            Succession::Gap => {
                if self.open_missing(slot) {
                    return false;
                }
                self.is_incomplete |= self.ended_early;
                self.may_grow |= self.spans.may_grow(self.reached_slot());
            }
        }
        self.gap_end = None;
        self.ended_early = false;
        self.failure = None;
        self.last = Some(LastBlock { slot, blockhash: block.blockhash });
        true
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

    /// Opens a span that may have the blocks before the block of a slot, which the open span has. Returns `false` if
    /// this block is the next one, because no span has an older block after the gap.
    fn open_missing(&mut self, slot: Slot) -> bool {
        let span = self.spans.open_index();
        let here = GapEnd { slot, span, is_accepted: false };
        let gap_end = self.gap_end.unwrap_or(here);
        if gap_end.is_accepted {
            return false;
        }
        let gap_end = if gap_end.slot <= slot { gap_end } else { here };
        self.open_for_gap(gap_end);
        if self.spans.open_index() == span {
            return false;
        }
        self.read_open_span();
        true
    }

    /// Opens a span that may have the blocks before the end of a gap. If there is none, the block at its end is
    /// accepted, and its span is opened.
    fn open_for_gap(&mut self, gap_end: GapEnd) {
        let is_open = self.spans.open_for_gap(self.reached_slot(), gap_end.slot);
        self.gap_end = Some(GapEnd { is_accepted: !is_open, ..gap_end });
        if !is_open {
            self.spans.reopen(gap_end.span);
        }
    }

    /// Notes the end of the open span, or the error that it ended with.
    fn end_span(&mut self, failure: Option<LogError>) {
        let ended_early = failure.is_some() || self.reader.ended_early();
        if ended_early {
            self.ended_early = true;
            self.spans.note_early_end();
        } else {
            self.spans.note_end(self.reader.last_slot());
        }
        if let Some(err) = failure {
            let generation = self.spans.open_span().generation;
            tracing::warn!(generation, err = &err as &dyn Error, "cannot read a generation");
            self.failure.get_or_insert(err);
        }
        self.reader.report_undecodable();
    }

    /// Opens another span after the end of the open one. Returns whether there is one.
    fn open_next_span(&mut self) -> bool {
        let missing = self.gap_end.filter(|gap_end| !gap_end.is_accepted);
        if let Some(gap_end) = missing {
            // The open span does not have the missing blocks.
            self.open_for_gap(gap_end);
        } else if !self.spans.open_after_end(self.reached_slot()) {
            return false;
        }
        self.read_open_span();
        true
    }

    /// Reads the open span from its start.
    fn read_open_span(&mut self) {
        let span = self.spans.open_span();
        let generation = span.generation;
        tracing::debug!(generation, "reads final blocks of another generation of the log");
        self.reader = SpanReader::new(span, self.level_min);
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
}
