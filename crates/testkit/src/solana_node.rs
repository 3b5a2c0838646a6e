//! A node that serves a Solana ledger on loopback: the real API and server, and a fake transaction service.
//!
//! In: a reader of a ledger, and what a test sets otherwise than its default. Out: a served [`SolanaNode`], or its server
//! without sockets.
//! Invariant: a node that is dropped checks that no connection panicked, so every test checks the budget of a poll.
//! Not here: PubSub, which its own tests serve; a WebSocket of this node only says hello. The ledger
//! (`test_ledger`, `sample_ledger`). The process `hydrant` (`node`).

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use chain_solana::{
    ClusterInfo, Faucet, History, HistoryLimits, Reader, Simulator, TransactionSender,
};
use clients::{ClientId, RateLimiter};
use cpu_pool::{Class, ClassCounters, Clock, Counters, Pool, Task, TaskPoll, Ticket, TimeSlice};
use http_server::{Listeners, Socket, WebSocketHandler};
use jsonrpc::{Health, HttpApi, SystemClock};
use query::IndexConfig;
use response_cache::ResponseCache;
use rpc_solana::{Config, SolanaApi, SolanaApiBuilder, SolanaServer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::cluster_info::cluster_info;
use crate::eventually::wait_until;
use crate::fake_transaction_service::FakeTransactionService;
use crate::raw_http_client::{Client, IO_TIMEOUT};
use crate::sample_ledger;

/// A served node. Dropping it stops the server.
pub struct SolanaNode {
    /// The API and the context of its server.
    pub server: Arc<SolanaServer>,
    /// The service that the node sends to, unless [`SolanaNodeBuilder::with_api`] set another.
    pub transaction_service: Arc<FakeTransactionService>,
    /// The address of HTTP.
    pub rpc: SocketAddr,
    /// The address of WebSocket.
    pub pubsub: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: Option<oneshot::Receiver<()>>,
    runtime: Runtime,
}

/// Changes an API before it is built.
type ApiChange = Box<dyn FnOnce(SolanaApiBuilder) -> SolanaApiBuilder>;

/// A node that is not served yet.
#[must_use = "nothing is served before `serve`"]
pub struct SolanaNodeBuilder {
    reader: Reader,
    history: Option<Arc<History>>,
    cluster_info: Arc<ClusterInfo>,
    config: Config,
    pool: cpu_pool::Config,
    clock: Arc<dyn Clock>,
    health: Arc<Health>,
    cache_bytes_max: u64,
    http_api: Option<Arc<dyn HttpApi<SolanaApi>>>,
    change_api: ApiChange,
    transaction_service: Arc<FakeTransactionService>,
}

impl SolanaNodeBuilder {
    /// Sets the history. The default has the tips of the ledger, and no blocks.
    pub fn history(mut self, history: Arc<History>) -> Self {
        self.history = Some(history);
        self
    }

    /// Sets what never changes. The default is [`cluster_info`].
    pub fn cluster_info(mut self, cluster_info: Arc<ClusterInfo>) -> Self {
        self.cluster_info = cluster_info;
        self
    }

    /// Sets the limits of the API and its server.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the threads and the limits of the pool, and the limits of clients.
    pub fn pool(mut self, pool: cpu_pool::Config) -> Self {
        self.pool = pool;
        self
    }

    /// Sets the clock of the pool and a health with the same clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>, health: Health) -> Self {
        self.clock = clock;
        self.health = Arc::new(health);
        self
    }

    /// Sets the size of the response cache. The default is 16 MiB.
    pub fn cache_bytes_max(mut self, bytes: u64) -> Self {
        self.cache_bytes_max = bytes;
        self
    }

    /// Adds an HTTP API to the port of JSON-RPC.
    pub fn http_api(mut self, api: Arc<dyn HttpApi<SolanaApi>>) -> Self {
        self.http_api = Some(api);
        self
    }

    /// Sets capabilities of the API, which otherwise has those of a [`FakeTransactionService`].
    pub fn with_api(
        mut self,
        change: impl FnOnce(SolanaApiBuilder) -> SolanaApiBuilder + 'static,
    ) -> Self {
        self.change_api = Box::new(change);
        self
    }

    /// Returns the server without sockets.
    pub fn build_server(self) -> SolanaServer {
        let history = self.history.unwrap_or_else(|| history_without_blocks(&self.reader));
        let clients = Arc::new(RateLimiter::new(self.pool.clients));
        let pool = Arc::new(Pool::new(self.pool, self.clock, || {}).expect("threads start"));
        let service = self.transaction_service;
        let api = SolanaApi::builder(self.cluster_info, self.reader, history, pool)
            .transaction_sender(Arc::clone(&service) as Arc<dyn TransactionSender>)
            .simulator(Arc::clone(&service) as Arc<dyn Simulator>)
            .faucet(Some(service as Arc<dyn Faucet>))
            .health(self.health)
            .config(self.config);
        let response_cache = Arc::new(ResponseCache::new(self.cache_bytes_max));
        (self.change_api)(api).build().into_server(response_cache, clients)
    }

    /// Serves the node on free ports.
    pub fn serve(mut self) -> SolanaNode {
        let http_api = self.http_api.take();
        let transaction_service = Arc::clone(&self.transaction_service);
        let server = Arc::new(self.build_server());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let bind = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let listeners = Listeners { rpc: bind(), pubsub: Some(bind()) };
        let rpc = listeners.rpc.local_addr().expect("it is bound");
        let pubsub = listeners.pubsub.as_ref().expect("it is set").local_addr();
        let pubsub = pubsub.expect("it is bound");
        let (stop, stopped) = oneshot::channel();
        let (ended, served) = oneshot::channel();
        let serving = Arc::clone(&server);
        runtime.spawn(async move {
            let stopped = async move { drop(stopped.await) };
            jsonrpc::serve(serving, Arc::new(Greeter), http_api, listeners, stopped).await;
            let _ = ended.send(());
        });
        SolanaNode {
            server,
            transaction_service,
            rpc,
            pubsub,
            stop: Some(stop),
            served: Some(served),
            runtime,
        }
    }
}

