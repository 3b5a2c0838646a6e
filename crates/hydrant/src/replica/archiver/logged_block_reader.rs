//! Reads the final blocks of the log that an archive lacks, and reports their bytes.
//!
//! Bounds: those of `replica::LoggedBlocks`.
//! Not here: when the log is read (`gap`, `log_reads`).

use ::replica::LoggedBlocks;
use anyhow::Result;
use chain_solana::Block;
use ledger::Slot;
use replicated_log::LogError;

use super::Archiver;
use super::metrics::ReportedBytes;

/// The final blocks of the log from a slot on. Their bytes are reported while it exists.
pub(super) struct LoggedBlockReader {
    blocks: LoggedBlocks,
    from: Slot,
    reported: ReportedBytes,
}

/// Returns whether an error is one of the log, and not of the archive's store.
pub(super) fn is_log_error(err: &anyhow::Error) -> bool {
    err.chain().any(|cause| cause.is::<LogError>())
}

impl LoggedBlockReader {
    /// Whether the log may have more blocks when it is opened again.
    pub(super) fn is_incomplete(&self) -> bool {
        self.blocks.is_incomplete()
    }

    /// Whether blocks were missing that the newest generation may still get.
    pub(super) fn may_grow(&self) -> bool {
        self.blocks.may_grow()
    }

    pub(super) async fn next_block(&mut self) -> Result<Option<Block>> {
        while let Some(block) = self.blocks.next_block().await? {
            self.reported.set(block.bytes() + self.blocks.bytes());
            if block.id.slot >= self.from {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }
}

impl Archiver {
    /// Opens the log at the final blocks from a slot on, or at the first later ones that it has. Returns `None` if it
    /// has none.
    pub(super) async fn open_log(&self, from: Slot) -> Result<Option<LoggedBlockReader>> {
        let Self { depot, cluster, level_min, .. } = self;
        let opened = LoggedBlocks::open(&*self.space, depot, cluster, from, *level_min).await?;
        let reported = ReportedBytes::new(&self.metrics.logged_bytes);
        Ok(opened.map(|blocks| LoggedBlockReader { blocks, from, reported }))
    }
}
