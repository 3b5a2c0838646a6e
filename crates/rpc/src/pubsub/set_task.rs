//! Work on a set as tasks of the CPU pool, and what a connection waits for.
//!
//! In: a [`SetTask`] of `sets`. Out: what its next steps give to be written, and what is left of it. Steps
//! that give nothing follow one another, and give way after each slice.
//! Turns: a client's work on sets has turns and places of its own beside those of its requests. A permit is held
//! while its task waits for a turn, and that is only for a slice of each other client, not for the client's own
//! requests.
//! Bounds: `Config::sets_at_once`; a pool that has no room for it makes the client wait, which meanwhile is not read
//! from, and takes no place of the others who work on sets.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pool::{ClientId, Pool, TaskEnd, TaskPoll, TimeSlice};
use tokio::sync::{Semaphore, oneshot};

use super::address_sets::{SessionOutput, SetTask};

/// How long a client waits before it asks a full pool again.
const FULL_POOL_BACKOFF: Duration = Duration::from_millis(10);

/// What steps gave: what to write now, and what is left to do after it.
pub(super) type SetTaskOutput = (Vec<SessionOutput>, Option<SetTask>);

/// Steps, with one of the permits, until there is something to write, or nothing is left. Dropping the future ends
/// the task.
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
        let (done, stepped) = oneshot::channel();
        let turns = Box::new(SetTaskRunner { task: Arc::clone(&task), output_sender: Some(done) });
        match pool.submit(class, client, turns) {
            // The ticket lives as long as we wait; if we do not wait to the end, what is left of the
            // task is let go where it runs, not here.
            Ok(_ticket) => {
                drop(task);
                return stepped.await.unwrap_or(Err(TaskEnd::ShutDown));
            }
            Err(full) => tracing::debug!(%full, "work on a set waits"),
        }
        // Not kept: there may be room for another client's.
        drop(permit);
        tokio::time::sleep(FULL_POOL_BACKOFF).await;
    }
}

struct SetTaskRunner {
    /// Not here if the pool had no room.
    task: Arc<Mutex<Option<SetTask>>>,
    output_sender: Option<oneshot::Sender<Result<SetTaskOutput, TaskEnd>>>,
}

impl pool::Task for SetTaskRunner {
    fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll {
        // By itself: a step may take a while, and may panic.
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

    fn on_end(&mut self, why: TaskEnd) {
        self.send_output(Err(why));
    }
}

impl SetTaskRunner {
    fn send_output(&mut self, stepped: Result<SetTaskOutput, TaskEnd>) {
        if let Some(done) = self.output_sender.take() {
            // The client may have gone.
            let _ = done.send(stepped);
        }
    }
}
