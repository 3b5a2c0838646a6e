//! Fills the holes of an archive with blocks that this replica has: in its history, or in the log.
//!
//! Bounds: [`HOLES_MAX`] holes, the newest ones. The log is read once for the start of each, because it only loses blocks;
//! up to [`LOG_READS_MAX`] times if it falls silent.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use anyhow::Result;
use cluster_snapshot::archive::{
    ArchiveHoleKey, ArchiveLimits, ArchiveWriter, list_holes, list_open_slots, read_hole,
};
use ledger::Slot;

use super::{ArchiveProgress, Archiver};

/// Number of the newest holes that are filled. The blocks of older ones are in no history and no log.
const HOLES_MAX: usize = 64;
/// Number of times that a log is read for one hole, which ends before its last message.
const LOG_READS_MAX: u32 = 6;

impl Archiver {
    /// Fills the holes whose blocks are known. `log_reads` has the number of reads of the log for each first slot.
    pub(super) async fn fill_holes(&self, log_reads: &mut BTreeMap<Slot, u32>) -> Result<()> {
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
        log_reads: &mut BTreeMap<Slot, u32>,
    ) -> Result<()> {
        let first = *slots.start();
        let last = *slots.end();
        let retained = self.final_blocks(first);
        let is_retained = retained.first().is_some_and(|block| block.parent.slot < first);
        let reads = log_reads.get(&first).copied().unwrap_or(0);
        if !is_retained && reads >= LOG_READS_MAX {
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
        log_reads.insert(first, if is_cut { reads + 1 } else { LOG_READS_MAX });
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
