//! The families of the node: calls, the CPU pool, the answer cache, HTTP, the ledger, memory.

use std::sync::Arc;
use std::time::Duration;

use pool::{Class, ClassCounters};

use super::exposition::{Exposition, MetricKind};
use super::http::seconds;
use super::{Collector, WebSocketMetrics, process};
use crate::{Node, NodeMemory, Status};

/// All figures. Memory is counted by walking the ledger, so not on a thread that polls sockets.
pub(crate) fn collect_text(node: &Node) -> String {
    let mut to = Exposition::default();
    let sources = node.metrics.collectors.lock().clone();
    calls(&mut to, node, &sources);
    pool(&mut to, node);
    response_cache(&mut to, node);
    node.metrics.http.write(&mut to);
    ledger(&mut to, node);
    memory(&mut to, node, &sources);
    sources.iter().for_each(|source| source.write(&mut to));
    process::write(&mut to);
    to.into_string()
}

/// What a call came over.
const HTTP: (&str, &str) = ("transport", "http");
const WEBSOCKET: (&str, &str) = ("transport", "websocket");

fn calls(to: &mut Exposition, node: &Node, sources: &[Arc<dyn Collector>]) {
    let spoken: Vec<&WebSocketMetrics> =
        sources.iter().filter_map(|source| source.websocket_metrics()).collect();
    let of_http = node.metrics.calls().into_iter().map(|call| (HTTP, call));
    let of_websocket = spoken.iter().flat_map(|spoken| spoken.calls());
    let calls: Vec<_> = of_http.chain(of_websocket.map(|call| (WEBSOCKET, call))).collect();
    let help =
        "Calls whose answer was made, by method, by where it was made, and what it came over.";
    let mut family = to.family("hydrant_requests_total", MetricKind::Counter, help);
    for (transport, (method, class, histogram)) in &calls {
        let labels = [("method", *method), ("class", *class), *transport];
        family.put(&labels, histogram.count());
    }
    let help = "Calls that got an error, by its code; \"cut\": the answer ended early.";
    let mut family = to.family("hydrant_request_errors_total", MetricKind::Counter, help);
    let of_http = node.metrics.errors().into_iter().map(|error| (HTTP, error));
    let of_websocket = spoken.iter().flat_map(|spoken| spoken.errors());
    for (transport, (method, code, count)) in
        of_http.chain(of_websocket.map(|error| (WEBSOCKET, error)))
    {
        family.put(&[("method", method), ("code", &code), transport], count);
    }
    let help = "Time from a request's arrival to the last byte of its answer.";
    let mut family = to.family("hydrant_request_duration_seconds", MetricKind::Histogram, help);
    for (transport, (method, class, histogram)) in &calls {
        family.histogram(&[("method", *method), ("class", *class), *transport], histogram);
    }
    let name = "hydrant_slow_requests_total";
    let help = "Requests slower than --slow-request-ms, logged or not.";
    to.single(name, MetricKind::Counter, help, node.metrics.slow_total());
}

type ClassMetric = fn(&ClassCounters) -> u64;

fn pool(to: &mut Exposition, node: &Node) {
    let counters = node.pool.counters();
    let gauges: [(&str, &str, ClassMetric); 5] = [
        (
            "hydrant_requests_in_flight",
            "Requests on the CPU pool whose answer is not made.",
            |it| (it.queued + it.active) as u64,
        ),
        ("hydrant_pool_queue_depth", "Tasks that have not begun.", |it| it.queued as u64),
        ("hydrant_pool_running", "Tasks in a slice right now.", |it| it.running as u64),
        ("hydrant_pool_begun", "Tasks begun and not done.", |it| it.active as u64),
        (
            "hydrant_pool_parked",
            "Tasks that wait for their client to read, or for the answer of another.",
            |it| it.blocked as u64,
        ),
    ];
    let totals: [(&str, &str, ClassMetric); 4] = [
        ("hydrant_pool_slices_total", "Slices run.", |it| it.time_slices),
        ("hydrant_pool_done_total", "Tasks that were done.", |it| it.completed),
        ("hydrant_pool_cancelled_total", "Tasks whose client left.", |it| it.cancelled),
        ("hydrant_pool_panicked_total", "Tasks that panicked.", |it| it.panicked),
    ];
    let gauges = gauges.map(|(name, help, figure)| (name, MetricKind::Gauge, help, figure));
    let totals = totals.map(|(name, help, figure)| (name, MetricKind::Counter, help, figure));
    for (name, kind, help, figure) in gauges.into_iter().chain(totals) {
        let mut family = to.family(name, kind, help);
        for class in Class::ALL {
            family.put(&[("class", class.name())], figure(counters.class(class)));
        }
    }
    let help = "Tasks whose deadline was over before they began, or were done.";
    let mut family = to.family("hydrant_pool_expired_total", MetricKind::Counter, help);
    for class in Class::ALL {
        let of = counters.class(class);
        let labels = |when| [("class", class.name()), ("when", when)];
        family.put(&labels("waiting"), of.expired_waiting);
        family.put(&labels("begun"), of.expired - of.expired_waiting);
    }
    let help = "Requests refused because there is too much to do, by what was full.";
    let mut family = to.family("hydrant_rejected_total", MetricKind::Counter, help);
    for class in Class::ALL {
        let of = counters.class(class);
        let labels = |cause| [("class", class.name()), ("cause", cause)];
        family.put(&labels("queue_full"), of.rejected - of.rejected_client - of.rejected_share);
        family.put(&labels("client_share"), of.rejected_share);
        if class == Class::Heavy {
            family.put(&labels("client_heavy"), of.rejected_client);
        }
    }
    let (requests, bytes) = node.clients.rejected();
    family.put(&[("class", "any"), ("cause", "client_rate")], requests);
    family.put(&[("class", "any"), ("cause", "client_bytes")], bytes);
    node.metrics.rejections.write(&mut family);
    let help = "Time of CPU threads in slices.";
    let mut family = to.family("hydrant_pool_busy_seconds_total", MetricKind::Counter, help);
    for class in Class::ALL {
        family.put(&[("class", class.name())], seconds(counters.class(class).busy));
    }
    let help = "Time from a task's arrival to its first slice.";
    let mut family = to.family("hydrant_pool_wait_seconds", MetricKind::Histogram, help);
    for class in Class::ALL {
        let waited = &counters.class(class).queue_wait;
        let last = pool::Histogram::BUCKETS - 1;
        let buckets = waited.buckets().enumerate().map(|(at, (below_us, count))| {
            let bound = if at == last { f64::INFINITY } else { below_us as f64 / 1e6 };
            (bound, count)
        });
        let sum = Duration::from_micros(waited.sum_us());
        family.buckets(&[("class", class.name())], buckets, seconds(sum));
    }
}

