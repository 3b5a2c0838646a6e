//! Concurrent scrapes share one collection, because a collection walks the ledger's memory.
//!
//! Shape: the server numbers every request with [`ScrapeRequests`]. It locks [`LastScrape`] for a request, and during a
//! collection. A request may have the last text if the collection of that text started after the request.
//! Bounds: the last text is cached. Two collections are enough for any number of concurrent requests.
//! Not here: the lock and the wait for it (the server).

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

/// The number of requests so far.
#[derive(Default)]
pub struct ScrapeRequests(AtomicU64);

/// A request for the metrics, by its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrapeRequest(u64);

/// The last collection. Lock it while the next one runs, so that there is one at a time.
#[derive(Default)]
pub struct LastScrape {
    /// Number of requests before this collection started.
    requests_before: u64,
    text: Bytes,
}

impl ScrapeRequests {
    /// Counts a request. Call this before the lock of [`LastScrape`] is taken.
    pub fn next_request(&self) -> ScrapeRequest {
        ScrapeRequest(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

impl LastScrape {
    /// Returns the last text, if its collection started after `request`.
    pub fn text_for(&self, request: ScrapeRequest) -> Option<Bytes> {
        (self.requests_before >= request.0).then(|| self.text.clone())
    }

    /// Collects a new text. It is for all `requests` so far.
    pub fn update(&mut self, requests: &ScrapeRequests, collect: impl FnOnce() -> String) -> Bytes {
        let requests_before = requests.0.load(Ordering::SeqCst);
        let text = Bytes::from(collect());
        *self = Self { requests_before, text: text.clone() };
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_a_text_whose_collection_started_after_it() {
        let requests = ScrapeRequests::default();
        let mut last = LastScrape::default();
        let [first, second] = [requests.next_request(), requests.next_request()];
        assert_eq!((last.text_for(first), last.text_for(second)), (None, None));
        let mut late = None;
        last.update(&requests, || {
            late = Some(requests.next_request());
            "text".to_owned()
        });
        let text = Some(Bytes::from("text"));
        assert_eq!((last.text_for(first), last.text_for(second)), (text.clone(), text));
        assert_eq!(last.text_for(late.expect("it was collected")), None);
    }
}
