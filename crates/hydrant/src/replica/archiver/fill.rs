//! Fills the holes of an archive with blocks that this replica has: in its history, or in the log.
//!
//! A range of slots whose blocks are all known is archived, whether blocks before it are missing or not.
//! Bounds: [`HOLES_MAX`] holes, the newest ones.
//! Not here: how often the log is read for one (`log_reads`), and when (`archiver`).

use std::error::Error;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use anyhow::Result;
use chain_solana::{Block, ClusterInfo};
use cluster_snapshot::archive::{
    ArchiveHole, ArchiveHoleKey, ArchiveLimits, ArchiveWriter, list_holes, list_open_slots,
    read_hole,
};
use ledger::Slot;

use super::log_reads::{LogReadEnd, LogReads};
use super::logged_block_reader::{LoggedBlockReader, is_log_error};
use super::{ArchiveProgress, Archiver};

/// Number of the newest holes that are filled. The blocks of older ones are in no history and no log.
const HOLES_MAX: usize = 64;

impl Archiver {
    /// Fills the holes whose blocks are known.
    pub(super) async fn fill_holes(&self, log_reads: &mut LogReads) -> Result<()> {
        log_reads.start_pass(self.find_newest_generation().await);
        let holes = list_holes(&self.depot, &self.cluster).await?;
        let mut open_slots: u64 = 0;
        for hole in holes.iter().rev().take(HOLES_MAX) {
            for slots in self.fill_hole(hole, log_reads).await? {
                open_slots =
                    open_slots.saturating_add(slots.end() - slots.start()).saturating_add(1);
            }
        }
        self.metrics.open_slots.store(open_slots, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the newest generation of the log that has records. `None` if the log has none, or does not respond.
    async fn find_newest_generation(&self) -> Option<u64> {
        let found = ::replica::find_newest_generation(&*self.space).await;
        found.unwrap_or_else(|err| {
            self.metrics.failures.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                err = &err as &dyn Error,
                "cannot read the log to fill holes of the archive"
            );
            None
        })
    }

    /// Fills a hole from the history, and then from the log. Returns the slots that are still open.
    async fn fill_hole(
        &self,
        hole: &ArchiveHoleKey,
        log_reads: &mut LogReads,
    ) -> Result<Vec<RangeInclusive<Slot>>> {
        let open = self.list_open(hole).await?;
        if open.is_empty() {
            return Ok(open);
        }
        for slots in open {
            self.note_fill(hole, self.fill_from_history(hole, slots).await);
        }
        for slots in self.list_open(hole).await? {
            self.note_fill(hole, self.fill_from_log(hole, slots, log_reads).await);
        }
        self.list_open(hole).await
    }

    async fn list_open(&self, hole: &ArchiveHoleKey) -> Result<Vec<RangeInclusive<Slot>>> {
        Ok(list_open_slots(&self.depot, &self.info.epoch_schedule, hole).await?)
    }

    /// Logs a failure. The slots are filled later.
    fn note_fill(&self, hole: &ArchiveHoleKey, filled: Result<()>) {
        if let Err(err) = filled {
            self.metrics.failures.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(key = hole.key, "cannot fill a hole of the archive: {err:#}");
        }
    }

    /// Archives the ranges of open slots whose blocks the history has.
    async fn fill_from_history(
        &self,
        hole: &ArchiveHoleKey,
        slots: RangeInclusive<Slot>,
    ) -> Result<()> {
        let mut blocks = self.final_blocks(*slots.start());
        let Some(oldest) = blocks.first() else { return Ok(()) };
        let Some(mut fill) = HoleFill::open(self, hole, slots, oldest).await? else {
            return Ok(());
        };
        while !blocks.is_empty() {
            for block in &blocks {
                if !fill.push(block).await? {
                    return Ok(());
                }
            }
            blocks = self.final_blocks(fill.progress.next);
        }
        fill.end_range().await
    }

    /// Archives the ranges of open slots whose blocks the log has.
    async fn fill_from_log(
        &self,
        hole: &ArchiveHoleKey,
        slots: RangeInclusive<Slot>,
        log_reads: &mut LogReads,
    ) -> Result<()> {
        let first = *slots.start();
        if !log_reads.is_due(first) {
            return Ok(());
        }
        let read = self.read_log(hole, slots).await;
        let end = match &read {
            Ok(end) => *end,
            Err(err) if is_log_error(err) => LogReadEnd::Incomplete,
            // The store failed, or the object of the hole is damaged.
            Err(_) => LogReadEnd::LogEnd,
        };
        log_reads.note_read(first, end);
        read.map(drop)
    }

    /// Reads the log for the open slots, if it has messages. Returns how the read ended.
    async fn read_log(
        &self,
        hole: &ArchiveHoleKey,
        slots: RangeInclusive<Slot>,
    ) -> Result<LogReadEnd> {
        let Some(mut logged) = self.open_log(*slots.start()).await? else {
            return Ok(LogReadEnd::LogEnd);
        };
        let end = self.fill_from_reader(hole, slots, &mut logged).await?;
        Ok(if logged.is_incomplete() {
            LogReadEnd::Incomplete
        } else if logged.may_grow() {
            LogReadEnd::LogEnd
        } else {
            end
        })
    }

    /// Reads the log for the open slots. Returns how the read ended.
    async fn fill_from_reader(
        &self,
        hole: &ArchiveHoleKey,
        slots: RangeInclusive<Slot>,
        logged: &mut LoggedBlockReader,
    ) -> Result<LogReadEnd> {
        let Some(mut block) = logged.next_block().await? else { return Ok(LogReadEnd::LogEnd) };
        let Some(mut fill) = HoleFill::open(self, hole, slots, &block).await? else {
            return Ok(LogReadEnd::Settled);
        };
        while fill.push(&block).await? {
            let Some(next) = logged.next_block().await? else {
                fill.end_range().await?;
                return Ok(LogReadEnd::LogEnd);
            };
            block = next;
        }
        Ok(LogReadEnd::Settled)
    }

    /// Opens a hole at the start of a range.
    async fn open_hole(&self, hole: &ArchiveHole, first: Slot) -> Result<ArchiveProgress> {
        let limits = ArchiveLimits::default();
        let schedule = self.info.epoch_schedule.clone();
        let depot = self.depot.clone();
        let writer = ArchiveWriter::open_hole(depot, hole, first, schedule, limits).await?;
        Ok(ArchiveProgress::new(writer, &self.metrics))
    }
}

/// Open slots of a hole that are being filled.
struct HoleFill<'a> {
    archiver: &'a Archiver,
    hole: ArchiveHole,
    /// The last of the slots.
    last: Slot,
    progress: ArchiveProgress,
}

