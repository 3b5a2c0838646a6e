//! The client that opened a subscription, and the permits of the subscription.

use api_keys::Permit;
use authentication::Authenticator;
use clients::{ClientId, Share};
use tokio::sync::{OwnedSemaphorePermit, watch};

pub(crate) struct StreamClient {
    pub(crate) id: ClientId,
    pub(crate) permits: StreamPermits,
}

/// One subscription of a connection and of a client and, with API keys, one stream of a key. Dropping it returns them.
pub(crate) struct StreamPermits {
    pub(crate) _client: Share,
    pub(crate) _connection: OwnedSemaphorePermit,
    pub(crate) _key: Option<Permit>,
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
    pub(crate) async fn wait_for_removal(&mut self) {
        while !self.authenticator.is_removed(self.client) {
            if self.removals.changed().await.is_err() {
                // The server ends, and closes its connections.
                std::future::pending::<()>().await;
            }
        }
    }
}
