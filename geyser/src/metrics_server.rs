//! `GET /metrics` over HTTP/1.1, on a thread of its own.
//!
//! Bounds: [`CONNECTIONS_MAX`] connections; the next one waits unaccepted. A request has [`REQUEST_TIMEOUT`].

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use metrics::{Collector, Exposition, MEDIA_TYPE, MetricKind};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};

/// Open connections.
const CONNECTIONS_MAX: usize = 8;
/// How long a connection may stay open.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// The sources of the metrics that a scrape gets.
pub(crate) type Collectors = Arc<[Box<dyn Collector>]>;

pub(crate) struct MetricsServer {
    thread: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl MetricsServer {
    /// Serves on a bound listener.
    pub(crate) fn start(
        listener: std::net::TcpListener,
        collectors: Collectors,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, collectors) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("geyser-metrics".to_owned()).spawn(run)?;
        Ok(Self { thread, stop })
    }

    /// Waits until the thread has ended.
    pub(crate) fn shut_down(self) {
        // The thread may have ended already.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

async fn accept(listener: std::net::TcpListener, collectors: Collectors) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(err) => return tracing::error!(%err, "metrics are not served"),
    };
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let permit = Arc::clone(&permits).acquire_owned().await;
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_BACKOFF).await;
            continue;
        };
        let collectors = Arc::clone(&collectors);
        tokio::spawn(async move {
            // A client that is too slow, or breaks off, has no metrics.
            let _ = tokio::time::timeout(REQUEST_TIMEOUT, serve(socket, collectors)).await;
            drop(permit);
        });
    }
}

async fn serve(socket: TcpStream, collectors: Collectors) -> hyper::Result<()> {
    let respond = service_fn(move |request: Request<Incoming>| {
        let response = respond(&request, &collectors);
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(socket), respond).await
}

fn respond(request: &Request<Incoming>, collectors: &Collectors) -> Response<Full<Bytes>> {
    let is_metrics = request.method() == Method::GET && request.uri().path() == "/metrics";
    let mut response = Response::new(Full::default());
    if is_metrics {
        let media_type = hyper::header::HeaderValue::from_static(MEDIA_TYPE);
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, media_type);
        *response.body_mut() = Full::from(scrape(collectors));
    } else {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}

fn scrape(collectors: &Collectors) -> String {
    let mut text = Exposition::default();
    collectors.iter().for_each(|collector| collector.write(&mut text));
    let help = "Heap bytes in use, by part.";
    let mut memory = text.family("hydrant_memory_bytes", MetricKind::Gauge, help);
    for (part, bytes) in collectors.iter().flat_map(|collector| collector.memory()) {
        memory.put(&[("part", part)], bytes);
    }
    text.into_string()
}
