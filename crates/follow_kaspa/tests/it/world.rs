//! A follower of model nodes, and what tests ask it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chain_kaspa::{Chain, ChainConfig, ChainEvent, ChainReader, VirtualMode, all_utxos};
use follow_kaspa::{
    ConnectionConfig, EventSink, FollowError, FollowHandle, FollowStatus, Follower, FollowerConfig,
    SessionConfig, SourceConfig, start_at_genesis,
};
use kaspa::{Encoding, Event, Network, Notification, Outpoint, UtxoEntry};
use ledger::Commitment;
use testkit::eventually::eventually;
use testkit::kaspa_node::KaspaNode;

/// Addresses of a test's ledger.
const ADDRESSES_MAX: u32 = 100_000;

/// A UTXO set.
pub(crate) type Utxos = BTreeMap<Outpoint, UtxoEntry>;

/// A running follower.
pub(crate) struct World {
    pub(crate) reader: ChainReader,
    pub(crate) status: Arc<FollowStatus>,
    pub(crate) seen: Seen,
    handle: FollowHandle,
}

/// A sink that counts its events.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<parking_lot::Mutex<SeenEvents>>);

#[derive(Default)]
pub(crate) struct SeenEvents {
    pub(crate) chain_blocks: usize,
    pub(crate) removed: usize,
    pub(crate) refused: usize,
    pub(crate) replaced_sets: usize,
    pub(crate) relayed: Vec<(Encoding, Event)>,
}

impl EventSink for Seen {
    fn send_events(&mut self, events: &[ChainEvent]) {
        let mut seen = self.0.lock();
        for event in events {
            match event {
                ChainEvent::ChainChanged(change) => {
                    seen.chain_blocks += change.added.len();
                    seen.removed += change.removed.len();
                }
                ChainEvent::BlockRefused { .. } => seen.refused += 1,
                ChainEvent::UtxoSetReplaced => seen.replaced_sets += 1,
                _ => {}
            }
        }
    }

    fn send_notification(&mut self, encoding: Encoding, notification: &Notification) {
        self.0.lock().relayed.push((encoding, notification.event()));
    }
}

impl Seen {
    pub(crate) fn read<T>(&self, read: impl FnOnce(&SeenEvents) -> T) -> T {
        read(&self.0.lock())
    }
}

pub(crate) fn source(node: &KaspaNode) -> SourceConfig {
    SourceConfig::new(format!("ws://{}", node.borsh()))
}

/// Settings with short intervals.
pub(crate) fn config(sources: Vec<SourceConfig>) -> FollowerConfig {
    FollowerConfig {
        connection: ConnectionConfig {
            connect_timeout: Duration::from_secs(20),
            call_timeout: Duration::from_secs(20),
            message_bytes_max: 32 << 20,
            ..ConnectionConfig::default()
        },
        session: SessionConfig {
            poll_interval: Duration::from_millis(200),
            template_interval: Duration::from_millis(5),
            joining_interval: Duration::from_millis(5),
            daa_score_delay: Duration::from_millis(5),
            agreement_interval: Duration::from_millis(20),
            reconnect_delay_min: Duration::from_millis(2),
            reconnect_delay_max: Duration::from_millis(20),
            ..SessionConfig::default()
        },
        ..FollowerConfig::new(Network::Simnet, sources)
    }
}

pub(crate) fn chain_config() -> ChainConfig {
    ChainConfig::new(ADDRESSES_MAX)
}

/// Reorganizes a node while it has no connection.
pub(crate) async fn reorganize_offline(node: &KaspaNode, depth: usize) {
    node.set_accepting(false);
    node.cut_after(0);
    eventually(|| node.connections() == 0, String::new).await;
    node.reorganize(depth);
    node.set_accepting(true);
}

impl World {
    /// Follows a node from the first block.
    pub(crate) fn follow(node: &KaspaNode) -> Self {
        Self::start(config(vec![source(node)]), chain_config())
    }

    pub(crate) fn start(config: FollowerConfig, chain: ChainConfig) -> Self {
        let chain = start_at_genesis(Network::Simnet, chain).expect("simnet starts empty");
        Self::start_with(config, chain)
    }

    pub(crate) fn start_with(config: FollowerConfig, chain: Chain) -> Self {
        let follower = Follower::new(config, chain).expect("valid settings");
        let reader = follower.reader().clone();
        let status = Arc::clone(follower.status());
        let seen = Seen::default();
        let handle = follower.start(vec![Box::new(seen.clone())]).expect("a follower");
        Self { reader, status, seen, handle }
    }

    /// Waits until the chain ends at the sink of a node.
    pub(crate) async fn reach_sink(&self, node: &KaspaNode) {
        let is_there = || self.status.proven().hash == node.sink() && self.status.is_caught_up();
        eventually(is_there, || self.describe(node)).await;
    }

    /// Waits until the virtual state is exact, and equal to a node's.
    pub(crate) async fn reach_virtual(&self, node: &KaspaNode) {
        self.reach_sink(node).await;
        let is_equal = || {
            let is_exact = self.status.chain().virtual_state.mode == VirtualMode::Exact;
            is_exact && self.read(Commitment::Processed) == node.utxos()
        };
        eventually(is_equal, || self.describe(node)).await;
    }

    pub(crate) async fn wait(&self, is_met: impl Fn(&FollowStatus) -> bool) {
        eventually(|| is_met(&self.status), || format!("{:?}", self.status.problem())).await;
    }

    fn describe(&self, node: &KaspaNode) -> String {
        let chain = self.status.chain();
        let problem = self.status.problem();
        let end = self.status.last_session_end();
        format!("sink {}, {chain:?}, {problem:?}, {end:?}", node.sink())
    }

    /// Reads the UTXO set of a commitment.
    pub(crate) fn read(&self, commitment: Commitment) -> Utxos {
        all_utxos(&self.reader.utxos.view(commitment)).collect()
    }

    /// Waits until the follower ends by itself. Returns why.
    pub(crate) async fn wait_for_end(self) -> FollowError {
        let is_finished = || self.handle.is_finished();
        eventually(is_finished, || format!("{:?}", self.status.problem())).await;
        let stop = tokio::task::spawn_blocking(move || self.handle.stop());
        stop.await.expect("no panic").expect_err("it was not stopped")
    }

    /// Ends the follower.
    pub(crate) async fn stop(self) {
        assert!(!self.handle.is_finished(), "the writer has ended");
        let stop = tokio::task::spawn_blocking(move || self.handle.stop());
        stop.await.expect("no panic").expect("no error");
    }
}
