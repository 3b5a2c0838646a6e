//! The commands of the administration: reports by name, reloads of files, the filter of the log, metrics, the end.
//!
//! In: the head and the body of a request. Out: JSON, or the text of the metrics.
//! Shape: reports and reload hooks are named functions that other parts of the node add. They run on a thread that may
//! block.
//! Bounds: those of `admin_server`.

use std::sync::Arc;

use anyhow::Result;
use http_body_util::Full;
use http_server::{HttpCounters, HttpEvent};
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};
use jsonrpc::ServerContext;
use metrics::Collector;
use process_usage::Process;
use serde_json::{Map, Value, json};

use crate::log_filter;
use crate::signals::EndRequest;

/// A function that returns a report as JSON.
type Report = Arc<dyn Fn() -> Value + Send + Sync>;
/// A function that reads the files of one part of the node again.
type ReloadHook = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// A response of the administration.
pub(super) type AdminResponse = Response<Full<Bytes>>;

/// The administration of a node.
pub(crate) struct AdminApi {
    context: Arc<ServerContext>,
    end: EndRequest,
    reports: Vec<(&'static str, Report)>,
    reload_hooks: Vec<(&'static str, ReloadHook)>,
}

impl AdminApi {
    /// The administration of a node, with the reports `memory` and `clients`, and `usage` if clients have API keys. `end`
    /// is requested by a drain.
    pub(crate) fn new(context: Arc<ServerContext>, end: EndRequest) -> Self {
        let measured = Arc::clone(&context);
        let counters = Arc::clone(context.metrics.http());
        let mut api = Self { context, end, reports: Vec::new(), reload_hooks: Vec::new() };
        api.add_report("memory", move || memory(&measured));
        api.add_report("clients", move || clients(&counters));
        if let Some(keys) = api.context.clients.api_keys().map(Arc::clone) {
            api.add_report("usage", move || keys.usage_report());
        }
        api
    }

    /// Adds a report, which `GET /NAME` returns.
    pub(crate) fn add_report(
        &mut self,
        name: &'static str,
        report: impl Fn() -> Value + Send + Sync + 'static,
    ) {
        self.reports.push((name, Arc::new(report)));
    }

    /// Adds something that `POST /reload` and `POST /reload/NAME` read again.
    pub(crate) fn add_reload_hook(
        &mut self,
        name: &'static str,
        hook: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) {
        self.reload_hooks.push((name, Arc::new(hook)));
    }

    /// Adds to the metrics of the node.
    pub(super) fn add_metrics(&self, collector: Arc<dyn Collector>) {
        self.context.metrics.add(collector);
    }

    /// Closes `/metrics` of the public port.
    pub(super) fn make_metrics_private(&self) {
        self.context.metrics.make_private();
    }

    /// Returns the response to a request. Reports and reloads run on a thread that may block.
    pub(super) async fn respond(&self, method: &Method, path: &str, body: &[u8]) -> AdminResponse {
        match (method.as_str(), path) {
            ("GET", "/") => json_response(StatusCode::OK, &self.list()),
            ("GET", "/metrics") => self.metrics().await,
            ("GET", "/drain") => {
                let draining = self.context.is_draining();
                json_response(StatusCode::OK, &json!({ "draining": draining }))
            }
            ("POST", "/drain") => {
                self.end.send();
                json_response(StatusCode::ACCEPTED, &json!({ "draining": true }))
            }
            ("GET", "/log-level") => {
                let filter = log_filter::current();
                json_response(StatusCode::OK, &json!({ "filter": filter }))
            }
            ("PUT", "/log-level") => replace_filter(body),
            ("POST", "/reload") => self.reload(None).await,
            ("POST", path) if path.starts_with("/reload/") => {
                self.reload(path.strip_prefix("/reload/")).await
            }
            ("GET", path) => self.report(path).await,
            _ => not_found(),
        }
    }

    /// The metrics, as `/metrics` of the public port.
    pub(super) async fn metrics(&self) -> AdminResponse {
        match self.context.metrics.scrape(Arc::clone(&self.context) as Arc<dyn Collector>).await {
            Some(text) => {
                let media = HeaderValue::from_static(metrics::MEDIA_TYPE);
                response(StatusCode::OK, media, text)
            }
            None => error(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be collected"),
        }
    }

    fn list(&self) -> Value {
        let reports: Vec<_> = self.reports.iter().map(|(name, _)| *name).collect();
        let reload: Vec<_> = self.reload_hooks.iter().map(|(name, _)| *name).collect();
        json!({
            "reports": reports,
            "reload": reload,
            "commands": ["POST /drain", "POST /reload", "GET /log-level", "PUT /log-level", "GET /metrics"],
        })
    }

    async fn report(&self, path: &str) -> AdminResponse {
        let name = path.trim_start_matches('/');
        let Some((_, report)) = self.reports.iter().find(|(known, _)| *known == name) else {
            return not_found();
        };
        let report = Arc::clone(report);
        // It may walk the ledger.
        match tokio::task::spawn_blocking(move || report()).await {
            Ok(report) => json_response(StatusCode::OK, &report),
            Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "the report panicked"),
        }
    }

    /// Runs the named reload hook, or all of them. The response is an error if one has failed.
    async fn reload(&self, name: Option<&str>) -> AdminResponse {
        let is_wanted = |known: &str| name.is_none_or(|name| name == known);
        let hooks = self.reload_hooks.iter().filter(|(known, _)| is_wanted(known));
        let hooks: Vec<_> = hooks.cloned().collect();
        if let Some(name) = name.filter(|_| hooks.is_empty()) {
            return error(
                StatusCode::NOT_FOUND,
                &format!("nothing named {name:?} can be reloaded"),
            );
        }
        let run = move || -> (bool, Map<String, Value>) {
            let results = hooks.iter().map(|(name, hook)| (*name, hook()));
            let mut is_good = true;
            let mut shown = Map::new();
            for (name, result) in results {
                is_good &= result.is_ok();
                let result = match result {
                    Ok(()) => json!({ "reloaded": true }),
                    Err(err) => json!({ "reloaded": false, "error": format!("{err:#}") }),
                };
                shown.insert(name.to_owned(), result);
            }
            (is_good, shown)
        };
        match tokio::task::spawn_blocking(run).await {
            Ok((true, shown)) => json_response(StatusCode::OK, &shown.into()),
            Ok((false, shown)) => json_response(StatusCode::INTERNAL_SERVER_ERROR, &shown.into()),
            Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "a reload panicked"),
        }
    }
}

/// The body is `{"filter": "..."}`, in the syntax of `RUST_LOG`.
fn replace_filter(body: &[u8]) -> AdminResponse {
    let read = serde_json::from_slice::<Value>(body).ok();
    let Some(filter) = read.as_ref().and_then(|it| it.get("filter")?.as_str()) else {
        return error(StatusCode::BAD_REQUEST, "the body must be {\"filter\": \"info\"}");
    };
    match log_filter::replace(filter) {
        Ok(()) => json_response(StatusCode::OK, &json!({ "filter": log_filter::current() })),
        Err(err) => error(StatusCode::BAD_REQUEST, &format!("{err:#}")),
    }
}

fn memory(context: &ServerContext) -> Value {
    let parts = context.metrics.memory_parts(context);
    let mut sums = Map::new();
    for (part, bytes) in parts {
        // Parts of several collectors may have one name.
        let sum = sums.get(part).and_then(Value::as_u64).unwrap_or_default() + bytes;
        sums.insert(part.to_owned(), sum.into());
    }
    json!({ "parts": sums, "residentBytes": Process::current().resident_bytes().ok() })
}

fn clients(http: &HttpCounters) -> Value {
    // The ends first: a connection that ends in between must not make a difference negative.
    let open = |ended, started| {
        let ended = http.total(ended);
        http.total(started).saturating_sub(ended)
    };
    json!({
        "connections": open(HttpEvent::Ended, HttpEvent::Accepted),
        "tlsConnections": open(HttpEvent::TlsEnded, HttpEvent::TlsStarted),
        "accepted": http.total(HttpEvent::Accepted),
        "upgraded": http.total(HttpEvent::Upgraded),
        "refused": http.total(HttpEvent::Refused),
        "bytesIn": http.total(HttpEvent::BytesIn),
        "bytesOut": http.total(HttpEvent::BytesOut),
    })
}

fn json_response(status: StatusCode, value: &Value) -> AdminResponse {
    response(status, HeaderValue::from_static("application/json"), format!("{value:#}\n"))
}

pub(super) fn error(status: StatusCode, message: &str) -> AdminResponse {
    json_response(status, &json!({ "error": message }))
}

fn not_found() -> AdminResponse {
    error(StatusCode::NOT_FOUND, "no such command: GET / lists them")
}

fn response(status: StatusCode, media: HeaderValue, body: impl Into<Bytes>) -> AdminResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}
