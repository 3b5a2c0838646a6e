//! The threads, and what a submitter holds of his task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::schedule::{JobId, Next, Schedule};
use crate::task::{Clock, Ended, Slice, Step, Task};
use crate::{Class, ClientId, Config, Counters, Full};

/// The threads and what waits for them.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A task that was taken on. Dropping it cancels the task: it is not stepped again.
pub struct Ticket {
    pool: Weak<Shared>,
    job: JobId,
    flags: Arc<Flags>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    slice: Duration,
    deadlines_ms: [u64; 3],
    state: Mutex<Inner>,
    arrived: Condvar,
}

struct Inner {
    schedule: Schedule<Work>,
    closed: bool,
    idle: usize,
}

struct Work {
    task: Box<dyn Task>,
    flags: Arc<Flags>,
}

/// What a task and its ticket tell each other without the lock.
#[derive(Default)]
struct Flags {
    cancelled: AtomicBool,
    over: AtomicBool,
    woken: AtomicBool,
    parked: AtomicBool,
}

impl Pool {
    /// Starts the threads; each calls `on_thread_start` first.
    ///
    /// Errors: the system gives no more threads.
    pub fn new(
        config: Config,
        clock: Arc<dyn Clock>,
        on_thread_start: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let (threads, slice) = (config.threads.max(1), config.slice());
        let deadlines_ms = Class::ALL.map(|class| config.class(class).deadline_ms);
        let inner = Inner { schedule: Schedule::new(config), closed: false, idle: 0 };
        let shared = Arc::new(Shared {
            clock,
            slice,
            deadlines_ms,
            state: Mutex::new(inner),
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
                shared.work();
            })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Takes a task on, or refuses it. Never waits.
    pub fn submit(
        &self,
        class: Class,
        client: ClientId,
        task: Box<dyn Task>,
    ) -> Result<Ticket, Full> {
        let flags = Arc::new(Flags::default());
        let work = Work { task, flags: Arc::clone(&flags) };
        let mut inner = self.shared.state.lock();
        let now = self.shared.clock.now();
        let admitted = inner.schedule.admit(now, class, client, work);
        let idle = inner.idle > 0;
        drop(inner);
        // What is refused is dropped outside the lock.
        let job = admitted.map_err(|(_, full)| full)?;
        if idle {
            self.shared.arrived.notify_one();
        }
        Ok(Ticket { pool: Arc::downgrade(&self.shared), job, flags })
    }

    /// What the pool has done and is doing.
    pub fn counters(&self) -> Counters {
        self.shared.state.lock().schedule.counters()
    }

    /// How long after its arrival a task of a class is ended, in milliseconds.
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
            let mut inner = self.shared.state.lock();
            inner.closed = true;
            inner.schedule.shut_down()
        };
        for (work, why) in ended {
            work.end(why);
        }
        self.shared.arrived.notify_all();
        let me = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // A task may hold the last handle to its own pool: then that thread ends by itself.
            if thread.thread().id() != me {
                // A worker catches every panic, so there is none to pass on.
                let _ = thread.join();
            }
        }
    }
}

impl Ticket {
    /// Lets a task go on that waits ([`Step::Wait`]). Cheap if it does not.
    pub fn wake(&self) {
        // Before `parked` is looked at, as the worker sets `parked` before it looks at `woken`: one
        // of the two sees the other.
        self.flags.woken.store(true, Ordering::SeqCst);
        if !self.flags.parked.load(Ordering::SeqCst) {
            return;
        }
        let Some(pool) = self.pool.upgrade() else { return };
        pool.unpark(&mut pool.state.lock(), self.job, &self.flags);
        pool.arrived.notify_one();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.flags.over.load(Ordering::Acquire) {
            return;
        }
        self.flags.cancelled.store(true, Ordering::Relaxed);
        let Some(pool) = self.pool.upgrade() else { return };
        pool.state.lock().schedule.end(self.job, Ended::Cancelled);
        // Whatever it holds is let go on a thread of the pool.
        pool.arrived.notify_one();
    }
}