impl SolanaNode {
    /// Serves the sample ledger with the default limits.
    #[expect(clippy::new_without_default, reason = "a default that opens sockets would surprise")]
    pub fn new() -> Self {
        Self::with_config(Config::default(), cpu_pool::Config::default())
    }

    /// Serves the sample ledger with these limits.
    pub fn with_config(config: Config, pool: cpu_pool::Config) -> Self {
        let reader = sample_ledger::ledger(IndexConfig::default());
        Self::builder(reader).config(config).pool(pool).serve()
    }

    /// Returns a builder of a node with the default limits.
    pub fn builder(reader: Reader) -> SolanaNodeBuilder {
        SolanaNodeBuilder {
            reader,
            history: None,
            cluster_info: Arc::new(cluster_info()),
            config: Config::default(),
            pool: cpu_pool::Config::default(),
            clock: Arc::new(SystemClock::new()),
            health: Arc::default(),
            cache_bytes_max: 1 << 24,
            http_api: None,
            change_api: Box::new(|api| api),
            transaction_service: Arc::default(),
        }
    }

    /// Returns a client that is connected.
    pub fn client(&self) -> Client {
        Client::connect(self.rpc)
    }

    /// Occupies the pool's only thread until the returned value is dropped.
    pub fn occupy_pool(&self) -> Occupied {
        let (occupied, started) = self.submit(Class::Light, ClientId(0));
        started.recv_timeout(IO_TIMEOUT).expect("the pool works");
        occupied
    }

    /// Queues a task that occupies the pool's thread until the returned value is dropped.
    pub fn queue(&self, class: Class, client: ClientId) -> Occupied {
        self.submit(class, client).0
    }

    fn submit(&self, class: Class, client: ClientId) -> (Occupied, Receiver<()>) {
        let (release, released) = sync_channel(0);
        let (started, start) = sync_channel(1);
        let task = Box::new(Occupier { started, release: released });
        let ticket = self.server.context.pool.submit(class, client, task);
        let ticket = ticket.unwrap_or_else(|full| panic!("{full}"));
        (Occupied { _release: release, _ticket: ticket }, start)
    }

    /// Waits until the counters of the pool satisfy `until`.
    pub fn wait_pool(&self, until: impl Fn(&Counters) -> bool) {
        let pool = &self.server.context.pool;
        wait_until(|| pool.counters(), until);
    }

    /// Waits until the counters of the response cache satisfy `until`.
    pub fn wait_response_cache(&self, until: impl Fn(&cache::Counters) -> bool) {
        let response_cache = &self.server.context.response_cache;
        wait_until(|| response_cache.counters(), until);
    }

    /// Returns the counters of a class of the pool.
    pub fn class(&self, class: Class) -> ClassCounters {
        *self.server.context.pool.counters().class(class)
    }

    /// Starts the shutdown of the server.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until the server has stopped.
    pub fn wait_stopped(&mut self) {
        let served = self.served.take().expect("waited for once");
        let waited =
            self.runtime.block_on(async { tokio::time::timeout(IO_TIMEOUT, served).await });
        waited.expect("the server stops in time").expect("the server does not panic");
    }
}

impl Drop for SolanaNode {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let panicked = self.server.context.metrics.connections_panicked();
            assert_eq!(panicked, 0, "connections panicked; a poll may have done too much");
        }
    }
}

/// Occupies a thread of the pool. The fields are dropped in this order.
pub struct Occupied {
    _release: SyncSender<()>,
    _ticket: Ticket,
}

struct Occupier {
    started: SyncSender<()>,
    release: Receiver<()>,
}

impl Task for Occupier {
    fn poll(&mut self, _: &TimeSlice<'_>) -> TaskPoll {
        // The test may not wait for it.
        let _ = self.started.send(());
        let _ = self.release.recv();
        TaskPoll::Done
    }
}

/// Sends "hello" and the client id, then closes the WebSocket.
struct Greeter;

impl WebSocketHandler for Greeter {
    fn handle(
        self: Arc<Self>,
        socket: Socket,
        client: ClientId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let mut socket = hyper_util::rt::TokioIo::new(socket.into_inner());
            let _ = socket.write_all(format!("hello {client}").as_bytes()).await;
            let _ = socket.shutdown().await;
        })
    }
}

/// Returns a history without blocks, with the tips of the ledger.
fn history_without_blocks(reader: &Reader) -> Arc<History> {
    let views = reader.views();
    let limits = HistoryLimits { blocks_max: 100, bytes_max: 1 << 20 };
    let history = History::new(limits, views.finalized.block());
    history.set_tip(views.processed.block());
    history.confirm(views.confirmed.block());
    history.publish();
    Arc::new(history)
}
