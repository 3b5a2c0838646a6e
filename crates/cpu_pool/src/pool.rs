//! The threads, and the ticket of a submitted task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use clients::ClientId;

use crate::scheduler::{Action, Scheduler};
use crate::task::{Clock, Task, TaskEnd, TaskPoll, TimeSlice};
use crate::task_id::TaskId;
use crate::{Class, Config, Counters, PoolFull};

/// The threads and their tasks.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::mpsc::{SyncSender, sync_channel};
/// use std::time::{Duration, Instant};
///
/// use clients::ClientId;
/// use cpu_pool::{Class, Clock, Config, Pool, Task, TaskPoll, TimeSlice};
///
/// struct Uptime(Instant);
///
/// impl Clock for Uptime {
///     fn now(&self) -> Duration {
///         self.0.elapsed()
///     }
/// }
///
/// /// Adds up all numbers below `end`.
/// struct Sum {
///     next: u64,
///     end: u64,
///     sum: u64,
///     result: SyncSender<u64>,
/// }
///
/// impl Task for Sum {
///     fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll {
///         while self.next < self.end {
///             self.sum += self.next;
///             self.next += 1;
///             if self.next % 1_000 == 0 && slice.is_over() {
///                 return TaskPoll::More;
///             }
///         }
///         let _ = self.result.send(self.sum);
///         TaskPoll::Done
///     }
/// }
///
/// let pool = Pool::new(Config::default(), Arc::new(Uptime(Instant::now())), || {})?;
/// let (result, received) = sync_channel(1);
/// let task = Sum { next: 0, end: 1_000_000, sum: 0, result };
/// // Dropping the ticket would cancel the task.
/// let _ticket = pool.submit(Class::Medium, ClientId(1), Box::new(task))?;
/// assert_eq!(received.recv()?, 499_999_500_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A submitted task. Dropping the ticket cancels the task: it is not polled again.
pub struct Ticket {
    pool: Weak<Shared>,
    task: TaskId,
    flags: Arc<TaskFlags>,
}

/// A task that the pool did not accept.
pub struct Refused<T> {
    /// The task, which was not polled.
    pub task: Box<T>,
    /// The bound that was reached.
    pub full: PoolFull,
}

struct Shared {
    clock: Arc<dyn Clock>,
    time_slice: Duration,
    deadlines_ms: [u64; 3],
    state: Mutex<PoolState>,
    arrived: Condvar,
}

struct PoolState {
    scheduler: Scheduler<RunningTask>,
    closed: bool,
    idle: usize,
}

struct RunningTask {
    task: Box<dyn Task>,
    flags: Arc<TaskFlags>,
}

/// State that a task and its ticket share without the lock.
#[derive(Default)]
struct TaskFlags {
    cancelled: AtomicBool,
    ended: AtomicBool,
    woken: AtomicBool,
    blocked: AtomicBool,
}

impl Pool {
    /// Starts the threads; each calls `on_thread_start` first.
    ///
    /// Errors: the system cannot start a thread.
    pub fn new(
        config: Config,
        clock: Arc<dyn Clock>,
        on_thread_start: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let threads = config.threads.max(1);
        let time_slice = config.time_slice();
        let deadlines_ms = Class::ALL.map(|class| config.class(class).deadline_ms);
        let state = PoolState { scheduler: Scheduler::new(config), closed: false, idle: 0 };
        let shared = Arc::new(Shared {
            clock,
            time_slice,
            deadlines_ms,
            state: Mutex::new(state),
            arrived: Condvar::new(),
        });
        let on_thread_start = Arc::new(on_thread_start);
        let mut pool = Self { shared, threads: Vec::new() };
        for number in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let on_start = Arc::clone(&on_thread_start);
            let name = format!("pool-{number}");
            let thread = std::thread::Builder::new().name(name).spawn(move || {
                on_start();
                shared.run_worker();
            })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Submits a task, or refuses it. Never blocks.
    pub fn submit<T: Task + 'static>(
        &self,
        class: Class,
        client: ClientId,
        task: Box<T>,
    ) -> Result<Ticket, PoolFull> {
        self.try_submit(class, client, task).map_err(|refused| refused.full)
    }

