//! The receivers of a follower's events.

use chain_kaspa::ChainEvent;
use kaspa::Notification;

/// Receives events on the writer's thread. It must return at once, even if its own listeners are slow.
pub trait EventSink: Send {
    /// Receives an event of the chain, in order. Readers see the state already.
    fn send(&mut self, event: &ChainEvent);

    /// Receives a notification of the source that is passed on
    /// ([`crate::SessionConfig::relayed_events`]). It is the word of the source, and not proven.
    fn relay(&mut self, notification: &Notification) {
        let _ = notification;
    }
}
