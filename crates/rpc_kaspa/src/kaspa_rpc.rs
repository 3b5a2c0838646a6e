//! The protocol of a Kaspa node: what its connections share.
//!
//! Not here: the handling of messages (`protocol`), notifications (`publisher`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use chain_kaspa::{ChainReader, LedgerBlock, View};
use clients::RateLimiter;
use cpu_pool::Pool;
use kaspa::{Network, Prefix};
use ledger::Commitment;
use parking_lot::Mutex;
use websocket::{Config, ConflatableItems, ProtocolTypes};

use crate::recent_blocks::RecentBlocks;
use crate::request_metrics::RequestMetrics;
use crate::session_state::SessionState;
use crate::subscription::Subscription;
use crate::upstream::Forward;

/// The server of all connections.
pub type KaspaServer = websocket::Server<KaspaRpc>;

/// The session of a client of wRPC.
pub type KaspaSession = websocket::Session<KaspaRpc>;

/// The protocol of a Kaspa node, over a chain and an upstream.
pub struct KaspaRpc {
    /// The chain that requests are answered from.
    pub(crate) chain: ChainReader,
    pub(crate) network: Network,
    pub(crate) forward: Arc<dyn Forward>,
    pub(crate) settings: Settings,
    /// Counters, for the node's metrics.
    pub requests: Arc<RequestMetrics>,
    /// The chain blocks that a client may resume from.
    pub(crate) recent_blocks: Mutex<RecentBlocks>,
    next_listener: AtomicU64,
    follower_problem: OnceLock<ProblemCheck>,
}

/// Returns why the chain is not up to date, if so.
type ProblemCheck = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// The settings of the protocol. Those of connections and subscriptions are in `websocket::Config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether methods that change the upstream node are forwarded: shutdown, ban, unban, addPeer and
    /// resolveFinalityConflict (`--allow-unsafe-rpc`). The upstream runs with `--unsaferpc`, so it runs them for anyone.
    /// Default false.
    pub allow_unsafe_rpc: bool,
    /// Milliseconds that the reply to a forwarded request may take, its wait for a connection included. Default 180,000:
    /// a kaspad under load takes up to a minute for getBlocks.
    pub forward_timeout_ms: u64,
    /// Milliseconds in which a client must read a list of UTXOs or balances. The state that the list is read from stays
    /// in memory meanwhile: up to 5 MB for each chain block. Default 120,000.
    pub list_timeout_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { allow_unsafe_rpc: false, forward_timeout_ms: 180_000, list_timeout_ms: 120_000 }
    }
}

/// The items of a notification that a slow client gets conflated: wRPC has no such notifications.
pub enum NoItems {}

impl ConflatableItems for NoItems {
    type State = ();

    fn conflate(&self, (): &mut ()) -> usize {
        match *self {}
    }

    fn bytes(&self) -> usize {
        match *self {}
    }
}

impl ProtocolTypes for KaspaRpc {
    type Subscription = Subscription;
    type Items = NoItems;
    type Block = LedgerBlock;
    type SessionState = SessionState;
}

impl KaspaRpc {
    /// Creates the server of all connections, without any. Its publications start at the sink that readers see now.
    ///
    /// `config.limits.unrooted_max` must be at least twice the chain's depth, and 2,000 more for a step that catches up.
    pub fn serve(
        chain: ChainReader,
        network: Network,
        forward: Arc<dyn Forward>,
        settings: Settings,
        config: Config,
        pool: Arc<Pool>,
        clients: Arc<RateLimiter>,
    ) -> Arc<KaspaServer> {
        let next_listener = AtomicU64::new(1);
        let requests = Arc::new(RequestMetrics::new());
        let follower_problem = OnceLock::new();
        let recent_blocks = Mutex::new(RecentBlocks::new(&config.limits));
        let protocol = Self {
            chain,
            network,
            forward,
            settings,
            requests,
            recent_blocks,
            next_listener,
            follower_problem,
        };
        Arc::new(KaspaServer::new(protocol, config, pool, clients))
    }

    /// Sets the check that says why the chain is not up to date: its source is gone, or its sink was not reached. Then
    /// clients read that the node is not in sync. The check is called for each reply that says so, and must return at
    /// once. Only the first call has an effect. `/health` and `/ready` have their reason from [`jsonrpc::Health`].
    pub fn report_problem(&self, check: impl Fn() -> Option<String> + Send + Sync + 'static) {
        // The first check stays.
        let _ = self.follower_problem.set(Box::new(check));
    }

    /// Returns why the chain is not up to date.
    pub(crate) fn find_problem(&self) -> Option<String> {
        if let Some(refused) = &self.chain.status().refused {
            return Some(format!("block {} is refused: {}", refused.hash, refused.reason));
        }
        self.follower_problem.get().and_then(|check| check())
    }

    /// Returns the prefix of addresses in replies and notifications.
    pub(crate) fn prefix(&self) -> Prefix {
        self.network.prefix()
    }

    /// Returns the UTXO set of the virtual block, which kaspad's replies are read from.
    pub(crate) fn virtual_view(&self) -> View {
        self.chain.utxos.view(Commitment::Processed)
    }

    /// Returns a number that no listener has yet.
    pub(crate) fn allocate_listener(&self) -> u64 {
        self.next_listener.fetch_add(1, Ordering::Relaxed)
    }
}
