//! Simulation of a transaction, with the history of the ledger: what was processed is not simulated again.
//!
//! Without a clock the open block waits, maybe for hours, and a transaction that comes runs in it at the time of then.
//! So a simulation runs there as well, on the accounts of its view: the sysvars are those of the open block, and the
//! time is now.

use std::sync::Arc;

use chain_solana::{
    History, Reader, Simulation, SimulationError, SimulationRequest, Simulator, View,
    WrittenAccounts,
};
use ledger::Commitment;
use parking_lot::Mutex;
use solana_account::ReadableAccount;
use solana_transaction_error::TransactionError;
use svm::{AccountSource, Overlay, SimulatedBlock, SimulationPool};

use crate::account_bytes::{AccountBytes, WrittenBytes};
use crate::chain_clock::ChainClock;
use crate::executor::{now, unix_ms};

/// The simulator of a local ledger.
pub(crate) struct LocalSimulator {
    pool: SimulationPool,
    history: Arc<History>,
    waiting: Option<WaitingBlock>,
    account_bytes: Arc<AccountBytes>,
}

/// The open block of a ledger without a clock.
pub(crate) struct WaitingBlock {
    pub(crate) reader: Reader,
    pub(crate) clock: Arc<Mutex<ChainClock>>,
}

impl LocalSimulator {
    /// `waiting` is the open block of a ledger whose blocks wait for transactions.
    pub(crate) fn new(
        pool: SimulationPool,
        history: Arc<History>,
        waiting: Option<WaitingBlock>,
        account_bytes: Arc<AccountBytes>,
    ) -> Self {
        Self { pool, history, waiting, account_bytes }
    }

    /// Returns whether the ledger has space for the accounts of a simulation.
    fn has_space(&self, view: &View, written: &WrittenAccounts, simulation: &Simulation) -> bool {
        let mut bytes = WrittenBytes::default();
        let source = Overlay { written, source: view };
        for (key, after) in &simulation.post_accounts {
            if after.data().is_empty() {
                continue;
            }
            let before = source.account(key).map(|account| account.0.clone()).unwrap_or_default();
            bytes.add(&before, after);
        }
        self.account_bytes.check_published(bytes).is_ok()
    }
}

impl WaitingBlock {
    /// The time of a transaction that would come now.
    fn unix_timestamp(&self, open: &View) -> i64 {
        let next = self.clock.lock().next_timestamp(unix_ms(), now());
        next.max(open.meta().unix_timestamp)
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
        let open = self.waiting.as_ref().map(|waiting| {
            let open = waiting.reader.view(Commitment::Processed);
            let unix_timestamp = Some(waiting.unix_timestamp(&open));
            (open, unix_timestamp)
        });
        let block = match &open {
            Some((sysvars, unix_timestamp)) => {
                SimulatedBlock { accounts: view, sysvars, unix_timestamp: *unix_timestamp }
            }
            None => SimulatedBlock::from_view(view),
        };
        let mut simulation = self.pool.simulate(block, written, request, err)?;
        if simulation.err.is_none() && !self.has_space(view, written, &simulation) {
            simulation.err = Some(TransactionError::WouldExceedAccountDataTotalLimit);
        }
        Ok(simulation)
    }
}
