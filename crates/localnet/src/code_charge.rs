//! The charge for compiling: an item of the queue whose programs are not compiled waits again, at a higher price.
//!
//! In: an item of the queue, before it is executed. Out: the item, if it has paid for its code or needs none.
//! Programs that an item calls and code that it deploys count.
//! Bounds: an item is charged once. No item has more than [`CODE_BYTES_MAX`] of code compiled to call it.
//! Not here: the price (`queue`), which programs stay compiled (`svm`).

use chain_solana::BundleError;
use solana_transaction_error::TransactionError;
use svm::CODE_BYTES_MAX;

use crate::executor::Executor;
use crate::queue::{Bundle, QueueItem};

impl Executor {
    /// Returns an item that may be executed now. One that has to pay for its code goes back to the queue.
    pub(crate) fn charge_for_code(&mut self, work: QueueItem) -> Option<QueueItem> {
        let (has_paid, transactions) = match &work {
            QueueItem::Transaction(sent) => {
                (sent.has_paid_for_code, std::slice::from_ref(&sent.transaction))
            }
            QueueItem::Bundle(bundle) => (bundle.has_paid_for_code, bundle.transactions.as_slice()),
        };
        if has_paid {
            return Some(work);
        }
        let messages = transactions.iter().map(|verified| &verified.transaction().message);
        let called = self.set.load_without_code(&self.ledger, messages.clone());
        let deployed: usize = messages.map(|message| self.set.deployed_code_bytes(message)).sum();
        let exceeds_limit = called > CODE_BYTES_MAX;
        // A transaction that calls too much code fails before any of it is compiled.
        let code_bytes = if exceeds_limit { deployed } else { called + deployed };
        match work {
            QueueItem::Bundle(bundle) if exceeds_limit => {
                refuse_bundle(bundle);
                None
            }
            work if code_bytes == 0 => Some(work),
            work => {
                self.queue.requeue_for_code(work, code_bytes);
                None
            }
        }
    }
}

fn refuse_bundle(bundle: Bundle) {
    let signature = bundle.transactions.first().map(|first| first.signature()).unwrap_or_default();
    let err = TransactionError::MaxLoadedAccountsDataSizeExceeded;
    bundle.reply.send(Err(BundleError::Transaction { signature, err }));
}
