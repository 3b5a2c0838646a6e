//! Runs one closure on the CPU pool, for a caller that awaits its output: for example, it parses a large body.
//!
//! Bounds: those of the pool; past them the closure is refused at once. It is not divided into time slices, so
//! it runs as long as its input requires.
//! Invariant: nothing is started for a client that has disconnected: dropping the future removes the task from
//! the pool.

use clients::ClientId;
use cpu_pool::{Class, Task, TaskEnd, TaskPoll, TimeSlice};
use tokio::sync::oneshot;

use crate::error::RpcError;
use crate::metrics::Rejection;
use crate::server_context::ServerContext;

/// A body of up to this length is parsed where the socket is polled: some ten microseconds. The longest body
/// that sends a transaction has 5,500 bytes.
pub const INLINE_BODY_BYTES_MAX: usize = 8 * 1024;

/// A body of up to this length is parsed in the class of light requests: some hundred microseconds.
const LIGHT_BODY_BYTES_MAX: usize = 64 * 1024;

/// The class in which a large body is parsed.
pub(crate) fn class_of(body_bytes: usize) -> Class {
    if body_bytes <= LIGHT_BODY_BYTES_MAX { Class::Light } else { Class::Medium }
}

/// Runs `closure` on the pool and returns its output. A panic in it is -32603.
pub(crate) async fn run_on_pool<T: Send + 'static>(
    server: &ServerContext,
    class: Class,
    client: ClientId,
    closure: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RpcError> {
    let (sender, result) = oneshot::channel();
    let task = Box::new(OffloadTask { closure: Some(closure), sender: Some(sender) });
    let _ticket = server.pool.submit(class, client, task).map_err(|full| RpcError::full(&full))?;
    match result.await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(why)) => Err(ended(server, class, Some(why))),
        Err(_) => Err(ended(server, class, None)),
    }
}

/// The error for a task that ended without a result; it is counted if it is a refusal.
pub(crate) fn ended(server: &ServerContext, class: Class, why: Option<TaskEnd>) -> RpcError {
    if matches!(why, Some(TaskEnd::Expired | TaskEnd::ExpiredWaiting)) {
        server.metrics.record_rejection(Rejection::Deadline(class));
    }
    RpcError::ended(why, class, server.pool.deadline_ms(class))
}

/// Counts a request whose response did not start in time, and returns the error for it.
pub(crate) fn late_response(server: &ServerContext, class: Class) -> RpcError {
    server.metrics.record_rejection(Rejection::Deadline(class));
    RpcError::late_response(class, server.config.first_byte_timeout_ms)
}

struct OffloadTask<W, T> {
    closure: Option<W>,
    sender: Option<oneshot::Sender<Result<T, TaskEnd>>>,
}

impl<W, T> OffloadTask<W, T> {
    fn send_result(&mut self, result: Result<T, TaskEnd>) {
        if let Some(sender) = self.sender.take() {
            // The receiver may have been dropped.
            let _ = sender.send(result);
        }
    }
}

impl<T: Send, W: FnOnce() -> T + Send> Task for OffloadTask<W, T> {
    fn poll(&mut self, _: &TimeSlice<'_>) -> TaskPoll {
        if let Some(closure) = self.closure.take() {
            let output = closure();
            self.send_result(Ok(output));
        }
        TaskPoll::Done
    }

    fn on_end(&mut self, why: TaskEnd) {
        self.send_result(Err(why));
    }
}
