//! A cache of values that stay valid until a value that they depend on changes.
//!
//! In: a request as canonical bytes, and the version of the state that the caller sees. Out: a cached value, if it
//! equals the value that the caller would compute now; otherwise the task to compute it, which one of the concurrent
//! callers gets: the first one that is scheduled.
//! The caller defines "changed": an [`Entry`] has the version at which its value is valid and its dependencies, and
//! [`Cache::lookup`] queries when each dependency last changed.
//! Also here: [`RequestMemo`], results by the text of a request, and [`RecentTexts`], which of these are repeated.
//! Bounds: [`Config`].
//! Invariant: a value is never returned if a dependency has changed since it was computed. Nothing expires by time.
//! Not here: the dependencies of a request, the form of a value, waiting (`response_cache`).
#![forbid(unsafe_code)]

mod cache;
mod entry;
mod guards;
mod lookup;
mod recent_texts;
mod request_memo;
mod single_flight;
#[cfg(test)]
mod tests;

pub use cache::{Cache, Config, Counters};
pub use entry::{Entry, Weight};
pub use guards::{FillGuard, FillTicket, WaitGuard};
pub use lookup::{CacheReader, FillStart, Lookup};
pub use recent_texts::RecentTexts;
pub use request_memo::{RequestMemo, TEXT_BYTES_MAX};
pub use single_flight::OnFilled;
