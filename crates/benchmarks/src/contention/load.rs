//! The load of one cell: reads and writes, offered at their rates by threads of their own, each side timed separately.
//!
//! Shape: a second's operations are offered evenly. A late thread does all due operations at once; an early one sleeps.
//! A side ends when all of it is served, or at the bound. It ends once all is due, too, if not a quarter of it is
//! served: it would not end within the bound.
//! Not here: the operations (`candidate`).

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
pub(super) trait Worker: Send {
    fn run_once(&mut self);
    /// Nothing is due.
    fn on_idle(&mut self) {}
}

/// The side that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    /// Each side until its operations are done.
    Both,
    /// Reads; writes continue until those are done.
    Reads,
    /// Writes; reads continue until those are done.
    Writes,
}

/// How long the load is offered, and when a side that has not served it is stopped.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) offered: Duration,
    pub(super) bound: Duration,
    /// Whether a side runs to the bound even if it is sure to miss it.
    pub(super) is_patient: bool,
}

pub(super) struct Load {
    pub(super) reads: u32,
    pub(super) writes: u32,
    pub(super) focus: Focus,
    pub(super) times: Times,
}

/// The result of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Side {
    pub(super) offered: u64,
    pub(super) served: u64,
    /// Operations of the thread that served the most.
    pub(super) thread_max: u64,
    pub(super) seconds: f64,
    pub(super) cpu: f64,
}

impl Side {
    fn with(self, other: Self) -> Self {
        Self {
            offered: self.offered + other.offered,
            served: self.served + other.served,
            thread_max: self.thread_max.max(other.thread_max),
            seconds: self.seconds.max(other.seconds),
            cpu: self.cpu + other.cpu,
        }
    }
}

/// Offers the load. Returns the results of the reads and of the writes.
pub(super) fn offer(
    readers: Vec<Box<dyn Worker>>,
    writers: Vec<Box<dyn Worker>>,
    load: &Load,
) -> (Side, Side) {
    let is_over = AtomicBool::new(false);
    let start = now();
    std::thread::scope(|threads| {
        let spawn = |workers: Vec<Box<dyn Worker>>, count: u32, accompanies: bool| {
            let share = workers.len() as u32;
            let each = workers.into_iter().zip(0..).filter_map(|(mut worker, nth)| {
                let schedule = Schedule {
                    start,
                    count: u64::from(count / share + u32::from(nth < count % share)),
                    times: load.times,
                    is_over: accompanies.then_some(&is_over),
                };
                (schedule.count > 0).then(|| threads.spawn(move || schedule.serve(&mut *worker)))
            });
            each.collect::<Vec<_>>()
        };
        let reads = spawn(readers, load.reads, load.focus == Focus::Writes);
        let writes = spawn(writers, load.writes, load.focus == Focus::Reads);
        let join = |side: Vec<std::thread::ScopedJoinHandle<'_, Side>>| {
            let sides = side.into_iter().map(|thread| match thread.join() {
                Ok(side) => side,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            sides.fold(Side::default(), Side::with)
        };
        if load.focus == Focus::Writes {
            let writes = join(writes);
            is_over.store(true, Ordering::Relaxed);
            return (join(reads), writes);
        }
        let reads = join(reads);
        is_over.store(true, Ordering::Relaxed);
        (reads, join(writes))
    })
}

/// The schedule of a thread's operations.
struct Schedule<'a> {
    start: Instant,
    count: u64,
    times: Times,
    /// For a side that only accompanies the other: set when the other has ended.
    is_over: Option<&'a AtomicBool>,
}

impl Schedule<'_> {
    fn serve(&self, worker: &mut dyn Worker) -> Side {
        let cpu = ThreadTime::now();
        let mut served = 0;
        let mut burst = 1;
        loop {
            let since = self.start.elapsed();
            if self.has_ended(served, since) {
                break;
            }
            let due = self.due_at(since);
            if served >= due {
                worker.on_idle();
                self.wait_for(served);
                continue;
            }
            let batch = burst.min(due - served);
            (0..batch).for_each(|_| worker.run_once());
            served += batch;
            let was_quick = self.start.elapsed().saturating_sub(since) < QUICK;
            burst = if was_quick { (burst * 2).min(BURST_MAX) } else { 1 };
        }
        worker.on_idle();
        let elapsed = self.start.elapsed();
        let offered = match self.is_over {
            Some(_) => self.due_at(elapsed).max(served),
            None => self.count,
        };
        let seconds = elapsed.as_secs_f64();
        Side { offered, served, thread_max: served, seconds, cpu: cpu.elapsed().as_secs_f64() }
    }

    fn has_ended(&self, served: u64, since: Duration) -> bool {
        if let Some(is_over) = self.is_over {
            return is_over.load(Ordering::Relaxed);
        }
        let is_hopeless = !self.times.is_patient
            && since >= self.times.offered
            && served.saturating_mul(4) < self.count;
        served == self.count || since >= self.times.bound || is_hopeless
    }

    /// Number of operations that are due after `elapsed`.
    fn due_at(&self, elapsed: Duration) -> u64 {
        let due = elapsed.as_nanos() * u128::from(self.count) / self.times.offered.as_nanos();
        let due = due as u64 + 1;
        if self.is_over.is_none() { due.min(self.count) } else { due }
    }

    #[expect(clippy::disallowed_methods, reason = "operations come at their time")]
    fn wait_for(&self, nth: u64) {
        let due = self.times.offered.as_nanos() * u128::from(nth) / u128::from(self.count);
        let left = Duration::from_nanos(due as u64).saturating_sub(self.start.elapsed());
        std::thread::sleep(if self.is_over.is_some() { left.min(NAP_MAX) } else { left });
    }
}
