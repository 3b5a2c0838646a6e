//! The ledger behind the real server: every method as a client calls it, and a ledger that accepts no
//! transaction.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Result;
use chain_solana::{History, HistoryLimits, Reader};
use clients::{ClientId, Limits, RateLimiter};
use cpu_pool::Pool;
use http_server::{Listeners, Socket, WebSocketHandler};
use jsonrpc::SystemClock;
use ledger::Commitment;
use rpc_solana::{SolanaApi, SolanaApiBuilder, SolanaServer};
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
    let pool = Pool::new(cpu_pool::Config::default(), Arc::new(SystemClock::new()), || {})?;
    let node = Arc::new(server(api(reader, Arc::new(pool)).build(), 1 << 24));
    let server = runtime.spawn(jsonrpc::serve(node, Arc::new(NoPubSub), None, listeners, async {
        // An error means that the other end has closed the connection.
        let _ = stopped.await;
    }));
    let waited = wait();
    drop(stop);
    runtime.block_on(server)?;
    waited
}

/// A builder of the API of a ledger without history.
fn api(reader: &Reader, pool: Arc<Pool>) -> SolanaApiBuilder {
    let limits = HistoryLimits { blocks_max: 1, bytes_max: 0 };
    let history = Arc::new(History::new(limits, reader.view(Commitment::Finalized).block()));
    SolanaApi::builder(Arc::new(cluster_info()), reader.clone(), history, pool)
}

/// The ledger's server with the settings of a benchmark.
pub(crate) fn node_with(reader: &Reader, settings: &Settings) -> Result<SolanaServer> {
    let Settings { cpu_threads: threads, slice_us, nice, inline_bytes, cache_bytes, .. } =
        *settings;
    let config = cpu_pool::Config { threads, slice_us, nice, ..cpu_pool::Config::default() };
    let pool = Pool::new(config, Arc::new(SystemClock::new()), move || {
        // On Linux it applies to this thread only. Raising the value is always allowed.
        let _ = rustix::process::setpriority_process(None, nice.into());
    })?;
    let config =
        rpc_solana::Config { inline_bytes_max: inline_bytes, ..rpc_solana::Config::default() };
    Ok(server(api(reader, Arc::new(pool)).config(config).build(), cache_bytes))
}

fn server(api: SolanaApi, cache_bytes: u64) -> SolanaServer {
    let response_cache = response_cache::ResponseCache::new(cache_bytes);
    api.into_server(Arc::new(response_cache), Arc::new(RateLimiter::new(Limits::default())))
}

/// Rejects WebSocket connections.
pub(crate) struct NoPubSub;

impl WebSocketHandler for NoPubSub {
    fn handle(self: Arc<Self>, _: Socket, _: ClientId) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}
