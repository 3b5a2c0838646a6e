//! The queue of transactions that wait for signature verification: one queue for each peer, served
//! round-robin by weight.
//!
//! Bounds: `len_max` transactions in total. Each pins a receive buffer (2 KiB).
//! When full: a peer that has more waiting than its share of the queue is refused its newest
//! transaction. If the sender has less than its share, the newest transaction of another peer is
//! dropped. So a flood costs only the peers that send it.
//! Invariant: every transaction that is pushed is popped or counted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chain_solana::Sender;
use clients::ClientId;
use parking_lot::{Condvar, Mutex};

use crate::counters::{Counters, DropReason};
use crate::transaction::{PeerId, ReceivedTransaction, TransactionSink};

/// Transactions that a peer of weight 1 may have popped in one round. Others have `weight` times as
/// many.
const QUANTUM: usize = 4;
/// Maximum transactions of any peer in a round.
const QUANTUM_MAX: usize = 64;
/// Empty queues with retained memory: peers change too often to allocate each time.
const SPARE_MAX: usize = 64;

/// The queue between the shards and the verification threads.
pub struct FairQueue {
    inner: Mutex<Inner>,
    arrived: Condvar,
    counters: Arc<Counters>,
    len: AtomicUsize,
    len_max: usize,
}

#[derive(Default)]
struct Inner {
    peers: Vec<PeerQueue>,
    /// Peers with waiting transactions, in the order in which they are served.
    active: VecDeque<u32>,
    /// The sum of the weights of active peers.
    active_weight: u64,
    len: usize,
    /// Memory of queues that are empty.
    spare: Vec<VecDeque<ReceivedTransaction>>,
    /// Number of threads that wait for transactions.
    sleeping: usize,
    is_closed: bool,
}

/// Waiting transactions of one peer.
struct PeerQueue {
    waiting: VecDeque<ReceivedTransaction>,
    sender: Sender,
}

impl PeerQueue {
    fn weight(&self) -> u32 {
        self.sender.weight
    }
}

impl Default for PeerQueue {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), sender: ClientId::default().into() }
    }
}

impl FairQueue {
    /// Creates an empty queue for `len_max` transactions.
    pub fn new(len_max: usize, counters: Arc<Counters>) -> Self {
        Self {
            inner: Mutex::default(),
            arrived: Condvar::new(),
            counters,
            len: AtomicUsize::new(0),
            len_max,
        }
    }

    /// Moves up to `count` transactions to `into`, each with its sender. Waits up to `timeout` for
    /// the first. Returns `false` once the queue is closed and empty.
    pub fn pop(
        &self,
        into: &mut Vec<(ReceivedTransaction, Sender)>,
        count: usize,
        timeout: Duration,
    ) -> bool {
        let mut inner = self.inner.lock();
        if inner.len == 0 && !inner.is_closed {
            inner.sleeping += 1;
            let waited = self.arrived.wait_for(&mut inner, timeout);
            inner.sleeping -= 1;
            if waited.timed_out() {
                inner.forget_burst();
            }
        }
        while into.len() < count {
            let Some(at) = inner.active.pop_front() else { break };
            inner.serve(at, into, count);
        }
        self.len.store(inner.len, Ordering::Relaxed);
        inner.len > 0 || !into.is_empty() || !inner.is_closed
    }

    /// Pops from peers with a client that is not in `full`: at most one round, without waiting.
    pub(crate) fn pop_except(
        &self,
        into: &mut Vec<(ReceivedTransaction, Sender)>,
        count: usize,
        full: &[ClientId],
    ) -> bool {
        let mut inner = self.inner.lock();
        for _ in 0..inner.active.len() {
            if into.len() >= count {
                break;
            }
            let Some(at) = inner.active.pop_front() else { break };
            if full.contains(&inner.peers[at as usize].sender.client) {
                inner.active.push_back(at);
            } else {
                inner.serve(at, into, count);
            }
        }
        self.len.store(inner.len, Ordering::Relaxed);
        inner.len > 0 || !into.is_empty() || !inner.is_closed
    }

    /// Accepts no more transactions.
    pub fn close(&self) {
        self.inner.lock().is_closed = true;
        self.arrived.notify_all();
    }

