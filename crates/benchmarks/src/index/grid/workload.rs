//! One cell's load: reads and writes offered at their rates by threads of their own, each side timed
//! separately, in wall and in CPU time.
//!
//! Shape: a second's operations are offered evenly over the period. A late thread does all due operations at once;
//! an early thread sleeps. A side ends when all of it is served, or at the bound.
//! Not here: the operations (`sets`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;

use testkit::clock::now;

/// Operations between two reads of the clock, if they are quick.
const BURST_MAX: u64 = 64;
const QUICK: Duration = Duration::from_micros(10);
/// Maximum sleep of a side that only accompanies the other, so that both end together.
const NAP_MAX: Duration = Duration::from_millis(5);

/// The operation that a thread repeats.
pub(crate) trait Worker: Send {
    /// One operation.
    fn work(&mut self);
    /// Nothing is due.
    fn on_idle(&mut self) {}
}

/// The measured side.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Focus {
    /// Both, each until its operations are done.
    Both,
    /// Reads; writes go on until those are done.
    Reads,
    /// Writes; reads go on until those are done.
    Writes,
}

pub(crate) struct Workload {
    pub(crate) reads: u32,
    pub(crate) writes: u32,
    pub(crate) focus: Focus,
    pub(crate) times: Times,
}

/// How long the load is offered, and when a side that has not served it is stopped.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) offered: Duration,
    pub(crate) bound: Duration,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Side {
    pub(crate) offered: u64,
    pub(crate) served: u64,
    pub(crate) took: Duration,
    pub(crate) cpu: Duration,
}

impl Side {
    pub(crate) fn is_bounded(&self) -> bool {
        self.served < self.offered
    }

    /// Seconds for all offered operations: measured, or extrapolated from the served share. Never less than the time
    /// over which they were offered.
    pub(crate) fn seconds(&self, times: &Times) -> f64 {
        (self.took.as_secs_f64() * self.whole()).max(times.offered.as_secs_f64())
    }

    /// CPU seconds for all offered operations.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.cpu.as_secs_f64() * self.whole()
    }

    fn whole(&self) -> f64 {
        if self.is_bounded() { self.offered as f64 / self.served.max(1) as f64 } else { 1.0 }
    }

    fn with(self, other: Self) -> Self {
        Self {
            offered: self.offered + other.offered,
            served: self.served + other.served,
            took: self.took.max(other.took),
            cpu: self.cpu + other.cpu,
        }
    }
}

/// Offers the load. Returns the results of the reads and of the writes.
pub(crate) fn offer(
    readers: Vec<Box<dyn Worker>>,
    writers: Vec<Box<dyn Worker>>,
    load: &Workload,
) -> (Side, Side) {
    let is_over = AtomicBool::new(false);
    let start = now();
    std::thread::scope(|threads| {
        let begun = |workers: Vec<Box<dyn Worker>>, count: u32, accompanies: bool| {
            let share = workers.len() as u32;
            let each = workers.into_iter().zip(0..).filter_map(|(mut worker, nth)| {
                let due = Due {
                    start,
                    count: u64::from(count / share + u32::from(nth < count % share)),
                    times: load.times,
                    is_over: accompanies.then_some(&is_over),
                };
                (due.count > 0).then(|| threads.spawn(move || due.served_by(&mut *worker)))
            });
            each.collect::<Vec<_>>()
        };
        let reads = begun(readers, load.reads, load.focus == Focus::Writes);
        let writes = begun(writers, load.writes, load.focus == Focus::Reads);
        let ended = |side: Vec<std::thread::ScopedJoinHandle<'_, Side>>| {
            let sides = side.into_iter().map(|thread| match thread.join() {
                Ok(side) => side,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            sides.fold(Side::default(), Side::with)
        };
        let (first, second) =
            if load.focus == Focus::Writes { (writes, reads) } else { (reads, writes) };
        let first = ended(first);
        is_over.store(true, Ordering::Relaxed);
        let second = ended(second);
        if load.focus == Focus::Writes { (second, first) } else { (first, second) }
    })
}

/// The schedule of the operations.
struct Due<'a> {
    start: Instant,
    count: u64,
    times: Times,
    /// For a side that only accompanies the other: set when the other has ended.
    is_over: Option<&'a AtomicBool>,
}

impl Due<'_> {
    fn served_by(&self, worker: &mut dyn Worker) -> Side {
        let cpu = ThreadTime::now();
        let mut served = 0;
        let mut burst = 1;
        let mut offered = self.count;
        loop {
            let since = self.start.elapsed();
            match self.is_over {
                None if served == self.count || since >= self.times.bound => break,
                Some(is_over) if is_over.load(Ordering::Relaxed) => {
                    offered = self.due_at(since).max(served);
                    break;
                }
                _ => {}
            }
            let due = match self.is_over {
                None => self.due_at(since).min(self.count),
                Some(_) => self.due_at(since),
            };
            if served >= due {
                worker.on_idle();
                self.wait_for(served);
                continue;
            }
            let batch = burst.min(due - served);
            (0..batch).for_each(|_| worker.work());
            served += batch;
            let was_quick = self.start.elapsed().saturating_sub(since) < QUICK;
            burst = if was_quick { (burst * 2).min(BURST_MAX) } else { 1 };
        }
        worker.on_idle();
        Side { offered, served, took: self.start.elapsed(), cpu: cpu.elapsed() }
    }

    /// Number of operations that are due after `elapsed`.
    fn due_at(&self, since: Duration) -> u64 {
        let due = since.as_nanos() * u128::from(self.count) / self.times.offered.as_nanos();
        due as u64 + 1
    }

    #[expect(clippy::disallowed_methods, reason = "operations come at their time")]
    fn wait_for(&self, nth: u64) {
        let due = self.times.offered.as_nanos() * u128::from(nth) / u128::from(self.count);
        let left = Duration::from_nanos(due as u64).saturating_sub(self.start.elapsed());
        std::thread::sleep(if self.is_over.is_some() { left.min(NAP_MAX) } else { left });
    }
}
