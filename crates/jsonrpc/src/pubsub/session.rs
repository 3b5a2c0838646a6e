//! The session of a connection: its listener, its client id, and the client's rate limits.
//!
//! Each call counts as a request of the client, and all bytes that are written to it count as the client's bytes, as
//! over HTTP: all connections of a client share its time on the pool and its limits. A call past a limit is refused
//! with -32005. Notifications are always sent; the client's later calls are refused until its limits have recovered.
//! Calls that end a subscription are never refused: a client that gets too much must be able to stop it.
//! A client with an API key that gets too many refusals is read later ([`Session::take_pause`]).

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api_keys::{Charge, SubscriptionGauge};
use clients::{ClientId, RateLimited, RateLimiter};
use cpu_pool::{Class, Pool};
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
    /// Its subscriptions, counted to its API key.
    subscription_gauge: Option<SubscriptionGauge>,
    /// Whether a call was refused since the last [`Session::take_pause`].
    is_refused: AtomicBool,
}

impl<A: SubscriptionTypes> Session<A> {
    pub(super) fn new(
        listener: SessionListener<A>,
        id: ClientId,
        clients: Arc<RateLimiter>,
        pool: Arc<Pool>,
    ) -> Self {
        let keys = clients.api_keys();
        let subscription_gauge = keys.map(|keys| keys.count_subscriptions(id.caller(), pool.now()));
        let listener = Arc::new(listener);
        let is_refused = AtomicBool::new(false);
        Self { listener, id, clients, pool, subscription_gauge, is_refused }
    }

    /// Whether the API key of the client was removed.
    pub(super) fn is_revoked(&self) -> bool {
        let keys = self.clients.api_keys().zip(self.id.key());
        keys.is_some_and(|(keys, number)| !keys.contains(number))
    }

    /// Counts its subscriptions to its API key.
    pub(super) fn count_subscriptions(&self) {
        if let Some(gauge) = self.subscription_gauge.as_ref().filter(|gauge| gauge.is_counted()) {
            let subscriptions = self.listener.subscriptions();
            gauge.set(u32::try_from(subscriptions).unwrap_or(u32::MAX));
        }
    }

    /// Charges a call to the limit of its method: -32005 if it is over it, -32601 if the client may not call the method.
    pub fn admit_method(&self, method: &str) -> Result<(), RpcError> {
        let Some(keys) = self.clients.api_keys() else { return Ok(()) };
        if keys.denies(self.id.caller(), method) {
            return Err(RpcError::method_denied(method));
        }
        let charge = Charge::call(Class::Light.index());
        let method = std::iter::once(method);
        let admitted = self.clients.admit_calls(self.id, charge, method, self.pool.now());
        admitted.map_err(|too_many| self.refuse(&too_many))
    }

    /// Whether the client may have one more subscription; -32005 if it may not.
    pub fn admit_subscription(&self) -> Result<(), RpcError> {
        let Some(keys) = self.clients.api_keys() else { return Ok(()) };
        self.count_subscriptions();
        let admitted = keys.admit_subscription(self.id.caller(), self.pool.now());
        admitted.map_err(|reached| self.refuse(&reached.into()))
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
        admitted.map_err(|too_many| self.refuse(&too_many))
    }

    fn refuse(&self, too_many: &RateLimited) -> RpcError {
        self.is_refused.store(true, Ordering::Relaxed);
        RpcError::too_many(too_many)
    }

    /// How long nothing more may be read from the client, if a call was refused and its API key has too many refusals.
    pub(super) fn take_pause(&self) -> Option<Duration> {
        if !self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        self.is_refused.store(false, Ordering::Relaxed);
        self.clients.api_keys()?.delay_refusal(self.id.caller(), self.pool.now())
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
