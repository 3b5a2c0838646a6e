//! Heavy work on a bounded number of threads, with a bounded queue in front of them.
//!
//! In: jobs. Out: the same jobs, run in the order of arrival; what a job makes it sends itself.
//! Bounds: [`PoolConfig`]; a job beyond `queue_max` is refused at once with [`Full`].
//! Invariant: a panic ends its job only; dropping the pool lets running jobs end, drops the waiting
//! ones, and joins every thread.
//! Not here: who may wait how long (later work adds classes, slices and fairness), async.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

/// Work to be done once.
pub type Job = Box<dyn FnOnce() + Send + 'static>;

/// How much work at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Threads; at least 1.
    pub threads: usize,
    /// Jobs that may wait for a thread; at least 1. Memory: what the jobs hold.
    pub queue_max: usize,
}

/// The queue is full. Fix: send less, or raise `--heavy-max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the CPU pool is full: {queued} jobs wait, at most {limit} may (--heavy-max)")]
pub struct Full {
    /// How many wait.
    pub queued: usize,
    /// How many may.
    pub limit: usize,
}

/// What a pool has done and is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Jobs that wait.
    pub queued: usize,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that ended, those that panicked included.
    pub done: u64,
    /// Jobs that panicked.
    pub panicked: u64,
    /// Jobs that were refused.
    pub refused: u64,
}

/// The threads and their queue.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue_max: usize,
    queue: Mutex<Queue>,
    arrived: Condvar,
    running: AtomicUsize,
    done: AtomicU64,
    panicked: AtomicU64,
    refused: AtomicU64,
}

struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Pool {
    /// Starts the threads.
    ///
    /// Errors: the system gives no more threads.
    pub fn new(config: PoolConfig) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue_max: config.queue_max.max(1),
            queue: Mutex::new(Queue { jobs: VecDeque::new(), closed: false }),
            arrived: Condvar::new(),
            running: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let mut pool = Self { shared, threads: Vec::new() };
        for number in 0..config.threads.max(1) {
            let shared = Arc::clone(&pool.shared);
            let name = format!("pool-{number}");
            let thread = std::thread::Builder::new().name(name).spawn(move || shared.work())?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Queues a job. Never waits.
    pub fn submit(&self, job: Job) -> Result<(), Full> {
        let mut queue = self.shared.queue.lock();
        let queued = queue.jobs.len();
        if queued >= self.shared.queue_max {
            drop(queue);
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Full { queued, limit: self.shared.queue_max });
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.shared.arrived.notify_one();
        Ok(())
    }

    /// What the pool has done and is doing. The figures are of nearly the same moment.
    pub fn counters(&self) -> Counters {
        Counters {
            queued: self.shared.queue.lock().jobs.len(),
            running: self.shared.running.load(Ordering::Relaxed),
            done: self.shared.done.load(Ordering::Relaxed),
            panicked: self.shared.panicked.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let dropped = {
            let mut queue = self.shared.queue.lock();
            queue.closed = true;
            std::mem::take(&mut queue.jobs)
        };
        drop(dropped);
        self.shared.arrived.notify_all();
        let me = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // A job may hold the last handle to its own pool: then that thread ends by itself.
            if thread.thread().id() != me {
                // A worker catches every panic, so there is none to pass on.
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(job) = self.next() {
            self.running.fetch_add(1, Ordering::Relaxed);
            let panicked = catch_unwind(AssertUnwindSafe(job)).is_err();
            self.running.fetch_sub(1, Ordering::Relaxed);
            self.panicked.fetch_add(u64::from(panicked), Ordering::Relaxed);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The next job; `None` once the pool is closed.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            self.arrived.wait(&mut queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn pool(threads: usize, queue_max: usize) -> Pool {
        Pool::new(PoolConfig { threads, queue_max }).expect("threads are there in tests")
    }

    #[test]
    fn jobs_run_in_the_order_of_arrival() {
        let pool = pool(1, 10);
        let (out, ran) = sync_channel(10);
        for number in 0..10 {
            let out = out.clone();
            let job = Box::new(move || out.send(number).expect("the test listens"));
            while pool.submit(job.clone()).is_err() {
                std::thread::yield_now();
            }
        }
        let order: Vec<i32> = (0..10).map(|_| ran.recv_timeout(LONG).expect("ran")).collect();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_queue_refuses_and_says_how_full() {
        let pool = pool(1, 2);
        let (started_out, started) = sync_channel(1);
        let (release, held) = sync_channel::<()>(0);
        pool.submit(Box::new(move || {
            started_out.send(()).expect("the test listens");
            let _ = held.recv();
        }))
        .expect("there is room");
        started.recv_timeout(LONG).expect("started");
        for _ in 0..2 {
            pool.submit(Box::new(|| {})).expect("there is room");
        }
        assert_eq!(pool.submit(Box::new(|| {})), Err(Full { queued: 2, limit: 2 }));
        assert_eq!(pool.counters().refused, 1);
        drop(release);
    }

    #[test]
    fn a_panic_ends_its_job_only() {
        let pool = pool(1, 2);
        pool.submit(Box::new(|| panic!("on purpose"))).expect("there is room");
        let (out, ran) = sync_channel(1);
        pool.submit(Box::new(move || out.send(7).expect("the test listens")))
            .expect("there is room");
        assert_eq!(ran.recv_timeout(LONG), Ok(7));
        assert_eq!(pool.counters().panicked, 1);
    }

    #[test]
    fn dropping_the_pool_drops_what_waits() {
        let pool = pool(1, 8);
        let (started_out, started) = sync_channel(1);
        let (release, held) = sync_channel::<()>(0);
        pool.submit(Box::new(move || {
            started_out.send(()).expect("the test listens");
            let _ = held.recv();
        }))
        .expect("there is room");
        started.recv_timeout(LONG).expect("started");
        let (out, ran) = sync_channel::<()>(1);
        pool.submit(Box::new(move || out.send(()).expect("nobody gets here")))
            .expect("there is room");
        let dropping = std::thread::spawn(move || drop(pool));
        // The waiting job, and with it its sender, is gone before the running one ends.
        assert!(ran.recv_timeout(LONG).is_err());
        drop(release);
        dropping.join().expect("the pool ends");
    }
}
