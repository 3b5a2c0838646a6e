//! Runs set tasks on the CPU pool.
//!
//! In: a [`SetTask`] of `address_sets`. Out: the first output of its steps, and the rest of the task. Steps without
//! output follow one another, and yield after each time slice.
//! Scheduling: set tasks are in the pool's run queue under a client id of their own (`Session::set_task_client`). A
//! permit is held while its task waits for a time slice. That takes at most one time slice of each other client, and
//! never waits for the client's own requests.
//! Bounds: `Config::set_tasks_max` permits. If the pool is full, the client waits without a permit, and nothing is read
//! from it meanwhile.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pool::{ClientId, Pool, TaskEnd, TaskPoll, TimeSlice};
use tokio::sync::{Semaphore, oneshot};

use super::address_sets::SetTask;
use super::session_output::SessionOutput;

/// How long a client waits before it submits to a full pool again.
const FULL_POOL_BACKOFF: Duration = Duration::from_millis(10);

/// The output of a task's steps to write now, and the task for the rest.
pub(super) type SetTaskOutput = (Vec<SessionOutput>, Option<SetTask>);

/// Runs steps, under one of the permits, until there is output or the task has finished. Dropping the future ends the
/// task.
///
/// Errors: why the pool ended it.
pub(super) async fn run_until_output(
    (permits, pool): (&Semaphore, &Pool),
    client: ClientId,
    task: SetTask,
) -> Result<SetTaskOutput, TaskEnd> {
    let class = task.class();
    let task = Arc::new(Mutex::new(Some(task)));
    loop {
        let permit = permits.acquire().await;
        let (sender, output) = oneshot::channel();
        let runner =
            Box::new(SetTaskRunner { task: Arc::clone(&task), output_sender: Some(sender) });
        match pool.submit(class, client, runner) {
            // The ticket lives as long as this waits. If this future is dropped, the pool's thread drops the rest of
            // the task, not this one.
            Ok(_ticket) => {
                drop(task);
                return output.await.unwrap_or(Err(TaskEnd::ShutDown));
            }
            Err(full) => tracing::debug!(%full, "work on a set waits"),
        }
        // The pool may accept the task of another client.
        drop(permit);
        tokio::time::sleep(FULL_POOL_BACKOFF).await;
    }
}

struct SetTaskRunner {
    /// Shared with the submitter, which submits it again if the pool is full.
    task: Arc<Mutex<Option<SetTask>>>,
    output_sender: Option<oneshot::Sender<Result<SetTaskOutput, TaskEnd>>>,
}

impl pool::Task for SetTaskRunner {
    fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll {
        // Not under the lock: a step may take a while, and may panic.
        let task = self.task.lock().take();
        let Some(mut task) = task else { return TaskPoll::Done };
        let class = task.class();
        loop {
            let (out, next) = task.step();
            task = match next {
                Some(next) if out.is_empty() && next.class() == class => next,
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

impl SetTaskRunner {
    fn send_output(&mut self, output: Result<SetTaskOutput, TaskEnd>) {
        if let Some(sender) = self.output_sender.take() {
            // The connection may have ended.
            let _ = sender.send(output);
        }
    }
}
