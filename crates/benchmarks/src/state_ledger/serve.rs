//! The ledger behind the real server: every method as a client calls it, and a ledger that accepts no
//! transaction.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Result;
use chain_solana::{
    ComputedVerification, History, HistoryLimits, InflationSchedule, OneNodeCluster, Reader,
    SendError, Sender, Simulation, SimulationError, SimulationRequest, Simulator,
    TransactionSender, VerifiedTransaction, View, WrittenAccounts,
};
use http_server::{Listeners, Socket, WebSocketHandler};
use jsonrpc::{Health, SystemClock};
use ledger::Commitment;
use pool::{ClientId, Limits, Pool, RateLimiter};
use rpc_solana::{SolanaApi, SolanaServer};
use testkit::cluster_info::cluster_info;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::protocol::Settings;

/// Serves on a free port, which it reports, until `wait` is over.
pub(crate) fn run(reader: &Reader, wait: impl FnOnce() -> Result<()>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    println!("serving {}", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let listeners = Listeners { rpc: listener, pubsub: None };
    let node = Arc::new(server(api(reader)?, 1 << 24));
    let server = runtime.spawn(jsonrpc::serve(node, Arc::new(NoPubSub), None, listeners, async {
        // An error means that the other end has closed the connection.
        let _ = stopped.await;
    }));
    let waited = wait();
    drop(stop);
    runtime.block_on(server)?;
    waited
}

fn api(reader: &Reader) -> Result<SolanaApi> {
    let cluster_info = Arc::new(cluster_info());
    let pool = Pool::new(pool::Config::default(), Arc::new(SystemClock::new()), || {})?;
    let limits = HistoryLimits { slots_max: 1, bytes_max: 0 };
    let history = Arc::new(History::new(limits, reader.view(Commitment::Finalized).block()));
    let verification = ComputedVerification::new(reader.clone(), Arc::clone(&history));
    Ok(SolanaApi {
        verification: Arc::new(verification),
        cluster: Arc::new(OneNodeCluster::new(
            Arc::clone(&cluster_info),
            InflationSchedule::default(),
        )),
        cluster_info,
        reader: reader.clone(),
        history,
        transaction_sender: Arc::new(RejectingLedger),
        simulator: Arc::new(RejectingLedger),
        faucet: None,
        fork_control: None,
        upstream: None,
        account_upstream: None,
        snapshots: None,
        notified: Arc::default(),
        older_statuses: None,
        bundles: Arc::default(),
        cheatcodes: Arc::default(),
        pool: Arc::new(pool),
        health: Arc::new(Health::default()),
        metrics: SolanaApi::new_metrics(),
        config: rpc_solana::Config::default(),
    })
}

/// The same with other settings.
pub(crate) fn node_with(reader: &Reader, settings: &Settings) -> Result<SolanaServer> {
    let Settings { cpu_threads: threads, slice_us, nice, inline_bytes, cache_bytes, .. } =
        *settings;
    let config = pool::Config { threads, slice_us, nice, ..pool::Config::default() };
    let pool = Pool::new(config, Arc::new(SystemClock::new()), move || {
        // On Linux it applies to this thread only. Raising the value is always allowed.
        let _ = rustix::process::setpriority_process(None, nice.into());
    })?;
    let config =
        rpc_solana::Config { inline_bytes_max: inline_bytes, ..rpc_solana::Config::default() };
    Ok(server(SolanaApi { pool: Arc::new(pool), config, ..api(reader)? }, cache_bytes))
}

fn server(api: SolanaApi, cache_bytes: u64) -> SolanaServer {
    let response_cache = response_cache::ResponseCache::new(cache_bytes);
    api.into_server(Arc::new(response_cache), Arc::new(RateLimiter::new(Limits::default())))
}

/// A ledger that accepts no transaction and simulates none.
struct RejectingLedger;

impl TransactionSender for RejectingLedger {
    fn send(&self, _: Sender, _: VerifiedTransaction) -> Result<(), SendError> {
        Err(SendError::Closed)
    }
}

impl Simulator for RejectingLedger {
    fn simulate_after(
        &self,
        _: &View,
        _: &WrittenAccounts,
        _: SimulationRequest,
    ) -> Result<Simulation, SimulationError> {
        Err(SimulationError::Sanitize("this ledger executes nothing".to_owned()))
    }
}

/// Rejects WebSocket connections.
pub(crate) struct NoPubSub;

impl WebSocketHandler for NoPubSub {
    fn handle(self: Arc<Self>, _: Socket, _: ClientId) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}
