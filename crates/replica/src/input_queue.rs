//! The queue from the thread that reads the log to the thread that writes the ledger.
//!
//! Bounds: [`INPUTS_MAX`] inputs, and the bytes of [`ReplicaConfig::queue_bytes_max`](crate::ReplicaConfig). The reader
//! waits for space, so a slow writer slows the reader down. An input that is larger than the bound waits until the queue
//! is empty.

use std::sync::Arc;

use chain_solana::View;
use chain_solana::wire::{BlockKey, BlockRecord, Mark};
use follow::bank::{AccountAfter, LandedVotes};
use ledger::{BlockId, Slot};
use solana::VerificationLevel;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::log_position::RecordPosition;
use crate::snapshot_bank::{RootState, SnapshotBank};

/// Maximum number of inputs.
const INPUTS_MAX: usize = 1_024;
/// Bytes of a permit.
const PERMIT_BYTES: usize = 1 << 10;

/// An input of the writer.
pub(crate) enum Input {
    Block(Box<BlockInput>),
    Marks {
        marks: Vec<Mark>,
        made_at_ms: u64,
        /// The level of proof of their writer.
        level: Option<VerificationLevel>,
    },
    /// Requests the confirmed state, which a snapshot is compared with.
    State(oneshot::Sender<View>),
    Jump(Box<Jump>),
    Rebase(Rebase),
    /// Requests the state at the root. The writer does not reply while tips are not published.
    Root(oneshot::Sender<RootState>),
    Stop,
}

/// A block of the log.
pub(crate) struct BlockInput {
    pub(crate) record: BlockRecord,
    pub(crate) position: RecordPosition,
    /// The votes among its transactions.
    pub(crate) votes: LandedVotes,
}

/// A jump to the block of a snapshot.
pub(crate) struct Jump {
    /// The confirmed block that the changes were computed from.
    pub(crate) from: BlockId,
    pub(crate) bank: SnapshotBank,
    /// The accounts that differ, each once.
    pub(crate) changes: Vec<AccountAfter>,
    pub(crate) done: oneshot::Sender<Result<(), JumpRefusal>>,
}

/// A new generation of the log. It starts after a block that the ledger may have.
pub(crate) struct Rebase {
    /// The slot of the block.
    pub(crate) slot: Slot,
    /// The number of the block's record in the generation before, if the digest of that record is known.
    pub(crate) known: Option<u64>,
    /// The name of the block on any node.
    pub(crate) key: Option<BlockKey>,
    /// Its position in the new generation: before the first message.
    pub(crate) position: RecordPosition,
    /// Whether the ledger can continue from it.
    pub(crate) done: oneshot::Sender<bool>,
}

/// Why the ledger did not jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JumpRefusal {
    #[error("the ledger has left the block of slot {from} meanwhile")]
    Moved { from: Slot },
    #[error("the snapshot's slot {slot} is not above the confirmed slot {confirmed}")]
    NotNewer { slot: Slot, confirmed: Slot },
}

/// The writing thread has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterEnded;

/// An input with its share of the queue's bytes.
pub(crate) struct QueuedInput {
    pub(crate) input: Input,
    _permit: Option<OwnedSemaphorePermit>,
}

/// The sending side of the queue.
#[derive(Clone)]
pub(crate) struct InputSender {
    inputs: mpsc::Sender<QueuedInput>,
    permits: Arc<Semaphore>,
    permits_max: u32,
}

/// Creates a queue of at most `bytes_max` bytes.
pub(crate) fn input_queue(bytes_max: usize) -> (InputSender, mpsc::Receiver<QueuedInput>) {
    let permits_max = to_permits(bytes_max);
    let (inputs, receiver) = mpsc::channel(INPUTS_MAX);
    let permits = Arc::new(Semaphore::new(permits_max as usize));
    (InputSender { inputs, permits, permits_max }, receiver)
}

fn to_permits(bytes: usize) -> u32 {
    u32::try_from(bytes / PERMIT_BYTES + 1).unwrap_or(u32::MAX)
}

impl InputSender {
    /// Sends an input of about this size. Waits for space.
    pub(crate) async fn send(&self, input: Input, bytes: usize) -> Result<(), WriterEnded> {
        let permits = to_permits(bytes).min(self.permits_max);
        let permit = Arc::clone(&self.permits).acquire_many_owned(permits).await;
        // The semaphore is never closed.
        let input = QueuedInput { input, _permit: permit.ok() };
        self.inputs.send(input).await.map_err(|_| WriterEnded)
    }

    /// Sends a request, and waits for the reply. Returns `None` if the writer sends none.
    pub(crate) async fn request<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Input,
    ) -> Result<Option<T>, WriterEnded> {
        let (reply, received) = oneshot::channel();
        self.send(request(reply), 0).await?;
        Ok(received.await.ok())
    }

    /// Waits until the writer has ended.
    pub(crate) async fn wait_until_closed(&self) {
        self.inputs.closed().await;
    }

    /// Returns the bytes of inputs that wait.
    pub(crate) fn bytes(&self) -> usize {
        let free = self.permits.available_permits();
        (self.permits_max as usize).saturating_sub(free) * PERMIT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn marks() -> Input {
        Input::Marks { marks: Vec::new(), made_at_ms: 0, level: None }
    }

    #[tokio::test]
    async fn an_input_above_the_bound_waits_for_an_empty_queue() {
        let (inputs, mut received) = input_queue(8 << 10);
        assert!(inputs.send(marks(), 1 << 30).await.is_ok());
        assert_eq!(inputs.bytes(), 9 << 10);
        let mut second = std::pin::pin!(inputs.send(marks(), 0));
        assert!(second.as_mut().now_or_never().is_none(), "there is no space");
        drop(received.recv().await);
        assert!(second.await.is_ok());
        assert_eq!(inputs.bytes(), 1 << 10);
    }

    #[tokio::test]
    async fn the_end_of_the_writer_is_noticed() {
        let (inputs, received) = input_queue(8 << 10);
        let mut closed = std::pin::pin!(inputs.wait_until_closed());
        assert!(closed.as_mut().now_or_never().is_none(), "the writer runs");
        drop(received);
        closed.await;
    }

    #[tokio::test]
    async fn a_request_without_a_reply_ends() {
        let (inputs, mut received) = input_queue(8 << 10);
        let request = inputs.request(Input::State);
        let (reply, ()) = tokio::join!(request, async { drop(received.recv().await) });
        assert!(matches!(reply, Ok(None)));
        drop(received);
        assert!(inputs.request(Input::State).await.is_err());
    }
}
