//! The queue between sessions and the writing thread: its messages, and their bounds.
//!
//! Bounds: [`MESSAGES_MAX`] messages, and [`ConnectionConfig::queue_bytes_max`] of their bytes. A full queue makes the
//! session wait. A page of the chain is not in the queue's bytes: a session sends one, and waits for its result. Merged
//! blocks have a bound of their own ([`MERGED_BYTES_MAX`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use chain_kaspa::VirtualMode;
use http_client::Server;
use kaspa::{AcceptingBlock, Block, BlockTemplate, Encoding, Hash, Notification, UtxoChanges};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::config::ConnectionConfig;
use crate::restart_point::RestartPoint;
use crate::source_error::SourceError;

/// Messages that wait for the writer.
const MESSAGES_MAX: usize = 64;
/// Bytes in memory of the sink and of the blocks that one virtual block merges. A larger sink is stored alone. 64 blocks
/// of a busy network are some 15 MB in replies, and less than three times that decoded. With a larger value a hostile
/// source could fill more of the memory; with a smaller one the virtual state of a busy network stays joining until the
/// chain moves.
const MERGED_BYTES_MAX: usize = 64 << 20;
/// Bytes of a permit of the queue.
const PERMIT_BYTES: usize = 1_024;

pub(crate) enum WriterMessage {
    /// A session with a source has started. The virtual state is off until the session joins it.
    SourceOpened { server: Server },
    /// A reply to getVirtualChainFromBlockV2 from a block of our chain.
    ApplyPage { start: Hash, page: ReceivedPage, reply: Reply },
    /// A chain block above a block of our chain, without the outputs that it spends.
    ApplyBlock { fork: Fork, block: Box<AcceptingBlock>, reply: Reply },
    /// The newest blocks are requested, from the newest final one to the sink.
    RecentBlocks { reply: oneshot::Sender<Vec<Hash>> },
    /// The session has subscribed to all changes of UTXOs.
    JoinVirtual,
    /// The blocks that the virtual block merges. The session waits until they are applied.
    SeedVirtual { daa_score: u64, merged: MergedBlocks, reply: oneshot::Sender<()> },
    /// A block template of the source.
    CheckTemplate { template: Box<BlockTemplate>, reply: oneshot::Sender<VirtualMode> },
    /// UTXOs of the virtual state changed.
    UtxosChanged { changes: UtxoChanges, permit: OwnedSemaphorePermit },
    /// The source announced the DAA score of its virtual block.
    AnnounceDaaScore(u64),
    /// No change of UTXOs came with the announced DAA score.
    ReleaseDaaScore,
    /// The source replaced its UTXO set.
    ReplaceUtxoSet,
    /// No source continues our chain, and one of them has this block.
    Restart(RestartPoint),
    /// A notification for the sinks.
    Relay { encoding: Encoding, notification: Notification, permit: OwnedSemaphorePermit },
}

/// Receives the result of a change of the chain: the number of blocks that joined it.
pub(crate) type Reply = oneshot::Sender<Result<usize, SourceError>>;

/// The blocks that leave the chain before a block joins it.
pub(crate) struct Fork {
    /// The block of our chain at which the request started.
    pub(crate) start: Hash,
    /// The blocks from there down that leave, the highest first.
    pub(crate) removed: Vec<Hash>,
}

/// The bytes of the messages that wait for the writer or are being applied, for metrics.
pub(crate) struct QueueUsage {
    permits: Arc<Semaphore>,
    permits_max: usize,
    page_bytes: AtomicUsize,
    merged_bytes: AtomicUsize,
}

/// A page of the chain that was received. Its bytes count until it was applied.
pub(crate) struct ReceivedPage {
    structure: Bytes,
    usage: Arc<QueueUsage>,
}

/// The blocks that a virtual block merges, the sink first. Their bytes in memory count until the writer has applied
/// them.
pub(crate) struct MergedBlocks {
    blocks: Vec<Block>,
    bytes: usize,
    usage: Arc<QueueUsage>,
}

/// The sessions' access to the writer.
#[derive(Clone)]
pub(crate) struct WriterHandle {
    messages: mpsc::Sender<WriterMessage>,
    usage: Arc<QueueUsage>,
}

