//! One step of work on the CPU pool, for whoever waits for what it gives: a large body is read, say.
//!
//! Bounds: the pool's own; past them it is refused at once. The step is not cut into slices, so it is as long as
//! what it reads.
//! Invariant: nothing is begun for a client that has gone: dropping the future takes the task out of the pool.

use pool::{Class, ClientId, Task, TaskEnd, TaskPoll, TimeSlice};
use tokio::sync::oneshot;

use crate::error::RpcError;
use crate::metrics::Rejection;
use crate::node::Node;

/// A body up to here is read where the socket is polled: some ten microseconds. The longest that sends a
/// transaction has 5,500.
pub(crate) const INLINE_BODY_BYTES_MAX: usize = 8 * 1024;

/// A body up to here, which is some hundred microseconds of work, is read among light requests.
const LIGHT_BODY_BYTES_MAX: usize = 64 * 1024;

/// As what a large body is read.
pub(crate) fn class_of(body_bytes: usize) -> Class {
    if body_bytes <= LIGHT_BODY_BYTES_MAX { Class::Light } else { Class::Medium }
}

/// Runs `work` on the pool and gives what it gives. A panic in it is -32603.
pub(crate) async fn run_on_pool<T: Send + 'static>(
    node: &Node,
    class: Class,
    client: ClientId,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RpcError> {
    let (sender, told) = oneshot::channel();
    let task = Box::new(OffloadTask { closure: Some(work), sender: Some(sender) });
    let _ticket = node.pool.submit(class, client, task).map_err(|full| RpcError::full(&full))?;
    match told.await {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(why)) => Err(ended(node, class, Some(why))),
        Err(_) => Err(ended(node, class, None)),
    }
}

/// What is told instead of the answer of a task that ended before it said anything; it is counted if that is a
/// refusal.
pub(crate) fn ended(node: &Node, class: Class, why: Option<TaskEnd>) -> RpcError {
    if matches!(why, Some(TaskEnd::Expired | TaskEnd::ExpiredWaiting)) {
        node.metrics.record_rejection(Rejection::Deadline(class));
    }
    RpcError::ended(why, class, node.pool.deadline_ms(class))
}

struct OffloadTask<W, T> {
    closure: Option<W>,
    sender: Option<oneshot::Sender<Result<T, TaskEnd>>>,
}

impl<W, T> OffloadTask<W, T> {
    fn send_result(&mut self, result: Result<T, TaskEnd>) {
        if let Some(sender) = self.sender.take() {
            // Who waited may have gone.
            let _ = sender.send(result);
        }
    }
}

impl<T: Send, W: FnOnce() -> T + Send> Task for OffloadTask<W, T> {
    fn poll(&mut self, _: &TimeSlice<'_>) -> TaskPoll {
        if let Some(work) = self.closure.take() {
            let made = work();
            self.send_result(Ok(made));
        }
        TaskPoll::Done
    }

    fn on_end(&mut self, why: TaskEnd) {
        self.send_result(Err(why));
    }
}
