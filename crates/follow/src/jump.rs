//! Messages between the gap closer and the writer: the state that an archive is compared with, and the jump to the
//! archive.

use chain_solana::View;
use lattice::LtHash;
use ledger::{BlockId, Slot};
use snapshot_solana::BankFields;
use tokio::sync::oneshot;

use crate::archive_changes::AccountAfter;

/// The confirmed state of the ledger.
pub(crate) struct ConfirmedState {
    pub(crate) view: View,
    /// The lattice hash over them, if banks are verified.
    pub(crate) lt_hash: Option<LtHash>,
}

/// A jump to the block of an archive.
pub(crate) struct Jump {
    /// The confirmed block that the changes were computed from.
    pub(crate) from: BlockId,
    /// The fields of the archive's bank.
    pub(crate) fields: BankFields,
    /// Lamports in all accounts after it.
    pub(crate) lamports: u64,
    /// The accounts that differ, each once.
    pub(crate) changes: Vec<AccountAfter>,
    /// Gets whether the ledger jumped.
    pub(crate) done: oneshot::Sender<Result<(), JumpRefusal>>,
}

/// Why the ledger did not jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JumpRefusal {
    #[error("the ledger has moved from slot {from} to slot {confirmed} meanwhile")]
    Moved { from: Slot, confirmed: Slot },
    #[error("a bank has a wrong hash, and nothing newer is shown (--on-mismatch)")]
    Stopped,
}
