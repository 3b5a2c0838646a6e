//! Starts and stops the threads of a run together.
//!
//! Shape: each load thread reports that it is ready, and waits for the start. A thread that fails or panics stops the
//! run. All others then end soon, whatever they wait for, so that the caller gets the error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::LoadError;
use crate::clock::{now, sleep_until};

/// Delay between the last connection and the first request.
const START_DELAY: Duration = Duration::from_millis(2);

/// Interval at which a sleeping thread checks whether the run has been stopped.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A thread of a run with its result.
pub(crate) type RunThread<T> = JoinHandle<Result<T, LoadError>>;

/// The start and the stop of a run.
pub(crate) struct RunControl {
    /// When the load begins; `None` if a thread failed before.
    start: OnceLock<Option<Instant>>,
    is_stopped: watch::Sender<bool>,
}

impl RunControl {
    pub(crate) fn new() -> Self {
        Self { start: OnceLock::new(), is_stopped: watch::Sender::new(false) }
    }

    /// Spawns a thread of the run. If it fails or panics, or cannot be spawned, the run stops.
    pub(crate) fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        name: &str,
        run: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
    ) -> Result<RunThread<T>, LoadError> {
        let control = Arc::clone(self);
        let guarded = move || {
            // A run that has failed returns only its error, so no state is used after a panic.
            let caught = catch_unwind(AssertUnwindSafe(run));
            let result =
                caught.unwrap_or_else(|_| Err(LoadError::Thread("it panicked".to_owned())));
            if result.is_err() {
                control.stop();
            }
            result
        };
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(guarded);
        spawned.map_err(|err| {
            self.stop();
            LoadError::Thread(err.to_string())
        })
    }

    /// Waits until all load threads are ready or have ended, and starts the load. Returns its start time, or `None` if
    /// a thread has failed.
    pub(crate) fn start(&self, ready: &Receiver<()>, threads: usize) -> Option<Instant> {
        // The iteration ends when each thread has dropped its sender.
        if ready.iter().count() < threads {
            self.stop();
        }
        *self.start.get_or_init(|| (!self.is_stopped()).then(|| now() + START_DELAY))
    }

    /// Reports a load thread as ready, and waits for the start. Returns `None` if the run was stopped before.
    pub(crate) fn wait_for_start(&self, ready: SyncSender<()>) -> Option<Instant> {
        // The channel has room for each thread.
        let _ = ready.send(());
        drop(ready);
        *self.start.wait()
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.send_replace(true);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.is_stopped.borrow()
    }

    /// Waits until the run is stopped.
    pub(crate) async fn wait_until_stopped(&self) {
        // The sender is not dropped before.
        let _ = self.is_stopped.subscribe().wait_for(|is_stopped| *is_stopped).await;
    }

    /// Sleeps until a time. Returns false as soon as the run is stopped.
    pub(crate) fn sleep_until(&self, when: Instant) -> bool {
        while !self.is_stopped() {
            let next_check = now() + STOP_CHECK_INTERVAL;
            sleep_until(when.min(next_check));
            if when <= next_check {
                return true;
            }
        }
        false
    }
}

/// Returns the result of a thread after its end.
pub(crate) fn join<T>(thread: RunThread<T>) -> Result<T, LoadError> {
    thread.join().unwrap_or_else(|_| Err(LoadError::Thread("it panicked".to_owned())))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_thread_that_panics_before_the_start_cancels_it() {
        let control = Arc::new(RunControl::new());
        let (ready, all_ready) = sync_channel(2);
        let waiting = Arc::clone(&control);
        let ready_to_wait = ready.clone();
        let waiting = control
            .spawn("waits", move || Ok(waiting.wait_for_start(ready_to_wait)))
            .expect("a thread");
        let panics = move || -> Result<(), LoadError> {
            let _ready = ready;
            panic!("before the start")
        };
        let panicking = control.spawn("panics", panics).expect("a thread");
        assert_eq!(control.start(&all_ready, 2), None);
        assert_eq!(join(waiting).expect("it ends"), None);
        let err = join(panicking).expect_err("it panicked").to_string();
        assert_eq!(err, "a thread of the load generator: it panicked");
        assert!(!control.sleep_until(now() + Duration::from_secs(3_600)));
    }

    #[test]
    fn all_threads_start_at_the_same_time() {
        let control = Arc::new(RunControl::new());
        let (ready, all_ready) = sync_channel(3);
        let spawn = |ready: SyncSender<()>| {
            let waiting = Arc::clone(&control);
            control.spawn("waits", move || Ok(waiting.wait_for_start(ready))).expect("a thread")
        };
        let threads = [spawn(ready.clone()), spawn(ready.clone()), spawn(ready)];
        let start = control.start(&all_ready, 3);
        assert!(start.is_some());
        for thread in threads {
            assert_eq!(join(thread).expect("it ends"), start);
        }
        assert!(control.sleep_until(now()));
    }
}
