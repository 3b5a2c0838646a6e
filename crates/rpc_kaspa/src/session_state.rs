//! The state of a connection.

use std::sync::OnceLock;

use kaspa::Encoding;
use parking_lot::Mutex;

use crate::client_subscriptions::ClientSubscriptions;
use crate::message_format::MessageFormat;

/// The state of a connection. A connection has one call at a time, so the locks are never waited for.
#[derive(Default)]
pub struct SessionState {
    pub(crate) format: MessageFormat,
    /// The number of its listener in replies to subscribe.
    pub(crate) listener_number: OnceLock<u64>,
    pub(crate) subscriptions: Mutex<ClientSubscriptions>,
}

impl SessionState {
    /// Creates the state of a new connection to a port of this encoding.
    pub fn new(encoding: Encoding) -> Self {
        Self::with_format(encoding.into())
    }

    /// Creates the state of a new connection whose messages have this format.
    pub fn with_format(format: MessageFormat) -> Self {
        Self { format, ..Self::default() }
    }
}
