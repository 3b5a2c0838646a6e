//! Fills the holes of an archive with blocks that this replica has: in its history, or in the log.
//!
//! Bounds: [`HOLES_MAX`] holes, the newest ones.
//! Not here: how often the log is read for one (`log_reads`).

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use anyhow::Result;
use cluster_snapshot::archive::{
    ArchiveHoleKey, ArchiveLimits, ArchiveWriter, list_holes, list_open_slots, read_hole,
};
use ledger::Slot;

use super::log_reads::LogReads;
use super::{ArchiveProgress, Archiver};

/// Number of the newest holes that are filled. The blocks of older ones are in no history and no log.
const HOLES_MAX: usize = 64;

impl Archiver {
    /// Fills the holes whose blocks are known.
    pub(super) async fn fill_holes(&self, log_reads: &mut LogReads) -> Result<()> {
        log_reads.start();
        let holes = list_holes(&self.depot, &self.cluster).await?;
        let mut open_slots: u64 = 0;
        for hole in holes.iter().rev().take(HOLES_MAX) {
            for slots in self.list_open(hole).await? {
                if let Err(err) = self.fill(hole, slots, log_reads).await {
                    self.metrics.failures.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(key = hole.key, "cannot fill a hole of the archive: {err:#}");
                }
            }
            for slots in self.list_open(hole).await? {
                open_slots = open_slots.saturating_add(slots.end() - slots.start() + 1);
            }
        }
        self.metrics.open_slots.store(open_slots, Ordering::Relaxed);
        Ok(())
    }

    async fn list_open(&self, hole: &ArchiveHoleKey) -> Result<Vec<RangeInclusive<Slot>>> {
        Ok(list_open_slots(&self.depot, &self.info.epoch_schedule, hole).await?)
    }

    /// Archives the blocks of slots of a hole, as far as they are known.
    async fn fill(
        &self,
        hole: &ArchiveHoleKey,
        slots: RangeInclusive<Slot>,
        log_reads: &mut LogReads,
    ) -> Result<()> {
        let first = *slots.start();
        let last = *slots.end();
        let retained = self.final_blocks(first);
        let is_retained = retained.first().is_some_and(|block| block.parent.slot < first);
        if !is_retained && !log_reads.is_due(first) {
            return Ok(());
        }
        let hole = read_hole(&self.depot, hole).await?;
        let limits = ArchiveLimits::default();
        let schedule = self.info.epoch_schedule.clone();
        let depot = self.depot.clone();
        let writer = ArchiveWriter::open_hole(depot, &hole, first, schedule, limits).await?;
        let mut progress = ArchiveProgress::new(writer);
        if is_retained {
            return self.push_retained(&mut progress, last).await;
        }
        let mut is_cut = false;
        if let Some(mut logged) = self.open_log(first).await? {
            while let Some(block) = logged.next_block().await? {
                // The first block after the slots ends their last object.
                if !self.push(&mut progress, &block).await? || block.id.slot > last {
                    break;
                }
            }
            is_cut = logged.is_cut();
        }
        log_reads.note_read(first, is_cut);
        Ok(())
    }

    /// Pushes the blocks of the history up to the first one after `last`.
    async fn push_retained(&self, progress: &mut ArchiveProgress, last: Slot) -> Result<()> {
        loop {
            let blocks = self.final_blocks(progress.next);
            if blocks.is_empty() {
                return Ok(());
            }
            for block in &blocks {
                if !self.push(progress, block).await? || block.id.slot > last {
                    return Ok(());
                }
            }
        }
    }
}