    /// Submits a task, or returns it. Never blocks.
    pub fn try_submit<T: Task + 'static>(
        &self,
        class: Class,
        client: ClientId,
        task: Box<T>,
    ) -> Result<Ticket, Refused<T>> {
        let flags = Arc::new(TaskFlags::default());
        let mut state = self.shared.state.lock();
        if let Err(full) = state.scheduler.acquire(class, client) {
            return Err(Refused { task, full });
        }
        let running = RunningTask { task, flags: Arc::clone(&flags) };
        let id = state.scheduler.enqueue(self.shared.clock.now(), class, client, running);
        let idle = state.idle > 0;
        drop(state);
        if idle {
            self.shared.arrived.notify_one();
        }
        Ok(Ticket { pool: Arc::downgrade(&self.shared), task: id, flags })
    }

    /// The counters of the pool.
    pub fn counters(&self) -> Counters {
        self.shared.state.lock().scheduler.counters()
    }

    /// The deadline of a class: milliseconds from arrival.
    pub fn deadline_ms(&self, class: Class) -> u64 {
        self.shared.deadlines_ms[class.index()]
    }

    /// The time by the pool's clock.
    pub fn now(&self) -> Duration {
        self.shared.clock.now()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let ended = {
            let mut state = self.shared.state.lock();
            state.closed = true;
            state.scheduler.shut_down()
        };
        for (running, why) in ended {
            running.end(why);
        }
        self.shared.arrived.notify_all();
        let me = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // A task may own the last handle to its own pool: then that thread ends without a join.
            if thread.thread().id() != me {
                // A worker catches every panic, so there is none to pass on.
                let _ = thread.join();
            }
        }
    }
}

impl Ticket {
    /// Resumes a blocked task ([`TaskPoll::Wait`]). Cheap if the task is not blocked.
    pub fn wake(&self) {
        // The ticket sets `woken` and then reads `blocked`; the worker sets `blocked` and then reads `woken`. So one
        // of the two sees the other.
        self.flags.woken.store(true, Ordering::SeqCst);
        if !self.flags.blocked.load(Ordering::SeqCst) {
            return;
        }
        let Some(pool) = self.pool.upgrade() else { return };
        pool.unblock(&mut pool.state.lock(), self.task, &self.flags);
        pool.arrived.notify_one();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.flags.ended.load(Ordering::Acquire) {
            return;
        }
        self.flags.cancelled.store(true, Ordering::Relaxed);
        let Some(pool) = self.pool.upgrade() else { return };
        pool.state.lock().scheduler.end(self.task, TaskEnd::Cancelled);
        // A thread of the pool drops the task.
        pool.arrived.notify_one();
    }
}

impl RunningTask {
    fn end(mut self, why: TaskEnd) {
        self.flags.ended.store(true, Ordering::Release);
        // A panic in `on_end` has no further effect: the task has been notified.
        let _ = catch_unwind(AssertUnwindSafe(|| self.task.on_end(why)));
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self.task)));
    }
}

impl Shared {
    fn run_worker(&self) {
        let mut used = Duration::ZERO;
        while let Some(next) = self.next_action() {
            match next {
                Action::Poll(id, running) => {
                    used = used.saturating_add(self.poll_task(id, running))
                }
                Action::End(running, why) => running.end(why),
            }
            // A thread that polls sockets and was woken on this core would wait for the end of the kernel's time
            // slice, some milliseconds. It goes first now.
            if used >= self.time_slice {
                std::thread::yield_now();
                used = Duration::ZERO;
            }
        }
    }

