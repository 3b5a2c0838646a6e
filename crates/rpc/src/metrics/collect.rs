//! The metric families of the node: calls, the CPU pool, the response cache, HTTP, the ledger, memory.

use std::sync::Arc;
use std::time::Duration;

use pool::{Class, ClassCounters};

use super::exposition::{Exposition, MetricKind};
use super::http::seconds;
use super::{Collector, WebSocketMetrics, process};
use crate::{Node, NodeMemory, Status};

/// All metrics. Memory is measured by a walk over the ledger, so this must not run on a thread that polls sockets.
pub(crate) fn collect_text(node: &Node) -> String {
    let mut exposition = Exposition::default();
    let collectors = node.metrics.collectors.lock().clone();
    calls(&mut exposition, node, &collectors);
    pool(&mut exposition, node);
    response_cache(&mut exposition, node);
    node.metrics.http.write(&mut exposition);
    ledger(&mut exposition, node);
    memory(&mut exposition, node, &collectors);
    collectors.iter().for_each(|collector| collector.write(&mut exposition));
    process::write(&mut exposition);
    exposition.into_string()
}

/// The transport of a call.
const HTTP: (&str, &str) = ("transport", "http");
const WEBSOCKET: (&str, &str) = ("transport", "websocket");

fn calls(exposition: &mut Exposition, node: &Node, collectors: &[Arc<dyn Collector>]) {
    let websocket: Vec<&WebSocketMetrics> =
        collectors.iter().filter_map(|collector| collector.websocket_metrics()).collect();
    let of_http = node.metrics.calls().into_iter().map(|call| (HTTP, call));
    let of_websocket = websocket.iter().flat_map(|metrics| metrics.calls());
    let calls: Vec<_> = of_http.chain(of_websocket.map(|call| (WEBSOCKET, call))).collect();
    let help = "Calls whose response is complete, by method, execution path, class and transport.";
    let mut family = exposition.family("hydrant_requests_total", MetricKind::Counter, help);
    for (transport, (method, name, histogram)) in &calls {
        family.put(&call_labels(method, name, *transport), histogram.count());
    }
    let help = "Calls that failed, by error code; \"cut\": the response was truncated.";
    let mut family = exposition.family("hydrant_request_errors_total", MetricKind::Counter, help);
    let of_http = node.metrics.errors().into_iter().map(|error| (HTTP, error));
    let of_websocket = websocket.iter().flat_map(|metrics| metrics.errors());
    for (transport, (method, code, count)) in
        of_http.chain(of_websocket.map(|error| (WEBSOCKET, error)))
    {
        family.put(&[("method", method), ("code", &code), transport], count);
    }
    let help = "Time from the arrival of a request to the last byte of its response.";
    let mut family =
        exposition.family("hydrant_request_duration_seconds", MetricKind::Histogram, help);
    for (transport, (method, name, histogram)) in &calls {
        family.histogram(&call_labels(method, name, *transport), histogram);
    }
    let name = "hydrant_slow_requests_total";
    let help = "Requests slower than --slow-request-ms, logged or not.";
    exposition.single(name, MetricKind::Counter, help, node.metrics.slow_total());
}

/// The labels of a call: `name` is that of its execution path, or of its class in the pool.
fn call_labels<'a>(
    method: &'a str,
    name: &'a str,
    transport: (&'a str, &'a str),
) -> [(&'a str, &'a str); 4] {
    let is_class = Class::ALL.iter().any(|class| class.name() == name);
    let (path, class) = if is_class { ("pool", name) } else { (name, "none") };
    [("method", method), ("path", path), ("class", class), transport]
}

type ClassMetric = fn(&ClassCounters) -> u64;

