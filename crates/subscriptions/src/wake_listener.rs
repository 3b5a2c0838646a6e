//! Waking the task of a listener when its queue gets something.

use std::sync::Arc;

/// Pending wake-ups above which the publisher wakes the listeners under the registry's lock. A smaller value wakes the
/// first listeners of a large publication sooner; a larger one needs more memory, 16 bytes each.
const PENDING_MAX: usize = 512;

/// Wakes the task of a listener. A closure can be one.
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

/// Listeners that have not been woken yet. Dropping this wakes them, also while a panic unwinds.
#[derive(Default)]
pub(crate) struct PendingWakes {
    listeners: Vec<Arc<dyn WakeListener>>,
}

impl PendingWakes {
    /// Adds a listener. Wakes those before it if there are too many.
    pub(crate) fn push(&mut self, listener: Arc<dyn WakeListener>) {
        if self.listeners.len() >= PENDING_MAX {
            self.wake_all();
        }
        self.listeners.push(listener);
    }

    fn wake_all(&mut self) {
        self.listeners.drain(..).for_each(|listener| listener.wake());
    }
}

impl Drop for PendingWakes {
    fn drop(&mut self) {
        self.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn each_listener_is_woken_once_and_at_the_latest_at_the_end() {
        let woken = Arc::new(AtomicUsize::new(0));
        let mut wakes = PendingWakes::default();
        for _ in 0..=PENDING_MAX {
            let woken = Arc::clone(&woken);
            let wake = move || {
                woken.fetch_add(1, Ordering::Relaxed);
            };
            wakes.push(Arc::new(wake));
        }
        assert_eq!(woken.load(Ordering::Relaxed), PENDING_MAX, "one is pending");
        drop(wakes);
        assert_eq!(woken.load(Ordering::Relaxed), PENDING_MAX + 1);
    }
}
