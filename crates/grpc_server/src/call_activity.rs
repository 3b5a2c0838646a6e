//! The open calls of one connection, and how long it has had none.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The number of open calls.
pub struct CallActivity(watch::Sender<usize>);

/// An open call. Dropping it ends the call.
pub struct OpenCall(Arc<CallActivity>);

impl CallActivity {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Begins a call, which the server has accepted.
    pub fn start_call(self: &Arc<Self>) -> OpenCall {
        self.0.send_modify(|open| *open += 1);
        OpenCall(Arc::clone(self))
    }

    /// Waits until no call has been open for this time.
    pub(crate) async fn wait_until_idle(&self, time: Duration) {
        let mut open = self.0.subscribe();
        loop {
            let has_calls = *open.borrow_and_update() > 0;
            // The sender is in `self`, so a change is the only way in which these end early.
            if has_calls {
                let _ = open.changed().await;
            } else if timeout(time, open.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.0.send_modify(|open| *open -= 1);
    }
}
