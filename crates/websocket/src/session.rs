//! The session of a connection: its listener, its client id, and the client's rate limits.
//!
//! Each call counts as a request of the client, and all bytes that are written to it count as the client's bytes, as
//! over HTTP: all connections of a client share its time on the pool and its limits. A call past a limit is refused.
//! Notifications are always sent; the client's later calls are refused until its limits have recovered.
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

use crate::call_refused::CallRefused;
use crate::payload::Payload;
use crate::protocol_types::ProtocolTypes;

/// The queue of a connection's notifications.
type SessionListener<P> = Listener<
    <P as ProtocolTypes>::Subscription,
    Payload<<P as ProtocolTypes>::Items>,
    <P as ProtocolTypes>::Block,
>;

/// A connection.
pub struct Session<P: ProtocolTypes> {
    /// The protocol's state of the connection.
    pub state: P::SessionState,
    listener: Arc<SessionListener<P>>,
    id: ClientId,
    clients: Arc<RateLimiter>,
    pool: Arc<Pool>,
    /// Its subscriptions, counted to its API key.
    subscription_gauge: Option<SubscriptionGauge>,
    /// Whether a call was refused since the last [`Session::take_pause`].
    is_refused: AtomicBool,
}

impl<P: ProtocolTypes> Session<P> {
    pub(crate) fn new(
        state: P::SessionState,
        listener: SessionListener<P>,
        id: ClientId,
        clients: Arc<RateLimiter>,
        pool: Arc<Pool>,
    ) -> Self {
        let keys = clients.api_keys();
        let subscription_gauge = keys.map(|keys| keys.count_subscriptions(id.caller(), pool.now()));
        let listener = Arc::new(listener);
        let is_refused = AtomicBool::new(false);
        Self { state, listener, id, clients, pool, subscription_gauge, is_refused }
    }

    /// Returns the client that the connection belongs to.
    pub fn client_id(&self) -> ClientId {
        self.id
    }

    /// Returns whether the API key of the client was removed.
    pub(crate) fn is_revoked(&self) -> bool {
        let keys = self.clients.api_keys().zip(self.id.key());
        keys.is_some_and(|(keys, number)| !keys.contains(number))
    }

    /// Counts its subscriptions to its API key.
    pub(crate) fn count_subscriptions(&self) {
        if let Some(gauge) = self.subscription_gauge.as_ref().filter(|gauge| gauge.is_counted()) {
            let subscriptions = self.listener.subscriptions();
            gauge.set(u32::try_from(subscriptions).unwrap_or(u32::MAX));
        }
    }

    /// Charges a call to the limit of its method.
    ///
    /// Errors: it is over the limit, or the client may not call the method.
    pub fn admit_method(&self, method: &str) -> Result<(), CallRefused> {
        let Some(keys) = self.clients.api_keys() else { return Ok(()) };
        if keys.denies(self.id.caller(), method) {
            return Err(CallRefused::MethodDenied { method: method.to_owned() });
        }
        let charge = Charge::call(Class::Light.index());
        let method = std::iter::once(method);
        let admitted = self.clients.admit_calls(self.id, charge, method, self.pool.now());
        admitted.map_err(|limited| self.refuse(limited))
    }

    /// Checks whether the client may have one more subscription.
    pub fn admit_subscription(&self) -> Result<(), CallRefused> {
        let Some(keys) = self.clients.api_keys() else { return Ok(()) };
        self.count_subscriptions();
        let admitted = keys.admit_subscription(self.id.caller(), self.pool.now());
        admitted.map_err(|reached| self.refuse(reached.into()))
    }

    /// Returns the id under which its tasks run in the pool. It differs from the id of the client's requests, so that a
    /// task, which has a permit, does not wait for the client's own HTTP requests.
    pub(crate) fn task_client(&self) -> ClientId {
        self.id.background()
    }

    /// Charges calls to the client's rate limit.
    ///
    /// Errors: they are over it.
    pub fn admit(&self, calls: usize) -> Result<(), CallRefused> {
        if !self.clients.is_enabled() {
            return Ok(());
        }
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let admitted = self.clients.admit(self.id, calls, self.pool.now());
        admitted.map_err(|limited| self.refuse(limited))
    }

    fn refuse(&self, limited: RateLimited) -> CallRefused {
        self.is_refused.store(true, Ordering::Relaxed);
        limited.into()
    }

    /// Returns how long nothing more may be read from the client, if a call was refused and its API key has too many
    /// refusals.
    pub(crate) fn take_pause(&self) -> Option<Duration> {
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
    pub(crate) fn charge(&self, bytes: usize) {
        if self.clients.limits_bytes() {
            self.clients.charge_bytes(self.id, bytes as u64, self.pool.now());
        }
    }
}

impl<P: ProtocolTypes> Deref for Session<P> {
    type Target = Arc<SessionListener<P>>;

    fn deref(&self) -> &Self::Target {
        &self.listener
    }
}
