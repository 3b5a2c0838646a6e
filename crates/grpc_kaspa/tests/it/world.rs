//! A server over a chain in memory, and an upstream that answers with recorded replies.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clients::{ClientId, RateLimiter};
use cpu_pool::Pool;
use grpc_kaspa::KaspaGrpcServer;
use grpc_server::{Config, Security};
use kaspa::{Encoding, JsonRequest, JsonServerMessage, Network, Operation, Outpoint, UtxoEntry};
use rpc_kaspa::{Forward, ForwardError, ForwardFuture, KaspaRpc, KaspaServer, Publisher, Settings};
use testkit::kaspa_chain::TestChain;
use testkit::kaspa_golden;
use testkit::session_config::roomy_session_config;
use tokio::sync::Semaphore;

/// Calls that the upstream answers at once.
pub(crate) const UPSTREAM_CALLS: u32 = 1_000;

pub(crate) struct World {
    pub(crate) chain: TestChain,
    pub(crate) publisher: Publisher,
    pub(crate) rpc: Arc<KaspaServer>,
    pub(crate) server: KaspaGrpcServer,
    pub(crate) upstream: Arc<Upstream>,
}

/// The calls of the upstream.
pub(crate) struct Upstream {
    /// A call is answered while it has a permit of [`UPSTREAM_CALLS`].
    pub(crate) permits: Arc<Semaphore>,
    /// Has a permit for each call that has come.
    pub(crate) received: Semaphore,
}

/// The recorded message in protobuf.
pub(crate) fn golden(name: &str, kind: &str) -> Vec<u8> {
    kaspa_golden::expect_bytes(kaspa_golden::PROTOBUF, name, kind)
}

/// Answers with a kaspad's recorded replies in JSON.
struct RecordedReplies(Arc<Upstream>);

impl Forward for RecordedReplies {
    fn forward(
        &self,
        _: ClientId,
        encoding: Encoding,
        operation: Operation,
        request: Bytes,
    ) -> ForwardFuture<'_> {
        Box::pin(async move {
            assert_eq!(encoding, Encoding::Json);
            self.0.received.add_permits(1);
            let _permit = self.0.permits.acquire().await.expect("it is open");
            let reply = kaspa_golden::find(kaspa_golden::JSON, operation.name(), "response");
            let reply = reply.ok_or_else(|| ForwardError::new("no such reply"))?;
            let request = std::str::from_utf8(&request).expect("UTF-8");
            let id = JsonRequest::parse(request).expect("a request").id.expect("an id");
            let reply = JsonServerMessage::parse(reply).expect("a reply");
            Ok(reply.encode_with_id(id).into())
        })
    }
}

impl World {
    pub(crate) fn start() -> Self {
        Self::new(Vec::new(), |_| ())
    }

    /// Starts a server on a bound listener.
    pub(crate) fn serve(listener: TcpListener) -> Self {
        Self::with_listener(Vec::new(), |_| (), listener)
    }

    /// Starts a server over these UTXOs. `set` changes the limits of its sessions.
    pub(crate) fn new(
        utxos: Vec<(Outpoint, UtxoEntry)>,
        set: impl FnOnce(&mut websocket::Config),
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Self::with_listener(utxos, set, listener)
    }

    fn with_listener(
        utxos: Vec<(Outpoint, UtxoEntry)>,
        set: impl FnOnce(&mut websocket::Config),
        listener: TcpListener,
    ) -> Self {
        let chain = TestChain::new(utxos);
        let pool = Pool::new(cpu_pool::Config::default(), Arc::new(|| Duration::ZERO), || {});
        let pool = Arc::new(pool.expect("a thread"));
        let clients = Arc::new(RateLimiter::new(clients::Limits::default()));
        let mut config = roomy_session_config();
        set(&mut config);
        let upstream = Arc::new(Upstream {
            permits: Arc::new(Semaphore::new(UPSTREAM_CALLS as usize)),
            received: Semaphore::new(0),
        });
        let rpc = KaspaRpc::serve(
            chain.chain.reader(),
            Network::Simnet,
            Arc::new(RecordedReplies(Arc::clone(&upstream))),
            Settings::default(),
            config,
            pool,
            clients,
        );
        let publisher = Publisher::new(Arc::clone(&rpc));
        let server = KaspaGrpcServer::start(
            Config { shutdown_timeout_ms: 60_000, ..Config::default() },
            Arc::clone(&rpc),
            listener,
            Security::default(),
        );
        Self { chain, publisher, rpc, server: server.expect("it starts"), upstream }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Shows the chain's changes to readers, and publishes their events.
    pub(crate) fn publish(&mut self) {
        let publication = self.chain.chain.publish().expect("a publication");
        self.publisher.publish_chain(&publication.events);
        drop(publication);
        self.chain.chain.reclaim();
    }
}