fn pool(exposition: &mut Exposition, node: &Node) {
    let counters = node.pool.counters();
    let gauges: [(&str, &str, ClassMetric); 5] = [
        ("hydrant_requests_in_flight", "Tasks in the CPU pool that have not finished.", |it| {
            (it.queued + it.active) as u64
        }),
        ("hydrant_pool_tasks_queued", "Tasks that have not started.", |it| it.queued as u64),
        ("hydrant_pool_tasks_running", "Tasks in a time slice now.", |it| it.running as u64),
        ("hydrant_pool_tasks_active", "Tasks that have started and not finished.", |it| {
            it.active as u64
        }),
        (
            "hydrant_pool_tasks_blocked",
            "Tasks that wait for their client to read, or for the result of another task.",
            |it| it.blocked as u64,
        ),
    ];
    let totals: [(&str, &str, ClassMetric); 1] =
        [("hydrant_pool_slices_total", "Time slices that have run.", |it| it.time_slices)];
    let gauges = gauges.map(|(name, help, value)| (name, MetricKind::Gauge, help, value));
    let totals = totals.map(|(name, help, value)| (name, MetricKind::Counter, help, value));
    for (name, kind, help, value) in gauges.into_iter().chain(totals) {
        let mut family = exposition.family(name, kind, help);
        for class in Class::ALL {
            family.put(&[("class", class.name())], value(counters.class(class)));
        }
    }
    let help = "Tasks that have ended, by result.";
    let mut family = exposition.family("hydrant_pool_tasks_total", MetricKind::Counter, help);
    for class in Class::ALL {
        let counts = counters.class(class);
        let labels = |result| [("class", class.name()), ("result", result)];
        family.put(&labels("completed"), counts.completed);
        family.put(&labels("cancelled"), counts.cancelled);
        family.put(&labels("panicked"), counts.panicked);
        family.put(&labels("deadline_queued"), counts.expired_waiting);
        family.put(&labels("deadline"), counts.expired - counts.expired_waiting);
    }
    let help = "Requests rejected because of overload, by the limit that was reached.";
    let mut family = exposition.family("hydrant_rejected_total", MetricKind::Counter, help);
    for class in Class::ALL {
        let counts = counters.class(class);
        let labels = |cause| [("class", class.name()), ("cause", cause)];
        family.put(
            &labels("queue_full"),
            counts.rejected - counts.rejected_client - counts.rejected_share,
        );
        family.put(&labels("client_share"), counts.rejected_share);
        if class == Class::Heavy {
            family.put(&labels("client_heavy"), counts.rejected_client);
        }
    }
    let (requests, bytes) = node.clients.rejected();
    family.put(&[("class", "any"), ("cause", "client_rate")], requests);
    family.put(&[("class", "any"), ("cause", "client_bytes")], bytes);
    node.metrics.rejections.write(&mut family);
    let help = "Time that CPU threads spent in time slices.";
    let mut family =
        exposition.family("hydrant_pool_busy_seconds_total", MetricKind::Counter, help);
    for class in Class::ALL {
        family.put(&[("class", class.name())], seconds(counters.class(class).busy));
    }
    let help = "Time from a task's arrival to its first time slice.";
    let mut family = exposition.family("hydrant_pool_wait_seconds", MetricKind::Histogram, help);
    for class in Class::ALL {
        let wait = &counters.class(class).queue_wait;
        let last = pool::Histogram::BUCKETS - 1;
        let buckets = wait.buckets().enumerate().map(|(index, (below_us, count))| {
            let bound = if index == last { f64::INFINITY } else { below_us as f64 / 1e6 };
            (bound, count)
        });
        let sum = Duration::from_micros(wait.sum_us());
        family.buckets(&[("class", class.name())], buckets, seconds(sum));
    }
}

