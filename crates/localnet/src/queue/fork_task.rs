//! What the executing thread does besides executing transactions: calls that control forks, each with its reply.

use chain_solana::{ForkError, ForkReply, ForkTransactions, Reorganization};
use ledger::Slot;

/// Calls that may wait for the executing thread. Each is small, except the transactions of a reorganization: up to 1.2
/// MB.
pub(super) const FORK_TASKS_MAX: usize = 64;

/// A call that controls forks.
pub(crate) enum ForkTask {
    /// Makes blocks.
    Mine { blocks: u64, reply: ForkReply<Slot> },
    /// Makes a snapshot.
    Snapshot { reply: ForkReply<u64> },
    /// Goes back to a snapshot.
    Revert { snapshot: u64, reply: ForkReply<()> },
    /// Leaves the newest blocks.
    Reorg { depth: u64, transactions: ForkTransactions, reply: ForkReply<Reorganization> },
}

impl ForkTask {
    /// Sends the reply that the call was refused.
    pub(super) fn refuse(self, err: ForkError) {
        match self {
            Self::Mine { reply, .. } => reply.send(Err(err)),
            Self::Snapshot { reply } => reply.send(Err(err)),
            Self::Revert { reply, .. } => reply.send(Err(err)),
            Self::Reorg { reply, .. } => reply.send(Err(err)),
        }
    }
}
