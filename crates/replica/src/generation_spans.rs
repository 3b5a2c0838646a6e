//! The generations of a log that may have final blocks from a slot on, and which of them is read next.
//!
//! In: the newest generations with their first records, the snapshots of the store, and the ends of reads. Out: the
//! [`GenerationSpan`] to be read. The first one is of the newest generation that continues from a block before the
//! slot, or else of the oldest one. A later generation follows at its end, or else an earlier one that may be longer.
//! If a block is missing, the others are tried.
//! Behaviour on damage: a generation that cannot be opened does not hide the ones before it, nor does one that has lost
//! its oldest messages: limits by bytes shorten the newest generation while the ones before it are whole. A generation
//! with a damaged end is read up to the damage.
//! Bounds: those of the list of generations (`newest_generations`), and [`SWITCHES_MAX`].
//! Not here: the messages (`span_reader`), the blocks that are missing (`logged_blocks`).

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use cluster_snapshot::{ManifestKey, load_manifest, newest_snapshots};
use depot::Depot;
use ledger::Slot;
use replicated_log::{Log, LogError, LogSpace, Tail};

use crate::first_record::FirstRecord;
use crate::newest_generations::{NewestGenerations, OpenGeneration};

/// Time limit of the wait for a message that exists.
pub(crate) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of snapshots before the first block whose manifests are tried.
const MANIFESTS_MAX: usize = 4;
/// Number of generations that are opened because of missing blocks. Each is read from its start, so a log that lacks
/// blocks in many places would be read many times. At the bound the read is incomplete.
const SWITCHES_MAX: usize = 32;

/// The messages of a generation that may have needed blocks.
pub(crate) struct GenerationSpan {
    pub(crate) generation: u64,
    pub(crate) log: Arc<dyn Log>,
    /// Sequence before the first message to be read.
    pub(crate) after: u64,
    /// Sequence of the last message to be read: the end of the generation when it was opened. The largest number if the
    /// end is damaged.
    pub(crate) last: u64,
    /// The slot of the block that the span continues from. `None` if it is not known.
    start_slot: Option<Slot>,
    /// The slot after which this span was read last, and had no next block.
    left_at: Option<Slot>,
    /// The slot of the last final block, once the span was read to its end.
    end_slot: Option<Slot>,
    /// Whether the span could not be read to its end.
    ended_early: bool,
}

impl GenerationSpan {
    fn new(generation: u64, log: Arc<dyn Log>, start: SpanStart, last: u64) -> Self {
        let SpanStart { after, slot: start_slot } = start;
        Self {
            generation,
            log,
            after,
            last,
            start_slot,
            left_at: None,
            end_slot: None,
            ended_early: false,
        }
    }

    /// Whether the span may have the block after `reached`, and was not read for it.
    fn may_continue(&self, reached: Slot) -> bool {
        self.start_slot.is_none_or(|start| start <= reached) && self.may_follow(reached)
    }

    /// Whether the span may have a block after `reached`, and was not read for the next one.
    fn may_follow(&self, reached: Slot) -> bool {
        self.left_at != Some(reached) && self.end_slot.is_none_or(|end| end > reached)
    }

    /// Whether the span starts before the block of the slot `gap_end`, may have a block after `reached`, and was not
    /// read for the next one.
    fn may_shorten_gap(&self, reached: Slot, gap_end: Slot) -> bool {
        self.start_slot.is_some_and(|start| start < gap_end) && self.may_follow(reached)
    }
}

/// The spans of a log. One of them is open.
pub(crate) struct GenerationSpans {
    /// The oldest one first.
    spans: Vec<GenerationSpan>,
    open: usize,
    switches: usize,
    /// Whether a generation may exist that is not in the list, because it could not be read, or one was not opened at
    /// the bound.
    is_incomplete: bool,
}

