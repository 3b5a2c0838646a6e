//! A new generation: a snapshot of the own final view, then the first record, which names it.
//!
//! Shape: wait, search for a generation of another ingester, retain the final view, wait until the own events have
//! reached its block, write the snapshot, create the generation, append the first record. The fence of the first append
//! decides between two ingesters that open the same generation.
//! Invariant: the own blocks above the snapshot's are retained until the generation has its first record.
//! Not here: the decision to open one (`next_generation`), the snapshot itself (`ledger_snapshots`).

use std::sync::Arc;

use chain_solana::wire::{
    BlockName, RecordDigest, RecordLink, SnapshotRecord, WriterId, encode_snapshot, read_head,
};
use ledger::Slot;
use replicated_log::LogMessage;
use solana_hash::Hash;

use super::phase::{
    Following, OpenedSnapshot, OpeningStep, Phase, SnapshotRequest, ViewBlock, WrittenSnapshot,
};
use super::{Action, AppendFailure, Notice, Now, Plan, RETRY_DELAY};
use crate::batch::{Batch, BatchError};
use crate::log_chain::LogChain;

/// Bits of the numbers of one generation's records, so that numbers rise even if the last one of a lost generation is
/// not known. Four billion records take decades. Readers derive write versions of 64 bits from a number, and shift it
/// by 22 bits for that.
const GENERATION_NUMBER_BITS: u32 = 32;

impl Plan {
    pub(super) fn next_opening_action(&mut self, now: Now) -> Action {
        let Phase::Opening(opening) = &mut self.phase else { return Action::Wait(None) };
        if let OpeningStep::Waiting { until } = opening.step {
            if now.elapsed < until {
                return Action::Wait(Some(until));
            }
            opening.step = OpeningStep::Searching;
        }
        match &opening.step {
            OpeningStep::Waiting { until } => Action::Wait(Some(*until)),
            OpeningStep::Searching if opening.exists => Action::ReadTail,
            OpeningStep::Searching => Action::FindGeneration,
            OpeningStep::Viewing => self.retain_view(now),
            OpeningStep::Reaching(view) => {
                let view = *view;
                self.start_snapshot(view, now)
            }
            // Its outcome is the next input.
            OpeningStep::Writing { .. } => Action::Wait(None),
            OpeningStep::Creating(_) => Action::CreateGeneration(opening.generation),
            OpeningStep::Opening(_) => Action::OpenGeneration(opening.generation),
            OpeningStep::Appending(batch) => Action::Append(Box::new(batch.clone())),
            OpeningStep::Checking(_) => Action::ReadTail,
        }
    }

    /// Ends the search of [`OpeningStep::Searching`]. `newest` is a generation of another ingester.
    pub(super) fn end_opening_search(&mut self, newest: Option<u64>) {
        let Phase::Opening(opening) = &mut self.phase else { return };
        if !matches!(opening.step, OpeningStep::Searching) || opening.exists {
            return;
        }
        let newer = newest.filter(|newest| *newest >= opening.generation);
        match newer.or_else(|| self.find_rejoin(newest)) {
            Some(generation) => self.connect(generation),
            None => self.expect_snapshot(),
        }
    }

    fn expect_snapshot(&mut self) {
        let Phase::Opening(opening) = &mut self.phase else { return };
        opening.step = OpeningStep::Viewing;
    }

    fn retain_view(&mut self, now: Now) -> Action {
        match self.own.is_complete() {
            true => Action::RetainView,
            false => Action::Wait(Some(now.elapsed + RETRY_DELAY)),
        }
    }

    /// Retains the own blocks above the view. The ledger is ahead of its events, so its root may be to come.
    pub(super) fn expect_root(&mut self, view: ViewBlock, now: Now) {
        let Phase::Opening(opening) = &mut self.phase else { return };
        if view.key.slot < self.own.root_key().slot {
            // The blocks above it may be gone. It is tried with a newer view.
            return self.delay(now);
        }
        self.own.pin(view.key.slot);
        opening.step = OpeningStep::Reaching(view);
    }

    /// Requests a snapshot of the view, once the own root has reached it.
    fn start_snapshot(&mut self, view: ViewBlock, now: Now) -> Action {
        if !self.own.is_pinned() {
            self.expect_snapshot();
            return self.retain_view(now);
        }
        if self.own.root_key().slot < view.key.slot {
            return Action::Wait(Some(now.elapsed + RETRY_DELAY));
        }
        let ViewBlock { id, key } = view;
        let Phase::Opening(opening) = &mut self.phase else { return Action::Wait(None) };
        let earlier = opening.earlier.as_ref().and_then(|log| log.block(log.find(&key)?));
        let request = SnapshotRequest {
            generation: opening.generation,
            block: id,
            number: self.last_number.max(opening.generation << GENERATION_NUMBER_BITS),
            block_digest: earlier
                .map_or_else(|| unlogged_block_digest(key.slot, &key.blockhash), |it| it.record),
        };
        opening.step = OpeningStep::Writing { request, since: now.elapsed };
        let notice = Notice::OpensGeneration {
            generation: opening.generation,
            reason: Arc::clone(&opening.reason),
        };
        self.notices.push(notice);
        Action::WriteSnapshot(request)
    }