impl Work {
    fn end(mut self, why: Ended) {
        self.flags.over.store(true, Ordering::Release);
        // A task that panics over being told has been told.
        let _ = catch_unwind(AssertUnwindSafe(|| self.task.ended(why)));
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self.task)));
    }
}

impl Shared {
    fn work(&self) {
        let mut used = Duration::ZERO;
        while let Some(next) = self.next() {
            match next {
                Next::Step(job, work) => used = used.saturating_add(self.step(job, work)),
                Next::End(work, why) => work.end(why),
            }
            // A thread that polls sockets and was woken on this core would wait for the end of the
            // kernel's time slice, which is some milliseconds: it goes first now.
            if used >= self.slice {
                std::thread::yield_now();
                used = Duration::ZERO;
            }
        }
    }

    /// What to do next; `None` once the pool is closed.
    fn next(&self) -> Option<Next<Work>> {
        let mut inner = self.state.lock();
        loop {
            if inner.closed {
                return None;
            }
            let now = self.clock.now();
            if let Some(next) = inner.schedule.next(now) {
                return Some(next);
            }
            inner.idle += 1;
            match inner.schedule.next_deadline() {
                // Whoever waits for a client to take something must not wait for ever.
                Some(deadline) => {
                    let _ = self.arrived.wait_for(&mut inner, deadline.saturating_sub(now));
                }
                None => self.arrived.wait(&mut inner),
            }
            inner.idle -= 1;
        }
    }

    /// One step of a task; gives the time that it took.
    fn step(&self, job: JobId, mut work: Work) -> Duration {
        let began = self.clock.now();
        let ends_at = began.saturating_add(self.slice);
        let slice = Slice { clock: &*self.clock, ends_at, cancelled: &work.flags.cancelled };
        let stepped = if slice.is_cancelled() {
            Ok(Step::More) // the schedule knows it, and ends it now
        } else {
            catch_unwind(AssertUnwindSafe(|| work.task.step(&slice)))
        };
        let used = self.clock.now().saturating_sub(began);
        match stepped {
            Ok(Step::Done) => {
                work.flags.over.store(true, Ordering::Release);
                self.state.lock().schedule.finish(job, used, false);
                let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
            }
            Err(_) => {
                self.state.lock().schedule.finish(job, used, true);
                work.end(Ended::Panicked);
            }
            Ok(step) => self.put_back(job, work, used, step == Step::More),
        }
        used
    }

    fn put_back(&self, job: JobId, work: Work, used: Duration, ready: bool) {
        let flags = Arc::clone(&work.flags);
        let mut inner = self.state.lock();
        if inner.closed {
            drop(inner);
            work.end(Ended::ShutDown);
            return;
        }
        if ready {
            flags.woken.store(false, Ordering::SeqCst);
        }
        if inner.schedule.after_step(job, work, used, ready) {
            flags.parked.store(true, Ordering::SeqCst);
            if flags.woken.load(Ordering::SeqCst) {
                self.unpark(&mut inner, job, &flags);
            }
        }
    }

    fn unpark(&self, inner: &mut Inner, job: JobId, flags: &Flags) {
        if flags.parked.swap(false, Ordering::SeqCst) {
            flags.woken.store(false, Ordering::SeqCst);
            inner.schedule.wake(job);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc::{SyncSender, sync_channel};

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    /// A clock that a test moves.
    #[derive(Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::SeqCst))
        }
    }

    struct Steps<F>(F, SyncSender<Ended>);

    impl<F: FnMut(&Slice<'_>) -> Step + Send> Task for Steps<F> {
        fn step(&mut self, slice: &Slice<'_>) -> Step {
            (self.0)(slice)
        }

        fn ended(&mut self, why: Ended) {
            self.1.send(why).expect("the test listens");
        }
    }

    fn pool() -> (Pool, Arc<Hand>) {
        let clock = Arc::new(Hand::default());
        let pool = Pool::new(Config::default(), Arc::clone(&clock) as Arc<dyn Clock>, || {});
        (pool.expect("threads are there in tests"), clock)
    }

