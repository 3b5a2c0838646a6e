//! Who hears of what: filters, the index from an address' number to the subscriptions that want it,
//! the walk of each commitment from block to block, and one bounded queue for each listener.
//!
//! Shape: a [`Listener`] (one connected client) holds subscriptions; listeners whose subscriptions are
//! equal share one, so that a message is made once for all of them. Fixed ones
//! ([`Listener::subscribe`]) hear of what is published after a position; those to a set of addresses
//! ([`Listener::subscribe_set`]) start at an exact block and change in place. A publisher tells of blocks
//! ([`Subscriptions::advance`]), asks [`Subscriptions::matches`] who wants what, makes the messages, and hands them to
//! [`Subscriptions::deliver`].
//! Bounds: [`Limits`]. At one, subscribing fails with an error that names it, all or nothing; a queue
//! that is full is conflated or closes its listener, and never makes the publisher wait.
//! Invariant: finding who wants a publication costs its matches and its own keys, never the number of
//! listeners, of subscriptions or of addresses that they have.
//! Invariant: the addresses of a set are held by a guard inside the subscription, so that they are
//! released in whichever way its last listener goes.
//! Invariant: a listener hears of what is published after the position at which it subscribed, and of
//! nothing before it, however late the publisher is.
//! Memory: at most 16 bytes for each address of each different set, beside the address table: less than
//! one to eleven for an id that is in any set, shared among the sets that it is in; four for each
//! further set that it is in, or far less where many ids have the same sets; four or less in the set.
//! Not here: sockets, the wire's words, time, tasks. What is published, and when: the caller's.
#![forbid(unsafe_code)]

mod address_set;
mod address_set_subscription;
mod block_log;
mod filter;
mod id_postings;
mod id_set;
mod index;
mod listener;
mod posting_lists;
mod posting_page;
mod queue;
mod queue_memory;
mod registry;
mod set_update;

pub use address_set::AddressSet;
pub use address_set_subscription::{
    Activation, AddedIds, CatchUp, ResumeFrom, SetChange, SetChangeResult, SetSubscription,
    SlowConsumerPolicy,
};
pub use block_log::{BlockStep, Direction, MissingParent};
pub use filter::{ExactKey, Filter, Interest, Position, Topic};
pub use listener::{Listener, UnsubscribeTask};
pub use queue::{CloseReason, Conflated, Delivery, Message, Next};
pub use queue_memory::{Charge, OwnerId, QueueMemory};
pub use registry::{
    AfterDelivery, Limits, ListenError, Match, Matches, MemoryUsage, Publication, Stats, Steps,
    SubscribeError, SubscriptionId, Subscriptions,
};
pub use set_update::SetUpdate;