    pub(super) fn end_snapshot(&mut self, result: Result<WrittenSnapshot, ()>, now: Now) {
        let is_retained = self.own.is_pinned();
        let Phase::Opening(opening) = &mut self.phase else { return self.own.unpin() };
        let OpeningStep::Writing { request, since } = opening.step else { return };
        match result {
            Ok(written) if is_retained => {
                let snapshot = OpenedSnapshot { request, written };
                opening.step = match opening.exists {
                    true => OpeningStep::Opening(snapshot),
                    false => OpeningStep::Creating(snapshot),
                };
            }
            result => {
                if result.is_ok() {
                    // It cannot succeed before the queue is larger, or the state smaller.
                    self.notices.push(Notice::SnapshotTooSlow {
                        took: now.elapsed.saturating_sub(since),
                        queue_bytes_max: self.config.queue_bytes_max,
                    });
                }
                self.own.unpin();
                self.expect_snapshot();
                self.delay(now);
            }
        }
    }

    pub(super) fn end_creation(&mut self, result: Result<(), ()>, now: Now) {
        let Phase::Opening(opening) = &mut self.phase else { return };
        let OpeningStep::Creating(snapshot) = &opening.step else { return };
        match result {
            Ok(()) => opening.step = OpeningStep::Opening(snapshot.clone()),
            Err(()) => self.delay(now),
        }
    }

    pub(super) fn end_opened_generation(&mut self, result: Result<(), ()>, now: Now) {
        let Phase::Opening(opening) = &mut self.phase else { return };
        let OpeningStep::Opening(snapshot) = &opening.step else { return };
        if result.is_err() {
            return self.delay(now);
        }
        let snapshot = snapshot.clone();
        let batch = self.first_batch(&snapshot, now);
        match (batch, &mut self.phase) {
            (Ok(batch), Phase::Opening(opening)) => opening.step = OpeningStep::Appending(batch),
            (Err(err), _) => {
                self.stop(format!("the first record of a generation cannot be made: {err}"));
            }
            _ => {}
        }
    }

    /// The first record, which is the start of a term as well. It is made once: an append without a reply is repeated
    /// as it was.
    fn first_batch(&self, snapshot: &OpenedSnapshot, now: Now) -> Result<Batch, BatchError> {
        let record = first_record(snapshot, self.config.writer(self.last_term + 1), now);
        let encoded = encode_snapshot(&record);
        let mut chain = LogChain::default();
        chain.apply(&read_head(&encoded.head)?, 1)?;
        Ok(Batch {
            after: 0,
            messages: vec![LogMessage::head(encoded.head)],
            chain,
            items: Vec::new(),
            blocks: Vec::new(),
            records: 1,
        })
    }

    pub(super) fn end_first_append(&mut self, result: Result<u64, AppendFailure>, now: Now) {
        let Phase::Opening(opening) = &mut self.phase else { return };
        let OpeningStep::Appending(batch) = &opening.step else { return };
        let generation = opening.generation;
        let batch = batch.clone();
        match result {
            Ok(1) => self.end_opening(generation, batch, now),
            // Another ingester may have appended the first record.
            Ok(_) => self.connect(generation),
            Err(AppendFailure::Fenced { .. }) => {
                self.counters.fenced += 1;
                self.connect(generation);
            }
            Err(AppendFailure::Unknown) => {
                self.counters.unknown += 1;
                opening.step = OpeningStep::Checking(batch);
                self.delay(now);
            }
            Err(AppendFailure::Full) => {
                self.counters.full += 1;
                self.notices.push(Notice::Full);
                self.delay(now);
            }
            Err(AppendFailure::Refused(reason)) => {
                self.counters.refused += 1;
                self.notices.push(Notice::RefusedBatch(reason));
                self.delay(now);
            }
        }
    }

    /// The log has its first record, which this ingester appended.
    fn end_opening(&mut self, generation: u64, batch: Batch, now: Now) {
        self.counters.generations_opened += 1;
        self.counters.records += 1;
        let following = Following::from_first_record(generation, batch.chain, now.elapsed);
        self.own.requeue();
        self.own.unpin();
        self.own.forget_left_root();
        self.start_following(following);
    }

    /// Ends a request for the extent of a generation that may be empty.
    pub(super) fn end_first_tail(&mut self, last: u64) {
        let Phase::Opening(opening) = &mut self.phase else { return };
        let generation = opening.generation;
        let is_expected = match &opening.step {
            OpeningStep::Checking(_) => true,
            OpeningStep::Searching => opening.exists,
            _ => false,
        };
        match &opening.step {
            _ if !is_expected => {}
            _ if last > 0 => self.connect(generation),
            OpeningStep::Checking(batch) => opening.step = OpeningStep::Appending(batch.clone()),
            _ => self.expect_snapshot(),
        }
    }
}

fn first_record(snapshot: &OpenedSnapshot, writer: WriterId, now: Now) -> SnapshotRecord {
    let OpenedSnapshot { request, written } = snapshot;
    let WrittenSnapshot { number, block_digest, manifest_key, manifest_digest } = written.clone();
    let block = request.block;
    SnapshotRecord {
        link: RecordLink { number: number + 1, previous: block_digest },
        writer,
        made_at_ms: now.unix_ms,
        manifest_key,
        manifest_digest,
        block: BlockName { slot: block.slot, number },
        block_digest,
    }
}

/// The digest of the record of a block that no log has. A first generation continues from it.
fn unlogged_block_digest(slot: Slot, blockhash: &Hash) -> RecordDigest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"hydrant unlogged block");
    hasher.update(&slot.to_le_bytes());
    hasher.update(blockhash.as_bytes());
    RecordDigest(*hasher.finalize().as_bytes())
}
