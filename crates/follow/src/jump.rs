//! Messages between the gap closer and the writer: the state that an archive is compared with, and the jump to the
//! archive.

use std::time::Duration;

use chain_solana::View;
use lattice::LtHash;
use ledger::{BlockId, Slot};
use snapshot_solana::BankFields;
use solana_hash::Hash;
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
    /// Time from the jump in which the archive's block must be proven.
    pub(crate) proof_wait_max: Duration,
    /// Gets whether the archive's block is final, or was dropped.
    pub(crate) done: oneshot::Sender<Result<(), JumpRefusal>>,
}

/// Why the ledger did not jump, or left the block of an archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JumpRefusal {
    #[error("the ledger has moved from slot {from} to slot {confirmed} meanwhile")]
    Moved { from: Slot, confirmed: Slot },
    #[error("the ledger no longer has the bank of slot {from}")]
    Lost { from: Slot },
    #[error("a bank has a wrong hash, and nothing newer is shown (--on-mismatch)")]
    Stopped,
    #[error(
        "the bank hash of slot {slot} is {computed} on top of the archive of slot {archive}, and {reported} by its {reporter}"
    )]
    Contradicted {
        archive: Slot,
        slot: Slot,
        computed: Hash,
        reported: Hash,
        reporter: &'static str,
    },
    #[error("the archive's slot {slot} did not get the level of --verify within {limit:?}")]
    Unproven { slot: Slot, limit: Duration },
    #[error("the chain has left the archive's slot {slot}")]
    Left { slot: Slot },
}

impl JumpRefusal {
    /// Whether the archive is wrong, as far as the chain that is followed says.
    pub(crate) fn is_archive_at_fault(&self) -> bool {
        matches!(self, Self::Contradicted { .. })
    }
}
