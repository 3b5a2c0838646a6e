//! Subscriptions: filters, the index from an address id to the subscriptions that match it, the log of each commitment
//! from block to block, and one bounded queue for each listener.
//!
//! Shape: a [`Listener`] (one connected client) has subscriptions. Listeners with equal subscriptions share one, so
//! that a message is encoded once for all of them. Fixed subscriptions ([`Listener::subscribe`]) get what is published
//! after a position. Subscriptions to a set of addresses ([`Listener::subscribe_set`]) start at an exact block and
//! change in place. A publisher advances commitments to blocks ([`Subscriptions::advance`]), looks up the matching
//! subscriptions ([`Subscriptions::matches`]), encodes the messages, and delivers them ([`Subscriptions::deliver`]).
//! Bounds: [`Limits`]. At a limit, subscribing fails with an error that names it, all or nothing. A full queue is
//! conflated or closes its listener, and never makes the publisher wait.
//! Invariant: a lookup costs the keys of the publication and its matches, never the number of listeners, subscriptions
//! or addresses.
//! Invariant: a guard inside the subscription retains the addresses of a set. They are released when its last listener
//! ends, in whichever way.
//! Invariant: a listener gets what is published after the position at which it subscribed, and nothing from before it,
//! however late the publisher is.
//! Memory: about 12 bytes for each address of each distinct set, in addition to the address table: less than one to ten
//! for an id that is in any set, shared among the sets that it is in; four or five for each set if it is in several, or
//! far less if many ids have the same sets; four or less in the set. Up to 60 bytes after many changes of sets that
//! leave a few lists in each block (`list_slab`). In addition 280 KiB for each topic and key kind with more than 384
//! scattered ids.
//! Not here: sockets, wire formats, time, tasks. The caller decides about publications and their time.
#![forbid(unsafe_code)]

mod address_counts;
mod address_set;
mod address_set_subscription;
mod block_log;
mod delivery;
mod error;
mod eviction;
mod filter;
mod id_postings;
mod id_set;
mod ids;
mod index;
mod limits;
mod list_slab;
mod listener;
mod posting_lists;
mod posting_page;
mod publication;
mod queue;
mod queue_memory;
mod registry;
mod scattered_postings;
mod set_change;
mod set_update;
mod stats;
mod wake_listener;

pub use address_set::AddressSet;
pub use address_set_subscription::{
    CATCH_UP_STEPS_MAX, CatchUp, ResumeFrom, SetSubscription, SlowConsumerPolicy,
};
pub use block_log::{BlockInUse, BlockStep, Direction, MissingParent};
pub use delivery::{CloseReason, Conflated, Delivery, Hold, Message, Next};
pub use error::{ListenError, SubscribeError};
pub use filter::{ExactKey, Filter, Interest, Position, Topic};
pub use ids::SubscriptionId;
pub use limits::Limits;
pub use listener::{Listener, UnsubscribeTask};
pub use publication::{AfterDelivery, Publication};
pub use queue_memory::{Charge, OwnerId, QueueMemory};
pub use registry::{Match, Matches, Steps, Subscriptions};
pub use set_change::{Activation, AddedIds, SetChange, SetChangeResult};
pub use set_update::SetUpdate;
pub use stats::{MemoryUsage, Stats};
pub use wake_listener::WakeListener;