fn response_cache(to: &mut Exposition, node: &Node) {
    let cache::Counters {
        hits,
        misses,
        stale,
        coalesced: shared,
        bypassed,
        evicted,
        bytes,
        entries,
    } = node.response_cache.counters();
    let cache = ("cache", "answers");
    let help = "Look-ups of a cache: hit; miss (not there); stale (there, but what it was read from \
                changed). Of those that were no hit: waited for another's, or bypassed the cache.";
    let mut family = to.family("hydrant_cache_lookups_total", MetricKind::Counter, help);
    let looked = [("hit", hits), ("miss", misses), ("stale", stale)];
    for (result, count) in looked {
        family.put(&[cache, ("result", result)], count);
    }
    let name = "hydrant_cache_waited_total";
    let help = "Look-ups that waited for an answer that somebody else was making.";
    to.family(name, MetricKind::Counter, help).put(&[cache], shared);
    let name = "hydrant_cache_bypassed_total";
    let help = "Look-ups whose answer is too large to keep, or that too many wait for.";
    to.family(name, MetricKind::Counter, help).put(&[cache], bypassed);
    let name = "hydrant_cache_evicted_total";
    to.family(name, MetricKind::Counter, "Answers that made room for others.")
        .put(&[cache], evicted);
    to.family("hydrant_cache_bytes", MetricKind::Gauge, "Bytes held.").put(&[cache], bytes);
    to.family("hydrant_cache_entries", MetricKind::Gauge, "Answers held.").put(&[cache], entries);
}

fn ledger(to: &mut Exposition, node: &Node) {
    let views = node.reader.views();
    let levels = [
        ("processed", &views.processed),
        ("confirmed", &views.confirmed),
        ("finalized", &views.finalized),
    ];
    let mut family = to.family("hydrant_slot", MetricKind::Gauge, "Slot of the state.");
    for (level, view) in levels {
        family.put(&[("commitment", level)], view.block().slot);
    }
    let help = "Blocks since genesis.";
    let mut family = to.family("hydrant_block_height", MetricKind::Gauge, help);
    for (level, view) in levels {
        family.put(&[("commitment", level)], view.meta().block_height);
    }
    let help = "Transactions since genesis.";
    let mut family = to.family("hydrant_transactions_total", MetricKind::Counter, help);
    for (level, view) in levels {
        family.put(&[("commitment", level)], view.meta().transaction_count);
    }
    let help = "For how long the slot has not moved.";
    let mut family = to.family("hydrant_slot_age_seconds", MetricKind::Gauge, help);
    let ages = node.health.slot_ages(node.pool.now());
    for ((level, _), age) in levels.into_iter().zip(ages.into_iter().flatten()) {
        family.put(&[("commitment", level)], seconds(age));
    }
    let status = node.health.status();
    let help = "Whether requests are to be sent here, as /ready says: 1 or 0.";
    to.single("hydrant_ready", MetricKind::Gauge, help, u8::from(status == Status::Ok));
    let behind = match status {
        Status::Ok => 0.0,
        Status::Behind { slots } => slots as f64,
        Status::Unknown => f64::NAN,
    };
    let help = "Slots that the state is behind what it should be; NaN if nobody knows.";
    to.single("hydrant_slots_behind", MetricKind::Gauge, help, behind);
    let history = node.history.snapshot();
    if let Some(first) = history.first_slot() {
        let help = "The first slot of the history that is kept.";
        to.single("hydrant_history_first_slot", MetricKind::Gauge, help, first);
    }
}

fn memory(to: &mut Exposition, node: &Node, sources: &[Arc<dyn Collector>]) {
    let usage = NodeMemory::for_node(node);
    let bytes = usage.ledger;
    let parts = [
        ("addresses", bytes.addresses as u64),
        ("indices", bytes.indices as u64),
        ("packed", bytes.packed as u64),
        ("kept", bytes.unpacked as u64),
        ("ranks", bytes.ranks as u64),
        ("history", usage.history_bytes),
        ("answers", node.response_cache.counters().bytes),
    ];
    let mut family = to.family("hydrant_memory_bytes", MetricKind::Gauge, "Memory of each part.");
    let others = sources.iter().flat_map(|source| source.memory());
    let http = node.metrics.http.memory();
    for (part, bytes) in parts.into_iter().chain(http).chain(others) {
        family.put(&[("part", part)], bytes);
    }
    to.single("hydrant_addresses", MetricKind::Gauge, "Addresses that are known.", usage.addresses);
    to.single("hydrant_accounts", MetricKind::Gauge, "Accounts that are held.", usage.accounts);
}
