//! The session of a connection: its listener, its client id, and the client's rate limits.
//!
//! Each call counts as a request of the client, and all bytes that are written to it count as the client's bytes, as
//! over HTTP: all connections of a client share its time on the pool and its limits. A call past a limit is refused
//! with -32005. Notifications are always sent; the client's later calls are refused until its limits have recovered.
//! Calls that end a subscription are never refused: a client that gets too much must be able to stop it.

use std::ops::Deref;
use std::sync::Arc;

use chain_solana::Block;
use jsonrpc::error::RpcError;
use pool::ClientId;
use subscriptions::Listener;

use super::PubSub;
use super::block_items::BlockItems;
use super::payload::Payload;
use super::subscription::Subscription;

/// A connection.
pub(super) struct Session {
    listener: Arc<Listener<Subscription, Payload<BlockItems>, Block>>,
    id: ClientId,
}

impl Session {
    pub(super) fn new(
        listener: Listener<Subscription, Payload<BlockItems>, Block>,
        id: ClientId,
    ) -> Self {
        Self { listener: Arc::new(listener), id }
    }

    /// The id under which its set tasks run in the pool. It differs from the id of the client's requests, so that a set
    /// task, which holds a permit, does not wait for the client's own HTTP requests.
    pub(super) fn set_task_client(&self) -> ClientId {
        self.id.background()
    }

    /// Charges calls to the client's rate limit; -32005 if they are over it.
    pub(super) fn admit(&self, pubsub: &PubSub, calls: usize) -> Result<(), RpcError> {
        if !pubsub.clients.is_enabled() {
            return Ok(());
        }
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let admitted = pubsub.clients.admit(self.id, calls, pubsub.pool.now());
        admitted.map_err(|too_many| RpcError::too_many(&too_many))
    }

    /// Charges calls without a check: those that end subscriptions.
    pub(super) fn count_calls(&self, pubsub: &PubSub, calls: usize) {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        pubsub.clients.charge_requests(self.id, calls, pubsub.pool.now());
    }

    /// Charges bytes that are written to the client.
    pub(super) fn charge(&self, pubsub: &PubSub, bytes: usize) {
        if pubsub.clients.limits_bytes() {
            pubsub.clients.charge_bytes(self.id, bytes as u64, pubsub.pool.now());
        }
    }
}

impl Deref for Session {
    type Target = Arc<Listener<Subscription, Payload<BlockItems>, Block>>;

    fn deref(&self) -> &Self::Target {
        &self.listener
    }
}