impl GenerationSpans {
    /// Finds the spans with the blocks from the slot `from` on, and opens the first one. Returns `None` if the log has
    /// no messages.
    ///
    /// # Errors
    ///
    /// The log cannot be reached.
    pub(crate) async fn find(
        space: &dyn LogSpace,
        depot: &Depot,
        cluster: &str,
        from: Slot,
    ) -> Result<Option<Self>, LogError> {
        let Some(newest) = space.newest_generation().await? else { return Ok(None) };
        let snapshots = list_snapshots(depot, cluster, from).await;
        let mut generations = NewestGenerations::new(space, 0, newest);
        let mut spans = Vec::new();
        let mut is_incomplete = false;
        loop {
            let opened = match generations.open_next().await {
                Ok(Some(opened)) => opened,
                Ok(None) => break,
                Err(err) if spans.is_empty() => return Err(err),
                Err(err) => {
                    is_incomplete = true;
                    tracing::warn!(err = &err as &dyn Error, "cannot open an older generation");
                    continue;
                }
            };
            let tail = opened.tail.clone().unwrap_or(Tail { first: 1, last: u64::MAX });
            if tail.first > tail.last {
                continue;
            }
            let start = find_start(depot, &snapshots, &opened, &tail).await;
            let (start, failure) = match start {
                Ok(start) => (start, None),
                Err(FirstRecordError::Log(err)) if spans.is_empty() => return Err(err),
                Err(err) => (SpanStart::oldest(&tail, None), Some(err)),
            };
            let OpenGeneration { generation, log, .. } = opened;
            spans.push(GenerationSpan::new(generation, log, start, tail.last));
            if let Some(failure) = failure {
                is_incomplete = true;
                let err = &failure as &dyn Error;
                tracing::warn!(generation, err, "cannot read the start of a generation");
                // The ones before it would take as long.
                if matches!(failure, FirstRecordError::Silent) {
                    break;
                }
            }
        }
        spans.reverse();
        let is_before = |span: &GenerationSpan| span.start_slot.is_some_and(|start| start < from);
        let open = spans.iter().rposition(is_before).unwrap_or(0);
        Ok((!spans.is_empty()).then_some(Self { spans, open, switches: 0, is_incomplete }))
    }

    /// Returns the open span.
    pub(crate) fn open_span(&self) -> &GenerationSpan {
        &self.spans[self.open]
    }

    /// Returns the index of the open span.
    pub(crate) fn open_index(&self) -> usize {
        self.open
    }

    /// Whether a generation that may exist could not be read. Opening the log again may return more blocks.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Whether the newest span was read to its end, and has no block after `reached` yet. An opener that is behind
    /// lists blocks that older generations lack.
    pub(crate) fn may_grow(&self, reached: Slot) -> bool {
        let newest = self.spans.last();
        newest.and_then(|newest| newest.end_slot).is_some_and(|end| end <= reached)
    }

    /// Notes that the open span was read to its end. `end_slot` is the slot of its last final block.
    pub(crate) fn note_end(&mut self, end_slot: Slot) {
        self.spans[self.open].end_slot = Some(end_slot);
    }

    /// Notes that the open span could not be read to its end.
    pub(crate) fn note_early_end(&mut self) {
        self.spans[self.open].ended_early = true;
    }

    /// Opens a span that may have the block after `reached`, which the open one lacks, or else one that may have
    /// another block before `gap_end`, the oldest known one. Later spans come first, the oldest of them before the
    /// others. Returns whether there is one.
    pub(crate) fn open_for_gap(&mut self, reached: Slot, gap_end: Slot) -> bool {
        self.spans[self.open].left_at = Some(reached);
        let continuing = self.find_other(|span| span.may_continue(reached));
        let found =
            continuing.or_else(|| self.find_other(|span| span.may_shorten_gap(reached, gap_end)));
        self.switch_span(found)
    }

    /// Opens the later span that follows the end of the open one at the block `reached`, or else an earlier one that
    /// may be longer. Returns whether there is one.
    pub(crate) fn open_after_end(&mut self, reached: Slot) -> bool {
        self.spans[self.open].left_at = Some(reached);
        let mut later = self.open + 1..self.spans.len();
        let continuing = later.clone().find(|index| self.spans[*index].may_continue(reached));
        let next =
            continuing.or_else(|| later.find(|index| self.spans[*index].may_follow(reached)));
        if let Some(index) = next {
            self.open = index;
            return true;
        }
        let may_be_longer = |span: &GenerationSpan| !span.ended_early && span.may_continue(reached);
        let earlier = (0..self.open).rev().find(|index| may_be_longer(&self.spans[*index]));
        self.switch_span(earlier)
    }

