//! The ports of a node of Kaspa while it imports its UTXO set: `/health`, `/ready` and `/metrics` show the progress,
//! and everything else is refused until the node serves.
//!
//! In: the bound ports, which stay open for the servers of the node. Out: 503 with the progress, without addresses; a
//! WebSocket is closed with 1013 (try again later), a call of gRPC ends with `UNAVAILABLE`.
//! Bounds: those of every HTTP server of the node (`rpc` settings).

use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context, Result};
use clients::ClientId;
use follow_kaspa::ImportProgress;
use grpc_kaspa::StartingGrpcServer;
use grpc_server::Security;
use http_server::{
    ClientRefusal, HttpContext, HttpCounters, HttpRequest, HttpService, Listeners, NO_STORE,
    ResponseBody, Socket, WebSocketHandler, serve_http, text_response,
};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};
use metrics::{Collector, Exposition};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use websocket::close_frame;

use super::grpc_part::find_tls;
use super::ports::BoundKaspaPorts;
use crate::node::NodeConfig;
use crate::process_setup::tokio_listener;

/// Seconds after which a client should try again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("10");
/// The reason of a closed WebSocket, and of a refused call.
const CLOSE_REASON: &str = "the node imports its UTXO set";
/// The code of a closed WebSocket: try again later.
const CLOSE_CODE: u16 = 1_013;

/// The servers of the ports during an import.
pub(crate) struct StartPages {
    /// The servers end when it is dropped.
    stop: watch::Sender<()>,
    servers: Vec<JoinHandle<()>>,
    /// That of `--grpc-port`.
    grpc: Option<StartingGrpcServer>,
}

/// A port that is served during an import.
struct StartPort {
    listener: TcpListener,
    /// Whether the port has `/metrics`.
    has_metrics: bool,
}

/// The service of a port.
struct ProgressService {
    progress: Arc<ImportProgress>,
    has_metrics: bool,
}

/// Closes every WebSocket.
struct ClosedWebSockets;

impl StartPages {
    /// Serves the progress of an import on the ports of a node.
    pub(crate) fn serve(
        runtime: &Runtime,
        config: &NodeConfig,
        bound: &BoundKaspaPorts,
        progress: &Arc<ImportProgress>,
    ) -> Result<Self> {
        let ports = Self::open_ports(config, bound)?;
        let context = HttpContext::new(config.rpc.http(), Arc::new(HttpCounters::new()));
        if let Some(files) = &config.serving.tls {
            // It is set once, before the servers start.
            let _ = context.tls.set(Arc::clone(files.tls()));
        }
        let context = Arc::new(context);
        let (stop, stopped) = watch::channel(());
        let mut servers = Vec::new();
        for port in ports {
            let _runtime = runtime.enter();
            let listeners = Listeners { rpc: tokio_listener(port.listener)?, pubsub: None };
            let has_metrics = port.has_metrics;
            let service = ProgressService { progress: Arc::clone(progress), has_metrics };
            let mut stopped = stopped.clone();
            servers.push(tokio::spawn(serve_http(
                Arc::clone(&context),
                Arc::new(service),
                Arc::new(ClosedWebSockets),
                listeners,
                async move {
                    // It never changes, and ends with its sender.
                    let _ = stopped.changed().await;
                },
            )));
        }
        let grpc = bound.grpc.as_ref().map(|listener| {
            let security = Security { authenticator: None, tls: find_tls(config) };
            let listener = listener.try_clone()?;
            let server = StartingGrpcServer::start(
                config.grpc.transport(),
                CLOSE_REASON,
                listener,
                security,
            );
            server.context("serve gRPC")
        });
        Ok(Self { stop, servers, grpc: grpc.transpose()? })
    }

    /// Returns the ports of a node, with that of `--metrics-address`.
    fn open_ports(config: &NodeConfig, bound: &BoundKaspaPorts) -> Result<Vec<StartPort>> {
        let mut ports = Vec::new();
        for wrpc in [&bound.borsh, &bound.json] {
            ports.push(StartPort { listener: wrpc.try_clone()?, has_metrics: false });
        }
        let metrics_address = config.serving.metrics_address;
        if let Some(rpc) = &bound.rpc {
            let has_metrics = metrics_address.is_none();
            ports.push(StartPort { listener: rpc.try_clone()?, has_metrics });
        }
        if let Some(address) = metrics_address {
            let listener = TcpListener::bind(address);
            let listener = listener.with_context(|| format!("--metrics-address {address}"))?;
            ports.push(StartPort { listener, has_metrics: true });
        }
        Ok(ports)
    }

    /// Ends the servers. The ports stay open, and connections wait for the servers of the node.
    pub(crate) fn stop(self, runtime: &Runtime) {
        drop(self.stop);
        if let Some(grpc) = self.grpc {
            grpc.shut_down();
        }
        runtime.block_on(async {
            for server in self.servers {
                // A panic was reported by its task.
                let _ = server.await;
            }
        });
    }
}

impl HttpService for ProgressService {
    async fn handle(&self, request: HttpRequest) -> Response<ResponseBody> {
        let head = &request.head;
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        if self.has_metrics && is_read && head.uri.path() == "/metrics" {
            let mut exposition = Exposition::default();
            self.progress.write(&mut exposition);
            return text_response(StatusCode::OK, exposition.into_string());
        }
        let progress = format!("{}\n", self.progress.public_line());
        let mut response = text_response(StatusCode::SERVICE_UNAVAILABLE, progress);
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        // The servers of the node take over soon.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }

    fn refuse(&self, _path: &str, status: StatusCode, message: &str) -> Response<ResponseBody> {
        text_response(status, format!("{message}\n"))
    }

    fn is_resource(&self, _path: &str) -> bool {
        false
    }

    fn is_served_while_draining(&self, _path: &str) -> bool {
        true
    }

    fn refuse_client(&self, _path: &str, refusal: ClientRefusal) -> Response<ResponseBody> {
        text_response(refusal.status, format!("{}\n", refusal.message))
    }

    fn is_open(&self, _path: &str) -> bool {
        true
    }
}

impl WebSocketHandler for ClosedWebSockets {
    fn handle(
        self: Arc<Self>,
        mut socket: Socket,
        _client: ClientId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let frame = close_frame(CLOSE_CODE, CLOSE_REASON);
            // The client may have left.
            if socket.write_all(&frame).await.is_ok() {
                let _ = socket.shutdown().await;
            }
        })
    }
}
