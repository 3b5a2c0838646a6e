//! The receivers of a follower's events.

use chain_kaspa::ChainEvent;
use kaspa::{Encoding, Notification};

/// Receives events on the writer's thread. It must return at once, even if its own listeners are slow.
pub trait EventSink: Send {
    /// Receives the events of one publication of the chain, in order. Readers see the state already.
    fn send_events(&mut self, events: &[ChainEvent]);

    /// Receives a notification of the source that is passed on ([`crate::SessionConfig::relayed_events`]), with the
    /// encoding of its bytes. It is the word of the source, and not proven.
    fn send_notification(&mut self, encoding: Encoding, notification: &Notification);
}