    /// Returns the number of waiting transactions.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns whether no transaction is waiting.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl TransactionSink for FairQueue {
    fn push_batch(&self, batch: &mut Vec<ReceivedTransaction>) {
        let mut refused = 0;
        let wakes = {
            let mut inner = self.inner.lock();
            if inner.is_closed {
                self.counters.refuse_many(DropReason::Closed, batch.len() as u64);
                return batch.clear();
            }
            for received in batch.drain(..) {
                refused += inner.push(received, self.len_max);
            }
            self.len.store(inner.len, Ordering::Relaxed);
            inner.sleeping > 0
        };
        if wakes {
            self.arrived.notify_one();
        }
        self.counters.refuse_many(DropReason::QueueFull, refused);
    }

    fn pressure(&self) -> f32 {
        self.len() as f32 / self.len_max as f32
    }

    fn is_over_share(&self, peer: PeerId) -> bool {
        let inner = self.inner.lock();
        let Some(peer_queue) = inner.peers.get(peer.0 as usize) else { return false };
        peer_queue.waiting.len() >= inner.share(peer_queue.weight(), self.len_max)
    }

    fn set_peer_weight(&self, peer: PeerId, sender: Sender) {
        let mut inner = self.inner.lock();
        let peer_queue = inner.peer_queue(peer);
        let before = std::mem::replace(&mut peer_queue.sender, sender);
        if !peer_queue.waiting.is_empty() {
            inner.active_weight =
                inner.active_weight - u64::from(before.weight) + u64::from(sender.weight);
        }
    }
}

