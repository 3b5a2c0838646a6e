//! A server over a chain in memory, without sockets of the system.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chain_kaspa::ChainEvent;
use clients::{ClientId, RateLimiter};
use cpu_pool::Pool;
use kaspa::{Encoding, Network, Outpoint, UtxoEntry};
use rpc_kaspa::{KaspaRpc, KaspaServer, Publisher, SessionState, Settings};
use subscriptions::Limits;
use testkit::kaspa_chain::TestChain;
use testkit::session_config::roomy_session_config;
use tokio::io::duplex;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use websocket::{Config, serve_session};

use crate::fake_forward::FakeForward;
use crate::wrpc_client::WrpcClient;

pub(crate) struct World {
    pub(crate) server: Arc<KaspaServer>,
    pub(crate) chain: TestChain,
    pub(crate) forward: Arc<FakeForward>,
    pub(crate) publisher: Publisher,
    /// The time of the pool, in milliseconds.
    pub(crate) now_ms: Arc<AtomicU64>,
}

/// Few steps are retained, and few addresses have room.
pub(crate) fn config() -> Config {
    let config = roomy_session_config();
    Config { limits: Limits { addresses_max: 10_000, ..config.limits }, ..config }
}

impl World {
    pub(crate) fn start() -> Self {
        Self::with_utxos(Vec::new())
    }

    pub(crate) fn with_utxos(utxos: Vec<(Outpoint, UtxoEntry)>) -> Self {
        Self::new(utxos, Settings::default(), config())
    }

    pub(crate) fn with_settings(settings: Settings) -> Self {
        Self::new(Vec::new(), settings, config())
    }

    pub(crate) fn with_set_and_settings(
        utxos: Vec<(Outpoint, UtxoEntry)>,
        settings: Settings,
    ) -> Self {
        Self::new(utxos, settings, config())
    }

    pub(crate) fn new(
        utxos: Vec<(Outpoint, UtxoEntry)>,
        settings: Settings,
        config: Config,
    ) -> Self {
        Self::with_chain(TestChain::new(utxos), settings, config)
    }

    pub(crate) fn with_chain(chain: TestChain, settings: Settings, config: Config) -> Self {
        let now_ms = Arc::new(AtomicU64::new(0));
        let now = Arc::clone(&now_ms);
        let clock = move || Duration::from_millis(now.load(Ordering::SeqCst));
        let pool = Pool::new(cpu_pool::Config::default(), Arc::new(clock), || {});
        let pool = Arc::new(pool.expect("a thread"));
        let clients = Arc::new(RateLimiter::new(clients::Limits::default()));
        let forward = Arc::new(FakeForward::new());
        let reader = chain.chain.reader();
        let upstream = Arc::clone(&forward) as _;
        let server =
            KaspaRpc::serve(reader, Network::Simnet, upstream, settings, config, pool, clients);
        let publisher = Publisher::new(Arc::clone(&server));
        Self { server, chain, forward, publisher, now_ms }
    }

    pub(crate) async fn connect(&self, encoding: Encoding) -> WrpcClient {
        self.connect_with_buffer(encoding, 64 * 1024).await
    }

    /// A connection whose socket holds this many bytes that the client has not read.
    pub(crate) async fn connect_with_buffer(&self, encoding: Encoding, bytes: usize) -> WrpcClient {
        let (client, io) = duplex(bytes);
        let state = SessionState::new(encoding);
        tokio::spawn(serve_session(io, ClientId(7), Arc::clone(&self.server), state));
        let socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        WrpcClient::new(socket, encoding)
    }

    /// The DAA score of the virtual block.
    pub(crate) fn daa_score(&self) -> u64 {
        self.chain.chain.status().virtual_daa_score
    }

    /// Shows the chain's changes to readers, and publishes their events.
    pub(crate) fn publish(&mut self) -> Vec<ChainEvent> {
        let publication = self.chain.chain.publish().expect("a publication");
        self.publisher.publish_chain(&publication.events);
        let events = publication.events.clone();
        drop(publication);
        self.chain.chain.reclaim();
        events
    }
}
