//! Control of the forks of a ledger that one node makes: blocks on request, snapshots and reverts, reorganizations.
//!
//! Shape: a call is queued for the ledger's writer at once, and its result is taken later: [`ForkCall::poll`] says when
//! it is there. The writer has a [`ForkReply`].
//! Bounds: [`MINE_MAX`], [`REORG_TRANSACTIONS_MAX`], [`DROPPED_MAX`]; the others are the implementation's.
//! Invariant: each call gets a result. A reply that is dropped is an error.
//! Not here: JSON (`rpc_solana`), what a fork does (`localnet`). A followed chain has no such control.

use std::task::{Poll, Waker};

use ledger::Slot;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;

use crate::VerifiedTransaction;
use crate::pending::{Pending, PendingSender, pending};

/// Blocks of one call of [`ForkControl::mine`] at most: what the streams of events have room for.
pub const MINE_MAX: u64 = 256;
/// Transactions that one call of [`ForkControl::reorg`] may name.
pub const REORG_TRANSACTIONS_MAX: usize = 256;
/// Dropped transactions that the result of a reorganization lists.
pub const DROPPED_MAX: usize = 100;

/// The transactions of the new fork of a reorganization.
#[derive(Clone, Debug)]
pub enum ForkTransactions {
    /// Those of the blocks that are left, in the same order.
    Keep,
    /// None.
    Drop,
    /// These, in this order, in the first block of the fork.
    Given(Vec<VerifiedTransaction>),
}

/// What a reorganization did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reorganization {
    /// The slots of the blocks that were left, the oldest first. An open block is among them.
    pub left: Vec<Slot>,
    /// The slots of the new fork's blocks, the oldest first.
    pub entered: Vec<Slot>,
    /// How many transactions the new fork executed, without the node's own votes.
    pub executed: u64,
    /// How many transactions the new fork could not contain.
    pub dropped: u64,
    /// The first [`DROPPED_MAX`] of them, each with the reason.
    pub reasons: Vec<(Signature, TransactionError)>,
}

/// The usage of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForkUsage {
    /// Snapshots that can be reverted to.
    pub snapshots: u64,
    /// Their bound.
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
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The largest allowed one.
        max: u64,
    },
    /// There is no such snapshot.
    #[error(
        "snapshot {id} does not exist: it was never made, a revert or a reorganization removed it, or it was the oldest \
         beyond a limit ({snapshots_max} snapshots, {blocks_max} blocks or {bytes_max} bytes after it)"
    )]
    UnknownSnapshot {
        /// The id.
        id: u64,
        /// The bound of the number of snapshots.
        snapshots_max: u64,
        /// The bound of the blocks after one.
        blocks_max: u64,
        /// The bound of the bytes of these blocks.
        bytes_max: u64,
    },
    /// A reorganization reaches below the final blocks.
    #[error(
        "depth is {depth}: the newest {unfinalized} blocks are not final, and no other can be left (--finalize-after)"
    )]
    TooDeep {
        /// The requested depth.
        depth: u64,
        /// How many blocks are not final.
        unfinalized: u64,
    },
    /// Too many calls wait for the ledger. Fix: try again later.
    #[error("{limit} calls wait for the ledger already")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The ledger ends.
    #[error("the ledger is shutting down")]
    Closed,
}

/// Control of the forks of a ledger. Each call is executed by the ledger's writer, in the order of arrival.
pub trait ForkControl: Send + Sync + 'static {
    /// Makes `blocks` blocks at once, 1 to [`MINE_MAX`], with the transactions that wait. The result is the slot of the
    /// last one.
    fn mine(&self, blocks: u64) -> ForkCall<Slot>;

    /// Makes a snapshot of the newest state. The result is its id. Cost: constant.
    fn snapshot(&self) -> ForkCall<u64>;

    /// Goes back to a snapshot: the ledger goes on from its block, in a new slot. The snapshot and those made after it
    /// are removed. Cost: what was written since the snapshot, whatever the ledger's size.
    fn revert(&self, snapshot: u64) -> ForkCall<()>;

    /// Leaves the newest `depth` blocks, which must not be final, for a new fork of `depth` + 1 blocks.
    fn reorg(&self, depth: u64, transactions: ForkTransactions) -> ForkCall<Reorganization>;

    /// The usage of snapshots.
    fn usage(&self) -> ForkUsage;
}

/// A call that has been queued, or refused.
pub struct ForkCall<T>(Pending<Result<T, ForkControlError>>);

/// Where the result of a call goes.
pub type ForkReply<T> = PendingSender<Result<T, ForkControlError>>;

impl<T> ForkCall<T> {
    /// A call, and where its result goes.
    pub fn new() -> (Self, ForkReply<T>) {
        let (call, reply) = pending();
        (Self(call), reply)
    }

    /// Whether the result is there. If not, `waker` is woken once it is.
    pub fn poll(&self, waker: impl FnOnce() -> Waker) -> Poll<()> {
        self.0.poll(waker)
    }

    /// The result. Blocks until it is there.
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
