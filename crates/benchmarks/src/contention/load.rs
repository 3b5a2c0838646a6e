//! The load of one cell: reads and writes, offered at their rates by threads of their own, each side timed separately.
//!
//! Shape: a second's operations are offered evenly. A late thread does all due operations at once; an early one sleeps.
//! The measurement of a thread ends when all of its operations are served, or at the bound. It also ends once all is
//! due if not a quarter of it is served: that would not end within the bound. The time of such a side is extrapolated.
//! Its threads continue, uncounted, while others are measured, so that these do not get the machine to themselves.
//! Not here: the operations (`candidate`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use testkit::clock::now;

/// Operations between two reads of the clock, if they are quick.
const BURST_MAX: u64 = 64;
const QUICK: Duration = Duration::from_micros(10);
/// A thread that is not measured sleeps no longer than this, so that it ends soon after the measured ones.
const NAP_MAX: Duration = Duration::from_millis(5);

/// The operation that a thread repeats.
pub(super) trait Worker: Send {
    /// Returns the number of entries that it read or wrote.
    fn run_once(&mut self) -> u64;
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

/// The time for which the load is offered, and the end of the measurement of a thread that has not served it.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) offered: Duration,
    pub(super) bound: Duration,
    /// Whether a thread is measured up to the bound even if it is sure to miss it.
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
    /// Entries that were read or written.
    pub(super) entries: u64,
    /// Operations of the thread that did the most, uncounted ones included.
    pub(super) thread_max: u64,
    /// Until all offered operations are served: extrapolated if fewer were.
    pub(super) seconds: f64,
    /// For all offered operations, likewise.
    pub(super) cpu: f64,
}

/// The result of one thread.
struct ThreadResult {
    offered: u64,
    served: u64,
    entries: u64,
    /// Operations that were served, or done afterwards.
    done: u64,
    seconds: f64,
    cpu: f64,
}

impl Side {
    /// Sums up the threads of a side. If some were stopped, all threads together are assumed to continue at their rate.
    fn new(threads: &[ThreadResult]) -> Self {
        let sum = |value: fn(&ThreadResult) -> f64| threads.iter().map(value).sum::<f64>();
        let offered = threads.iter().map(|thread| thread.offered).sum();
        let served = threads.iter().map(|thread| thread.served).sum();
        let elapsed = threads.iter().map(|thread| thread.seconds).fold(0.0, f64::max);
        let [mut seconds, mut cpu] = [elapsed, sum(|thread| thread.cpu)];
        if served < offered {
            let per_second = sum(|thread| thread.served as f64 / thread.seconds);
            seconds = seconds.max(offered as f64 / per_second);
            cpu *= offered as f64 / served as f64;
        }
        Self {
            offered,
            served,
            entries: threads.iter().map(|thread| thread.entries).sum(),
            thread_max: threads.iter().map(|thread| thread.done).max().unwrap_or(0),
            seconds,
            cpu,
        }
    }
}

/// Offers the load. Returns the results of the reads and of the writes.
pub(super) fn offer(
    readers: Vec<Box<dyn Worker>>,
    writers: Vec<Box<dyn Worker>>,
    load: &Load,
) -> (Side, Side) {
    let measured = AtomicUsize::new(0);
    let start = now();
    let schedule = |workers: Vec<Box<dyn Worker>>, count: u32, is_measured: bool| {
        let share = workers.len() as u32;
        let each = workers.into_iter().zip(0..).filter_map(|(worker, nth)| {
            let count = u64::from(count / share + u32::from(nth < count % share));
            let schedule = Schedule { start, count, times: load.times, measured: &measured };
            (count > 0).then(|| (schedule, is_measured.then(|| Measured::new(&measured)), worker))
        });
        each.collect::<Vec<_>>()
    };
    let sides = [
        schedule(readers, load.reads, load.focus != Focus::Writes),
        schedule(writers, load.writes, load.focus != Focus::Reads),
    ];
    std::thread::scope(|threads| {
        let sides = sides.map(|each| {
            let each = each.into_iter().map(|(schedule, measured, mut worker)| {
                threads.spawn(move || schedule.serve(measured, &mut *worker))
            });
            each.collect::<Vec<_>>()
        });
        let [reads, writes] = sides.map(|side| {
            let results = side.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            Side::new(&results.collect::<Vec<_>>())
        });
        (reads, writes)
    })
}

