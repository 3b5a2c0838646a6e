//! Solana's API: everything that its methods may read or do, in one place.

use std::sync::Arc;

use chain_solana::{Cluster, ClusterInfo, Faucet, History, Reader, Simulator, TransactionSender};
use http_server::HttpContext;
use jsonrpc::metrics::Metrics;
use jsonrpc::{Api, Health, MethodSpec, Server, ServerContext};
use ledger::{Commitment, Slot};
use pool::{Pool, RateLimiter};
use query::ChangeTracker;
use response_cache::{LedgerVersions, ResponseCache};

use crate::ledger_metrics::LedgerMetrics;
use crate::{Config, methods};

/// What the methods of Solana work on.
pub struct SolanaApi {
    /// Facts that never change while the node runs.
    pub cluster_info: Arc<ClusterInfo>,
    /// Leaders, stakes, nodes and inflation.
    pub cluster: Arc<dyn Cluster>,
    /// Accounts and block facts, at each commitment.
    pub reader: Reader,
    /// Blocks, transactions, signatures by address.
    pub history: Arc<History>,
    /// Receives transactions.
    pub transaction_sender: Arc<dyn TransactionSender>,
    /// Simulates transactions.
    pub simulator: Arc<dyn Simulator>,
    /// Pays airdrops. `None` if the ledger has no faucet.
    pub faucet: Option<Arc<dyn Faucet>>,
    /// Health of the ledger, as `getHealth` reports it.
    pub health: Arc<Health>,
    /// Its clock is that of `health`.
    pub pool: Arc<Pool>,
    /// Counts transactions that were rejected.
    pub metrics: Arc<Metrics>,
    /// Limits.
    pub config: Config,
}

impl LedgerVersions for SolanaApi {
    fn version_and_slot(&self, commitment: Commitment) -> (u64, Slot) {
        let view = self.reader.view(commitment);
        (view.version(), view.block().slot)
    }

    fn change_tracker(&self) -> &Arc<ChangeTracker> {
        self.reader.change_tracker()
    }
}

impl Api for SolanaApi {
    const METHODS: &'static [&'static [MethodSpec<Self>]] = methods::FILES;

    fn pinned(&self) -> Self {
        Self {
            cluster_info: Arc::clone(&self.cluster_info),
            cluster: Arc::clone(&self.cluster),
            reader: self.reader.pinned(),
            history: Arc::clone(&self.history),
            transaction_sender: Arc::clone(&self.transaction_sender),
            simulator: Arc::clone(&self.simulator),
            faucet: self.faucet.clone(),
            health: Arc::clone(&self.health),
            pool: Arc::clone(&self.pool),
            metrics: Arc::clone(&self.metrics),
            config: self.config.clone(),
        }
    }
}

/// A server of Solana's API.
pub type SolanaServer = Server<SolanaApi>;

/// What a server of Solana's API is made of.
pub struct SolanaServerParts {
    /// Facts that never change while the node runs.
    pub cluster_info: Arc<ClusterInfo>,
    /// Leaders, stakes, nodes and inflation.
    pub cluster: Arc<dyn Cluster>,
    /// Accounts and block facts, at each commitment.
    pub reader: Reader,
    /// Blocks, transactions, signatures by address.
    pub history: Arc<History>,
    /// Receives transactions.
    pub transaction_sender: Arc<dyn TransactionSender>,
    /// Simulates transactions.
    pub simulator: Arc<dyn Simulator>,
    /// Pays airdrops. `None` if the ledger has no faucet.
    pub faucet: Option<Arc<dyn Faucet>>,
    /// Runs all work that is not cheap.
    pub pool: Arc<Pool>,
    /// Cached responses.
    pub response_cache: Arc<ResponseCache>,
    /// Requests and bytes of each client, with their limits.
    pub clients: Arc<RateLimiter>,
    /// Health of the ledger.
    pub health: Arc<Health>,
    /// Limits.
    pub config: Config,
}

impl SolanaServerParts {
    /// The server. All its counters are zero.
    pub fn into_server(self) -> SolanaServer {
        let Self { cluster_info, cluster, reader, history, .. } = self;
        let Self { transaction_sender, simulator, faucet, .. } = self;
        let Self { pool, response_cache, clients, health, config, .. } = self;
        let metrics = Arc::new(Metrics::new(&SolanaApi::method_names()));
        metrics.add(Arc::new(LedgerMetrics {
            reader: reader.clone(),
            history: Arc::clone(&history),
            health: Arc::clone(&health),
            pool: Arc::clone(&pool),
        }));
        let http_metrics = Arc::clone(metrics.http());
        let http = Arc::new(HttpContext { config: config.http(), metrics: http_metrics });
        let limits = config.jsonrpc();
        let api = SolanaApi {
            cluster_info,
            cluster,
            reader,
            history,
            transaction_sender,
            simulator,
            faucet,
            health: Arc::clone(&health),
            pool: Arc::clone(&pool),
            metrics: Arc::clone(&metrics),
            config,
        };
        let context =
            ServerContext { http, pool, clients, response_cache, metrics, health, config: limits };
        Server::new(api, context)
    }
}
