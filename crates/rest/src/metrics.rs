//! Metrics of each route: requests by status, and the time until the response started.
//!
//! The methods that a route calls are counted like any other call (`jsonrpc::metrics`).

use std::time::Duration;

use hyper::StatusCode;
use metrics::{BucketBounds, Collector, Counters, Exposition, Histograms, MetricKind};

use crate::route::{HttpMethod, Route};

/// Statuses by their first digit, 1 to 5.
const STATUSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A route in metrics: its index in the table. Requests without a route come after all routes.
#[derive(Clone, Copy)]
pub(crate) struct RouteLabel(usize);

/// The metrics by the label of a route.
pub(crate) struct RestMetrics {
    routes: &'static [Route],
    durations: Histograms,
    statuses: Counters,
}

impl RestMetrics {
    pub(crate) fn new(routes: &'static [Route]) -> Self {
        let len = routes.len() + 1;
        let durations = Histograms::new(len, BucketBounds::LOG_LINEAR);
        Self { routes, durations, statuses: Counters::new(len * STATUSES.len()) }
    }

    /// Returns the label of a route, or of requests without one.
    pub(crate) fn label(&self, route: Option<&Route>) -> RouteLabel {
        let index = |route: &Route| self.routes.iter().position(|one| one.id == route.id);
        RouteLabel(route.and_then(index).unwrap_or(self.routes.len()))
    }

    /// Counts a response and the time until it started.
    pub(crate) fn record(
        &self,
        RouteLabel(route): RouteLabel,
        status: StatusCode,
        duration: Duration,
    ) {
        self.durations.record(route, duration);
        let class = usize::from(status.as_u16() / 100).clamp(1, STATUSES.len()) - 1;
        self.statuses.add(route * STATUSES.len() + class, 1);
    }
}

impl Collector for RestMetrics {
    fn write(&self, out: &mut Exposition) {
        let name = |route: usize| match self.routes.get(route) {
            Some(route) => {
                let verb = if route.method == HttpMethod::Get { "GET" } else { "POST" };
                // Some parsers of metrics take a brace as the end of the labels.
                format!("{verb} {}", route.path.replace('{', ":").replace('}', ""))
            }
            None => "other".to_owned(),
        };
        let routes: Vec<String> = (0..=self.routes.len()).map(name).collect();
        let help = "Requests to REST by route and status.";
        let mut family = out.family("hydrant_rest_requests_total", MetricKind::Counter, help);
        for (index, route) in routes.iter().enumerate() {
            for (class, status) in STATUSES.iter().enumerate() {
                let count = self.statuses.sum(index * STATUSES.len() + class);
                if count > 0 {
                    family.put(&[("route", route), ("status", status)], count);
                }
            }
        }
        let name = "hydrant_rest_request_duration_seconds";
        let help = "Time from a request to REST to the start of its response.";
        let mut family = out.family(name, MetricKind::Histogram, help);
        for (index, route) in routes.iter().enumerate() {
            let histogram = self.durations.histogram(index);
            if histogram.count() > 0 {
                family.histogram(&[("route", route)], &histogram);
            }
        }
    }
}
