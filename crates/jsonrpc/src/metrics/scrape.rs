//! A scrape: all metrics, collected once for concurrent requests.
//!
//! Bounds: one collection at a time, on one thread that does not poll sockets. A scrape waits for a collection that
//! starts after it.

use std::sync::Arc;

use bytes::Bytes;
use metrics::{Collector, LastScrape, ScrapeRequests};
use tokio::sync::Mutex;

use super::Metrics;

/// The requests so far, and the last text.
#[derive(Default)]
pub(super) struct ScrapeCache {
    requests: ScrapeRequests,
    /// Locked during a collection, even if no request waits for it any more. So there is only one at a time.
    last: Arc<Mutex<LastScrape>>,
}

impl Metrics {
    /// All metrics, with those of `node`, collected after this call; `None` if the collection panicked.
    pub(crate) async fn scrape(self: &Arc<Self>, node: Arc<dyn Collector>) -> Option<Bytes> {
        let request = self.scrape_cache.requests.next_request();
        let mut last = Arc::clone(&self.scrape_cache.last).lock_owned().await;
        if let Some(text) = last.text_for(request) {
            return Some(text);
        }
        let metrics = Arc::clone(self);
        let collect =
            move || last.update(&metrics.scrape_cache.requests, || metrics.collect_text(&*node));
        tokio::task::spawn_blocking(collect).await.ok()
    }
}
