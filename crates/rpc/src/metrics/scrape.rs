//! Whoever asks for the figures at once gets the same: to tell them walks the ledger's memory.
//!
//! Bounds: one walk at a time, on one thread that does not poll sockets; the last text is kept. Whoever asks waits
//! for a walk that begins after he asked: two are enough for any number of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::Mutex;

use super::collect;
use crate::Node;

/// Who asked, and what he is told.
#[derive(Default)]
pub(super) struct ScrapeCache {
    /// How many ever asked.
    requests: AtomicU64,
    /// The walk holds it, so that there is one, whether or not anybody still waits for it.
    last: Arc<Mutex<LastScrape>>,
}

#[derive(Default)]
struct LastScrape {
    /// How many had asked before it began.
    requests_before: u64,
    text: Bytes,
}

/// All figures as they are after the call; `None` if telling them panicked.
pub(crate) async fn scrape_text(node: &Arc<Node>) -> Option<Bytes> {
    let scrapes = &node.metrics.scrape_cache;
    let number = scrapes.requests.fetch_add(1, Ordering::SeqCst) + 1;
    let mut last = Arc::clone(&scrapes.last).lock_owned().await;
    if last.requests_before >= number {
        return Some(last.text.clone());
    }
    let node = Arc::clone(node);
    let walk = move || {
        let of = node.metrics.scrape_cache.requests.load(Ordering::SeqCst);
        let text = Bytes::from(collect::collect_text(&node));
        *last = LastScrape { requests_before: of, text: text.clone() };
        text
    };
    tokio::task::spawn_blocking(walk).await.ok()
}
