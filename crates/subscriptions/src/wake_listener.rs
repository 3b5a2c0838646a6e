//! Waking the task of a listener when its queue gets something.

/// Wakes the task of a listener. A closure that does it is one too.
pub trait WakeListener: Send + Sync + 'static {
    /// Called, possibly under a lock of the subscriptions, when the listener's queue gets a message after it was empty,
    /// or is closed. Must return at once, and must not call the subscriptions.
    fn wake(&self);

    /// Returns whether the task was woken and has not noticed yet, if that is known. The publisher calls it for several
    /// listeners before it wakes the first, so that the cache misses of their memory overlap: let it be one load from
    /// the memory that [`Self::wake`] needs. The result decides nothing.
    fn is_woken(&self) -> bool {
        false
    }
}

impl<F: Fn() + Send + Sync + 'static> WakeListener for F {
    fn wake(&self) {
        self();
    }
}
