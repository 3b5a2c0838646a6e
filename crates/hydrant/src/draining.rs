//! The end of a node's servers: it is announced, they drain, and they end.

use std::time::Duration;

use anyhow::Result;
use http_server::Drain;

use crate::signals::EndSignals;

/// Interval at which the node checks that its ledger still runs.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Serves as before for `delay` after the end is announced, so that balancers remove the node. Returns early at a second
/// signal, or once `has_ended` is true: the ledger has ended. Returns whether a signal came.
pub(crate) async fn serve_on(
    signals: &mut EndSignals,
    delay: Duration,
    has_ended: impl Fn() -> bool,
) -> bool {
    if delay.is_zero() {
        return false;
    }
    tracing::info!(seconds = delay.as_secs(), "the node is no longer ready, and still serves");
    let ledger_end = async {
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        while !has_ended() {
            poll.tick().await;
        }
    };
    tokio::select! {
        () = tokio::time::sleep(delay) => false,
        () = ledger_end => false,
        () = signals.next() => true,
    }
}

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
