//! The API key with which a subscription was opened.

use api_keys::{KeyNumber, Permit};
use authentication::Authenticator;
use pool::ClientId;
use tokio::sync::watch;

/// The API key of a subscription, and its permit. Without API keys there is neither.
#[derive(Default)]
pub(crate) struct StreamKey {
    pub(crate) number: Option<KeyNumber>,
    pub(crate) permit: Option<Permit>,
}

/// Whether the API key of a stream is still in the table.
pub(crate) struct Revocation {
    authenticator: Authenticator,
    client: ClientId,
    /// Notified after each removal of keys.
    removals: watch::Receiver<()>,
}

impl Revocation {
    /// For a stream that a client opens now. `removals` is notified after keys were removed.
    pub(crate) fn new(
        authenticator: Authenticator,
        client: ClientId,
        removals: watch::Receiver<()>,
    ) -> Self {
        Self { authenticator, client, removals }
    }

    /// Waits until the key is removed.
    pub(crate) async fn happened(&mut self) {
        while !self.authenticator.is_removed(self.client) {
            if self.removals.changed().await.is_err() {
                // The server ends, and closes its connections.
                std::future::pending::<()>().await;
            }
        }
    }
}
