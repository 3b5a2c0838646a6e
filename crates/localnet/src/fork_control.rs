//! Calls that control forks, from any thread: they wait in the queue for the executing thread.
//!
//! In: calls of `chain_solana::ForkControl`. Out: a [`ForkRequest`] in the queue, whose reply the executing thread sends.
//! Bounds: those of the queue; numbers out of their range are refused at once.
//! Not here: what the executing thread does (`forks`).

use std::sync::Arc;

use chain_solana::{
    ForkCall, ForkControl, ForkControlError, ForkTransactions, ForkUsage, MINE_MAX, Reorganization,
};
use clients::ClientId;
use ledger::Slot;

use crate::checkpoints::ForkCounters;
use crate::queue::{ControlRequest, ForkRequest, TransactionQueue};

/// The control of a local ledger's forks.
pub(crate) struct LocalForkControl {
    queue: Arc<TransactionQueue>,
    counters: Arc<ForkCounters>,
}

impl LocalForkControl {
    pub(crate) fn new(queue: Arc<TransactionQueue>, counters: Arc<ForkCounters>) -> Self {
        Self { queue, counters }
    }

    /// Queues a call. A refusal is its result.
    fn push(&self, client: ClientId, request: ForkRequest) {
        self.queue.push_call(client, ControlRequest::Fork(request)).ok();
    }
}

impl ForkControl for LocalForkControl {
    fn mine(&self, client: ClientId, blocks: u64) -> ForkCall<Slot> {
        let (call, reply) = ForkCall::new();
        if (1..=MINE_MAX).contains(&blocks) {
            self.push(client, ForkRequest::Mine { blocks, reply });
        } else {
            let what = "the number of blocks";
            reply.send(Err(ForkControlError::OutOfRange { what, value: blocks, max: MINE_MAX }));
        }
        call
    }

    fn snapshot(&self, client: ClientId) -> ForkCall<u64> {
        let (call, reply) = ForkCall::new();
        self.push(client, ForkRequest::Snapshot { reply });
        call
    }

    fn revert(&self, client: ClientId, snapshot: u64) -> ForkCall<()> {
        let (call, reply) = ForkCall::new();
        self.push(client, ForkRequest::Revert { snapshot, reply });
        call
    }

    fn reorg(
        &self,
        client: ClientId,
        depth: u64,
        transactions: ForkTransactions,
    ) -> ForkCall<Reorganization> {
        let (call, reply) = ForkCall::new();
        self.push(client, ForkRequest::Reorg { depth, transactions, reply });
        call
    }

    fn usage(&self) -> ForkUsage {
        self.counters.usage()
    }
}
