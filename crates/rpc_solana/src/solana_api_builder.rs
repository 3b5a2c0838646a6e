//! Builds a [`SolanaApi`] from a ledger's state and history, and from the capabilities that the ledger has.
//!
//! Invariant: the API and its server exist only as this builder makes them, so a new capability has its default here
//! and is set where it exists. `cargo xtask tidy` checks that no other file constructs a [`SolanaApi`].

use std::sync::Arc;

use chain_solana::{
    Cluster, ClusterInfo, ComputedVerification, Faucet, ForkControl, History, InflationSchedule,
    OneNodeCluster, PreSnapshotStatuses, Reader, RemoteAccounts, Simulator, Snapshots,
    TransactionSender, UpstreamRpc, Verification,
};
use cpu_pool::Pool;
use jsonrpc::metrics::Metrics;
use jsonrpc::{Api, Health};

use crate::bundles::Bundles;
use crate::cheatcodes::Cheatcodes;
use crate::config::Config;
use crate::rejecting_ledger::RejectingLedger;
use crate::solana_api::SolanaApi;

impl SolanaApi {
    /// Returns a builder of the API of one node that leads every slot, computes every bank, and executes nothing. It
    /// has no faucet, forks, upstream or snapshots, takes no bundles and no cheat codes, and is healthy.
    pub fn builder(
        cluster_info: Arc<ClusterInfo>,
        reader: Reader,
        history: Arc<History>,
        pool: Arc<Pool>,
    ) -> SolanaApiBuilder {
        SolanaApiBuilder::new(cluster_info, reader, history, pool)
    }
}

/// Sets the capabilities of a [`SolanaApi`]. The fields of the API describe them.
#[must_use = "nothing is served before `build`"]
pub struct SolanaApiBuilder {
    api: SolanaApi,
}

impl SolanaApiBuilder {
    fn new(
        cluster_info: Arc<ClusterInfo>,
        reader: Reader,
        history: Arc<History>,
        pool: Arc<Pool>,
    ) -> Self {
        let cluster = OneNodeCluster::new(Arc::clone(&cluster_info), InflationSchedule::default());
        let verification = ComputedVerification::new(reader.clone(), Arc::clone(&history));
        let api = SolanaApi {
            cluster_info,
            cluster: Arc::new(cluster),
            verification: Arc::new(verification),
            reader,
            history,
            transaction_sender: Arc::new(RejectingLedger),
            bundles: Arc::default(),
            simulator: Arc::new(RejectingLedger),
            faucet: None,
            fork_control: None,
            upstream: None,
            account_upstream: None,
            snapshots: None,
            older_statuses: None,
            cheatcodes: Arc::default(),
            health: Arc::default(),
            pool,
            metrics: Arc::new(Metrics::new(&SolanaApi::method_names())),
            config: Config::default(),
        };
        Self { api }
    }

    /// Sets the source of leaders, stakes, nodes and inflation.
    pub fn cluster(mut self, cluster: Arc<dyn Cluster>) -> Self {
        self.api.cluster = cluster;
        self
    }

    /// Sets the verification of the ledger's banks.
    pub fn verification(mut self, verification: Arc<dyn Verification>) -> Self {
        self.api.verification = verification;
        self
    }

    /// Sets the receiver of transactions.
    pub fn transaction_sender(mut self, sender: Arc<dyn TransactionSender>) -> Self {
        self.api.transaction_sender = sender;
        self
    }

    /// Sets the receiver of bundles.
    pub fn bundles(mut self, bundles: Arc<Bundles>) -> Self {
        self.api.bundles = bundles;
        self
    }

    /// Sets the simulator of transactions.
    pub fn simulator(mut self, simulator: Arc<dyn Simulator>) -> Self {
        self.api.simulator = simulator;
        self
    }

    /// Sets the faucet; `None` removes it.
    pub fn faucet(mut self, faucet: Option<Arc<dyn Faucet>>) -> Self {
        self.api.faucet = faucet;
        self
    }

    /// Sets the control of forks; `None` removes it.
    pub fn fork_control(mut self, fork_control: Option<Arc<dyn ForkControl>>) -> Self {
        self.api.fork_control = fork_control;
        self
    }

    /// Sets the upstream of a followed chain; `None` removes it.
    pub fn upstream(mut self, upstream: Option<Arc<dyn UpstreamRpc>>) -> Self {
        self.api.upstream = upstream;
        self
    }

    /// Sets the upstream of the accounts that a local ledger lacks; `None` removes it.
    pub fn account_upstream(mut self, upstream: Option<Arc<dyn RemoteAccounts>>) -> Self {
        self.api.account_upstream = upstream;
        self
    }

    /// Sets the snapshots that are served; `None` removes them.
    pub fn snapshots(mut self, snapshots: Option<Arc<dyn Snapshots>>) -> Self {
        self.api.snapshots = snapshots;
        self
    }

    /// Sets the statuses of transactions from before the history; `None` removes them.
    pub fn older_statuses(mut self, statuses: Option<Arc<dyn PreSnapshotStatuses>>) -> Self {
        self.api.older_statuses = statuses;
        self
    }

    /// Sets the cheat codes of a local ledger.
    pub fn cheatcodes(mut self, cheatcodes: Arc<Cheatcodes>) -> Self {
        self.api.cheatcodes = cheatcodes;
        self
    }

    /// Sets the health. Its clock must be the pool's.
    pub fn health(mut self, health: Arc<Health>) -> Self {
        self.api.health = health;
        self
    }

    /// Sets the limits of the server.
    pub fn config(mut self, config: Config) -> Self {
        self.api.config = config;
        self
    }

    /// Returns the API with its capabilities.
    pub fn build(self) -> SolanaApi {
        self.api
    }
}
