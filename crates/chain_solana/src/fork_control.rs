//! Control of the forks of a ledger that one node makes: blocks on request, snapshots and reverts, reorganizations.
//!
//! Shape: a call is queued for the ledger's writer at once. [`ForkCall::poll`] says when its result has arrived. The
//! writer has a [`ForkReply`].
//! Bounds: [`MINE_MAX`], [`REORG_TRANSACTIONS_MAX`], [`DROPPED_MAX`]; the others are the implementation's.
//! Invariant: each call gets a result. A dropped reply is an error.
//! Not here: JSON (`rpc_solana`), the execution of forks (`localnet`). A followed chain has no such control.

use std::task::{Poll, Waker};

use clients::ClientId;
use ledger::Slot;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;

use crate::VerifiedTransaction;
use crate::pending::{Pending, PendingSender, pending};

/// Maximum number of blocks of one call of [`ForkControl::mine`]: as many as the event streams can queue.
pub const MINE_MAX: u64 = 256;
/// Transactions that one call of [`ForkControl::reorg`] may name.
pub const REORG_TRANSACTIONS_MAX: usize = 256;
/// Maximum number of dropped transactions that the result of a reorganization lists.
pub const DROPPED_MAX: usize = 100;

/// The transactions of the new fork of a reorganization.
#[derive(Clone, Debug)]
pub enum ForkTransactions {
    /// The transactions of the reverted blocks, in the same order.
    Reexecute,
    /// No transactions: the blocks of the fork are empty.
    Drop,
    /// These transactions, in this order, in the first block of the fork.
    Replace(Vec<VerifiedTransaction>),
}

/// The effects of a reorganization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reorganization {
    /// The slots of the reverted blocks, the oldest first. An open block is among them.
    pub reverted: Vec<Slot>,
    /// The slots of the new fork's blocks, the oldest first.
    pub entered: Vec<Slot>,
    /// Number of transactions that the new fork executed, without the node's own votes.
    pub executed: u64,
    /// Number of transactions that the new fork could not contain.
    pub dropped: u64,
    /// The first [`DROPPED_MAX`] dropped transactions, each with the reason.
    pub reasons: Vec<(Signature, TransactionError)>,
}

/// The usage of snapshots and of the blocks above them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForkUsage {
    /// Snapshots that can be reverted to.
    pub snapshots: u64,
    /// Maximum number of snapshots.
    pub snapshots_max: u64,
    /// Blocks above the oldest snapshot.
    pub blocks: u64,
    /// Estimated bytes of these blocks.
    pub bytes: u64,
    /// Snapshots that were dropped because of a bound, since the start.
    pub expired: u64,
}

/// Why a call was refused. The call had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForkControlError {
    /// A number is out of its range.
    #[error("{what} is {value}: 1 to {max}")]
    OutOfRange {
        /// The name of the parameter.
        what: &'static str,
        /// The requested value of the parameter.
        value: u64,
        /// The largest allowed value.
        max: u64,
    },
    /// No snapshot has this id.
    #[error(
        "snapshot {id} does not exist: it was never made, a revert or a reorganization removed it, or it was the oldest \
         beyond a limit ({snapshots_max} snapshots, {blocks_max} blocks or {bytes_max} bytes after it)"
    )]
    UnknownSnapshot {
        /// The id of the requested snapshot.
        id: u64,
        /// Maximum number of snapshots.
        snapshots_max: u64,
        /// Maximum number of blocks above a snapshot.
        blocks_max: u64,
        /// Maximum bytes of the blocks above a snapshot.
        bytes_max: u64,
    },
    /// A reorganization reaches below the final blocks.
    #[error(
        "depth is {depth}: the newest {unfinalized} blocks are not final, and no other can be left (--finalize-after)"
    )]
    TooDeep {
        /// The requested number of blocks.
        depth: u64,
        /// Number of blocks that are not final.
        unfinalized: u64,
    },
    /// Too many calls wait for the ledger. Fix: try again later.
    #[error("{limit} calls wait for the ledger already")]
    TooMany {
        /// Maximum number of calls of the client that wait.
        limit: usize,
    },
    /// The ledger is shutting down.
    #[error("the ledger is shutting down")]
    Closed,
}

/// Control of the forks of a ledger. Each call is executed by the ledger's writer, those of one client in the order of
/// arrival. Clients take turns.
pub trait ForkControl: Send + Sync + 'static {
    /// Makes `blocks` blocks at once, 1 to [`MINE_MAX`], with the waiting transactions. The result is the slot of the
    /// last one.
    fn mine(&self, client: ClientId, blocks: u64) -> ForkCall<Slot>;

    /// Makes a snapshot of the newest state. The result is its id. Cost: constant.
    fn snapshot(&self, client: ClientId) -> ForkCall<u64>;

    /// Reverts to a snapshot: the ledger continues from its block, in a new slot. The snapshot and those made after it
    /// are removed. Cost: proportional to the writes since the snapshot, independent of the ledger's size.
    fn revert(&self, client: ClientId, snapshot: u64) -> ForkCall<()>;

    /// Reverts the newest `depth` blocks, which must not be final, and makes a new fork of `depth` + 1 blocks.
    fn reorg(
        &self,
        client: ClientId,
        depth: u64,
        transactions: ForkTransactions,
    ) -> ForkCall<Reorganization>;

    /// Returns the usage of snapshots.
    fn usage(&self) -> ForkUsage;
}

/// A call that has been queued, or refused.
pub struct ForkCall<T>(Pending<Result<T, ForkControlError>>);

/// The sending half of a [`ForkCall`], for the ledger's writer.
pub type ForkReply<T> = PendingSender<Result<T, ForkControlError>>;

impl<T> ForkCall<T> {
    /// Creates a call, and the reply that completes it.
    pub fn new() -> (Self, ForkReply<T>) {
        let (call, reply) = pending();
        (Self(call), reply)
    }

    /// Whether the result has arrived. If not, `waker` is woken once it has.
    pub fn poll(&self, waker: impl FnOnce() -> Waker) -> Poll<()> {
        self.0.poll(waker)
    }

    /// Returns the result. Blocks until it has arrived.
    pub fn wait(self) -> Result<T, ForkControlError> {
        self.0.wait().unwrap_or(Err(ForkControlError::Closed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_there_once_it_was_sent() {
        let (call, reply) = ForkCall::new();
        assert!(call.poll(|| Waker::noop().clone()).is_pending());
        reply.send(Ok(7));
        assert!(call.poll(|| Waker::noop().clone()).is_ready());
        assert_eq!(call.wait(), Ok(7));
    }

    #[test]
    fn a_dropped_reply_is_an_error() {
        let (call, reply) = ForkCall::<u64>::new();
        drop(reply);
        assert_eq!(call.wait(), Err(ForkControlError::Closed));
    }
}
