//! The number of a task, which the scheduler gives and the queues hold.

/// The number of a task, unique in a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TaskId(pub(crate) u64);
