//! Work in parts, shared out between the thread that has it and the CPU pool.
//!
//! In: parts, in order. Out: what each came to, in the same order. The caller works too, so that it
//! never waits for a pool that has no thread to spare, and a pool that is full only means that it works
//! alone. Each part is made once, by whoever takes it.
//! Bounds: [`HELPERS_MAX`] tasks of the pool at once; a part is some 100 microseconds, and the helpers
//! give way after each slice.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use pool::{Class, ClientId, Pool, Task, TaskPoll, Ticket, TimeSlice};

/// Threads of the pool that help at most.
const HELPERS_MAX: usize = 8;
/// Whose work it is, beside that of clients: no address is this one.
const NOTIFIER: ClientId = ClientId(u128::MAX);

struct ForkJoin<P, R, F> {
    parts: Mutex<std::iter::Enumerate<std::vec::IntoIter<P>>>,
    run: F,
    state: Mutex<JoinState<R>>,
    /// Notified when a helper has made its part.
    ready: Condvar,
}

struct JoinState<R> {
    results: Vec<Option<Result<R, Box<dyn Any + Send>>>>,
    left: usize,
}

/// Runs all parts, with the pool's help if there are several. A panic in one goes on in the caller,
/// once all are done.
pub(super) fn fork_join<P, R, F>(pool: &Pool, parts: Vec<P>, run: F) -> Vec<R>
where
    P: Send + 'static,
    R: Send + 'static,
    F: Fn(P) -> R + Send + Sync + 'static,
{
    let count = parts.len();
    if count < 2 {
        return parts.into_iter().map(run).collect();
    }
    let made = JoinState { results: (0..count).map(|_| None).collect(), left: count };
    let parts = Mutex::new(parts.into_iter().enumerate());
    let work = Arc::new(ForkJoin { parts, run, state: Mutex::new(made), ready: Condvar::new() });
    let helper = || {
        let task = Box::new(HelperTask(Arc::clone(&work)));
        pool.submit(Class::Medium, NOTIFIER, task).ok()
    };
    // Those that have not begun when all is done are ended with their tickets.
    let _helpers: Vec<Ticket> = (0..(count - 1).min(HELPERS_MAX)).map_while(|_| helper()).collect();
    while work.run_next_part() {}
    let mut made = work.state.lock();
    work.ready.wait_while(&mut made, |made| made.left > 0);
    let results = std::mem::take(&mut made.results);
    drop(made);
    let result = |made: Option<Result<R, _>>| match made {
        Some(Ok(result)) => result,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("none is left"),
    };
    results.into_iter().map(result).collect()
}

impl<P, R, F: Fn(P) -> R> ForkJoin<P, R, F> {
    /// Takes a part and makes it. False if all are taken.
    fn run_next_part(&self) -> bool {
        let Some((at, part)) = self.parts.lock().next() else { return false };
        let result = catch_unwind(AssertUnwindSafe(|| (self.run)(part)));
        let mut made = self.state.lock();
        made.results[at] = Some(result);
        made.left -= 1;
        if made.left == 0 {
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

    use pool::{ClassConfig, Config};

    use super::*;
    use crate::SystemClock;

    fn pool(config: Config) -> Pool {
        Pool::new(config, Arc::new(SystemClock::new()), || {}).expect("threads are there in tests")
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
        // Neither part ends before the other has begun.
        let both = Arc::new(Barrier::new(2));
        let threads = fork_join(&pool, vec![(); 2], move |()| {
            both.wait();
            std::thread::current().id()
        });
        assert_ne!(threads[0], threads[1]);
    }

    #[test]
    fn a_pool_without_room_means_working_alone() {
        let none = ClassConfig { tasks_max: 0, active_max: 0, deadline_ms: 1, weight: 1 };
        let pool = pool(Config { medium: none, ..Config::default() });
        let me = std::thread::current().id();
        let threads = fork_join(&pool, vec![(); 9], |()| std::thread::current().id());
        assert_eq!(threads, [me; 9]);
    }

    #[test]
    fn a_panic_in_a_part_is_the_callers_once_all_are_done() {
        let pool = pool(Config { threads: 2, ..Config::default() });
        let shared = || fork_join(&pool, (0..9).collect(), |n| assert!(n != 4, "on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(shared)).is_err());
        assert_eq!(fork_join(&pool, vec![1, 2, 3], |n| n), [1, 2, 3]);
    }
}
