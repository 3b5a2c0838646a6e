//! Closes a gap before the final blocks of the history: with blocks of the log, with objects of another replica, or with
//! a hole.
//!
//! Not here: how often the log is read (`gap`), and the blocks that fill a hole later (`fill`).

use std::sync::atomic::Ordering;

use anyhow::Result;
use chain_solana::Block;
use ledger::Slot;
use tokio::time::Instant;

use super::gap::ArchiveGap;
use super::logged_block_reader::is_log_error;
use super::{ArchiveProgress, Archiver};

/// The result of a read of the log for missing blocks.
#[derive(Clone, Copy, Debug, Default)]
struct LogRead {
    /// Whether the log has a block that follows the archive.
    has_block: bool,
    /// Whether the log could not be read to its end.
    is_incomplete: bool,
}

impl Archiver {
    /// Finds the final blocks before `next`, which was refused because they are missing. Returns whether the archive has
    /// continued: with blocks of the log, with objects of another replica, or after a hole.
    pub(super) async fn close_gap(
        &self,
        progress: &mut ArchiveProgress,
        next: &Block,
    ) -> Result<bool> {
        let Some(slot) = progress.writer.needed_slot() else { return Ok(false) };
        let known = progress.gap.filter(|gap| gap.slot == slot);
        let gap = match known {
            Some(gap) if !gap.is_read_due(Instant::now()) => gap,
            _ => {
                let read = self.push_logged(progress, slot, next).await;
                let now = Instant::now();
                let mut gap = known.unwrap_or_else(|| ArchiveGap::new(slot, now));
                match read {
                    Ok(read) if read.has_block => return Ok(true),
                    Ok(read) => gap.note_read(now, read.is_incomplete),
                    Err(err) if is_log_error(&err) => {
                        self.metrics.failures.fetch_add(1, Ordering::Relaxed);
                        tracing::warn!("cannot read final blocks of the log: {err:#}");
                        gap.note_failure(now);
                    }
                    Err(err) => return Err(err),
                }
                gap
            }
        };
        if known.is_none() {
            let last = next.parent.slot;
            match gap.reread_at.is_some() {
                true => tracing::warn!(
                    "the history lacks the final blocks {slot} to {last}, and the log could not be read to its end"
                ),
                false => tracing::warn!(
                    "neither the history nor the log has the final blocks {slot} to {last}"
                ),
            }
        }
        progress.gap = Some(gap);
        let other = self.open().await?;
        if other.writer.next_slot() > progress.writer.next_slot() {
            *progress = other;
            return Ok(true);
        }
        if !gap.is_over(Instant::now(), self.hole_timeout) {
            return Ok(false);
        }
        let hole = progress.writer.record_hole(next).await?;
        progress.report_bytes();
        progress.next = hole.last.saturating_add(1);
        progress.gap = None;
        self.metrics.holes.fetch_add(1, Ordering::Relaxed);
        let key = hole.key().key;
        tracing::error!(
            key,
            "final blocks are missing in the archive, which continues after a hole"
        );
        Ok(true)
    }

    /// Pushes the blocks of the log from a slot on, up to the parent of `next`.
    async fn push_logged(
        &self,
        progress: &mut ArchiveProgress,
        from: Slot,
        next: &Block,
    ) -> Result<LogRead> {
        let mut has_block = false;
        let Some(mut logged) = self.open_log(from).await? else { return Ok(LogRead::default()) };
        while let Some(block) = logged.next_block().await? {
            let slot = block.id.slot;
            if slot == next.parent.slot && block.blockhash != next.previous_blockhash {
                self.metrics.disagreements.fetch_add(1, Ordering::Relaxed);
                tracing::error!(slot, "the log has another final block than the ledger");
                break;
            }
            if slot > next.parent.slot || !self.push(progress, &block).await? {
                break;
            }
            has_block = true;
            if slot == next.parent.slot {
                break;
            }
        }
        Ok(LogRead { has_block, is_incomplete: logged.is_incomplete() })
    }
}
