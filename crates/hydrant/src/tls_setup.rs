//! TLS of a node: its certificate in the servers, its reload by the administration and by a change of its files.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clients::ClientId;
use grpc::{TlsAcceptor, TlsStream};
use http_server::{HttpEvent, Tls};
use jsonrpc::ServerContext;
use tokio::net::TcpStream;

use crate::admin::AdminApi;
use crate::serving_options::ServingOptions;

/// Lets the node speak TLS, if it has a certificate, and returns the task that reloads that when its files
/// change.
pub(crate) fn start_tls(
    options: &ServingOptions,
    context: &ServerContext,
    administration: &mut AdminApi,
) -> Option<impl Future<Output = ()> + Send + use<>> {
    let files = options.tls.as_ref()?;
    // It is set once, before the server starts.
    let _ = context.http.tls.set(Arc::clone(files.tls()));
    let metrics = Arc::clone(&context.http.metrics);
    metrics.record(HttpEvent::CertificateLoaded);
    let reloaded = Arc::clone(files);
    let counters = Arc::clone(&metrics);
    administration.add_reload_hook("tls", move || reloaded.reload(&counters));
    Some(Arc::clone(files).watch(metrics))
}

/// The certificate of a node for its gRPC.
pub(crate) struct GrpcTls(pub(crate) Arc<Tls>);

impl TlsAcceptor for GrpcTls {
    fn accept(
        &self,
        socket: TcpStream,
        peer: IpAddr,
        within: Duration,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn TlsStream>>> + Send + '_>> {
        Box::pin(async move {
            let stream = self.0.accept_http2(socket, ClientId::from_ip(peer), within).await?;
            Ok(Box::new(stream) as Box<dyn TlsStream>)
        })
    }
}