fn response_cache(exposition: &mut Exposition, node: &Node) {
    let cache::Counters { hits, misses, stale, coalesced, bypassed, evicted, bytes, entries } =
        node.response_cache.counters();
    let cache = ("cache", "responses");
    let help = "Cache lookups by result: hit; miss (no entry); stale (an entry whose dependencies have \
                changed). A miss or a stale lookup may also count as waited or as bypassed.";
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

fn ledger(exposition: &mut Exposition, node: &Node) {
    let views = node.reader.views();
    let levels = [
        ("processed", &views.processed),
        ("confirmed", &views.confirmed),
        ("finalized", &views.finalized),
    ];
    let mut family =
        exposition.family("hydrant_slot", MetricKind::Gauge, "Slot of the state, by commitment.");
    for (level, view) in levels {
        family.put(&[("commitment", level)], view.block().slot);
    }
    let help = "Blocks since genesis.";
    let mut family = exposition.family("hydrant_block_height", MetricKind::Gauge, help);
    for (level, view) in levels {
        family.put(&[("commitment", level)], view.meta().block_height);
    }
    let help = "Transactions since genesis.";
    let mut family = exposition.family("hydrant_transactions_total", MetricKind::Counter, help);
    for (level, view) in levels {
        family.put(&[("commitment", level)], view.meta().transaction_count);
    }
    let help = "Time since the slot last changed.";
    let mut family = exposition.family("hydrant_slot_age_seconds", MetricKind::Gauge, help);
    let ages = node.health.slot_ages(node.pool.now());
    for ((level, _), age) in levels.into_iter().zip(ages.into_iter().flatten()) {
        family.put(&[("commitment", level)], seconds(age));
    }
    let status = node.health.status();
    let help = "1 if /ready reports that the node can serve requests, otherwise 0.";
    exposition.single("hydrant_ready", MetricKind::Gauge, help, u8::from(status == Status::Ok));
    let behind = match status {
        Status::Ok => 0.0,
        Status::Behind { slots } => slots as f64,
        Status::Unknown => f64::NAN,
    };
    let help = "Slots by which the state is behind; NaN if unknown.";
    exposition.single("hydrant_slots_behind", MetricKind::Gauge, help, behind);
    let history = node.history.snapshot();
    if let Some(first) = history.first_slot() {
        let help = "First slot of the retained history.";
        exposition.single("hydrant_history_first_slot", MetricKind::Gauge, help, first);
    }
}

/// The parts of `hydrant_memory_bytes`, with their bytes. Memory is measured by a walk over the ledger, so this must
/// not run on a thread that polls sockets.
pub fn memory_parts(node: &Node) -> Vec<(&'static str, u64)> {
    let collectors = node.metrics.collectors.lock().clone();
    parts_of(node, &NodeMemory::for_node(node), &collectors)
}

fn parts_of(
    node: &Node,
    usage: &NodeMemory,
    collectors: &[Arc<dyn Collector>],
) -> Vec<(&'static str, u64)> {
    let bytes = usage.ledger;
    let parts = [
        ("addresses", bytes.addresses as u64),
        ("indices", bytes.indices as u64),
        ("packed", bytes.packed as u64),
        ("unpacked_records", bytes.unpacked as u64),
        ("ranks", bytes.ranks as u64),
        ("history", usage.history_bytes),
        ("response_cache", node.response_cache.counters().bytes),
    ];
    let others = collectors.iter().flat_map(|collector| collector.memory());
    parts.into_iter().chain(node.metrics.http.memory()).chain(others).collect()
}

fn memory(exposition: &mut Exposition, node: &Node, collectors: &[Arc<dyn Collector>]) {
    let usage = NodeMemory::for_node(node);
    let mut family =
        exposition.family("hydrant_memory_bytes", MetricKind::Gauge, "Memory in use, by part.");
    for (part, bytes) in parts_of(node, &usage, collectors) {
        family.put(&[("part", part)], bytes);
    }
    exposition.single("hydrant_addresses", MetricKind::Gauge, "Known addresses.", usage.addresses);
    exposition.single(
        "hydrant_accounts",
        MetricKind::Gauge,
        "Accounts in the state.",
        usage.accounts,
    );
}
