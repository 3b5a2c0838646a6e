//! What the plugin has counted.
//!
//! Not here: how it is written for Prometheus (`plugin_metrics`).

use metrics::Counters;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Account,
    Transaction,
    Slot,
    BlockMeta,
    Entry,
    /// A node of the cluster, or that one left.
    ContactInfo,
    /// An update that the full queue did not take.
    Dropped,
    /// All clients were closed because updates were lost.
    Loss,
    /// A callback with what this version of the interface does not send.
    Refused,
    /// An update of a slot whose bank was not announced: before the first bank after the start.
    Unannounced,
    /// A write of a bank that was whole.
    LateWrite,
    /// A bank whose transactions are not numbered from 0 without holes.
    IndexHole,
    /// A bank that was sent without the entries that it counts.
    WithoutEntries,
}

const EVENTS: usize = Event::WithoutEntries as usize + 1;

/// Counters that all threads share.
pub(crate) struct PluginCounters(Counters);

impl PluginCounters {
    pub(crate) fn new() -> Self {
        Self(Counters::new(EVENTS))
    }

    pub(crate) fn record(&self, event: Event) {
        self.0.add(event as usize, 1);
    }

    pub(crate) fn sum(&self, event: Event) -> u64 {
        self.0.sum(event as usize)
    }
}
