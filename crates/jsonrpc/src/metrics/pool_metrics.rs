//! The metric families of the CPU pool, and of requests that were rejected because of overload.

use clients::RateLimiter;
use cpu_pool::{Class, ClassCounters, Pool};
use metrics::{Exposition, MetricKind};

use super::Metrics;

type ClassMetric = fn(&ClassCounters) -> u64;

pub(super) fn write(
    exposition: &mut Exposition,
    pool: &Pool,
    clients: &RateLimiter,
    metrics: &Metrics,
) {
    let counters = pool.counters();
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
    let (requests, bytes) = clients.rejected();
    family.put(&[("class", "any"), ("cause", "client_rate")], requests);
    family.put(&[("class", "any"), ("cause", "client_bytes")], bytes);
    metrics.rejections.write(&mut family);
    let help = "Time that CPU threads spent in time slices.";
    let mut family =
        exposition.family("hydrant_pool_busy_seconds_total", MetricKind::Counter, help);
    for class in Class::ALL {
        family.put(&[("class", class.name())], counters.class(class).busy.as_secs_f64());
    }
    let help = "Time from a task's arrival to its first time slice.";
    let mut family = exposition.family("hydrant_pool_wait_seconds", MetricKind::Histogram, help);
    for class in Class::ALL {
        family.histogram(&[("class", class.name())], &counters.class(class).queue_wait);
    }
}
