//! Metrics: counters and histograms that threads share without contention, and Prometheus' text format.
//!
//! In: events and durations. Out: the text of a scrape.
//! Shape: a part of the node owns its [`Counters`] and [`Histograms`], and implements [`Collector`]. A scrape calls
//! each collector.
//! Bounds: each type says its memory. Nothing here grows with the number of events.
//! Not here: which events there are (the parts), a clock, the wait of one scrape for another (the server).
#![forbid(unsafe_code)]

mod collector;
mod counters;
mod exposition;
mod histogram;
mod scrape;

pub use collector::Collector;
pub use counters::Counters;
pub use exposition::{Exposition, Labels, MEDIA_TYPE, MetricFamily, MetricKind};
pub use histogram::{BucketBounds, Histogram, Histograms};
pub use scrape::{LastScrape, ScrapeRequest, ScrapeRequests};