    /// Finds a span besides the open one: a later one, the oldest of them first, or else an earlier one.
    fn find_other(&self, may_have_block: impl Fn(&GenerationSpan) -> bool) -> Option<usize> {
        let mut others = (self.open + 1..self.spans.len()).chain((0..self.open).rev());
        others.find(|index| may_have_block(&self.spans[*index]))
    }

    /// Opens a span that was found for missing blocks. Returns whether it is open.
    fn switch_span(&mut self, found: Option<usize>) -> bool {
        let Some(index) = found else { return false };
        if self.switches >= SWITCHES_MAX {
            self.is_incomplete = true;
            return false;
        }
        self.switches += 1;
        self.open = index;
        true
    }

    /// Opens a span again.
    pub(crate) fn reopen(&mut self, index: usize) {
        self.open = index;
    }
}

/// Lists the snapshots before a slot, the newest first.
async fn list_snapshots(depot: &Depot, cluster: &str, before: Slot) -> Vec<ManifestKey> {
    match newest_snapshots(depot, cluster).await {
        Ok(mut keys) => {
            keys.retain(|key| key.slot < before);
            keys
        }
        Err(err) => {
            tracing::warn!(err = &err as &dyn Error, "cannot list the snapshots");
            Vec::new()
        }
    }
}

/// The start of the read of a generation.
struct SpanStart {
    /// Sequence before the first message to be read.
    after: u64,
    /// The slot of the block that the messages continue from. `None` if it is not known.
    slot: Option<Slot>,
}

impl SpanStart {
    /// The start at the oldest message of a generation, which continues from the block of a slot.
    fn oldest(tail: &Tail, slot: Option<Slot>) -> Self {
        Self { after: tail.first.saturating_sub(1), slot }
    }
}

/// Finds where to start in a generation: after its newest snapshot, or else at its oldest message.
async fn find_start(
    depot: &Depot,
    snapshots: &[ManifestKey],
    opened: &OpenGeneration,
    tail: &Tail,
) -> Result<SpanStart, FirstRecordError> {
    match find_snapshot(depot, snapshots, opened.generation, tail).await {
        Some(snapshot) => {
            let oldest = SpanStart::oldest(tail, None);
            // Messages after the snapshot may have been removed.
            let slot = (snapshot.position >= oldest.after).then_some(snapshot.slot);
            Ok(SpanStart { after: oldest.after.max(snapshot.position), slot })
        }
        None => Ok(SpanStart::oldest(tail, read_start_slot(&*opened.log, tail).await?)),
    }
}

/// A snapshot, and the record after which its generation continues it.
struct SnapshotStart {
    position: u64,
    slot: Slot,
}

/// Finds the newest of the snapshots that is of a generation. Records after its position have the blocks after its own.
async fn find_snapshot(
    depot: &Depot,
    snapshots: &[ManifestKey],
    generation: u64,
    tail: &Tail,
) -> Option<SnapshotStart> {
    let keys = snapshots.iter().filter(|key| key.generation == generation);
    for key in keys.take(MANIFESTS_MAX) {
        match load_manifest(depot, &key.key, None).await {
            Ok(manifest) if manifest.position <= tail.last => {
                return Some(SnapshotStart { position: manifest.position, slot: key.slot });
            }
            // It is of another log of this generation.
            Ok(_) => {}
            Err(err) => tracing::warn!(%err, "a snapshot is not used"),
        }
    }
    None
}

/// The first record of a generation cannot be read.
#[derive(Debug, thiserror::Error)]
enum FirstRecordError {
    #[error("the log sends no message in {MESSAGE_TIMEOUT:?}")]
    Silent,
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Returns the slot of the block that a generation continues from, or `None` if its first record does not say so.
async fn read_start_slot(log: &dyn Log, tail: &Tail) -> Result<Option<Slot>, FirstRecordError> {
    let first = FirstRecord::read(log, tail, MESSAGE_TIMEOUT * 2);
    let first = tokio::time::timeout(MESSAGE_TIMEOUT, first).await;
    let first = first.map_err(|_| FirstRecordError::Silent)??;
    Ok(first.map(|first| first.record.block.slot))
}
