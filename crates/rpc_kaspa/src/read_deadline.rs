//! The time in which a client must read a list or a snapshot, whose view pins memory.

use std::time::Duration;

use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use websocket::SessionOutput;

use crate::call::Call;
use crate::kaspa_rpc::NoItems;

/// A time limit that has started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadDeadline {
    limit: Duration,
    /// The time of the start, by the clock of the pool.
    started: Duration,
}

impl ReadDeadline {
    /// Starts the time limit of the server.
    pub(crate) fn start(call: &Call) -> Self {
        let limit = Duration::from_millis(call.server.settings.list_timeout_ms);
        Self::new(limit, call.server.pool.now())
    }

    pub(crate) fn new(limit: Duration, started: Duration) -> Self {
        Self { limit, started }
    }

    pub(crate) fn is_past(&self, now: Duration) -> bool {
        now > self.started.saturating_add(self.limit)
    }

    /// Closes the connection of a client that has not read it in time. The limit is not a setting of the node.
    pub(crate) fn close(&self, what: &str) -> SessionOutput<NoItems> {
        let reason = format!("{what} was not read within {} s", self.limit.as_secs());
        SessionOutput::Close(CloseCode::Policy, reason)
    }
}