/// Returns how many of the blocks that leave, the lowest first, join again as the first ones.
pub(crate) fn count_known(removed: &[Hash], added: &[Hash]) -> usize {
    removed.iter().rev().zip(added).take_while(|(left, joined)| left == joined).count()
}

/// Creates the channel between sessions and the writer.
pub(crate) fn writer_channel(
    usage: Arc<QueueUsage>,
) -> (WriterHandle, mpsc::Receiver<WriterMessage>) {
    let (messages, receiver) = mpsc::channel(MESSAGES_MAX);
    (WriterHandle { messages, usage }, receiver)
}

impl QueueUsage {
    pub(crate) fn new(config: &ConnectionConfig) -> Self {
        let permits_max = config.queue_bytes_max.div_ceil(PERMIT_BYTES).clamp(1, u32::MAX as usize);
        let permits_max = permits_max.min(Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(permits_max));
        let page_bytes = AtomicUsize::new(0);
        Self { permits, permits_max, page_bytes, merged_bytes: AtomicUsize::new(0) }
    }

    /// Returns the bytes of the notifications in the queue, as they were received. Decoded they take some more.
    pub(crate) fn queue_bytes(&self) -> usize {
        self.permits_max.saturating_sub(self.permits.available_permits()) * PERMIT_BYTES
    }

    /// Returns the bytes of the pages that wait or are being applied.
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of merged blocks in memory, decoded.
    pub(crate) fn merged_bytes(&self) -> usize {
        self.merged_bytes.load(Ordering::Relaxed)
    }
}

impl ReceivedPage {
    pub(crate) fn structure(&self) -> &[u8] {
        &self.structure
    }
}

impl Drop for ReceivedPage {
    fn drop(&mut self) {
        self.usage.page_bytes.fetch_sub(self.structure.len(), Ordering::Relaxed);
    }
}

impl MergedBlocks {
    /// Adds a block, if there is space for it. Returns whether there was.
    pub(crate) fn add(&mut self, block: Block) -> bool {
        let bytes = block.memory_bytes();
        if self.bytes.saturating_add(bytes) > MERGED_BYTES_MAX {
            return false;
        }
        self.push(block, bytes);
        true
    }

    fn push(&mut self, block: Block, bytes: usize) {
        self.bytes += bytes;
        self.usage.merged_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.blocks.push(block);
    }

    /// Returns the number of blocks besides the sink.
    pub(crate) fn others_len(&self) -> usize {
        self.blocks.len() - 1
    }

    /// Sorts the blocks after the sink in the order in which they are accepted.
    pub(crate) fn sort(&mut self) {
        self.blocks[1..].sort_by_key(|block| (block.header.blue_work, block.hash));
    }

    pub(crate) fn as_slice(&self) -> &[Block] {
        &self.blocks
    }
}

impl Drop for MergedBlocks {
    fn drop(&mut self) {
        self.usage.merged_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl WriterHandle {
    pub(crate) async fn send(&self, message: WriterMessage) -> Result<(), SourceError> {
        self.messages.send(message).await.map_err(|_| SourceError::WriterEnded)
    }

    /// Sends a request, and waits for its result.
    pub(crate) async fn request<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<T>) -> WriterMessage,
    ) -> Result<T, SourceError> {
        let (reply, result) = oneshot::channel();
        self.send(message(reply)).await?;
        result.await.map_err(|_| SourceError::WriterEnded)
    }

    /// Creates a page from its encoded structure, and counts its bytes.
    pub(crate) fn new_received_page(&self, structure: Bytes) -> ReceivedPage {
        self.usage.page_bytes.fetch_add(structure.len(), Ordering::Relaxed);
        ReceivedPage { structure, usage: Arc::clone(&self.usage) }
    }

    /// Creates the merged blocks with the sink alone, and counts its bytes. Those of added blocks are counted as well.
    pub(crate) fn new_merged_blocks(&self, sink: Block) -> MergedBlocks {
        let usage = Arc::clone(&self.usage);
        let mut merged = MergedBlocks { blocks: Vec::new(), bytes: 0, usage };
        let bytes = sink.memory_bytes();
        merged.push(sink, bytes);
        merged
    }

