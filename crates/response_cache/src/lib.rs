//! Cached responses: values that are encoded once, valid as long as nothing that they depend on has changed.
//!
//! In: the value of a call, in parts, with its [`Dependencies`]. Out: the encoded value, framed for each request
//! without compression: with gzip the text around it is stored blocks of the same member, with zstd raw blocks of the
//! same frame, so the client receives one ordinary member or frame.
//! Bounds: those of the cache, and those of its memory budget for values that are collected before they are encoded, or
//! evicted before they are sent. A value that exceeds them is not cached, but streamed.
//! Invariant: a cached value equals the one that would be computed now.
//! A call is a [`CacheFill`] while it uses the cache. The server polls it.
//! Not here: running calls, their deadlines (the server), any chain.

mod builder;
mod cache_fill;
#[cfg(test)]
mod cache_fill_tests;
mod dependencies;
mod encoder;
mod entry;
mod etag;
mod framing;
mod ledger_versions;
mod lookup;
mod memory_budget;
mod result_context;
mod store;
#[cfg(test)]
mod tests;
mod watched_result;

pub use builder::{NotCached, ResponseBuilder};
pub use cache_fill::{CacheFill, Scheduled, Unscheduled};
pub use dependencies::{CacheableCall, CallText, Dependencies};
pub use encoder::ResponseEncoder;
pub use entry::{CachedResponse, META_PREFIX_BYTES};
pub use etag::{ProcessKey, Validator, ValidatorBuilder, short_hash};
pub use ledger_versions::LedgerVersions;
pub use lookup::{CacheHit, LookupContext, LookupOutcome, inline_batch_bytes_max};
pub use memory_budget::CollectedResponse;
pub use result_context::{ContextFrame, ResultContext};
pub use store::ResponseCache;
pub use watched_result::WatchedResult;

/// Target size of a chunk of a streamed value. A few chunks fit into a time slice.
pub const RESULT_CHUNK_BYTES: usize = 128 * 1024;
