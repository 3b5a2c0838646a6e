//! The times at which banks became visible, and their cost: the follower's events, and the CPU time of its threads.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use chain_solana::{EventSink, LedgerEvent};
use follow::CheckTimes;
use hdrhistogram::Histogram;
use parking_lot::{Condvar, Mutex};
use testkit::clock::now;

use super::chain::Slot;
use super::memory::AboveRoot;
use super::source::Pace;

/// The threads that receive and decode.
pub(super) const STREAM_THREAD: &str = "streams";
/// How the names of the threads begin that check transactions.
const CHECK_THREADS: &str = "follow-check";

/// A sink that records when a slot was the tip first, and when it was confirmed.
#[derive(Clone)]
pub(super) struct Recorder {
    last: u64,
    shared: Arc<(Mutex<SlotTimes>, Condvar)>,
}

/// When each slot was the tip first, and when it was confirmed.
#[derive(Default)]
struct SlotTimes {
    visible: BTreeMap<u64, Instant>,
    confirmed: BTreeMap<u64, Instant>,
}

impl Recorder {
    /// The run is over when `last` is the tip, and the slot before it is confirmed.
    pub(super) fn new(last: u64) -> Self {
        Self { last, shared: Arc::default() }
    }

    /// Waits for the end of the run. False if it takes too long.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let (slot_times, changed) = &*self.shared;
        let mut slot_times = slot_times.lock();
        let is_open = |slot_times: &mut SlotTimes| !self.is_over(slot_times);
        !changed.wait_while_for(&mut slot_times, is_open, timeout).timed_out()
    }

    fn is_over(&self, slot_times: &SlotTimes) -> bool {
        slot_times.visible.contains_key(&self.last)
            && slot_times.confirmed.contains_key(&(self.last - 1))
    }
}

impl EventSink for Recorder {
    fn send(&mut self, event: &LedgerEvent) {
        let (slot_times, changed) = &*self.shared;
        let mut slot_times = slot_times.lock();
        match event {
            LedgerEvent::TipMoved { block } => slot_times.visible.insert(block.slot, now()),
            LedgerEvent::Confirmed { block, .. } => {
                slot_times.confirmed.insert(block.id.slot, now())
            }
            _ => return,
        };
        if self.is_over(&slot_times) {
            changed.notify_all();
        }
    }
}

/// The times of a run, and its CPU time and memory.
pub(super) struct Times {
    pub(super) recorder: Recorder,
    pub(super) began: Instant,
    pub(super) pace: Pace,
    /// Nanoseconds of CPU time by the name of the thread.
    pub(super) cpu: BTreeMap<String, u64>,
    pub(super) memory: AboveRoot,
    /// In which the follower hashed accounts.
    pub(super) hash_time: Duration,
    /// In which it checked transactions.
    pub(super) check_times: CheckTimes,
}

impl Times {
    /// Seconds until the last bank was the tip.
    pub(super) fn seconds(&self) -> Result<f64> {
        let slot_times = self.recorder.shared.0.lock();
        let visible = slot_times.visible.get(&self.recorder.last).context("the last bank")?;
        Ok((*visible - self.began).as_secs_f64())
    }

    /// Microseconds from when the metadata of a slot was due until the slot, or a later one, was the tip.
    pub(super) fn lags(
        &self,
        slots: &[Slot],
        counts: impl Fn(usize) -> bool,
    ) -> Result<Histogram<u64>> {
        let slot_times = self.recorder.shared.0.lock();
        let mut lags = Histogram::new(3)?;
        for (n, slot) in slots.iter().enumerate().filter(|(n, _)| counts(*n)) {
            let visible = slot_times.visible.range(slot.slot..).map(|(_, at)| *at).min();
            let visible = visible.with_context(|| format!("slot {} is no tip", slot.slot))?;
            let due = self.pace.slot_start(self.began, n + 1);
            lags.record(visible.saturating_duration_since(due).as_micros() as u64)?;
        }
        Ok(lags)
    }

    /// Microseconds from when the SlotHashes of a slot's child was due until the slot was confirmed.
    pub(super) fn verdicts(&self, slots: &[Slot]) -> Result<Histogram<u64>> {
        let slot_times = self.recorder.shared.0.lock();
        let mut verdicts = Histogram::new(3)?;
        for (n, slot) in slots.iter().enumerate().take(slots.len() - 1) {
            let confirmed = slot_times.confirmed.get(&slot.slot);
            let confirmed = confirmed.with_context(|| format!("slot {}", slot.slot))?;
            let due = self.pace.slot_start(self.began, n + 1);
            verdicts.record(confirmed.saturating_duration_since(due).as_micros() as u64)?;
        }
        Ok(verdicts)
    }

    /// Cores that the threads used that check transactions.
    pub(super) fn check_cores(&self) -> Result<f64> {
        let is_check = |(name, _): &(&String, &u64)| name.starts_with(CHECK_THREADS);
        let used: u64 = self.cpu.iter().filter(is_check).map(|(_, used)| used).sum();
        Ok(used as f64 / 1e9 / self.seconds()?)
    }

    /// Cores that threads used from the first byte to the last bank.
    pub(super) fn cores(&self, names: &[&str]) -> Result<f64> {
        let used: u64 = names.iter().filter_map(|name| self.cpu.get(*name)).sum();
        Ok(used as f64 / 1e9 / self.seconds()?)
    }
}

/// CPU time of this process's threads by name, in nanoseconds.
pub(super) fn thread_cpu() -> Result<BTreeMap<String, u64>> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        // A thread may have ended.
        let (Ok(name), Ok(stat)) =
            (fs::read_to_string(task.join("comm")), fs::read_to_string(task.join("schedstat")))
        else {
            continue;
        };
        let used: u64 = stat.split_whitespace().next().context("an empty schedstat")?.parse()?;
        *times.entry(name.trim_end().to_owned()).or_default() += used;
    }
    Ok(times)
}