    /// Sends the blocks that the virtual block merges, and waits until they are applied, so the queue has those of one
    /// virtual block at most.
    pub(crate) async fn seed_virtual(
        &self,
        daa_score: u64,
        merged: MergedBlocks,
    ) -> Result<(), SourceError> {
        self.request(|reply| WriterMessage::SeedVirtual { daa_score, merged, reply }).await
    }

    /// Waits until the bytes of a message fit into the queue. One that is longer than the queue takes all of it.
    pub(crate) async fn permit(&self, bytes: usize) -> Result<OwnedSemaphorePermit, SourceError> {
        let permits = bytes.div_ceil(PERMIT_BYTES).clamp(1, self.usage.permits_max);
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.usage.permits).acquire_many_owned(permits).await;
        permit.map_err(|_| SourceError::WriterEnded)
    }

    /// Waits until the writer has ended.
    pub(crate) async fn closed(&self) {
        self.messages.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use kaspa::{Network, Transaction};

    use super::*;

    /// A block that takes more than these bytes in memory, and few in a reply.
    fn block(bytes: usize) -> Block {
        let header = Network::Simnet.genesis();
        let transactions = vec![Transaction::default(); bytes / size_of::<Transaction>()];
        Block { hash: header.hash(), header, transactions }
    }

    #[test]
    fn merged_blocks_are_counted_and_bounded_as_they_are_in_memory() {
        let usage = Arc::new(QueueUsage::new(&ConnectionConfig::default()));
        let (handle, _receiver) = writer_channel(Arc::clone(&usage));
        let mut merged = handle.new_merged_blocks(block(0));
        let third = MERGED_BYTES_MAX / 3;
        assert!(merged.add(block(third)) && merged.add(block(third)));
        assert!(!merged.add(block(third)), "the sink takes some bytes as well");
        assert!(merged.add(block(third / 2)), "a shorter one fits");
        assert_eq!((merged.others_len(), merged.as_slice().len()), (3, 4));
        let in_memory: usize = merged.as_slice().iter().map(Block::memory_bytes).sum();
        assert_eq!(usage.merged_bytes(), in_memory);
        assert!((2 * third..=MERGED_BYTES_MAX).contains(&in_memory), "{in_memory}");
        drop(merged);
        assert_eq!(usage.merged_bytes(), 0);
        // The sink is stored in any case.
        assert_eq!(handle.new_merged_blocks(block(MERGED_BYTES_MAX)).as_slice().len(), 1);
    }

    #[tokio::test]
    async fn a_sender_of_merged_blocks_waits_until_they_are_applied() {
        let usage = Arc::new(QueueUsage::new(&ConnectionConfig::default()));
        let (handle, mut receiver) = writer_channel(Arc::clone(&usage));
        let mut sent = std::pin::pin!(handle.seed_virtual(1, handle.new_merged_blocks(block(0))));
        let message = tokio::select! {
            biased;
            _ = &mut sent => panic!("the writer has not applied them"),
            message = receiver.recv() => message,
        };
        let Some(WriterMessage::SeedVirtual { merged, reply, .. }) = message else {
            panic!("another message")
        };
        assert_ne!(usage.merged_bytes(), 0);
        drop(merged);
        assert!(reply.send(()).is_ok(), "the sender waits");
        assert!(sent.await.is_ok());
        assert_eq!(usage.merged_bytes(), 0);
    }

    #[tokio::test]
    async fn waiting_messages_are_counted() {
        let usage = Arc::new(QueueUsage::new(&ConnectionConfig::default()));
        let (handle, _receiver) = writer_channel(Arc::clone(&usage));
        let permit = handle.permit(10_000).await.expect("room");
        let page = handle.new_received_page(Bytes::from(vec![0; 5_000]));
        assert_eq!((usage.queue_bytes(), usage.page_bytes()), (10 * PERMIT_BYTES, 5_000));
        assert_eq!(page.structure().len(), 5_000);
        drop((permit, page));
        assert_eq!((usage.queue_bytes(), usage.page_bytes()), (0, 0));
    }
}
