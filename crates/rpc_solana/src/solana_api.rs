//! Solana's API: the state that its methods read, and the services that they call.
//!
//! Not here: the table of its methods (`methods`).

use std::sync::Arc;

use chain_solana::{
    Cluster, ClusterInfo, Faucet, ForkControl, History, PreSnapshotStatuses, Reader,
    RemoteAccounts, Simulator, Snapshots, TransactionSender, UpstreamRpc, Verification,
};
use clients::RateLimiter;
use cpu_pool::Pool;
use jsonrpc::metrics::Metrics;
use jsonrpc::{Health, Server, ServerContext, ServerParts};
use ledger::{Commitment, Slot};
use query::ChangeTracker;
use response_cache::{LedgerVersions, ResponseCache};

use crate::bundles::Bundles;
use crate::cheatcodes::Cheatcodes;
use crate::config::Config;
use crate::ledger_metrics::LedgerMetrics;

/// The context of Solana's methods. Clones share it. [`Self::builder`] creates it.
#[derive(Clone)]
#[non_exhaustive]
pub struct SolanaApi {
    /// Facts that never change while the node runs.
    pub cluster_info: Arc<ClusterInfo>,
    /// Leaders, stakes, nodes and inflation.
    pub cluster: Arc<dyn Cluster>,
    /// The verification of the ledger's banks.
    pub verification: Arc<dyn Verification>,
    /// Accounts and block facts, at each commitment.
    pub reader: Reader,
    /// Blocks, transactions, signatures by address.
    pub history: Arc<History>,
    /// Queues transactions for execution.
    pub transaction_sender: Arc<dyn TransactionSender>,
    /// Accepts bundles of transactions, on a local ledger only.
    pub bundles: Arc<Bundles>,
    /// Runs transactions without effect.
    pub simulator: Arc<dyn Simulator>,
    /// Pays airdrops. `None` if the ledger has no faucet.
    pub faucet: Option<Arc<dyn Faucet>>,
    /// Controls the forks of a local ledger. `None` for a followed chain.
    pub fork_control: Option<Arc<dyn ForkControl>>,
    /// Forwards calls to the upstream of a followed chain. `None` for a ledger without one.
    pub upstream: Option<Arc<dyn UpstreamRpc>>,
    /// Fetches accounts that a local ledger lacks. `None` unless the ledger is the fork of another cluster.
    pub account_upstream: Option<Arc<dyn RemoteAccounts>>,
    /// The snapshots that this node serves, if any.
    pub snapshots: Option<Arc<dyn Snapshots>>,
    /// Transactions that were executed before the history starts, if they are known.
    pub older_statuses: Option<Arc<dyn PreSnapshotStatuses>>,
    /// The cheat codes of a local ledger.
    pub cheatcodes: Arc<Cheatcodes>,
    /// Health of the ledger, as `getHealth` reports it.
    pub health: Arc<Health>,
    /// The CPU pool, which shares its clock with `health`.
    pub pool: Arc<Pool>,
    /// The metrics of its server. Methods count rejected transactions there.
    pub metrics: Arc<Metrics>,
    /// The limits of the server and its methods.
    pub config: Config,
}

impl LedgerVersions for SolanaApi {
    fn version_and_slot(&self, commitment: Commitment) -> (u64, Slot) {
        let (version, block) = self.reader.version_and_block(commitment);
        (version, block.slot)
    }

    fn change_tracker(&self) -> &Arc<ChangeTracker> {
        self.reader.change_tracker()
    }
}

/// The server of the JSON-RPC API of Solana.
pub type SolanaServer = Server<SolanaApi>;

impl SolanaApi {
    /// Creates a server of this API with a response cache and the limits of clients. Its metrics include the ledger's.
    pub fn into_server(
        self,
        response_cache: Arc<ResponseCache>,
        clients: Arc<RateLimiter>,
    ) -> SolanaServer {
        let Self {
            reader,
            history,
            verification,
            health,
            pool,
            metrics,
            config,
            cheatcodes,
            bundles,
            ..
        } = self.clone();
        metrics.add(cheatcodes);
        metrics.add(bundles);
        metrics.add(Arc::new(LedgerMetrics {
            reader,
            history,
            verification,
            health: Arc::clone(&health),
            pool: Arc::clone(&pool),
        }));
        let http = config.http();
        let config = config.jsonrpc();
        let parts = ServerParts { http, config, pool, clients, response_cache, metrics, health };
        Server::new(self, ServerContext::new(parts))
    }
}
