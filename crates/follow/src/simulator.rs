//! Simulation on a reader's view of a followed chain, with the features and the sysvars of the chain.
//!
//! Shape: a pool of VMs for the features that are active. When an epoch activates others, the first caller makes a new
//! pool, and the others use the old one meanwhile.

use std::sync::Arc;

use arc_swap::ArcSwap;
use chain_solana::{
    Cluster, History, PreSnapshotStatuses, Reader, Simulation, SimulationError, SimulationRequest,
    Simulator, View, WrittenAccounts,
};
use ledger::Commitment;
use parking_lot::Mutex;
use solana_feature_set::FeatureSet;
use solana_transaction_error::TransactionError;
use svm::{SimulatedBlock, SimulationPool, WorkingSet};

use crate::cluster::FollowedCluster;

/// Runs transactions with the features and sysvars of the chain.
pub struct FollowSimulator {
    pool: ArcSwap<FeaturePool>,
    /// Locked by the caller that makes a new pool.
    renewal: Mutex<()>,
    history: Arc<History>,
    cluster: Arc<FollowedCluster>,
    older_statuses: Option<Arc<dyn PreSnapshotStatuses>>,
    count: usize,
}

struct FeaturePool {
    features: Arc<FeatureSet>,
    pool: SimulationPool,
}

impl FeaturePool {
    fn new(view: &View, features: Arc<FeatureSet>, count: usize) -> Self {
        let set = WorkingSet::new(view, FeatureSet::clone(&features)).clone_programs();
        Self { features, pool: SimulationPool::new(set, count) }
    }
}

impl FollowSimulator {
    /// `count` VMs with the features of the cluster.
    pub fn new(
        reader: &Reader,
        history: Arc<History>,
        cluster: Arc<FollowedCluster>,
        count: usize,
    ) -> Self {
        let view = reader.view(Commitment::Finalized);
        let pool = FeaturePool::new(&view, cluster.features(), count);
        let pool = ArcSwap::from_pointee(pool);
        let renewal = Mutex::new(());
        Self { pool, renewal, history, cluster, older_statuses: None, count }
    }

    /// Adds the statuses of the transactions before the snapshot.
    #[must_use]
    pub fn with_older_statuses(self, older_statuses: Arc<dyn PreSnapshotStatuses>) -> Self {
        Self { older_statuses: Some(older_statuses), ..self }
    }

    /// The VMs for the features that are active.
    fn pool(&self, view: &View) -> Arc<FeaturePool> {
        let features = self.cluster.features();
        let pool = self.pool.load_full();
        if Arc::ptr_eq(&pool.features, &features) {
            return pool;
        }
        let Some(_renewal) = self.renewal.try_lock() else { return pool };
        let renewed = Arc::new(FeaturePool::new(view, features, self.count));
        self.pool.store(Arc::clone(&renewed));
        renewed
    }
}

impl Simulator for FollowSimulator {
    fn simulate_after(
        &self,
        view: &View,
        written: &WrittenAccounts,
        request: SimulationRequest,
    ) -> Result<Simulation, SimulationError> {
        let signature = request.transaction.signatures.first().copied().unwrap_or_default();
        let history = self.history.snapshot();
        let executed = history.transaction(&signature, Commitment::Processed);
        let executed = executed.map(|executed| executed.slot).or_else(|| {
            let older = self.older_statuses.as_ref()?.find(&signature)?;
            Some(older.0)
        });
        let is_processed = !request.replace_recent_blockhash
            && executed.is_some_and(|slot| slot <= view.block().slot);
        let err = is_processed.then_some(TransactionError::AlreadyProcessed);
        self.pool(view).pool.simulate(SimulatedBlock::from_view(view), written, request, err)
    }
}
