//! What the plugin has counted.

use metrics::{Collector, Counters, Exposition, MetricKind};

use crate::update_queue::UpdateQueue;

/// An event that is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Account,
    Transaction,
    Slot,
    BlockMeta,
    Entry,
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

impl Collector for UpdateQueue {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("geyser_queue", self.bytes() as u64)]
    }

    fn write(&self, out: &mut Exposition) {
        let counters = &self.counters;
        let help = "Updates that the validator has sent, by kind.";
        let mut family = out.family("hydrant_geyser_updates_total", MetricKind::Counter, help);
        for (kind, event) in [
            ("account", Event::Account),
            ("transaction", Event::Transaction),
            ("slot", Event::Slot),
            ("block_meta", Event::BlockMeta),
            ("entry", Event::Entry),
        ] {
            family.put(&[("kind", kind)], counters.sum(event));
        }
        let help = "What went wrong, by event: updates dropped at the queue's bound, times that all clients were \
                    closed for lost updates, updates of another interface, updates before the first announced bank, \
                    writes after a bank was whole, banks with holes in the numbers of transactions, banks without \
                    the entries that they count.";
        let mut family = out.family("hydrant_geyser_events_total", MetricKind::Counter, help);
        for (name, event) in [
            ("dropped", Event::Dropped),
            ("loss", Event::Loss),
            ("refused", Event::Refused),
            ("unannounced", Event::Unannounced),
            ("late_write", Event::LateWrite),
            ("index_hole", Event::IndexHole),
            ("without_entries", Event::WithoutEntries),
        ] {
            family.put(&[("event", name)], counters.sum(event));
        }
        let help = "Bytes of updates that wait for the plugin's thread.";
        out.single("hydrant_geyser_queue_bytes", MetricKind::Gauge, help, self.bytes());
    }
}