    /// The next action; `None` once the pool is closed.
    fn next_action(&self) -> Option<Action<RunningTask>> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            let now = self.clock.now();
            if let Some(next) = state.scheduler.next_action(now) {
                return Some(next);
            }
            state.idle += 1;
            match state.scheduler.next_deadline() {
                // A task that is blocked on its client must not wait forever.
                Some(deadline) => {
                    let _ = self.arrived.wait_for(&mut state, deadline.saturating_sub(now));
                }
                None => self.arrived.wait(&mut state),
            }
            state.idle -= 1;
        }
    }

    /// Polls a task once. Returns the time that it took.
    fn poll_task(&self, id: TaskId, mut running: RunningTask) -> Duration {
        let started_at = self.clock.now();
        let ends_at = started_at.saturating_add(self.time_slice);
        let slice = TimeSlice { clock: &*self.clock, ends_at, cancelled: &running.flags.cancelled };
        let polled = if slice.is_cancelled() {
            Ok(TaskPoll::More) // the scheduler knows it, and ends it now
        } else {
            catch_unwind(AssertUnwindSafe(|| running.task.poll(&slice)))
        };
        let used = self.clock.now().saturating_sub(started_at);
        match polled {
            Ok(TaskPoll::Done) => {
                running.flags.ended.store(true, Ordering::Release);
                // A task that is no longer counted as active holds nothing.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(running)));
                self.state.lock().scheduler.finish(id, used, false);
            }
            Err(_) => {
                self.state.lock().scheduler.finish(id, used, true);
                running.end(TaskEnd::Panicked);
            }
            Ok(poll) => self.put_back(id, running, used, poll == TaskPoll::More),
        }
        used
    }

    fn put_back(&self, id: TaskId, running: RunningTask, used: Duration, ready: bool) {
        let flags = Arc::clone(&running.flags);
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            running.end(TaskEnd::ShutDown);
            return;
        }
        if ready {
            flags.woken.store(false, Ordering::SeqCst);
        }
        if state.scheduler.on_yield(id, running, used, ready) {
            flags.blocked.store(true, Ordering::SeqCst);
            if flags.woken.load(Ordering::SeqCst) {
                self.unblock(&mut state, id, &flags);
            }
        }
    }

    fn unblock(&self, state: &mut PoolState, id: TaskId, flags: &TaskFlags) {
        if flags.blocked.swap(false, Ordering::SeqCst) {
            flags.woken.store(false, Ordering::SeqCst);
            state.scheduler.wake(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc::{SyncSender, sync_channel};

    use super::*;

    const RECV_TIMEOUT: Duration = Duration::from_secs(30);

    /// A clock that the test advances.
    #[derive(Default)]
    struct ManualClock(AtomicU64);

    impl Clock for ManualClock {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::SeqCst))
        }
    }

    struct FnTask<F>(F, SyncSender<TaskEnd>);

    impl<F: FnMut(&TimeSlice<'_>) -> TaskPoll + Send> Task for FnTask<F> {
        fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll {
            (self.0)(slice)
        }

        fn on_end(&mut self, why: TaskEnd) {
            self.1.send(why).expect("the test listens");
        }
    }

    fn pool() -> (Pool, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::default());
        let pool = Pool::new(Config::default(), Arc::clone(&clock) as Arc<dyn Clock>, || {});
        (pool.expect("threads are there in tests"), clock)
    }

    fn submit(
        pool: &Pool,
        poll: impl FnMut(&TimeSlice<'_>) -> TaskPoll + Send + 'static,
    ) -> (Ticket, std::sync::mpsc::Receiver<TaskEnd>) {
        let (out, ended) = sync_channel(1);
        let task = Box::new(FnTask(poll, out));
        (pool.submit(Class::Heavy, ClientId(1), task).expect("there is room"), ended)
    }

    #[test]
    fn a_panic_ends_its_task_only() {
        let (pool, _) = pool();
        let (_panics, ended) = submit(&pool, |_| panic!("on purpose"));
        assert_eq!(ended.recv_timeout(RECV_TIMEOUT), Ok(TaskEnd::Panicked));
        let (out, ran) = sync_channel(1);
        let _ticket = submit(&pool, move |_| {
            out.send(7).expect("the test listens");
            TaskPoll::Done
        });
        assert_eq!(ran.recv_timeout(RECV_TIMEOUT), Ok(7));
        assert_eq!(pool.counters().class(Class::Heavy).panicked, 1);
    }

    #[test]
    fn a_blocked_task_resumes_when_it_is_woken_and_not_before() {
        let (pool, _) = pool();
        let (out, ran) = sync_channel(4);
        let mut polls = 0;
        let (ticket, _ended) = submit(&pool, move |_| {
            polls += 1;
            out.send(polls).expect("the test listens");
            if polls < 3 { TaskPoll::Wait } else { TaskPoll::Done }
        });
        for poll in 1..=3 {
            assert_eq!(ran.recv_timeout(RECV_TIMEOUT), Ok(poll));
            ticket.wake();
        }
        assert!(
            ran.recv_timeout(RECV_TIMEOUT).is_err(),
            "the task is gone, and its sender with it"
        );
        // A worker drops a task before it counts it, and polls the next one after that.
        let (_next, next_ended) = submit(&pool, |_| panic!("on purpose"));
        assert_eq!(next_ended.recv_timeout(RECV_TIMEOUT), Ok(TaskEnd::Panicked));
        assert_eq!(pool.counters().class(Class::Heavy).completed, 1);
    }

    #[test]
    fn a_dropped_ticket_ends_a_running_task_and_a_blocked_one() {
        let (pool, _) = pool();
        let (started_out, started) = sync_channel(1);
        let (running, running_ended) = submit(&pool, move |slice| {
            let _ = started_out.try_send(());
            // The clock is stopped, so only the cancellation ends the slice.
            while !slice.is_over() {
                std::thread::yield_now();
            }
            TaskPoll::More
        });
        started.recv_timeout(RECV_TIMEOUT).expect("started");
        let (_waits, waiting) = submit(&pool, |_| TaskPoll::Wait);
        drop(running);
        assert_eq!(running_ended.recv_timeout(RECV_TIMEOUT), Ok(TaskEnd::Cancelled));
        drop(_waits);
        assert_eq!(waiting.recv_timeout(RECV_TIMEOUT), Ok(TaskEnd::Cancelled));
        assert_eq!(pool.counters().class(Class::Heavy).cancelled, 2);
    }

    #[test]
    fn two_endless_tasks_share_one_thread() {
        let (pool, clock) = pool();
        let (out, ran) = sync_channel(0);
        let endless = |name: u8| {
            let out = out.clone();
            let clock = Arc::clone(&clock);
            move |slice: &TimeSlice<'_>| {
                while !slice.is_over() {
                    clock.0.fetch_add(1, Ordering::SeqCst);
                }
                if out.send(name).is_ok() { TaskPoll::More } else { TaskPoll::Done }
            }
        };
        let _tickets = [submit(&pool, endless(1)), submit(&pool, endless(2))];
        let seen: Vec<u8> =
            (0..20).map(|_| ran.recv_timeout(RECV_TIMEOUT).expect("runs")).collect();
        let ones = seen[10..].iter().filter(|name| **name == 1).count();
        assert_eq!(ones, 5, "{seen:?}");
        drop(ran);
    }

    #[test]
    fn dropping_the_pool_ends_what_waits_and_what_runs() {
        let (pool, _) = pool();
        let (started_out, started) = sync_channel(1);
        let goes_on = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&goes_on);
        let (_ticket, running) = submit(&pool, move |_| {
            let _ = started_out.try_send(());
            while flag.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            TaskPoll::More
        });
        started.recv_timeout(RECV_TIMEOUT).expect("started");
        let (_other, waiting) = submit(&pool, |_| TaskPoll::Done);
        let dropping = std::thread::spawn(move || drop(pool));
        // The queued task is ended before the running one has finished its poll.
        assert_eq!(waiting.recv_timeout(RECV_TIMEOUT), Ok(TaskEnd::ShutDown));
        goes_on.store(false, Ordering::SeqCst);
        assert_eq!(running.recv_timeout(RECV_TIMEOUT), Ok(TaskEnd::ShutDown));
        dropping.join().expect("the pool ends");
    }
}
