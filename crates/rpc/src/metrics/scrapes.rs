//! Whoever asks for the figures at once gets the same: to tell them walks the ledger's memory.
//!
//! Bounds: one walk at a time, on one thread that does not poll sockets; the last text is kept. Whoever asks waits
//! for a walk that begins after he asked: two are enough for any number of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::Mutex;

use super::figures;
use crate::Node;

/// Who asked, and what he is told.
#[derive(Default)]
pub(super) struct Scrapes {
    /// How many ever asked.
    asked: AtomicU64,
    /// The walk holds it, so that there is one, whether or not anybody still waits for it.
    last: Arc<Mutex<Last>>,
}

#[derive(Default)]
struct Last {
    /// How many had asked before it began.
    of: u64,
    text: Bytes,
}

/// All figures as they are after the call; `None` if telling them panicked.
pub(crate) async fn text(node: &Arc<Node>) -> Option<Bytes> {
    let scrapes = &node.metrics.scrapes;
    let number = scrapes.asked.fetch_add(1, Ordering::SeqCst) + 1;
    let mut last = Arc::clone(&scrapes.last).lock_owned().await;
    if last.of >= number {
        return Some(last.text.clone());
    }
    let node = Arc::clone(node);
    let walk = move || {
        let of = node.metrics.scrapes.asked.load(Ordering::SeqCst);
        let text = Bytes::from(figures::text(&node));
        *last = Last { of, text: text.clone() };
        text
    };
    tokio::task::spawn_blocking(walk).await.ok()
}
