//! The transaction service of a ledger that executes nothing: it rejects every transaction and every simulation.

use chain_solana::{
    SendError, Sender, Simulation, SimulationError, SimulationRequest, Simulator,
    TransactionSender, VerifiedTransaction, View, WrittenAccounts,
};

pub(crate) struct RejectingLedger;

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
