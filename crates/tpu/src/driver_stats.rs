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
    /// Receive buffers that the driver had allocated when the counts were last published.
    buffers_made: u64,
    /// Bytes of unfinished transactions when the counts were last published.
    unfinished_bytes: u64,
    refused: Vec<(DropReason, u64)>,
}

impl DriverStats {
    pub(crate) fn refuse(&mut self, cause: DropReason) {
        match self.refused.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += 1,
            None => self.refused.push((cause, 1)),
        }
    }

    /// Adds the counts to `counters`. `buffers_made` is the number of receive buffers that the driver has allocated
    /// so far, `unfinished_bytes` the present bytes of its unfinished transactions.
    pub(crate) fn publish(
        &mut self,
        buffers_made: u64,
        unfinished_bytes: u64,
        counters: &Counters,
    ) {
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
        add(&counters.buffers_made, buffers_made - stats.buffers_made);
        self.buffers_made = buffers_made;
        // The difference wraps around if there are fewer than before; the sum is still right.
        let change = unfinished_bytes.wrapping_sub(stats.unfinished_bytes);
        counters.unfinished_bytes.fetch_add(change, Ordering::Relaxed);
        self.unfinished_bytes = unfinished_bytes;
        for (cause, count) in &stats.refused {
            counters.refuse_many(*cause, *count);
        }
        // Reuse its memory.
        self.refused = stats.refused;
        self.refused.clear();
    }
}
