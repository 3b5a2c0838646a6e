//! Transactions to the next leaders of a followed chain, over QUIC, until they are in a block or have expired.
//!
//! In: transactions of clients. Out: streams to the leaders of the next slots, through [`tpu::Forwarder`].
//! Shape: one thread. It sets the forwarder's destinations from the leader schedule and the cluster's nodes, sends what
//! is new, and sends again what history does not have after [`RETRY_INTERVAL`].
//! Bounds: `transactions_max` transactions that are not in a block, with shares of clients ([`pending`]); the forwarder
//! has [`FORWARD_MAX`] for each of [`LEADERS_MAX`] destinations. A leader that does not read, or that closes,
//! delays no other one: each destination has its own connection and queue.
//! While no node of the cluster can be dialled, transactions go to the upstream, and are refused without one: a
//! transaction that is accepted and never leaves would be lost without a word.
//! Not here: QUIC (`tpu`), preflight (`rpc_solana`).

mod pending;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use chain_solana::{
    BLOCKHASHES_VALID, Cluster, History, Reader, SendError, Sender, TransactionSender,
    VerifiedTransaction, is_dialable,
};
use ledger::{Commitment, Slot};
use metrics::{Collector, Exposition, MetricKind};
use parking_lot::{Condvar, Mutex};
use solana_epoch_schedule::EpochSchedule;
use solana_pubkey::Pubkey;
use tpu::{Forwarder, ForwarderError, TlsIdentity};

use crate::UpstreamSender;
use crate::clock::now;
use pending::{End, PendingTransaction, PendingTransactions};

/// When a transaction that is not in a block is sent again, as in Agave.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Interval between updates of the leaders and removals of landed or expired transactions: a quarter of a slot.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Number of leaders that get a transaction: that of the next slot, and those of the two following leader windows.
const LEADERS_MAX: usize = 3;
/// Number of consecutive slots of a leader.
const CONSECUTIVE_LEADER_SLOTS: Slot = 4;
/// Transactions that wait for one leader, or that it has not acknowledged: 5 MB. Newer ones are dropped and sent again.
const FORWARD_MAX: usize = 4_096;
/// Time after the start in which transactions are accepted although the cluster's nodes are not known yet.
const NODES_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of transactions sent between updates of the leaders.
const BATCH_MAX: usize = 1_024;

/// Sends transactions to leaders. Drop stops it.
pub struct LeaderSender {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The chain as the sender sees it.
pub struct SenderChain {
    /// Slots, heights and blockhashes.
    pub reader: Reader,
    /// The history, which shows landed transactions.
    pub history: Arc<History>,
    /// The leaders and nodes of the cluster.
    pub cluster: Arc<dyn Cluster>,
    /// The epoch schedule of the chain.
    pub epochs: EpochSchedule,
}

struct Shared {
    chain: SenderChain,
    forwarder: Forwarder,
    queue: Mutex<Queue>,
    wake: Condvar,
    counters: Counters,
    /// The sender of transactions while no leader can be dialled.
    upstream: Option<UpstreamSender>,
    /// Whether no node of the cluster can be dialled.
    is_cut_off: AtomicBool,
}

struct Queue {
    pending: PendingTransactions,
    /// Transactions came since the last batch.
    is_new: bool,
    is_ending: bool,
}

#[derive(Default)]
struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
    attempts: AtomicU64,
    upstream: AtomicU64,
    landed: AtomicU64,
    expired: AtomicU64,
    leaders: AtomicU64,
}

