//! Bundles: the executing thread runs their transactions one after another, and writes all of them or none.
//!
//! In: a [`Bundle`] of the queue. Out: executed transactions in the open block, published together, and then the reply.
//! Bounds: the queue counts each transaction of a bundle, so its compute units are paid for before its turn.
//! Invariant: a bundle that fails leaves no trace: nothing is written to the state before its last transaction
//! succeeded, and the VM's copies of accounts are loaded again.
//! Not here: what one transaction does (`executor`), ids and statuses of bundles (`rpc_solana`).

use chain_solana::{BundleError, VerifiedTransaction, WrittenAccounts};
use solana_transaction_error::TransactionError;

use crate::account_bytes::NoSpace;
use crate::executor::{Executor, ExecutorError};
use crate::executor_transactions::{DroppedTransaction, TransactionRun};
use crate::queue::Bundle;

impl Executor {
    /// Executes a bundle into the open block. False if it had no effect.
    pub(crate) fn execute_bundle(&mut self, bundle: Bundle) -> Result<bool, ExecutorError> {
        let Bundle { transactions, reply, .. } = bundle;
        match self.try_execute_bundle(transactions)? {
            Ok(()) => {
                self.unpublished_bundles.push((reply, self.builder.id().slot));
                Ok(true)
            }
            Err(err) => {
                tracing::debug!(%err, "bundle dropped");
                reply.send(Err(err));
                Ok(false)
            }
        }
    }

    fn try_execute_bundle(
        &mut self,
        transactions: Vec<VerifiedTransaction>,
    ) -> Result<Result<(), BundleError>, ExecutorError> {
        let mut runs = Vec::new();
        let mut written = WrittenAccounts::default();
        for transaction in transactions {
            match self.run_next(transaction, &runs, &written) {
                Ok(run) => {
                    run.results
                        .outcome
                        .writes()
                        .for_each(|(key, account)| written.insert(key, account));
                    self.set.commit(run.results.outcome.writes());
                    runs.push(run);
                }
                Err(DroppedTransaction { signature, err }) => {
                    self.set.reload(&self.ledger, written.keys());
                    return Ok(Err(BundleError::Transaction { signature, err }));
                }
            }
        }
        Ok(self.record(runs)?.map_err(|full| {
            tracing::error!(%full, "bundle dropped: no space for its accounts");
            match full {
                NoSpace::Addresses(_) => BundleError::LedgerFull,
                NoSpace::AccountBytes { limit, .. } => BundleError::AccountBytesFull { limit },
            }
        }))
    }

    /// Runs the next transaction of a bundle, which must succeed.
    fn run_next(
        &mut self,
        verified: VerifiedTransaction,
        runs: &[TransactionRun],
        written: &WrittenAccounts,
    ) -> Result<TransactionRun, DroppedTransaction> {
        let message_hash = verified.message_hash();
        if runs.iter().any(|run| run.message_hash == message_hash) {
            let err = TransactionError::AlreadyProcessed;
            return Err(DroppedTransaction { signature: verified.signature(), err });
        }
        let signature = verified.signature();
        let results = self.run_transaction(verified.transaction(), message_hash, written);
        let results = results.map_err(|err| DroppedTransaction { signature, err })?;
        match results.outcome.result.clone() {
            Ok(()) => {
                let transaction = verified.into_transaction();
                Ok(TransactionRun { transaction, message_hash, results })
            }
            Err(err) => Err(DroppedTransaction { signature, err }),
        }
    }
}
