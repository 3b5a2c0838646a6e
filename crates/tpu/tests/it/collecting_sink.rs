//! A sink that stores all transactions.

use std::sync::Mutex;
use std::time::Duration;

use tpu::{ReceivedTransaction, TransactionSink};

use crate::sockets::now;

/// Stores every transaction, in order.
#[derive(Default)]
pub(crate) struct CollectingSink(Mutex<Vec<ReceivedTransaction>>);

impl TransactionSink for CollectingSink {
    fn push_batch(&self, batch: &mut Vec<ReceivedTransaction>) {
        self.0.lock().expect("not poisoned").append(batch);
    }
}

impl CollectingSink {
    pub(crate) fn all(&self) -> Vec<Vec<u8>> {
        let received = self.0.lock().expect("not poisoned");
        received.iter().map(|received| received.bytes.to_vec()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().expect("not poisoned").len()
    }

    /// Waits for `len` transactions: a stream may be acknowledged before its transaction is sent to
    /// the sink.
    pub(crate) fn wait_for(&self, len: usize) {
        let end = now() + Duration::from_secs(20);
        while self.len() < len {
            assert!(now() < end, "{} of {len} in time", self.len());
            std::thread::yield_now();
        }
    }

    pub(crate) fn take_all(&self) -> Vec<ReceivedTransaction> {
        std::mem::take(&mut *self.0.lock().expect("not poisoned"))
    }
}
