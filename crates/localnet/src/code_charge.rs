//! The charge for compiling: an item of the queue whose programs are not compiled waits again, at a higher price.
//!
//! In: an item of the queue, before it is executed. Out: the item, if it has paid for its code or needs none.
//! Bounds: an item is charged once. No item has more than [`CODE_BYTES_MAX`] of code compiled.
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
        let code_bytes = self.set.load_without_code(&self.ledger, messages);
        match work {
            QueueItem::Bundle(bundle) if code_bytes > CODE_BYTES_MAX => {
                refuse_bundle(bundle);
                None
            }
            // A transaction with too much code fails before any of it is compiled.
            work if code_bytes == 0 || code_bytes > CODE_BYTES_MAX => Some(work),
            work => {
                self.queue.push_back_for_code(work, code_bytes);
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
