//! Reads the final blocks of the log that an archive lacks, and reports their bytes.
//!
//! Bounds: those of `replica::LoggedBlocks`.
//! Not here: when the log is read (`gap`, `log_reads`).

use std::sync::atomic::Ordering;

use ::replica::LoggedBlocks;
use anyhow::Result;
use chain_solana::Block;
use ledger::Slot;

use super::Archiver;
use super::metrics::ArchiveMetrics;

/// The final blocks of the log from a slot on. Their bytes are reported while it exists.
pub(super) struct LoggedBlockReader<'a> {
    blocks: LoggedBlocks,
    from: Slot,
    metrics: &'a ArchiveMetrics,
    /// The part of the reported bytes that is of this reader.
    reported_bytes: u64,
}

impl LoggedBlockReader<'_> {
    /// Whether the log may have more blocks when it is opened again.
    pub(super) fn is_incomplete(&self) -> bool {
        self.blocks.is_incomplete()
    }

    pub(super) async fn next_block(&mut self) -> Result<Option<Block>> {
        while let Some(block) = self.blocks.next_block().await? {
            self.report_bytes(block.bytes() + self.blocks.bytes());
            if block.id.slot >= self.from {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    fn report_bytes(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.reported_bytes, bytes);
        let reported = &self.metrics.logged_bytes;
        match bytes.checked_sub(before) {
            Some(more) => reported.fetch_add(more, Ordering::Relaxed),
            None => reported.fetch_sub(before - bytes, Ordering::Relaxed),
        };
    }
}

impl Drop for LoggedBlockReader<'_> {
    fn drop(&mut self) {
        self.report_bytes(0);
    }
}

impl Archiver {
    /// Opens the log at the final blocks from a slot on, or at the first later ones that it has. Returns `None` if it
    /// has none.
    pub(super) async fn open_log(&self, from: Slot) -> Result<Option<LoggedBlockReader<'_>>> {
        let Self { depot, cluster, level_min, .. } = self;
        let opened = LoggedBlocks::open(&*self.space, depot, cluster, from, *level_min).await?;
        let metrics = &self.metrics;
        Ok(opened.map(|blocks| LoggedBlockReader { blocks, from, metrics, reported_bytes: 0 }))
    }
}
