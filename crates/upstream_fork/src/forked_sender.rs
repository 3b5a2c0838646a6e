//! Transactions whose accounts are fetched before they enter the ledger's queue.
//!
//! A transaction that misses nothing is queued at once. Another one waits for the upstream, and transactions that the same
//! client sends meanwhile may overtake it. If its accounts cannot be fetched it is dropped and counted: over RPC the client
//! has had its error before, from the method.
//! Bounds: those of `fetch_queue`.

use std::sync::Arc;

use chain_solana::{
    AccountsRequest, FetchError, SendError, Sender, TransactionSender, VerifiedTransaction,
};

use crate::fetch_queue::{FetchReply, Fetched};
use crate::fork::UpstreamFork;

/// The transaction service of a forked ledger.
pub struct ForkedSender {
    fork: Arc<UpstreamFork>,
    ledger: Arc<dyn TransactionSender>,
}

impl ForkedSender {
    /// Passes transactions on to `ledger`.
    pub fn new(fork: Arc<UpstreamFork>, ledger: Arc<dyn TransactionSender>) -> Self {
        Self { fork, ledger }
    }
}

impl TransactionSender for ForkedSender {
    fn send(&self, sender: Sender, transaction: VerifiedTransaction) -> Result<(), SendError> {
        if !self.fork.is_missing_for(transaction.transaction()) {
            return self.ledger.send(sender, transaction);
        }
        let transactions = vec![transaction.transaction().clone()];
        let request = AccountsRequest { transactions, ..AccountsRequest::default() };
        let ledger = Arc::clone(&self.ledger);
        let shared = Arc::clone(self.fork.shared());
        let send = move |fetched: Fetched| {
            let is_sent = fetched.is_ok() && ledger.send(sender, transaction).is_ok();
            if !is_sent {
                shared.counters.count_dropped_transaction();
            }
        };
        let pushed = self.fork.push(sender.client, request, FetchReply::Then(Box::new(send)));
        pushed.map_err(|err| match err {
            FetchError::TooMany { waiting, limit } => {
                SendError::UpstreamBusy { waiting: waiting as u64, limit: limit as u64 }
            }
            _ => SendError::Closed,
        })
    }
}
