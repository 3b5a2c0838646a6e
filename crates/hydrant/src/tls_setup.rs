//! TLS of a node: its certificate in the server, its reload by the administration and by a change of its files.

use std::sync::Arc;

use http_server::HttpEvent;
use jsonrpc::ServerContext;
use tokio::task::JoinHandle;

use crate::admin::AdminApi;
use crate::serving_options::ServingOptions;

/// Lets the node speak TLS, if it has a certificate, and reloads that when its files change. Returns the task that does.
pub(crate) fn start_tls(
    options: &ServingOptions,
    context: &ServerContext,
    administration: &mut AdminApi,
) -> Option<JoinHandle<()>> {
    let files = options.tls.as_ref()?;
    // It is set once, before the server starts.
    let _ = context.http.tls.set(Arc::clone(files.tls()));
    let metrics = Arc::clone(&context.http.metrics);
    metrics.record(HttpEvent::CertificateLoaded);
    let (reloaded, counters) = (Arc::clone(files), Arc::clone(&metrics));
    administration.add_reload_hook("tls", move || reloaded.reload(&counters));
    Some(tokio::spawn(Arc::clone(files).watch(metrics)))
}
