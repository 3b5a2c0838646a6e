//! Work on a bounded number of threads, in slices, so that no request and no client holds a thread.
//!
//! In: [`Task`]s, each with a [`Class`] and a [`ClientId`]. Out: their steps, run on the pool's threads:
//! classes share the threads by weight, the clients of a class take turns, and a task that is not done
//! after its slice goes to the back of its client's queue.
//! Bounds: [`Config`]; a task beyond one of them is refused at once with [`Full`], and so is one of a client
//! that would leave no place to others. A task that is not
//! done at its class' deadline is ended, and so is one whose [`Ticket`] is dropped, at the next slice.
//! Invariant: a panic ends its task only; dropping the pool ends all others and joins every thread.
//! Not here: a clock (it comes in), what a request costs (`rpc` says), async.
#![forbid(unsafe_code)]

mod class;
mod clients;
mod config;
mod counters;
mod places;
mod schedule;
#[cfg(test)]
mod simulation;
mod task;
mod threads;
mod turns;

pub use class::{Class, ClientId};
pub use clients::{Clients, Limits, TooMany};
pub use config::{ClassConfig, Config};
pub use counters::{ClassCounters, Counters, Histogram};
pub use places::{Bound, Full};
pub use task::{Clock, Ended, Slice, Step, Task};
pub use threads::{Pool, Ticket};
