//! Forwards transactions to an upstream's `sendTransaction`.
//!
//! Bounds: `queue_max` transactions wait, and of one client at most as many as are free, times its weight; more are
//! refused. [`THREADS`] requests are on their way at once. A response has at most [`RESPONSE_BYTES_MAX`].

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chain_solana::{QueueBound, SendError, Sender, TransactionSender, VerifiedTransaction};
use clients::ClientId;
use http_client::{Client, Endpoint, HttpClientError};
use metrics::{Collector, Exposition, MetricKind};
use parking_lot::Mutex;
use serde_json::json;

use crate::client_shares::ClientShares;

/// Threads that forward, each with a connection of its own.
const THREADS: usize = 4;
/// Bytes of a response: a signature, or an error with the logs of a simulation.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// Forwards transactions to an upstream.
pub struct UpstreamSender {
    queue: SyncSender<Queued>,
    waiting: Arc<Mutex<ClientShares>>,
    queue_max: usize,
}

struct Queued {
    client: ClientId,
    transaction: VerifiedTransaction,
}

impl UpstreamSender {
    /// Starts the threads that forward. They end when the sender is dropped.
    pub fn start(upstream: &Endpoint, queue_max: usize) -> std::io::Result<Self> {
        let (queue, receiver) = sync_channel(queue_max);
        let receiver = Arc::new(Mutex::new(receiver));
        let waiting = Arc::new(Mutex::new(ClientShares::new(queue_max)));
        for _ in 0..THREADS {
            let upstream = upstream.clone();
            let receiver = Arc::clone(&receiver);
            let waiting = Arc::clone(&waiting);
            let thread = std::thread::Builder::new().name("forward".into());
            thread.spawn(move || forward(&upstream, &receiver, &waiting))?;
        }
        Ok(Self { queue, waiting, queue_max })
    }

    /// Number of transactions that wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.lock().len() as u64
    }

    /// Bytes of these transactions.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting.lock().bytes() as u64
    }
}

impl TransactionSender for UpstreamSender {
    fn send(&self, sender: Sender, transaction: VerifiedTransaction) -> Result<(), SendError> {
        // Counted before: a thread may take it at once.
        let client = sender.client;
        let bytes = transaction.memory_bytes();
        self.waiting.lock().add(sender, bytes)?;
        self.queue.try_send(Queued { client, transaction }).map_err(|err| {
            self.waiting.lock().remove(client, bytes);
            match err {
                TrySendError::Full(_) => {
                    let limit = self.queue_max as u64;
                    SendError::QueueFull { bound: QueueBound::Transactions, queued: limit, limit }
                }
                TrySendError::Disconnected(_) => SendError::Closed,
            }
        })
    }
}

impl Collector for UpstreamSender {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("follow_send_queue", self.waiting_bytes())]
    }

    fn write(&self, out: &mut Exposition) {
        let help =
            "Transactions that were accepted and are not in a block, or not at the upstream.";
        out.single("hydrant_send_pending", MetricKind::Gauge, help, self.waiting());
    }
}

/// The thread's client, which connects at its first use.
fn connect<'a>(
    client: &'a mut Option<Client>,
    upstream: &Endpoint,
) -> Result<&'a mut Client, HttpClientError> {
    let open = match client.take() {
        Some(open) => open,
        None => Client::open_with_body_limit(upstream.clone(), RESPONSE_BYTES_MAX)?,
    };
    Ok(client.insert(open))
}

fn forward(upstream: &Endpoint, queue: &Mutex<Receiver<Queued>>, waiting: &Mutex<ClientShares>) {
    let mut client = None;
    loop {
        // The lock is held while a thread waits; the others wait for the lock.
        let next = queue.lock().recv();
        let Ok(Queued { client: sender, transaction }) = next else { return };
        waiting.lock().remove(sender, transaction.memory_bytes());
        let Ok(bytes) = wincode::serialize(transaction.transaction()) else { continue };
        let options = json!({ "encoding": "base64", "skipPreflight": true });
        let params = json!([STANDARD.encode(bytes), options]);
        let was_open = client.is_some();
        let mut send = || {
            let client = connect(&mut client, upstream)?;
            client.call("sendTransaction", &params).map(drop)
        };
        let mut sent = send();
        // A connection that was idle may be closed. A transaction may be sent twice, and is executed once.
        if was_open && matches!(sent, Err(HttpClientError::Broken(_))) {
            sent = send();
        }
        if let Err(err) = sent {
            let signature = transaction.signature();
            tracing::warn!(%signature, err = &err as &dyn std::error::Error, "not forwarded");
        }
    }
}
