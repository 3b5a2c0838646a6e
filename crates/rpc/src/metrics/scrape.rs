//! Concurrent scrapes share one collection, because a collection walks the ledger's memory.
//!
//! Bounds: one collection at a time, on one thread that does not poll sockets; the last text is cached. A scrape waits
//! for a collection that starts after it: two collections are enough for any number of concurrent scrapes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::Mutex;

use super::collect;
use crate::server_context::ServerContext;

/// The requests so far, and the last text.
#[derive(Default)]
pub(super) struct ScrapeCache {
    /// Number of requests so far.
    requests: AtomicU64,
    /// Locked during a collection, even if no request waits for it any more. So there is only one at a time.
    last: Arc<Mutex<LastScrape>>,
}

#[derive(Default)]
struct LastScrape {
    /// Number of requests before this collection started.
    requests_before: u64,
    text: Bytes,
}

/// All metrics, collected after this call; `None` if the collection panicked.
pub(crate) async fn scrape_text(server: &ServerContext) -> Option<Bytes> {
    let scrapes = &server.metrics.scrape_cache;
    let number = scrapes.requests.fetch_add(1, Ordering::SeqCst) + 1;
    let mut last = Arc::clone(&scrapes.last).lock_owned().await;
    if last.requests_before >= number {
        return Some(last.text.clone());
    }
    let server = server.clone();
    let collect = move || {
        let requests_before = server.metrics.scrape_cache.requests.load(Ordering::SeqCst);
        let text = Bytes::from(collect::collect_text(&server));
        *last = LastScrape { requests_before, text: text.clone() };
        text
    };
    tokio::task::spawn_blocking(collect).await.ok()
}
