//! Work on a bounded number of threads, in slices, so that no request and no client holds a thread.
//!
//! In: [`Task`]s, each with a [`Class`] and a [`ClientId`]. Out: their steps, run on the pool's threads:
//! classes share the threads by weight, the clients of a class take turns, and a task that is not done
//! after its slice goes to the back of its client's queue.
//! Bounds: [`Config`]; a task beyond one of them is refused at once with [`PoolFull`], and so is one of a client
//! that would leave no place to others. A task that is not
//! done at its class' deadline is ended, and so is one whose [`Ticket`] is dropped, at the next slice.
//! Invariant: a panic ends its task only; dropping the pool ends all others and joins every thread.
//! Not here: a clock (it comes in), what a request costs (`rpc` says), async.
#![forbid(unsafe_code)]

mod admission;
mod class;
mod config;
mod counters;
mod pool;
mod rate_limit;
mod round_robin;
mod scheduler;
#[cfg(test)]
mod scheduler_tests;
mod task;

pub use admission::{LimitKind, PoolFull};
pub use class::{Class, ClientId};
pub use config::{ClassConfig, Config};
pub use counters::{ClassCounters, Counters, Histogram};
pub use pool::{Pool, Ticket};
pub use rate_limit::{Limits, RateLimited, RateLimiter};
pub use task::{Clock, Task, TaskEnd, TaskPoll, TimeSlice};
