//! The session of a connection: its listener, its client id, and the client's rate limits.
//!
//! Each call counts as a request of the client, and all bytes that are written to it count as the client's bytes, as
//! over HTTP: all connections of a client share its time on the pool and its limits. A call past a limit is refused
//! with -32005. Notifications are always sent; the client's later calls are refused until its limits have recovered.
//! Calls that end a subscription are never refused: a client that gets too much must be able to stop it.

use std::ops::Deref;
use std::sync::Arc;

use pool::{ClientId, Pool, RateLimiter};
use subscriptions::Listener;

use super::payload::Payload;
use super::subscription_types::SubscriptionTypes;
use crate::error::RpcError;

/// The queue of a connection's notifications.
type SessionListener<A> = Listener<
    <A as SubscriptionTypes>::Subscription,
    Payload<<A as SubscriptionTypes>::Items>,
    <A as SubscriptionTypes>::Block,
>;

/// A connection.
pub struct Session<A: SubscriptionTypes> {
    listener: Arc<SessionListener<A>>,
    id: ClientId,
    clients: Arc<RateLimiter>,
    pool: Arc<Pool>,
}

impl<A: SubscriptionTypes> Session<A> {
    pub(super) fn new(
        listener: SessionListener<A>,
        id: ClientId,
        clients: Arc<RateLimiter>,
        pool: Arc<Pool>,
    ) -> Self {
        Self { listener: Arc::new(listener), id, clients, pool }
    }

    /// The id under which its tasks run in the pool. It differs from the id of the client's requests, so that a task,
    /// which has a permit, does not wait for the client's own HTTP requests.
    pub(super) fn task_client(&self) -> ClientId {
        self.id.background()
    }

    /// Charges calls to the client's rate limit; -32005 if they are over it.
    pub fn admit(&self, calls: usize) -> Result<(), RpcError> {
        if !self.clients.is_enabled() {
            return Ok(());
        }
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let admitted = self.clients.admit(self.id, calls, self.pool.now());
        admitted.map_err(|too_many| RpcError::too_many(&too_many))
    }

    /// Charges calls without a check: those that end subscriptions.
    pub fn count_calls(&self, calls: usize) {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        self.clients.charge_requests(self.id, calls, self.pool.now());
    }

    /// Charges bytes that are written to the client.
    pub(super) fn charge(&self, bytes: usize) {
        if self.clients.limits_bytes() {
            self.clients.charge_bytes(self.id, bytes as u64, self.pool.now());
        }
    }
}

impl<A: SubscriptionTypes> Deref for Session<A> {
    type Target = Arc<SessionListener<A>>;

    fn deref(&self) -> &Self::Target {
        &self.listener
    }
}
