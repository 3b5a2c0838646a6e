//! Who hears of what: filters, the index from a change's keys to the subscriptions that want it, and
//! one bounded queue for each listener.
//!
//! Shape: a [`Listener`] (one connected client) holds subscriptions; listeners whose subscriptions
//! have equal identities share one, so that a message is made once for all of them. A publisher asks
//! [`Subs::matches`] who wants a publication, makes the messages, and hands them to
//! [`Subs::deliver`].
//! Bounds: [`Limits`]. At one, subscribing fails with an error that names it, all or nothing; a queue
//! that is full closes its listener and never makes the publisher wait.
//! Invariant: finding who wants a publication costs its matches and its own keys, never the number of
//! listeners or of subscriptions.
//! Invariant: the addresses of a filter are held by guards inside the subscription, so that they are
//! released in whichever way its last listener goes.
//! Invariant: a listener hears of what is published after the position at which it subscribed, and of
//! nothing before it, however late the publisher is.
//! Not here: sockets, the wire's words, time, tasks. What is published, and when: the caller's.
#![forbid(unsafe_code)]

mod engine;
mod filter;
mod index;
mod queue;

pub use engine::{
    Counts, Limits, ListenError, Listener, Match, Matches, Outgoing, Subs, SubscribeError,
    SubscriptionId, Then,
};
pub use filter::{Filter, HeldKey, Interest, Name, Position, Topic};
pub use queue::{Closed, Delivery, Next};
