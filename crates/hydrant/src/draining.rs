//! The end of a node's servers: they drain first.

use std::time::Duration;

use anyhow::Result;
use http_server::Drain;

use crate::signals::EndSignals;

/// Begins the drain, and waits for the end of all servers. Requests that run have the time `within`; a second signal
/// ends them at once.
pub(crate) async fn drain(
    signals: &mut EndSignals,
    http: &Drain,
    within: Duration,
    servers: impl Future<Output = Result<()>>,
) -> Result<()> {
    http.begin(within);
    tracing::info!(seconds = within.as_secs(), "the node drains, and then ends");
    tokio::pin!(servers);
    tokio::select! {
        ended = &mut servers => ended,
        () = signals.next() => {
            tracing::warn!("a second signal: requests that run are cut");
            http.end_now();
            servers.await
        }
    }
}
