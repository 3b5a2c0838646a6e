//! A scrape: all metrics, collected once for concurrent requests.
//!
//! Bounds: one collection at a time, on one thread that does not poll sockets. A scrape waits for a collection that
//! starts after it.

use std::sync::Arc;

use bytes::Bytes;
use metrics::{LastScrape, ScrapeRequests};
use tokio::sync::Mutex;

/// The requests so far, and the last text.
#[derive(Default)]
pub(super) struct ScrapeCache {
    requests: Arc<ScrapeRequests>,
    /// Locked during a collection, even if its request has gone, so that only one runs at a time.
    last: Arc<Mutex<LastScrape>>,
}

impl ScrapeCache {
    /// Returns the output of a `collect` that starts after this call. `None` if it panicked.
    pub(super) async fn scrape(
        &self,
        collect: impl FnOnce() -> String + Send + 'static,
    ) -> Option<Bytes> {
        let request = self.requests.next_request();
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if let Some(text) = last.text_for(request) {
            return Some(text);
        }
        let requests = Arc::clone(&self.requests);
        tokio::task::spawn_blocking(move || last.update(&requests, collect)).await.ok()
    }
}
