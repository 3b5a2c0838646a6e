//! The status line on a terminal while the node runs. If standard output is not a terminal, there is none.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use chain_solana::Reader;
use rpc_solana::pubsub::SolanaPubSub;

use crate::banner::OutputStyle;

/// Interval between redraws: the default length of a slot.
const REDRAW_INTERVAL: Duration = Duration::from_millis(400);

/// Draws the line until the task is aborted.
pub(crate) async fn draw(reader: Reader, pubsub: Arc<SolanaPubSub>, style: OutputStyle) {
    let mut redraw = tokio::time::interval(REDRAW_INTERVAL);
    loop {
        redraw.tick().await;
        let mut out = std::io::stdout().lock();
        // A closed terminal is ignored: it must not end the node.
        let _ = write!(out, "\r\x1b[K{}", line(&reader, &pubsub, style)).and_then(|()| out.flush());
    }
}

/// Whether standard output is a terminal.
pub(crate) fn has_reader() -> bool {
    std::io::stdout().is_terminal()
}

fn line(reader: &Reader, pubsub: &SolanaPubSub, style: OutputStyle) -> String {
    let views = reader.views();
    let stats = pubsub.stats();
    if style == OutputStyle::TestValidator {
        return format!(
            "Processed Slot: {} | Confirmed Slot: {} | Finalized Slot: {} | Transactions: {}",
            views.processed.block().slot,
            views.confirmed.block().slot,
            views.finalized.block().slot,
            views.processed.meta().transaction_count,
        );
    }
    format!(
        "slot {} | confirmed {} | finalized {} | transactions {} | subscriptions {} of {} clients",
        views.processed.block().slot,
        views.confirmed.block().slot,
        views.finalized.block().slot,
        views.processed.meta().transaction_count,
        stats.subscriptions,
        stats.connections,
    )
}
