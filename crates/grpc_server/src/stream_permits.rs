//! The client that opened a subscription, and the permits of the subscription.

use api_keys::Permit;
use authentication::Authenticator;
use clients::{ClientId, Share};
use tokio::sync::{OwnedSemaphorePermit, watch};

/// The client of a subscription.
pub struct StreamClient {
    /// The API key of the call, or the address of its connection.
    pub id: ClientId,
    /// The permits of the subscription.
    pub permits: StreamPermits,
}

/// One subscription of a connection and of a client and, with API keys, one stream of a key. Dropping it returns them.
pub struct StreamPermits {
    pub(crate) _client: Share,
    pub(crate) _connection: OwnedSemaphorePermit,
    pub(crate) _key: Option<Permit>,
}

/// Whether the API key of a stream is still in the table.
pub struct Revocation {
    authenticator: Authenticator,
    client: ClientId,
    /// Notified after each removal of keys.
    removals: watch::Receiver<()>,
}

impl Revocation {
    /// Checks the key of a stream that a client opens now. `removals` is notified after keys were removed.
    pub fn new(
        authenticator: Authenticator,
        client: ClientId,
        removals: watch::Receiver<()>,
    ) -> Self {
        Self { authenticator, client, removals }
    }

    /// Waits until the key is removed.
    pub async fn wait_for_removal(&mut self) {
        while !self.authenticator.is_removed(self.client) {
            if self.removals.changed().await.is_err() {
                // The server ends, and closes its connections.
                std::future::pending::<()>().await;
            }
        }
    }
}