/// The schedule of a thread's operations.
struct Schedule<'a> {
    start: Instant,
    count: u64,
    times: Times,
    /// Number of threads that are measured and have not ended.
    measured: &'a AtomicUsize,
}

/// Counts a thread as measured until it is dropped.
struct Measured<'a>(&'a AtomicUsize);

impl<'a> Measured<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Schedule<'_> {
    /// Serves the operations. A thread that is not measured repeats them until those that are have ended.
    fn serve(&self, measured: Option<Measured<'_>>, worker: &mut dyn Worker) -> ThreadResult {
        let mut result = self.serve_counted(measured.is_some(), worker);
        if measured.is_some() && result.served < self.count {
            drop(measured);
            while !self.is_over() {
                worker.run_once();
                result.done += 1;
            }
            worker.on_idle();
        }
        result
    }

    fn serve_counted(&self, is_measured: bool, worker: &mut dyn Worker) -> ThreadResult {
        let cpu = ThreadTime::now();
        let mut served = 0;
        let mut entries = 0;
        let mut burst = 1;
        loop {
            let since = self.start.elapsed();
            let has_ended =
                if is_measured { self.has_ended(served, since) } else { self.is_over() };
            if has_ended {
                break;
            }
            let due = self.due_at(since, is_measured);
            if served >= due {
                worker.on_idle();
                self.wait_for(served, is_measured);
                continue;
            }
            let batch = burst.min(due - served);
            entries += (0..batch).map(|_| worker.run_once()).sum::<u64>();
            served += batch;
            let was_quick = self.start.elapsed().saturating_sub(since) < QUICK;
            burst = if was_quick { (burst * 2).min(BURST_MAX) } else { 1 };
        }
        worker.on_idle();
        let elapsed = self.start.elapsed();
        let offered = match is_measured {
            true => self.count,
            false => self.due_at(elapsed, false).max(served),
        };
        ThreadResult {
            offered,
            served,
            entries,
            done: served,
            seconds: elapsed.as_secs_f64(),
            cpu: cpu.elapsed().as_secs_f64(),
        }
    }

    /// Whether all measured threads have ended.
    fn is_over(&self) -> bool {
        self.measured.load(Ordering::Relaxed) == 0
    }

    fn has_ended(&self, served: u64, since: Duration) -> bool {
        let is_hopeless = !self.times.is_patient
            && since >= self.times.offered
            && served.saturating_mul(4) < self.count;
        served == self.count || since >= self.times.bound || is_hopeless
    }

    /// Number of operations that are due after `elapsed`.
    fn due_at(&self, elapsed: Duration, is_measured: bool) -> u64 {
        let due = elapsed.as_nanos() * u128::from(self.count) / self.times.offered.as_nanos();
        let due = due as u64 + 1;
        if is_measured { due.min(self.count) } else { due }
    }

    #[expect(clippy::disallowed_methods, reason = "operations come at their time")]
    fn wait_for(&self, nth: u64, is_measured: bool) {
        let due = self.times.offered.as_nanos() * u128::from(nth) / u128::from(self.count);
        let left = Duration::from_nanos(due as u64).saturating_sub(self.start.elapsed());
        std::thread::sleep(if is_measured { left } else { left.min(NAP_MAX) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_thread_makes_its_side_extrapolated_at_the_rate_of_all() {
        let thread = |served, seconds| ThreadResult {
            offered: 100,
            served,
            entries: 7,
            done: served + 1,
            seconds,
            cpu: 0.5,
        };
        let ended = Side::new(&[thread(100, 1.0), thread(100, 2.0)]);
        assert_eq!((ended.served, ended.entries, ended.thread_max), (200, 14, 101));
        assert_eq!((ended.seconds, ended.cpu), (2.0, 1.0));
        // 25 and 25 a second.
        let stopped = Side::new(&[thread(25, 1.0), thread(75, 3.0)]);
        assert_eq!((stopped.seconds, stopped.cpu), (4.0, 2.0));
        // It has taken three seconds already.
        let one = Side::new(&[thread(100, 1.0), thread(90, 3.0)]);
        assert_eq!(one.seconds, 3.0);
        assert_eq!(Side::new(&[]), Side::default());
    }
}
