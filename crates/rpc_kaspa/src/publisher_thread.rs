//! The thread that publishes, so that encoding does not delay the chain's writer.
//!
//! Input: events and notifications, in order, over a bounded channel. Output: those of [`Publisher`].
//! Bounds: the inputs that may wait, and [`INPUT_BYTES_MAX`] of their bytes. If one is lost, every client is closed, because
//! it may have been for any of them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use chain_kaspa::ChainEvent;
use kaspa::{Encoding, Hash, Notification};
use metrics::{Collector, Exposition};

use crate::kaspa_rpc::KaspaServer;
use crate::publisher::Publisher;

/// Bytes of the inputs that may wait: those of 1,000 blocks with 1,500 changes each. A single input may have more. The
/// blocks that are not final yet are in memory in any case.
const INPUT_BYTES_MAX: usize = 256 << 20;

/// Sends events to the publisher's thread. Clones send to the same one. The thread ends when the last of them is
/// dropped, and closes all clients (1001).
#[derive(Clone)]
pub struct PublisherInput {
    sender: SyncSender<SizedInput>,
    queue: Arc<QueueState>,
}

/// The state of the queue that its sender and its thread share.
#[derive(Default)]
struct QueueState {
    /// Bytes of the inputs that wait.
    bytes: AtomicUsize,
    /// Whether an input was lost since the thread last checked.
    is_lost: AtomicBool,
}

struct SizedInput {
    input: Input,
    bytes: usize,
}

enum Input {
    Chain(Vec<ChainEvent>),
    Upstream(Encoding, Notification),
}

/// Starts the publisher of a server. `inputs_max` inputs may wait: those of the chain and of the upstream together.
///
/// Errors: the thread could not be started.
pub fn start_publisher(server: Arc<KaspaServer>, inputs_max: usize) -> io::Result<PublisherInput> {
    let (sender, inputs) = sync_channel(inputs_max);
    let queue = Arc::<QueueState>::default();
    let publisher = Publisher::new(Arc::clone(&server));
    let input = PublisherInput { sender, queue: Arc::clone(&queue) };
    let thread = std::thread::Builder::new().name("kaspa-publisher".to_owned());
    thread.spawn(move || {
        run(publisher, &inputs, &queue);
        server.shut_down();
    })?;
    Ok(input)
}

impl PublisherInput {
    /// Sends the events of a publication of the chain. Never waits.
    pub fn send_chain(&self, events: Vec<ChainEvent>) {
        if !events.is_empty() {
            self.send(Input::Chain(events));
        }
    }

    /// Sends a notification of the upstream, which came in this encoding. Never waits.
    pub fn send_upstream(&self, encoding: Encoding, notification: Notification) {
        self.send(Input::Upstream(encoding, notification));
    }

    fn send(&self, input: Input) {
        let bytes = input.bytes();
        if !self.queue.reserve(bytes) {
            return self.report_loss();
        }
        let sent = self.sender.try_send(SizedInput { input, bytes });
        if let Err(TrySendError::Full(_)) = sent {
            self.queue.release(bytes);
            self.report_loss();
        }
    }

    /// Reports that an input was lost. The thread may have emptied the queue since then, so it is woken.
    fn report_loss(&self) {
        self.queue.is_lost.store(true, Ordering::Release);
        // A full queue wakes it anyway.
        let _ = self.sender.try_send(SizedInput { input: Input::Chain(Vec::new()), bytes: 0 });
    }
}

impl QueueState {
    /// Counts the bytes of an input. False if they do not fit, and then they are not counted.
    fn reserve(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before == 0 || before.saturating_add(bytes) <= INPUT_BYTES_MAX;
        if !has_room {
            self.release(bytes);
        }
        has_room
    }

    fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Collector for PublisherInput {
    fn write(&self, _: &mut Exposition) {}

    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("kaspa_events", self.queue.bytes.load(Ordering::Relaxed) as u64)]
    }
}

impl Input {
    /// Returns the bytes in memory. A block that the chain has as well is counted here, too.
    fn bytes(&self) -> usize {
        match self {
            Self::Chain(events) => events.iter().map(event_bytes).sum(),
            Self::Upstream(_, Notification::BlockAdded(block)) => size_of::<Self>() + block.len(),
            Self::Upstream(..) => size_of::<Self>(),
        }
    }
}

fn event_bytes(event: &ChainEvent) -> usize {
    let content = match event {
        ChainEvent::BlockAdded(block) => block.bytes(),
        ChainEvent::ChainChanged(change) => {
            let accepted = change.accepted.iter().map(|accepted| accepted.transaction_ids.len());
            let hashes = change.removed.len() + 2 * change.added.len() + accepted.sum::<usize>();
            hashes * size_of::<Hash>()
        }
        _ => 0,
    };
    size_of::<ChainEvent>() + content
}

fn run(mut publisher: Publisher, inputs: &Receiver<SizedInput>, queue: &QueueState) {
    while let Ok(SizedInput { input, bytes }) = inputs.recv() {
        if queue.is_lost.swap(false, Ordering::Acquire) {
            tracing::error!("events were lost (pubsub.events_max): all clients are closed");
            publisher.close_all();
        }
        // After a panic the clients lack this event, so they are closed. Later events are still published.
        let publish = || match &input {
            Input::Chain(events) => publisher.publish_chain(events),
            Input::Upstream(encoding, notification) => {
                publisher.publish_upstream(*encoding, notification);
            }
        };
        if catch_unwind(AssertUnwindSafe(publish)).is_err() {
            tracing::error!("the publisher panicked: all clients are closed");
            publisher.close_all();
        }
        drop(input);
        queue.release(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_wait_up_to_a_number_of_bytes() {
        let queue = QueueState::default();
        assert!(queue.reserve(2 * INPUT_BYTES_MAX), "a single input may have more");
        assert!(!queue.reserve(1));
        queue.release(2 * INPUT_BYTES_MAX);
        assert!(queue.reserve(INPUT_BYTES_MAX - 1));
        assert!(queue.reserve(1));
        assert!(!queue.reserve(1));
        queue.release(INPUT_BYTES_MAX);
        assert_eq!(queue.bytes.load(Ordering::Relaxed), 0);
        let block = Input::Upstream(Encoding::Json, Notification::BlockAdded(vec![0; 1_000]));
        assert!(block.bytes() > 1_000);
    }
}
