//! Runs tasks on a bounded number of threads, in time slices, so that no request and no client occupies a thread.
//!
//! In: [`Task`]s, each with a [`Class`] and a [`clients::ClientId`]. Out: their polls, run on the pool's threads.
//! Classes share the threads by weight. The clients of a class are served round-robin. A task that has not
//! finished after its time slice goes to the back of its client's queue.
//! Bounds: [`Config`]. A task beyond a bound is refused at once with [`PoolFull`], and so is a task of a client
//! that would leave no capacity to others. A task that has not finished at the deadline of its class is ended
//! at the next time slice, and so is a task whose [`Ticket`] is dropped.
//! Invariant: a panic ends only its own task. Dropping the pool ends all tasks and joins every thread.
//! Not here: a clock (the caller passes one), the cost of a request (`rpc_solana`), async.
#![forbid(unsafe_code)]

mod admission;
mod class;
mod config;
mod counters;
mod fork_join;
mod pool;
mod round_robin;
mod scheduler;
#[cfg(test)]
mod scheduler_tests;
mod task;
mod task_id;

pub use admission::{LimitKind, PoolFull};
pub use class::Class;
pub use config::{ClassConfig, Config};
pub use counters::{ClassCounters, Counters};
pub use fork_join::fork_join;
pub use pool::{Pool, Refused, Ticket};
pub use task::{Clock, StoppedClock, Task, TaskEnd, TaskPoll, TimeSlice};