    fn submit(
        pool: &Pool,
        step: impl FnMut(&Slice<'_>) -> Step + Send + 'static,
    ) -> (Ticket, std::sync::mpsc::Receiver<Ended>) {
        let (out, ended) = sync_channel(1);
        let task = Box::new(Steps(step, out));
        (pool.submit(Class::Heavy, ClientId(1), task).expect("there is room"), ended)
    }

    #[test]
    fn a_panic_ends_its_task_only() {
        let (pool, _) = pool();
        let (_panics, ended) = submit(&pool, |_| panic!("on purpose"));
        assert_eq!(ended.recv_timeout(LONG), Ok(Ended::Panicked));
        let (out, ran) = sync_channel(1);
        let _ticket = submit(&pool, move |_| {
            out.send(7).expect("the test listens");
            Step::Done
        });
        assert_eq!(ran.recv_timeout(LONG), Ok(7));
        assert_eq!(pool.counters().of(Class::Heavy).panicked, 1);
    }

    #[test]
    fn a_task_that_waits_goes_on_when_it_is_woken_and_not_before() {
        let (pool, _) = pool();
        let (out, ran) = sync_channel(4);
        let mut steps = 0;
        let (ticket, _ended) = submit(&pool, move |_| {
            steps += 1;
            out.send(steps).expect("the test listens");
            if steps < 3 { Step::Wait } else { Step::Done }
        });
        for step in 1..=3 {
            assert_eq!(ran.recv_timeout(LONG), Ok(step));
            ticket.wake();
        }
        assert!(ran.recv_timeout(LONG).is_err(), "the task is gone, and its sender with it");
        assert_eq!(pool.counters().of(Class::Heavy).done, 1);
    }

    #[test]
    fn a_dropped_ticket_ends_a_task_in_its_step_and_one_that_waits() {
        let (pool, _) = pool();
        let (begun_out, begun) = sync_channel(1);
        let (running, running_ended) = submit(&pool, move |slice| {
            let _ = begun_out.try_send(());
            // Time stands still, so only the cancellation ends the slice.
            while !slice.is_over() {
                std::thread::yield_now();
            }
            Step::More
        });
        begun.recv_timeout(LONG).expect("begun");
        let (_waits, waiting) = submit(&pool, |_| Step::Wait);
        drop(running);
        assert_eq!(running_ended.recv_timeout(LONG), Ok(Ended::Cancelled));
        drop(_waits);
        assert_eq!(waiting.recv_timeout(LONG), Ok(Ended::Cancelled));
        assert_eq!(pool.counters().of(Class::Heavy).cancelled, 2);
    }

    #[test]
    fn two_endless_tasks_share_one_thread() {
        let (pool, clock) = pool();
        let (out, ran) = sync_channel(0);
        let endless = |name: u8| {
            let (out, clock) = (out.clone(), Arc::clone(&clock));
            move |slice: &Slice<'_>| {
                while !slice.is_over() {
                    clock.0.fetch_add(1, Ordering::SeqCst);
                }
                if out.send(name).is_ok() { Step::More } else { Step::Done }
            }
        };
        let _tickets = [submit(&pool, endless(1)), submit(&pool, endless(2))];
        let seen: Vec<u8> = (0..20).map(|_| ran.recv_timeout(LONG).expect("runs")).collect();
        let ones = seen[10..].iter().filter(|name| **name == 1).count();
        assert_eq!(ones, 5, "{seen:?}");
        drop(ran);
    }

    #[test]
    fn dropping_the_pool_ends_what_waits_and_what_runs() {
        let (pool, _) = pool();
        let (begun_out, begun) = sync_channel(1);
        let goes_on = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&goes_on);
        let (_ticket, running) = submit(&pool, move |_| {
            let _ = begun_out.try_send(());
            while flag.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Step::More
        });
        begun.recv_timeout(LONG).expect("begun");
        let (_other, waiting) = submit(&pool, |_| Step::Done);
        let dropping = std::thread::spawn(move || drop(pool));
        // The one that waits is ended before the one that runs is done with its step.
        assert_eq!(waiting.recv_timeout(LONG), Ok(Ended::ShutDown));
        goes_on.store(false, Ordering::SeqCst);
        assert_eq!(running.recv_timeout(LONG), Ok(Ended::ShutDown));
        dropping.join().expect("the pool ends");
    }
}
