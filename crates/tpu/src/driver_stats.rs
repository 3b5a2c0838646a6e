//! Counts of one driver. They are published in batches, so that an event costs no atomic addition.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::{Counters, DropReason};

/// Counts of one driver since the last [`DriverStats::publish`].
#[derive(Default)]
pub(crate) struct DriverStats {
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
    pub(crate) datagrams: u64,
    pub(crate) rounds: u64,
    pub(crate) admitted: u64,
    pub(crate) ended: u64,
    pub(crate) retries: u64,
    /// The gauges that were last published.
    published: DriverGauges,
    refused: Vec<(DropReason, u64)>,
}

/// Present values of one driver.
#[derive(Clone, Copy, Default)]
pub(crate) struct DriverGauges {
    /// Receive buffers that the driver has allocated so far.
    pub(crate) buffers_made: u64,
    /// Bytes of its unfinished transactions.
    pub(crate) unfinished_bytes: u64,
    /// States of streams of its connections.
    pub(crate) stream_states: u64,
}

impl DriverStats {
    pub(crate) fn refuse(&mut self, cause: DropReason) {
        match self.refused.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += 1,
            None => self.refused.push((cause, 1)),
        }
    }

    /// Adds the counts, and the changes of the gauges, to `counters`.
    pub(crate) fn publish(&mut self, gauges: DriverGauges, counters: &Counters) {
        let stats = std::mem::take(self);
        let add = |to: &AtomicU64, count: u64| {
            if count > 0 {
                to.fetch_add(count, Ordering::Relaxed);
            }
        };
        add(&counters.received, stats.received);
        add(&counters.received_bytes, stats.received_bytes);
        add(&counters.datagrams, stats.datagrams);
        add(&counters.rounds, stats.rounds);
        add(&counters.retries, stats.retries);
        add(&counters.connections, stats.admitted);
        add(&counters.open, stats.admitted);
        counters.open.fetch_sub(stats.ended, Ordering::Relaxed);
        let before = stats.published;
        // The difference wraps around if there are fewer than before; the sum is still right.
        let change = |of: &AtomicU64, now: u64, before: u64| {
            add(of, now.wrapping_sub(before));
        };
        change(&counters.buffers_made, gauges.buffers_made, before.buffers_made);
        change(&counters.unfinished_bytes, gauges.unfinished_bytes, before.unfinished_bytes);
        change(&counters.stream_states, gauges.stream_states, before.stream_states);
        self.published = gauges;
        for (cause, count) in &stats.refused {
            counters.refuse_many(*cause, *count);
        }
        // Reuse its memory.
        self.refused = stats.refused;
        self.refused.clear();
    }
}