impl LeaderSender {
    /// Starts the thread. `identity` is what leaders see; one without stake gets their smallest share. While no leader
    /// can be dialled, transactions go to `upstream`.
    pub fn start(
        chain: SenderChain,
        identity: &TlsIdentity,
        transactions_max: usize,
        upstream: Option<UpstreamSender>,
    ) -> Result<Arc<Self>, ForwarderError> {
        let reader = chain.reader.clone();
        let is_valid = move |blockhash: &solana_hash::Hash| {
            reader.view(Commitment::Processed).meta().blockhashes.is_valid(blockhash)
        };
        let forwarder = Forwarder::start(&[], identity, FORWARD_MAX, Box::new(is_valid))?;
        let pending = PendingTransactions::new(transactions_max, RETRY_INTERVAL);
        let shared = Arc::new(Shared {
            chain,
            forwarder,
            queue: Mutex::new(Queue { pending, is_new: false, is_ending: false }),
            wake: Condvar::new(),
            counters: Counters::default(),
            upstream,
            is_cut_off: AtomicBool::new(false),
        });
        let thread = std::thread::Builder::new().name("send".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run()
        })?;
        Ok(Arc::new(Self { shared, thread: Some(thread) }))
    }

    /// Whether no node of the cluster can be dialled, so that transactions go to the upstream or are refused.
    pub fn is_cut_off(&self) -> bool {
        self.shared.is_cut_off.load(Ordering::Relaxed)
    }
}

impl Drop for LeaderSender {
    fn drop(&mut self) {
        self.shared.queue.lock().is_ending = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // The panic hook has logged a panic already.
            let _ = thread.join();
        }
    }
}

impl TransactionSender for LeaderSender {
    fn send(&self, sender: Sender, transaction: VerifiedTransaction) -> Result<(), SendError> {
        let shared = &self.shared;
        if self.is_cut_off() {
            let Some(upstream) = &shared.upstream else {
                shared.counters.refused.fetch_add(1, Ordering::Relaxed);
                return Err(SendError::NoLeader);
            };
            shared.counters.upstream.fetch_add(1, Ordering::Relaxed);
            return upstream.send(sender, transaction);
        }
        let view = shared.chain.reader.view(Commitment::Processed);
        let blockhash = *transaction.transaction().message.recent_blockhash();
        let Ok(bytes) = wincode::serialize(transaction.transaction()) else {
            return Err(SendError::Closed);
        };
        let pending = PendingTransaction {
            signature: transaction.signature(),
            blockhash,
            bytes: bytes.into(),
            was_valid: view.meta().blockhashes.is_valid(&blockhash),
            last_height: view.meta().block_height.saturating_add(BLOCKHASHES_VALID),
        };
        let mut queue = shared.queue.lock();
        let added = queue.pending.add(sender, pending, now());
        queue.is_new |= added.is_ok();
        drop(queue);
        let counter = match added {
            Ok(()) => &shared.counters.accepted,
            Err(_) => &shared.counters.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        shared.wake.notify_one();
        added
    }
}

impl Shared {
    fn run(&self) {
        let mut destinations = Vec::new();
        let mut polled_at = None;
        let started = now();
        loop {
            {
                let mut queue = self.queue.lock();
                if !queue.is_new && !queue.is_ending {
                    self.wake.wait_for(&mut queue, POLL_INTERVAL);
                }
                if queue.is_ending {
                    return;
                }
                queue.is_new = false;
            }
            let now = now();
            let is_due = |polled_at| now.saturating_duration_since(polled_at) >= POLL_INTERVAL;
            if polled_at.is_none_or(is_due) {
                polled_at = Some(now);
                self.remove_ended();
                self.check_nodes(now - started);
                let leaders = self.next_leaders();
                self.counters.leaders.store(leaders.len() as u64, Ordering::Relaxed);
                if leaders != destinations {
                    self.forwarder.set_destinations(&leaders);
                    destinations = leaders;
                }
            }
            if !destinations.is_empty() {
                self.send_due();
            }
        }
    }

    /// Notes whether any node of the cluster can be dialled.
    fn check_nodes(&self, elapsed: Duration) {
        let is_cut_off = match self.chain.cluster.nodes() {
            Some(nodes) => {
                !nodes.iter().any(|node| node.tpu_quic.as_ref().is_some_and(is_dialable))
            }
            None => elapsed >= NODES_TIMEOUT,
        };
        if is_cut_off && !self.is_cut_off.swap(is_cut_off, Ordering::Relaxed) {
            let has_upstream = self.upstream.is_some();
            tracing::warn!(
                has_upstream,
                "no node of the cluster has an address that can be dialled"
            );
        }
        self.is_cut_off.store(is_cut_off, Ordering::Relaxed);
    }

