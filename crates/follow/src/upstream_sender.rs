//! Forwards transactions to an upstream's `sendTransaction`.
//!
//! Bounds: `queue_max` transactions wait; more are refused. [`THREADS`] requests are on their way at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chain_solana::{QueueBound, SendError, Sender, TransactionSender, VerifiedTransaction};
use loadgen::{Client, Endpoint, LoadError};
use parking_lot::Mutex;
use serde_json::json;

/// Threads that forward, each with a connection of its own.
const THREADS: usize = 4;

/// Forwards transactions to an upstream.
pub struct UpstreamSender {
    queue: SyncSender<VerifiedTransaction>,
    queued: Arc<AtomicU64>,
    queue_max: usize,
}

impl UpstreamSender {
    /// Starts the threads that forward. They end when the sender is dropped.
    pub fn start(upstream: &Endpoint, queue_max: usize) -> std::io::Result<Self> {
        let (queue, receiver) = sync_channel(queue_max);
        let receiver = Arc::new(Mutex::new(receiver));
        let queued = Arc::new(AtomicU64::new(0));
        for _ in 0..THREADS {
            let (upstream, receiver) = (upstream.clone(), Arc::clone(&receiver));
            let queued = Arc::clone(&queued);
            let thread = std::thread::Builder::new().name("forward".into());
            thread.spawn(move || forward(&upstream, &receiver, &queued))?;
        }
        Ok(Self { queue, queued, queue_max })
    }
}

impl TransactionSender for UpstreamSender {
    fn send(&self, _: Sender, transaction: VerifiedTransaction) -> Result<(), SendError> {
        // Counted before: a thread may take it at once.
        let queued = self.queued.fetch_add(1, Ordering::Relaxed);
        self.queue.try_send(transaction).map_err(|err| {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            match err {
                TrySendError::Full(_) => SendError::QueueFull {
                    bound: QueueBound::Transactions,
                    queued,
                    limit: self.queue_max as u64,
                },
                TrySendError::Disconnected(_) => SendError::Closed,
            }
        })
    }
}

/// The thread's client, which connects at its first use.
fn connected<'a>(
    client: &'a mut Option<Client>,
    upstream: &Endpoint,
) -> Result<&'a mut Client, LoadError> {
    let open = match client.take() {
        Some(open) => open,
        None => Client::open(upstream.clone())?,
    };
    Ok(client.insert(open))
}

fn forward(upstream: &Endpoint, queue: &Mutex<Receiver<VerifiedTransaction>>, queued: &AtomicU64) {
    let mut client = None;
    loop {
        // The lock is held while a thread waits; the others wait for the lock.
        let next = queue.lock().recv();
        let Ok(transaction) = next else { return };
        queued.fetch_sub(1, Ordering::Relaxed);
        let Ok(bytes) = wincode::serialize(transaction.transaction()) else { continue };
        let options = json!({ "encoding": "base64", "skipPreflight": true });
        let params = json!([STANDARD.encode(bytes), options]);
        let sent = connected(&mut client, upstream)
            .and_then(|client| client.call("sendTransaction", &params).map(drop));
        if let Err(err) = sent {
            let signature = transaction.signature();
            tracing::warn!(%signature, err = &err as &dyn std::error::Error, "not forwarded");
        }
    }
}
