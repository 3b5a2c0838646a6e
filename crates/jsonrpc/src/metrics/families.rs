//! The text of a scrape: the metric families of calls and of memory, and those of every collector.

use std::sync::Arc;

use bytes::Bytes;
use cpu_pool::Class;
use metrics::{Collector, Exposition, MetricKind};

use super::{Metrics, process};

const HTTP: (&str, &str) = ("transport", "http");
const WEBSOCKET: (&str, &str) = ("transport", "websocket");

impl Metrics {
    /// All metrics, with those of `node`, collected after this call; `None` if the collection panicked.
    pub async fn scrape(self: &Arc<Self>, node: Arc<dyn Collector>) -> Option<Bytes> {
        let metrics = Arc::clone(self);
        self.scrape_cache.scrape(move || metrics.collect_text(&*node)).await
    }

    /// All metrics, with those of `node`. A collector may block and may walk the ledger, so this must not run on a
    /// thread that polls sockets.
    pub(super) fn collect_text(&self, node: &dyn Collector) -> String {
        let mut exposition = Exposition::default();
        let collectors = self.collectors.lock().clone();
        self.write_calls(&mut exposition);
        node.write(&mut exposition);
        self.http.write(&mut exposition);
        let help = "Memory in use, by part.";
        let mut family = exposition.family("hydrant_memory_bytes", MetricKind::Gauge, help);
        for (part, bytes) in self.memory_parts(node) {
            family.put(&[("part", part)], bytes);
        }
        collectors.iter().for_each(|collector| collector.write(&mut exposition));
        process::write(&mut exposition);
        exposition.into_string()
    }

    /// The parts of `hydrant_memory_bytes`, with their bytes: those of `node`, of HTTP and of each collector. A collector
    /// may walk the ledger, so this must not run on a thread that polls sockets.
    pub fn memory_parts(&self, node: &dyn Collector) -> Vec<(&'static str, u64)> {
        let collectors = self.collectors.lock().clone();
        let others = collectors.iter().flat_map(|collector| collector.memory());
        node.memory().into_iter().chain(self.http.memory()).chain(others).collect()
    }

    fn write_calls(&self, exposition: &mut Exposition) {
        let websocket = self.websocket.lock().clone();
        let of_http = self.calls().into_iter().map(|call| (HTTP, call));
        let of_websocket = websocket.iter().flat_map(|metrics| metrics.calls());
        let calls: Vec<_> = of_http.chain(of_websocket.map(|call| (WEBSOCKET, call))).collect();
        let help =
            "Calls whose response is complete, by method, execution path, class and transport.";
        let mut family = exposition.family("hydrant_requests_total", MetricKind::Counter, help);
        for (transport, (method, name, histogram)) in &calls {
            family.put(&call_labels(method, name, *transport), histogram.count());
        }
        let help = "Calls that failed, by error code; \"cut\": the response was truncated.";
        let mut family =
            exposition.family("hydrant_request_errors_total", MetricKind::Counter, help);
        let of_http = self.errors().into_iter().map(|error| (HTTP, error));
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
        exposition.single(name, MetricKind::Counter, help, self.slow_log.total());
    }
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
