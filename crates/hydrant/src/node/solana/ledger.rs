//! The producer of a ledger of Solana, and the opened ledger.
//!
//! Shape: [`LedgerProducer::open`] may take minutes. [`OpenedLedger::handles`] returns everything that the servers read.
//! [`OpenedLedger::start`] starts the thread that writes the ledger.
//! Not here: the running ledger (`composed`).

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use chain_solana::{
    Block, Cluster, ClusterInfo, EventSink, Faucet, ForkControl, History, PreSnapshotStatuses,
    Reader, RemoteAccounts, Simulator, TransactionSender, UpstreamRpc, Verification,
};
use jsonrpc::Health;
use metrics::Collector;
use rpc_solana::{Bundles, Cheatcodes};
use snapshot_server::ArchivedLedger;
use solana_keypair::Keypair;
use web_console::LedgerKind;

use crate::faucet_server::BoundFaucet;
use crate::node::NodeConfig;
use crate::node::composed::RunningLedger;
use crate::node::parts::BoxFuture;
use crate::node::producer::OpenContext;
use crate::node::solana::front_end::SolanaFrontEnd;

/// A ledger that can be opened.
pub(crate) trait LedgerProducer: Send {
    /// Bytes of a request's body that this ledger needs. `None`: the limit of Agave.
    fn body_bytes_max(&self) -> Option<usize> {
        None
    }

    /// Opens the ledger. It blocks, for minutes if an archive is loaded.
    fn open(self: Box<Self>, context: &OpenContext<'_>) -> Result<Box<dyn OpenedLedger>>;
}

/// A ledger that is open and has not started.
pub(crate) trait OpenedLedger: Send {
    /// The kind that the console shows.
    fn kind(&self) -> LedgerKind;

    /// Returns the handles through which the servers read the ledger and send to it.
    fn handles(&mut self, config: &NodeConfig) -> Result<LedgerHandles>;

    /// The cluster of the ledger, after `handles`, with the addresses of the node in `info`.
    fn cluster(&self, info: &Arc<ClusterInfo>) -> Result<Arc<dyn Cluster>>;

    /// Whether snapshot archives of the ledger are served.
    fn has_archives(&self) -> bool;

    /// The output of a process that has the node for itself.
    fn front_end(&self, config: &NodeConfig, started: Instant) -> Box<dyn SolanaFrontEnd>;

    /// Starts the ledger, whose events go to the sinks.
    fn start(self: Box<Self>, sinks: Vec<Box<dyn EventSink>>) -> Result<Box<dyn RunningLedger>>;
}

/// The handles of a ledger that the servers of a node have. A capability that a ledger does not have is `None`.
pub(crate) struct LedgerHandles {
    /// Without the addresses of the node.
    pub(crate) cluster_info: ClusterInfo,
    /// The key of the QUIC port's certificate.
    pub(crate) identity: Keypair,
    /// The reader of requests, which may fetch accounts of another cluster.
    pub(crate) request_reader: Reader,
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) verification: Arc<dyn Verification>,
    pub(crate) transaction_sender: Arc<dyn TransactionSender>,
    pub(crate) simulator: Arc<dyn Simulator>,
    pub(crate) faucet: Option<Arc<dyn Faucet>>,
    /// The faucet's bound TCP port, which is not served yet.
    pub(crate) bound_faucet: Option<BoundFaucet>,
    pub(crate) fork_control: Option<Arc<dyn ForkControl>>,
    pub(crate) upstream: Option<Arc<dyn UpstreamRpc>>,
    pub(crate) account_upstream: Option<Arc<dyn RemoteAccounts>>,
    pub(crate) older_statuses: Option<Arc<dyn PreSnapshotStatuses>>,
    pub(crate) bundles: Arc<Bundles>,
    pub(crate) cheatcodes: Arc<Cheatcodes>,
    pub(crate) health: Arc<Health>,
    /// Blocks of an earlier run, which a gRPC client may replay.
    pub(crate) stored_blocks: Vec<Arc<Block>>,
    /// Whether the nodes of the cluster change, and are served as gossip.
    pub(crate) has_gossip: bool,
    pub(crate) collectors: Vec<Arc<dyn Collector>>,
    /// Tasks that run from the time at which the node is ready until it ends.
    pub(crate) tasks: Vec<BoxFuture<'static, ()>>,
}

impl LedgerHandles {
    /// The ledger as snapshot archives are made of it.
    pub(crate) fn to_archived_ledger(
        &self,
        info: &Arc<ClusterInfo>,
        cluster: Arc<dyn Cluster>,
    ) -> ArchivedLedger {
        let info = Arc::clone(info);
        let history = Arc::clone(&self.history);
        ArchivedLedger { reader: self.reader.clone(), history, info, cluster }
    }
}

/// The directory of archives that the node makes.
pub(crate) fn archive_dir(ledger_dir: Option<&Path>) -> Option<std::path::PathBuf> {
    ledger_dir.map(|dir| dir.join(localnet::SNAPSHOTS_DIR))
}
