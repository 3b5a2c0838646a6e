//! Permits for the open sockets and gRPC streams of a client, and its count of subscriptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::usage::KeyState;

/// The resource that a permit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermitKind {
    Socket,
    Stream,
}

/// A socket or a stream of a key. Dropping it makes it available again.
#[derive(Debug)]
pub struct Permit(Option<(Arc<KeyState>, PermitKind)>);

impl Permit {
    /// Creates the permit of a client that is not counted.
    pub(crate) fn new_uncounted() -> Self {
        Self(None)
    }

    /// Returns a permit, if fewer than `limit` are in use.
    pub(crate) fn try_acquire(
        state: &Arc<KeyState>,
        kind: PermitKind,
        limit: Option<u32>,
    ) -> Option<Self> {
        let limit = limit.unwrap_or(u32::MAX);
        let acquired =
            count(state, kind).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < limit).then(|| count + 1)
            });
        acquired.ok().map(|_| Self(Some((Arc::clone(state), kind))))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((state, kind)) = &self.0 {
            count(state, *kind).fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The subscriptions of one socket, which count for its client until it is dropped.
#[derive(Debug)]
pub struct SubscriptionGauge {
    state: Option<Arc<KeyState>>,
    counted: AtomicU32,
}

impl SubscriptionGauge {
    pub(crate) fn new(state: Option<Arc<KeyState>>) -> Self {
        Self { state, counted: AtomicU32::new(0) }
    }

    /// Returns whether the count has any effect.
    pub fn is_counted(&self) -> bool {
        self.state.is_some()
    }

    /// Sets the number of subscriptions.
    pub fn set(&self, count: u32) {
        let Some(state) = &self.state else { return };
        let before = self.counted.swap(count, Ordering::Relaxed);
        // Wraps to the difference, whichever sign it has.
        state.subscriptions.fetch_add(count.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Drop for SubscriptionGauge {
    fn drop(&mut self) {
        self.set(0);
    }
}

fn count(state: &KeyState, kind: PermitKind) -> &AtomicU32 {
    match kind {
        PermitKind::Socket => &state.sockets,
        PermitKind::Stream => &state.streams,
    }
}
