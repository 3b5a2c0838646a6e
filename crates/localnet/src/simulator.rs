//! Simulation of a transaction, with the history of the ledger: what was processed is not simulated again.

use std::sync::Arc;

use chain_solana::{
    History, Simulation, SimulationError, SimulationRequest, Simulator, View, WrittenAccounts,
};
use ledger::Commitment;
use solana_transaction_error::TransactionError;
use svm::SimulationPool;

/// The simulator of a local ledger.
pub(crate) struct LocalSimulator {
    pool: SimulationPool,
    history: Arc<History>,
}

impl LocalSimulator {
    pub(crate) fn new(pool: SimulationPool, history: Arc<History>) -> Self {
        Self { pool, history }
    }
}

impl Simulator for LocalSimulator {
    fn simulate_after(
        &self,
        view: &View,
        written: &WrittenAccounts,
        request: SimulationRequest,
    ) -> Result<Simulation, SimulationError> {
        let signature = request.transaction.signatures.first().copied().unwrap_or_default();
        let is_processed = !request.replace_recent_blockhash
            && self
                .history
                .snapshot()
                .transaction(&signature, Commitment::Processed)
                .is_some_and(|executed| executed.slot <= view.block().slot);
        let err = is_processed.then_some(TransactionError::AlreadyProcessed);
        self.pool.simulate(view, written, request, err)
    }
}
