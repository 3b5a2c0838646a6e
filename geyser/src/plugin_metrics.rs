//! The metrics of the plugin, for Prometheus.
//!
//! In: the counters, and the queue of updates. Out: families of metrics, and the memory of the queue.
//! Not here: the port that serves them (`metrics_server`), the metrics of the gRPC server (`grpc`).

use metrics::{Collector, Exposition, MetricKind};

use crate::counters::Event;
use crate::update_queue::UpdateQueue;

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
            ("contact_info", Event::ContactInfo),
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