impl Inner {
    fn peer_queue(&mut self, peer: PeerId) -> &mut PeerQueue {
        let at = peer.0 as usize;
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, PeerQueue::default);
        }
        &mut self.peers[at]
    }

    /// Frees half of the spare memory when there is little traffic.
    fn forget_burst(&mut self) {
        self.spare.truncate(self.spare.len() / 2);
        if self.len == 0 && self.active.capacity() > SPARE_MAX {
            self.active = VecDeque::new();
        }
    }

    /// Retains the memory of an empty queue for reuse.
    fn recycle_queue(&mut self, at: u32) {
        let empty = std::mem::take(&mut self.peers[at as usize].waiting);
        if self.spare.len() < SPARE_MAX {
            self.spare.push(empty);
        }
    }

    /// Returns the number of transactions that a peer of this weight may have waiting in a full queue.
    fn share(&self, weight: u32, len_max: usize) -> usize {
        let weight = u64::from(weight);
        let all = self.active_weight.max(weight);
        (len_max as u64 * weight / all).max(1) as usize
    }

    /// Pushes one transaction. Returns the number of transactions that were refused for it, itself included.
    fn push(&mut self, received: ReceivedTransaction, len_max: usize) -> u64 {
        let peer = received.peer;
        let peer_queue = self.peer_queue(peer);
        let waiting = peer_queue.waiting.len();
        let weight = peer_queue.weight();
        // Count its weight before its share is computed.
        if waiting == 0 {
            if let Some(spare) = self.spare.pop() {
                self.peer_queue(peer).waiting = spare;
            }
            self.active.push_back(peer.0);
            self.active_weight += u64::from(weight);
        }
        let mut refused = 0;
        if self.len >= len_max {
            refused = 1;
            if waiting >= self.share(weight, len_max) || !self.evict_over_share(len_max) {
                if waiting == 0 {
                    self.active.retain(|at| *at != peer.0);
                    self.active_weight -= u64::from(weight);
                    self.recycle_queue(peer.0);
                }
                return refused;
            }
        }
        self.peer_queue(peer).waiting.push_back(received);
        self.len += 1;
        refused
    }

    /// Drops the newest transaction of a peer that has more than its share.
    fn evict_over_share(&mut self, len_max: usize) -> bool {
        for _ in 0..self.active.len() {
            let Some(at) = self.active.front().copied() else { return false };
            let share = self.share(self.peers[at as usize].weight(), len_max);
            let peer_queue = &mut self.peers[at as usize];
            if peer_queue.waiting.len() > share.max(1) {
                peer_queue.waiting.pop_back();
                self.len -= 1;
                return true;
            }
            // The next search continues after this peer.
            self.active.rotate_left(1);
        }
        false
    }

    /// Pops the transactions of one peer's round.
    fn serve(&mut self, at: u32, into: &mut Vec<(ReceivedTransaction, Sender)>, count: usize) {
        let peer_queue = &mut self.peers[at as usize];
        let quantum =
            (QUANTUM * peer_queue.weight() as usize).min(QUANTUM_MAX).min(count - into.len());
        let taken = quantum.min(peer_queue.waiting.len());
        let sender = peer_queue.sender;
        into.extend(peer_queue.waiting.drain(..taken).map(|received| (received, sender)));
        self.len -= taken;
        if !peer_queue.waiting.is_empty() {
            return self.active.push_back(at);
        }
        self.active_weight -= u64::from(sender.weight);
        self.recycle_queue(at);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::clock;

    fn batch(peer: u32, count: usize) -> Vec<ReceivedTransaction> {
        let since = clock::now();
        let one = |n: usize| ReceivedTransaction {
            bytes: Bytes::copy_from_slice(&n.to_le_bytes()),
            peer: PeerId(peer),
            since,
        };
        (0..count).map(one).collect()
    }

    fn pop(queue: &FairQueue, count: usize) -> Vec<(u32, usize)> {
        let mut into = Vec::new();
        queue.pop(&mut into, count, Duration::ZERO);
        into.iter()
            .map(|(received, _)| {
                let number = received.bytes.as_ref().try_into().expect("eight bytes");
                (received.peer.0, usize::from_le_bytes(number))
            })
            .collect()
    }

    fn counts(queue: &FairQueue) -> [usize; 3] {
        let all = pop(queue, usize::MAX);
        [0, 1, 2].map(|peer| all.iter().filter(|(of, _)| *of == peer).count())
    }

    fn queue(len_max: usize) -> FairQueue {
        FairQueue::new(len_max, Arc::default())
    }

    #[test]
    fn a_flood_does_not_evict_a_peer_that_sends_little() {
        let queue = queue(100);
        queue.push_batch(&mut batch(0, 1_000));
        queue.push_batch(&mut batch(1, 10));
        assert_eq!(queue.counters.snapshot().count_refused(DropReason::QueueFull), 910);
        let all = pop(&queue, usize::MAX);
        let flood: Vec<usize> = all.iter().filter(|(of, _)| *of == 0).map(|(_, n)| *n).collect();
        // The newest were dropped.
        assert_eq!(flood, (0..90).collect::<Vec<_>>());
        assert_eq!(all.len(), 100);
    }

    #[test]
    fn a_full_queue_is_shared_by_weight() {
        let queue = queue(90);
        queue.set_peer_weight(PeerId(0), Sender { client: ClientId(9), weight: 2 });
        for _ in 0..100 {
            queue.push_batch(&mut batch(0, 3));
            queue.push_batch(&mut batch(1, 3));
        }
        assert_eq!(counts(&queue), [60, 30, 0]);
    }

    #[test]
    fn peers_are_served_round_robin() {
        let queue = queue(100);
        queue.push_batch(&mut batch(0, 50));
        queue.push_batch(&mut batch(1, 50));
        let first: Vec<u32> = pop(&queue, 12).iter().map(|(of, _)| *of).collect();
        assert_eq!(first, [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_clients_peers_can_be_skipped() {
        let queue = queue(100);
        for peer in 0..3 {
            queue.set_peer_weight(PeerId(peer), ClientId(u128::from(peer / 2)).into());
            queue.push_batch(&mut batch(peer, 10));
        }
        let mut into = Vec::new();
        assert!(queue.pop_except(&mut into, 64, &[ClientId(0)]));
        let of: Vec<_> = into.iter().map(|(one, sender)| (one.peer.0, sender.client.0)).collect();
        assert_eq!(of, [(2, 1); 4]);
        assert_eq!(counts(&queue), [10, 10, 6]);
    }

    #[test]
    fn more_peers_than_capacity_is_fine() {
        let queue = queue(4);
        for peer in 0..10 {
            queue.push_batch(&mut batch(peer, 2));
        }
        assert_eq!(pop(&queue, 100).len(), 4);
        assert_eq!(queue.counters.snapshot().count_refused(DropReason::QueueFull), 16);
        queue.push_batch(&mut batch(3, 2));
        assert_eq!(pop(&queue, 100).len(), 2);
        assert_eq!(queue.inner.lock().active_weight, 0);
    }

    #[test]
    fn a_closed_queue_is_emptied_and_counts_what_comes_after() {
        let queue = queue(100);
        queue.push_batch(&mut batch(0, 5));
        queue.close();
        queue.push_batch(&mut batch(0, 7));
        let mut into = Vec::new();
        assert!(queue.pop(&mut into, 100, Duration::ZERO));
        assert_eq!(into.len(), 5);
        assert!(!queue.pop(&mut Vec::new(), 100, Duration::ZERO));
        assert_eq!(queue.counters.snapshot().count_refused(DropReason::Closed), 7);
    }
}
