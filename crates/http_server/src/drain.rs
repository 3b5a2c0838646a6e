//! The end of a server in two steps: it drains, and then it ends.
//!
//! While it drains, requests that run are finished, and every other request gets a 503. It ends when none runs any
//! more, or when the time for it is over.
//! Shape: one value that all connections watch. Cost while it serves: one atomic load a request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The drain of a server.
pub struct Drain {
    has_begun: AtomicBool,
    /// When the time for the drain is over. `None` while the server serves.
    deadline: watch::Sender<Option<Instant>>,
}

impl Default for Drain {
    fn default() -> Self {
        Self { has_begun: AtomicBool::new(false), deadline: watch::Sender::new(None) }
    }
}

impl Drain {
    /// Starts the drain, which takes at most `within`. A later call can only make it shorter.
    pub fn begin(&self, within: Duration) {
        // Set before the watchers are notified, because they start to wait for the accepted requests.
        self.has_begun.store(true, Ordering::Release);
        let deadline = Instant::now() + within;
        self.deadline.send_if_modified(|current| {
            let is_sooner = current.is_none_or(|current| deadline < current);
            if is_sooner {
                *current = Some(deadline);
            }
            is_sooner
        });
    }

    /// Ends the server at once, whatever runs.
    pub fn end_now(&self) {
        self.begin(Duration::ZERO);
    }

    /// Returns whether the drain has started.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    pub(crate) fn watch(&self) -> DrainWatch {
        DrainWatch(self.deadline.subscribe())
    }
}

#[derive(Clone)]
pub(crate) struct DrainWatch(watch::Receiver<Option<Instant>>);

impl DrainWatch {
    /// Waits until the drain has started.
    pub(crate) async fn begun(&mut self) {
        // An error means that the server was dropped, which ends it as well.
        let _ = self.0.wait_for(Option::is_some).await;
    }

    /// Ready when the time for the drain is over.
    pub(crate) async fn over(&mut self) {
        loop {
            let deadline = *self.0.borrow_and_update();
            let over = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                changed = self.0.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_drain_begins_once_and_can_only_become_shorter() {
        let drain = Drain::default();
        let mut watch = drain.watch();
        assert!(!drain.has_begun() && watch.begun().now_or_never().is_none());
        drain.begin(Duration::from_secs(3_600));
        assert!(drain.has_begun() && watch.begun().now_or_never().is_some());
        assert!(watch.over().now_or_never().is_none());
        drain.begin(Duration::from_secs(7_200));
        let deadline = *watch.0.borrow();
        assert!(deadline.is_some_and(|at| at < Instant::now() + Duration::from_secs(3_601)));
        drain.end_now();
        watch.over().await;
    }

    #[tokio::test]
    async fn a_watcher_of_a_server_that_is_gone_does_not_wait() {
        let drain = Drain::default();
        let mut watch = drain.watch();
        drop(drain);
        watch.begun().await;
        watch.over().await;
    }
}
