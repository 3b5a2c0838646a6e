//! What a node tells of itself to those who watch it: `/ready`, and `/metrics` as Prometheus reads it.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use ledger::Commitment;
use pool::{Class, ClassCounters, Counters, Histogram};
use rpc::error::RpcError;
use rpc::{Content, Node, Status, Usage};

use crate::error::Problem;

/// Whether requests are to be sent here: 200, or 503 with why not.
pub(crate) fn ready(node: &Node) -> Response<Content> {
    let (status, text) = match node.health.status() {
        Status::Ok => (StatusCode::OK, "ready\n".to_owned()),
        Status::Behind { slots } => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("behind by {slots} slots\n"))
        }
        Status::Unknown => (StatusCode::SERVICE_UNAVAILABLE, "unknown\n".to_owned()),
    };
    let mut response = plain("text/plain; charset=utf-8", text);
    *response.status_mut() = status;
    response
}

/// All figures. Memory is counted by walking the ledger, so not on a thread that polls sockets.
pub(crate) async fn text(node: &Arc<Node>) -> Result<Response<Content>, Problem> {
    let node = Arc::clone(node);
    let text = tokio::task::spawn_blocking(move || figures(&node)).await;
    let text = text.map_err(|_| RpcError::internal())?;
    Ok(plain("text/plain; version=0.0.4; charset=utf-8", text))
}

fn plain(media: &'static str, text: String) -> Response<Content> {
    let mut response = Response::new(Content::from(Bytes::from(text)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Lines of Prometheus' text format.
struct Figures(String);

impl Figures {
    /// A family of figures of one name, each with its labels.
    fn family(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        figures: impl IntoIterator<Item = (String, u64)>,
    ) {
        // A String takes everything.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, figure) in figures {
            let _ = writeln!(self.0, "{name}{labels} {figure}");
        }
    }
}

fn figures(node: &Node) -> String {
    let mut out = Figures(String::new());
    let levels = [
        ("processed", Commitment::Processed),
        ("confirmed", Commitment::Confirmed),
        ("finalized", Commitment::Finalized),
    ];
    let slots = levels.map(|(name, level)| {
        (format!("{{commitment=\"{name}\"}}"), node.reader.view(level).block().slot)
    });
    out.family(("hydrant_slot", "gauge", "Slot of the state at each commitment"), slots);
    let behind = match node.health.status() {
        Status::Ok => 0,
        Status::Behind { slots } => slots,
        Status::Unknown => u64::MAX,
    };
    let help = "Slots that the state is behind its source; the largest number if nobody knows";
    out.family(("hydrant_slots_behind", "gauge", help), [(String::new(), behind)]);
    pool_figures(&mut out, &node.pool.counters());
    let usage = Usage::of(node);
    let bytes = usage.ledger;
    let parts = [
        ("addresses", bytes.addresses as u64),
        ("indices", bytes.indices as u64),
        ("packed", bytes.packed as u64),
        ("kept", bytes.kept as u64),
        ("ranks", bytes.ranks as u64),
        ("history", usage.history_bytes),
    ]
    .map(|(part, bytes)| (format!("{{part=\"{part}\"}}"), bytes));
    out.family(("hydrant_memory_bytes", "gauge", "Memory of each part"), parts);
    let count = |count: usize| [(String::new(), count as u64)];
    out.family(("hydrant_addresses", "gauge", "Addresses that are known"), count(usage.addresses));
    out.family(("hydrant_accounts", "gauge", "Accounts that are held"), count(usage.accounts));
    out.0
}

fn pool_figures(out: &mut Figures, counters: &Counters) {
    type Figure = fn(&ClassCounters) -> u64;
    let families: [(&str, &str, &str, Figure); 10] = [
        ("hydrant_pool_queued", "gauge", "Tasks that have not begun", |it| it.queued as u64),
        ("hydrant_pool_running", "gauge", "Tasks in a step right now", |it| it.running as u64),
        ("hydrant_pool_begun", "gauge", "Tasks begun and not done", |it| it.begun as u64),
        ("hydrant_pool_parked", "gauge", "Tasks that wait for their client", |it| it.parked as u64),
        ("hydrant_pool_slices_total", "counter", "Steps run", |it| it.slices),
        ("hydrant_pool_done_total", "counter", "Tasks that were done", |it| it.done),
        ("hydrant_pool_cancelled_total", "counter", "Tasks whose client left", |it| it.cancelled),
        ("hydrant_pool_rejected_total", "counter", "Tasks that were refused", |it| it.rejected),
        ("hydrant_pool_expired_total", "counter", "Tasks not done in time", |it| it.expired),
        ("hydrant_pool_panicked_total", "counter", "Tasks that panicked", |it| it.panicked),
    ];
    let label = |class: Class| format!("{{class=\"{}\"}}", class.name());
    for (name, kind, help, figure) in families {
        let figures = Class::ALL.map(|class| (label(class), figure(counters.of(class))));
        out.family((name, kind, help), figures);
    }
    let name = "hydrant_pool_busy_microseconds_total";
    let busy = Class::ALL.map(|class| (label(class), counters.of(class).busy.as_micros() as u64));
    out.family((name, "counter", "Time in steps"), busy);
    let name = "hydrant_pool_waited_microseconds";
    out.family((name, "histogram", "Time from arrival to the first step"), []);
    for class in Class::ALL {
        histogram(out, name, class.name(), &counters.of(class).waited);
    }
}

/// Prometheus counts in each bucket what is in those below, too.
fn histogram(out: &mut Figures, name: &str, class: &str, histogram: &Histogram) {
    let mut so_far = 0;
    for (below, count) in histogram.buckets() {
        so_far += count;
        // The last has everything above in it. A String takes everything.
        let is_last = below == 1 << (Histogram::BUCKETS - 1);
        let le = if is_last { "+Inf".to_owned() } else { (below - 1).to_string() };
        let _ = writeln!(out.0, "{name}_bucket{{class=\"{class}\",le=\"{le}\"}} {so_far}");
    }
    let (sum, count) = (histogram.sum_us(), histogram.count());
    let _ = writeln!(out.0, "{name}_sum{{class=\"{class}\"}} {sum}");
    let _ = writeln!(out.0, "{name}_count{{class=\"{class}\"}} {count}");
}
