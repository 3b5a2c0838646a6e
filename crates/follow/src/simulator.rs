//! Simulation on a reader's view of a followed chain.

use std::sync::Arc;

use chain_solana::{
    History, Reader, Simulation, SimulationError, SimulationRequest, Simulator, View,
};
use ledger::Commitment;
use solana_transaction_error::TransactionError;
use svm::{SimulationPool, WorkingSet};

/// Runs transactions with the features and sysvars of the chain.
pub struct FollowSimulator {
    pool: SimulationPool,
    history: Arc<History>,
}

impl FollowSimulator {
    /// `count` VMs. The features are those that are active in the reader's root now.
    pub fn new(reader: &Reader, history: Arc<History>, count: usize) -> Self {
        let view = reader.view(Commitment::Finalized);
        let set = WorkingSet::new(&view, svm::features::active_in(&view)).clone_programs();
        Self { pool: SimulationPool::new(set, count), history }
    }
}

impl Simulator for FollowSimulator {
    fn simulate(
        &self,
        view: &View,
        request: SimulationRequest,
    ) -> Result<Simulation, SimulationError> {
        let signature = request.transaction.signatures.first().copied().unwrap_or_default();
        let history = self.history.snapshot();
        let executed = history
            .transaction(&signature, Commitment::Processed)
            .filter(|_| !request.replace_recent_blockhash);
        let is_processed = executed.is_some_and(|it| it.slot <= view.block().slot);
        let err = is_processed.then_some(TransactionError::AlreadyProcessed);
        self.pool.simulate(view, request, err)
    }
}
