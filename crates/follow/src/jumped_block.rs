//! The block of an archive that the ledger has jumped to.

use std::sync::Arc;
use std::time::Duration;

use ledger::BlockId;
use snapshot_solana::StatusCache;
use snapshot_solana::stored_rows::{JumpRow, LatticeRow};
use tokio::sync::oneshot;

use crate::jump::JumpRefusal;

/// The block of an archive until it is the root.
pub(crate) struct JumpedBlock {
    pub(crate) id: BlockId,
    pub(crate) row: JumpRow,
    /// It has a hash whatever is verified, so a start from it is verified too.
    pub(crate) lattice: LatticeRow,
    /// The archive's status cache, used once the block is confirmed.
    pub(crate) statuses: Arc<StatusCache>,
    /// When the ledger jumped, since the start.
    pub(crate) since: Duration,
    /// Time from then in which it must be proven.
    pub(crate) proof_wait_max: Duration,
    pub(crate) is_proven: bool,
    pub(crate) done: oneshot::Sender<Result<(), JumpRefusal>>,
}

/// A dropped block of an archive, until no view shows it.
pub(crate) struct DroppedJump {
    pub(crate) done: oneshot::Sender<Result<(), JumpRefusal>>,
    pub(crate) refusal: JumpRefusal,
}

impl JumpedBlock {
    /// Whether it was not proven in time.
    pub(crate) fn is_late(&self, now: Duration) -> bool {
        !self.is_proven && now.saturating_sub(self.since) >= self.proof_wait_max
    }

    pub(crate) fn lattice(&self) -> LatticeRow {
        self.lattice.clone()
    }
}
