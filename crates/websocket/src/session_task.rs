//! Runs the tasks of sessions on the CPU pool.
//!
//! In: a [`SessionTask`]. Out: the first output of its steps, and the rest of the task. Steps without output follow one
//! another, and yield after each time slice.
//! Scheduling: tasks are in the pool's run queue under a client id of their own (`Session::task_client`). A
//! permit is held while its task waits for a time slice. That takes at most one time slice of each other client, and
//! never waits for the client's own requests, nor for its socket: the connection polls the future while it writes.
//! Bounds: `Config::set_tasks_max` permits. If the pool is full, the client waits without a permit, and nothing is read
//! from it meanwhile.

use std::sync::Arc;
use std::time::Duration;

use clients::ClientId;
use cpu_pool::{Class, Pool, TaskEnd, TaskPoll, TimeSlice};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use crate::message::IncomingPart;
use crate::payload::ConflatableItems;
use crate::session_output::SessionOutput;

/// Delay before a client submits to a full pool again.
const FULL_POOL_BACKOFF: Duration = Duration::from_millis(10);

/// The work of one message, in steps on the CPU pool. The output of a step is written before the next step runs.
pub trait SessionTask: Sized + Send + 'static {
    /// The items of a notification.
    type Items: ConflatableItems;

    /// Returns the pool class of the next step.
    fn class(&self) -> Class;

    /// Returns whether the next step needs a part of the client's message ([`crate::Protocol::stream_task`]).
    fn needs_part(&self) -> bool {
        false
    }

    /// Stores the next part of the message, for the next step. Cost: none; it runs where the socket is polled.
    fn push_part(&mut self, _part: IncomingPart) {}

    /// Runs one step. Returns what to write now, and the task that is left after that.
    fn step(self) -> TaskOutput<Self>;
}

/// The output of a task's steps to write now, and the task for the rest.
type TaskOutput<T> = (Vec<SessionOutput<<T as SessionTask>::Items>>, Option<T>);

/// Runs steps, under one of the permits, until there is output or the task has finished. Dropping the future ends the
/// task.
///
/// Errors: why the pool ended it.
pub(crate) async fn run_until_output<T: SessionTask>(
    permits: &Semaphore,
    pool: &Pool,
    client: ClientId,
    task: T,
) -> Result<TaskOutput<T>, TaskEnd> {
    let class = task.class();
    let task = Arc::new(Mutex::new(Some(task)));
    loop {
        let permit = permits.acquire().await;
        let (sender, output) = oneshot::channel();
        let runner = Box::new(TaskRunner { task: Arc::clone(&task), output_sender: Some(sender) });
        match pool.submit(class, client, runner) {
            // The ticket lives as long as this waits. If this future is dropped, the pool's thread drops the rest of
            // the task, not this one.
            Ok(_ticket) => {
                drop(task);
                return output.await.unwrap_or(Err(TaskEnd::ShutDown));
            }
            Err(full) => tracing::debug!(%full, "a task of a session waits"),
        }
        // The pool may accept the task of another client.
        drop(permit);
        tokio::time::sleep(FULL_POOL_BACKOFF).await;
    }
}

struct TaskRunner<T: SessionTask> {
    /// Shared with the submitter, which submits it again if the pool is full.
    task: Arc<Mutex<Option<T>>>,
    output_sender: Option<oneshot::Sender<Result<TaskOutput<T>, TaskEnd>>>,
}

impl<T: SessionTask> cpu_pool::Task for TaskRunner<T> {
    fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll {
        // Not under the lock: a step may take a while, and may panic.
        let task = self.task.lock().take();
        let Some(mut task) = task else { return TaskPoll::Done };
        let class = task.class();
        loop {
            let (out, next) = task.step();
            task = match next {
                Some(next) if out.is_empty() && next.class() == class && !next.needs_part() => next,
                next => {
                    self.send_output(Ok((out, next)));
                    return TaskPoll::Done;
                }
            };
            if slice.is_over() {
                *self.task.lock() = Some(task);
                return TaskPoll::More;
            }
        }
    }

    fn on_end(&mut self, end: TaskEnd) {
        self.send_output(Err(end));
    }
}

impl<T: SessionTask> TaskRunner<T> {
    fn send_output(&mut self, output: Result<TaskOutput<T>, TaskEnd>) {
        if let Some(sender) = self.output_sender.take() {
            // The connection may have ended.
            let _ = sender.send(output);
        }
    }
}
