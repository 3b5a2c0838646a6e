//! The time that a client has to read why its subscription was closed.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::index::ListenerId;

/// The subscriptions of a connection that were closed and whose client has not read their status.
#[derive(Default)]
pub(crate) struct StatusTimer {
    unread: Mutex<BTreeSet<ListenerId>>,
    started: Notify,
}

impl StatusTimer {
    /// A subscription was closed.
    pub(crate) fn start(&self, id: ListenerId) {
        self.unread.lock().insert(id);
        self.started.notify_one();
    }

    /// A subscription has ended.
    pub(crate) fn stop(&self, id: ListenerId) {
        self.unread.lock().remove(&id);
    }

    /// Waits until a status was unread for `timeout`.
    pub(crate) async fn expired(&self, timeout: Duration) {
        loop {
            let unread = self.unread.lock().clone();
            if unread.is_empty() {
                self.started.notified().await;
                continue;
            }
            tokio::time::sleep(timeout).await;
            if !self.unread.lock().is_disjoint(&unread) {
                return;
            }
        }
    }
}