    /// The addresses of the next leaders that are known and can be dialled.
    fn next_leaders(&self) -> Vec<SocketAddr> {
        let SenderChain { reader, cluster, epochs, .. } = &self.chain;
        let Some(nodes) = cluster.nodes() else { return Vec::new() };
        let next = reader.view(Commitment::Processed).block().slot + 1;
        let mut leaders: Vec<Pubkey> = Vec::new();
        for turn in 0..LEADERS_MAX as Slot {
            let (epoch, index) =
                epochs.get_epoch_and_slot_index(next + turn * CONSECUTIVE_LEADER_SLOTS);
            let Some(schedule) = cluster.leaders(epoch) else { continue };
            if let Some((leader, _)) = schedule.find_window(index)
                && !leaders.contains(leader)
            {
                leaders.push(*leader);
            }
        }
        let address = |leader: &Pubkey| {
            nodes.iter().find(|node| node.identity == *leader).and_then(|node| node.tpu_quic)
        };
        leaders.iter().filter_map(address).filter(is_dialable).collect()
    }

    fn remove_ended(&self) {
        let history = self.chain.history.snapshot();
        let view = self.chain.reader.view(Commitment::Processed);
        let meta = view.meta();
        let counters = &self.counters;
        let ended = self.queue.lock().pending.remove_ended(|it| {
            if history.transaction(&it.signature, Commitment::Processed).is_some() {
                return Some(End::Landed);
            }
            let is_invalid = it.was_valid && !meta.blockhashes.is_valid(&it.blockhash);
            (is_invalid || meta.block_height > it.last_height).then_some(End::Expired)
        });
        for end in ended {
            let counter = match end {
                End::Landed => &counters.landed,
                End::Expired => &counters.expired,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send_due(&self) {
        let now = now();
        let due = {
            let mut queue = self.queue.lock();
            let due = queue.pending.take_due(now, BATCH_MAX);
            // There may be more.
            queue.is_new |= due.len() == BATCH_MAX;
            due
        };
        self.counters.attempts.fetch_add(due.len() as u64, Ordering::Relaxed);
        for transaction in due {
            self.forwarder.forward(&transaction.bytes, transaction.blockhash, now);
        }
    }
}

impl Collector for LeaderSender {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let queue = self.shared.queue.lock().pending.bytes() as u64;
        let upstream = self.shared.upstream.as_ref().map_or(0, UpstreamSender::waiting_bytes);
        vec![
            ("follow_send_queue", queue + upstream),
            ("follow_forwarder", self.shared.forwarder.waiting_bytes()),
        ]
    }

    fn write(&self, out: &mut Exposition) {
        let shared = &self.shared;
        let counters = &self.shared.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let upstream = shared.upstream.as_ref().map_or(0, UpstreamSender::waiting);
        let pending = shared.queue.lock().pending.len() as u64 + upstream;
        let help =
            "Transactions that were accepted and are not in a block, or not at the upstream.";
        out.single("hydrant_send_pending", MetricKind::Gauge, help, pending);
        let help = "Next leaders whose address is known.";
        out.single("hydrant_send_leaders", MetricKind::Gauge, help, count(&counters.leaders));
        let help = "Transactions for leaders: accepted, refused or given to the upstream, each attempt, and how they ended.";
        let mut family = out.family("hydrant_send_events_total", MetricKind::Counter, help);
        for (event, counter) in [
            ("accepted", &counters.accepted),
            ("refused", &counters.refused),
            ("upstream", &counters.upstream),
            ("attempt", &counters.attempts),
            ("landed", &counters.landed),
            ("expired", &counters.expired),
        ] {
            family.put(&[("event", event)], count(counter));
        }
    }
}
