//! The generations of a log that may have final blocks from a slot on, and the messages of each that are read.
//!
//! In: the first records of the newest generations, and the snapshots of the store. Out: a [`GenerationSpan`] for each
//! generation, the oldest first: of the newest one that continues from a block before the slot, or else of the oldest
//! one, and of all later ones.
//! Bounds: those of the list of generations (`newest_generations`).
//! Not here: the messages (`logged_blocks`).

use std::sync::Arc;
use std::time::Duration;

use cluster_snapshot::{load_manifest, newest_snapshots};
use depot::Depot;
use ledger::Slot;
use replicated_log::{Log, LogError, LogSpace, Tail};

use crate::first_record::FirstRecord;
use crate::newest_generations::{NewestGenerations, OpenGeneration};

/// Time limit of the wait for a message that exists.
pub(crate) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of snapshots before the first block whose manifests are tried.
const MANIFESTS_MAX: usize = 4;

/// The messages of a generation that may have needed blocks.
pub(crate) struct GenerationSpan {
    pub(crate) generation: u64,
    pub(crate) log: Arc<dyn Log>,
    /// Sequence before the first message to be read.
    pub(crate) after: u64,
    /// Sequence of the last message to be read: the end of the generation when it was opened.
    pub(crate) last: u64,
    /// The slot of the block that the generation continues from. `None` if its first record was not needed or cannot be
    /// read.
    start_slot: Option<Slot>,
}

/// The spans of a log that were not read yet.
pub(crate) struct GenerationSpans {
    /// The newest one first.
    spans: Vec<GenerationSpan>,
}

impl GenerationSpans {
    /// Finds the spans with the blocks from the slot `from` on.
    ///
    /// # Errors
    ///
    /// The log cannot be reached.
    pub(crate) async fn find(
        space: &dyn LogSpace,
        depot: &Depot,
        cluster: &str,
        from: Slot,
    ) -> Result<Self, LogError> {
        let mut spans = Vec::new();
        let Some(newest) = space.newest_generation().await? else { return Ok(Self { spans }) };
        let mut generations = NewestGenerations::new(space, 0, newest);
        while let Some(opened) = generations.open_next().await? {
            let OpenGeneration { generation, log, tail } = opened;
            let Some(tail) = tail.filter(|tail| tail.first <= tail.last) else { continue };
            let oldest = tail.first.saturating_sub(1);
            if let Some(position) = find_snapshot(depot, cluster, generation, &tail, from).await {
                let after = position.max(oldest);
                let last = tail.last;
                spans.push(GenerationSpan { generation, log, after, last, start_slot: None });
                break;
            }
            let first = FirstRecord::read(&*log, &tail, MESSAGE_TIMEOUT).await?;
            let start_slot = first.map(|first| first.record.block.slot);
            // Generations before one that has lost its oldest messages have lost all of theirs. If a first record is
            // only unreadable, they may have the blocks.
            let is_before = start_slot.map_or(tail.first > 1, |start| start < from);
            let last = tail.last;
            spans.push(GenerationSpan { generation, log, after: oldest, last, start_slot });
            if is_before {
                break;
            }
        }
        Ok(Self { spans })
    }

    /// Removes the oldest span.
    pub(crate) fn take_oldest(&mut self) -> Option<GenerationSpan> {
        self.spans.pop()
    }

    /// Removes the oldest span that has all blocks after a slot, and the spans before it. Returns `None`, and removes
    /// none, if no span is known to have them.
    pub(crate) fn take_covering(&mut self, after: Slot) -> Option<GenerationSpan> {
        let covers = |span: &GenerationSpan| span.start_slot.is_some_and(|start| start <= after);
        let at = self.spans.iter().rposition(covers)?;
        self.spans.truncate(at + 1);
        self.spans.pop()
    }
}

/// Returns the position of the newest snapshot of a generation before a slot. Records after it have the blocks after
/// its own.
async fn find_snapshot(
    depot: &Depot,
    cluster: &str,
    generation: u64,
    tail: &Tail,
    from: Slot,
) -> Option<u64> {
    let keys = match newest_snapshots(depot, cluster).await {
        Ok(keys) => keys,
        Err(err) => {
            tracing::warn!(err = &err as &dyn std::error::Error, "cannot list the snapshots");
            return None;
        }
    };
    let before = keys.into_iter().filter(|key| key.generation == generation && key.slot < from);
    for key in before.take(MANIFESTS_MAX) {
        match load_manifest(depot, &key.key, None).await {
            Ok(manifest) if manifest.position <= tail.last => return Some(manifest.position),
            // It is of another log of this generation.
            Ok(_) => {}
            Err(err) => tracing::warn!(%err, "a snapshot is not used"),
        }
    }
    None
}
