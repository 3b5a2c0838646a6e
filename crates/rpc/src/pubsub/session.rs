//! A connection: its place in the engine, whose it is, and what of his share it uses.
//!
//! Each call is a request of the client's, and all that is written to it are bytes of the client's, as over HTTP:
//! however many connections he has, they share his turns and limits. A call past a limit is -32005; notifications are
//! counted and sent, and their client is refused calls until he has paid for them, but for those that end a
//! subscription: who is told too much must be able to say so.

use std::ops::Deref;
use std::sync::Arc;

use chain_solana::Block;
use pool::ClientId;
use subscriptions::Listener;

use super::PubSub;
use super::payload::Payload;
use super::subscription::Subscription;
use crate::error::RpcError;

/// A connection.
pub(super) struct Session {
    listener: Arc<Listener<Subscription, Payload, Block>>,
    id: ClientId,
}

impl Session {
    pub(super) fn new(listener: Listener<Subscription, Payload, Block>, id: ClientId) -> Self {
        Self { listener: Arc::new(listener), id }
    }

    /// Whose its work on sets is to the pool: its own, and aside, so that who may work on sets waits for nothing
    /// that the client asks for over HTTP.
    pub(super) fn set_task_client(&self) -> ClientId {
        self.id.background()
    }

    /// Takes calls of the client's share; -32005 if he had it.
    pub(super) fn admit(&self, pubsub: &PubSub, calls: usize) -> Result<(), RpcError> {
        if !pubsub.clients.is_enabled() {
            return Ok(());
        }
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let admitted = pubsub.clients.admit(self.id, calls, pubsub.pool.now());
        admitted.map_err(|too_many| RpcError::too_many(&too_many))
    }

    /// Takes calls of the client's share whether or not he had it: those that end subscriptions.
    pub(super) fn count_calls(&self, pubsub: &PubSub, calls: usize) {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        pubsub.clients.charge_requests(self.id, calls, pubsub.pool.now());
    }

    /// Counts bytes that go to the client.
    pub(super) fn charge(&self, pubsub: &PubSub, bytes: usize) {
        if pubsub.clients.limits_bytes() {
            pubsub.clients.charge_bytes(self.id, bytes as u64, pubsub.pool.now());
        }
    }
}

impl Deref for Session {
    type Target = Arc<Listener<Subscription, Payload, Block>>;

    fn deref(&self) -> &Self::Target {
        &self.listener
    }
}