impl<'a> HoleFill<'a> {
    /// Opens a hole at the first of its open slots that can be archived, if `oldest` is the oldest known block. Returns
    /// `None` if none can.
    async fn open(
        archiver: &'a Archiver,
        hole: &ArchiveHoleKey,
        slots: RangeInclusive<Slot>,
        oldest: &Block,
    ) -> Result<Option<Self>> {
        let Some(first) = find_first_range_start(&archiver.info, &slots, oldest) else {
            return Ok(None);
        };
        let hole = read_hole(&archiver.depot, hole).await?;
        let progress = archiver.open_hole(&hole, first).await?;
        Ok(Some(Self { archiver, hole, last: *slots.end(), progress }))
    }

    /// Pushes the next known block. Returns `false` once no later block fills the slots.
    async fn push(&mut self, block: &Block) -> Result<bool> {
        let is_pushed = self.archiver.push(&mut self.progress, block).await?
            || self.continue_after_gap(block).await?;
        // The first block after the slots ends their last object.
        Ok(is_pushed && block.id.slot <= self.last)
    }

    /// Continues with the first range after missing blocks. `next` is the block after them, which was refused. Returns
    /// `false` if no later range is open, or if the block is of another chain.
    async fn continue_after_gap(&mut self, next: &Block) -> Result<bool> {
        if next.parent.slot < self.progress.next {
            // No block is missing.
            return Ok(false);
        }
        self.end_range().await?;
        let slots = self.progress.next..=self.last;
        let Some(first) = find_first_range_start(&self.archiver.info, &slots, next) else {
            return Ok(false);
        };
        self.progress = self.archiver.open_hole(&self.hole, first).await?;
        self.archiver.push(&mut self.progress, next).await
    }

    /// Archives the open range if all of its blocks were pushed, although the block after it is unknown.
    async fn end_range(&mut self) -> Result<()> {
        if let Some(object) = self.progress.writer.write_whole_range().await? {
            self.progress.report_bytes();
            self.archiver.note_object(&object);
        }
        Ok(())
    }
}

/// Returns the start of the first range in `slots` whose blocks all come after the parent of `oldest`, the oldest known
/// block. Returns `None` if no range starts there.
fn find_first_range_start(
    info: &ClusterInfo,
    slots: &RangeInclusive<Slot>,
    oldest: &Block,
) -> Option<Slot> {
    let parent = oldest.parent.slot;
    // Genesis is its own parent.
    if parent < *slots.start() || parent == oldest.id.slot {
        return Some(*slots.start());
    }
    let limits = ArchiveLimits::default();
    let first = limits.next_range_start(&info.epoch_schedule, parent.saturating_add(1));
    slots.contains(&first).then_some(first)
}

#[cfg(test)]
mod tests {
    use ledger::BlockId;
    use testkit::cluster_info::cluster_info;
    use testkit::test_ledger::empty_block;

    use super::*;

    #[test]
    fn a_fill_starts_where_all_later_blocks_are_known() {
        let info = cluster_info();
        let id = |slot| BlockId { slot, version: 1 };
        let find = |slots: RangeInclusive<Slot>, parent: Slot, slot: Slot| {
            find_first_range_start(&info, &slots, &empty_block(id(slot), id(parent)))
        };
        // No block is before genesis.
        assert_eq!(find(0..=99, 0, 0), Some(0));
        assert_eq!(find(0..=99, 0, 1), None);
        assert_eq!(find(0..=199, 0, 1), Some(100));
        assert_eq!(find(100..=299, 99, 105), Some(100));
        assert_eq!(find(100..=299, 110, 190), Some(200));
        assert_eq!(find(100..=299, 199, 200), Some(200));
        assert_eq!(find(100..=299, 200, 201), None);
    }
}
