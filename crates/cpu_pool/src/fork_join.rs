//! Runs work in parts, on the calling thread and on the CPU pool.
//!
//! In: parts, in order. Out: the result of each, in the same order. The caller runs parts too, so it never waits for a
//! pool without an idle thread; if the pool is full, it runs all parts alone. Each part runs once, on the thread that
//! takes it.
//! Bounds: [`HELPERS_MAX`] tasks of the pool at once; a part is some 100 microseconds, and the helpers
//! yield after each time slice.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use clients::ClientId;
use parking_lot::{Condvar, Mutex};

use crate::class::Class;
use crate::pool::{Pool, Ticket};
use crate::task::{Task, TaskPoll, TimeSlice};

/// The most threads of the pool that help.
const HELPERS_MAX: usize = 8;
/// The client id of this work in the pool. No address has this id.
const NOTIFIER: ClientId = ClientId(u128::MAX);

struct ForkJoin<P, R, F> {
    parts: Mutex<std::iter::Enumerate<std::vec::IntoIter<P>>>,
    run: F,
    state: Mutex<JoinState<R>>,
    /// Notified when the last part is finished.
    ready: Condvar,
}

struct JoinState<R> {
    results: Vec<Option<Result<R, Box<dyn Any + Send>>>>,
    left: usize,
}

/// Runs all parts, with the pool's help if there are several. A panic in a part resumes in the caller after all parts
/// have finished.
pub fn fork_join<P, R, F>(pool: &Pool, parts: Vec<P>, run: F) -> Vec<R>
where
    P: Send + 'static,
    R: Send + 'static,
    F: Fn(P) -> R + Send + Sync + 'static,
{
    let count = parts.len();
    if count < 2 {
        return parts.into_iter().map(run).collect();
    }
    let state = JoinState { results: (0..count).map(|_| None).collect(), left: count };
    let parts = Mutex::new(parts.into_iter().enumerate());
    let state = Mutex::new(state);
    let fork_join = Arc::new(ForkJoin { parts, run, state, ready: Condvar::new() });
    let helper = || {
        let task = Box::new(HelperTask(Arc::clone(&fork_join)));
        pool.submit(Class::Medium, NOTIFIER, task).ok()
    };
    // Helpers that have not started when all parts are finished end with their tickets.
    let _helpers: Vec<Ticket> = (0..(count - 1).min(HELPERS_MAX)).map_while(|_| helper()).collect();
    while fork_join.run_next_part() {}
    let mut state = fork_join.state.lock();
    fork_join.ready.wait_while(&mut state, |state| state.left > 0);
    let results = std::mem::take(&mut state.results);
    drop(state);
    let result = |result: Option<Result<R, _>>| match result {
        Some(Ok(result)) => result,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("none is left"),
    };
    results.into_iter().map(result).collect()
}

impl<P, R, F: Fn(P) -> R> ForkJoin<P, R, F> {
    /// Takes a part and runs it. False if all are taken.
    fn run_next_part(&self) -> bool {
        let Some((index, part)) = self.parts.lock().next() else { return false };
        let result = catch_unwind(AssertUnwindSafe(|| (self.run)(part)));
        let mut state = self.state.lock();
        state.results[index] = Some(result);
        state.left -= 1;
        if state.left == 0 {
            self.ready.notify_all();
        }
        true
    }
}

struct HelperTask<P, R, F>(Arc<ForkJoin<P, R, F>>);

impl<P, R, F> Task for HelperTask<P, R, F>
where
    P: Send,
    R: Send,
    F: Fn(P) -> R + Send + Sync,
{
    fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll {
        while !slice.is_over() {
            if !self.0.run_next_part() {
                return TaskPoll::Done;
            }
        }
        TaskPoll::More
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::config::{ClassConfig, Config};
    use crate::task::StoppedClock;

    fn pool(config: Config) -> Pool {
        Pool::new(config, Arc::new(StoppedClock), || {}).expect("threads are there in tests")
    }

    #[test]
    fn results_come_in_the_order_of_the_parts_whichever_thread_runs_them() {
        let pool = pool(Config { threads: 2, ..Config::default() });
        let all = fork_join(&pool, (0..1_000_u64).collect(), |n| n * 2);
        assert_eq!(all, (0..1_000).map(|n| n * 2).collect::<Vec<_>>());
    }

    #[test]
    fn the_pool_really_helps() {
        let pool = pool(Config { threads: 1, ..Config::default() });
        // Neither part ends before the other has started.
        let both = Arc::new(Barrier::new(2));
        let threads = fork_join(&pool, vec![(); 2], move |()| {
            both.wait();
            std::thread::current().id()
        });
        assert_ne!(threads[0], threads[1]);
    }

    #[test]
    fn a_full_pool_makes_the_caller_work_alone() {
        let none = ClassConfig { tasks_max: 0, active_max: 0, deadline_ms: 1, weight: 1 };
        let pool = pool(Config { medium: none, ..Config::default() });
        let caller = std::thread::current().id();
        let threads = fork_join(&pool, vec![(); 9], |()| std::thread::current().id());
        assert_eq!(threads, [caller; 9]);
    }

    #[test]
    fn a_panic_in_a_part_resumes_in_the_caller_after_all_have_finished() {
        let pool = pool(Config { threads: 2, ..Config::default() });
        let shared = || fork_join(&pool, (0..9).collect(), |n| assert!(n != 4, "on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(shared)).is_err());
        assert_eq!(fork_join(&pool, vec![1, 2, 3], |n| n), [1, 2, 3]);
    }
}
