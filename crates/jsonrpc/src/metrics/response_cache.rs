//! The metric families of the response cache.

use metrics::{Exposition, MetricKind};

pub(super) fn write(exposition: &mut Exposition, counters: cache::Counters) {
    let cache::Counters { hits, misses, stale, coalesced, bypassed, evicted, bytes, entries } =
        counters;
    let cache = ("cache", "responses");
    let help = "Cache lookups by result: hit, or a REST response that is sent again without a lookup; miss (no entry); \
                stale (an entry whose dependencies have changed). A miss or a stale lookup may also count as waited \
                or as bypassed.";
    let mut family = exposition.family("hydrant_cache_lookups_total", MetricKind::Counter, help);
    let results = [("hit", hits), ("miss", misses), ("stale", stale)];
    for (result, count) in results {
        family.put(&[cache, ("result", result)], count);
    }
    let name = "hydrant_cache_coalesced_total";
    let help = "Lookups that waited for the result of another request.";
    exposition.family(name, MetricKind::Counter, help).put(&[cache], coalesced);
    let name = "hydrant_cache_bypasses_total";
    let help =
        "Lookups whose result was too large for the cache, or had too many waiting requests.";
    exposition.family(name, MetricKind::Counter, help).put(&[cache], bypassed);
    let name = "hydrant_cache_evictions_total";
    exposition
        .family(name, MetricKind::Counter, "Entries evicted because the cache was full.")
        .put(&[cache], evicted);
    exposition
        .family("hydrant_cache_bytes", MetricKind::Gauge, "Bytes in use.")
        .put(&[cache], bytes);
    exposition
        .family("hydrant_cache_entries", MetricKind::Gauge, "Entries in the cache.")
        .put(&[cache], entries);
}
