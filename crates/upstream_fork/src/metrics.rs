//! Metrics of the fork of another cluster.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Collector, Exposition, MetricKind};

use crate::counters::CALL_ENDS;
use crate::fork::UpstreamFork;

impl Collector for UpstreamFork {
    fn write(&self, out: &mut Exposition) {
        let shared = self.shared();
        let usage = shared.registry.usage();
        let help = "Addresses of which the fork knows that they came from the upstream, are absent there, are the \
                    ledger's own, or are never fetched.";
        let mut family = out.family("hydrant_fork_upstream_addresses", MetricKind::Gauge, help);
        family.put(&[("from", "upstream")], usage.fetched);
        family.put(&[("from", "absent")], usage.absent);
        family.put(&[("from", "ledger")], usage.local);
        family.put(&[("from", "offline")], usage.offline);
        let help = "Bytes that the upstream's accounts count towards --fork-bytes-max.";
        out.single("hydrant_fork_upstream_bytes", MetricKind::Gauge, help, usage.bytes);
        let help = "The limit of these bytes.";
        let bytes_max = shared.registry.bytes_max();
        out.single("hydrant_fork_upstream_bytes_max", MetricKind::Gauge, help, bytes_max);
        let help = "Requests that wait for a thread that asks the upstream.";
        let waiting = shared.fetches.len() as u64;
        out.single("hydrant_fork_upstream_requests_waiting", MetricKind::Gauge, help, waiting);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &shared.counters;
        let help = "Calls of the upstream by how they ended.";
        let name = "hydrant_fork_upstream_calls_total";
        let mut family = out.family(name, MetricKind::Counter, help);
        for (end, calls) in CALL_ENDS.iter().zip(&counters.calls) {
            family.put(&[("result", end)], count(calls));
        }
        for (name, help, counter) in [
            (
                "hydrant_fork_upstream_requests_failed_total",
                "Requests whose accounts could not be fetched.",
                &counters.failed_requests,
            ),
            (
                "hydrant_fork_upstream_transactions_dropped_total",
                "Transactions over QUIC whose accounts could not be fetched.",
                &counters.dropped_transactions,
            ),
            (
                "hydrant_fork_cache_hits_total",
                "Accounts that came from the cache on disk.",
                &counters.cache_hits,
            ),
            (
                "hydrant_fork_cache_left_out_total",
                "Accounts that were not stored in the cache on disk: it was full, or could not be written.",
                &counters.cache_left_out,
            ),
        ] {
            out.single(name, MetricKind::Counter, help, count(counter));
        }
        let (accounts, bytes) = shared.cache_usage();
        let help = "Accounts in the cache on disk.";
        out.single("hydrant_fork_cache_accounts", MetricKind::Gauge, help, accounts);
        let help = "Bytes of the cache on disk.";
        out.single("hydrant_fork_cache_bytes", MetricKind::Gauge, help, bytes);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("upstream_fork", self.shared().memory_bytes())]
    }
}
