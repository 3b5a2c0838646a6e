//! The thread that publishes, so that encoding does not delay the chain's writer.
//!
//! Input: events and notifications, in order, over a bounded channel. Output: those of [`Publisher`].
//! Bounds: the inputs that may wait. If one is lost, every client is closed, because it may have been for any of them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use chain_kaspa::ChainEvent;
use kaspa::{Encoding, Notification};

use crate::kaspa_rpc::KaspaServer;
use crate::publisher::Publisher;

/// Sends events to the publisher's thread. Clones send to the same one. The thread ends when the last of them is
/// dropped, and closes all clients (1001).
#[derive(Clone)]
pub struct PublisherInput {
    sender: SyncSender<Input>,
    is_lost: Arc<AtomicBool>,
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
    let is_lost = Arc::new(AtomicBool::new(false));
    let publisher = Publisher::new(Arc::clone(&server));
    let input = PublisherInput { sender, is_lost: Arc::clone(&is_lost) };
    let thread = std::thread::Builder::new().name("kaspa-publisher".to_owned());
    thread.spawn(move || {
        run(publisher, &inputs, &is_lost);
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
        if let Err(TrySendError::Full(_)) = self.sender.try_send(input) {
            self.is_lost.store(true, Ordering::Release);
        }
    }
}

fn run(mut publisher: Publisher, inputs: &Receiver<Input>, is_lost: &AtomicBool) {
    while let Ok(input) = inputs.recv() {
        if is_lost.swap(false, Ordering::Acquire) {
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
    }
}
