//! Answers that are kept for as long as nothing that they were read from has changed.
//!
//! In: a request as canonical bytes, and the moment at which whoever asks sees the state. Out: an
//! answer made before, if it is still what would be made now; or the task to make it, which of all that
//! ask for it at once one gets: he whose turn comes first.
//! What "changed" means the caller says: an [`Entry`] has the moment at which it was made and what it
//! read; [`Cache::lookup`] asks for each of these when it last changed.
//! Beside that, [`RequestMemo`]: what was worked out of a request before, by its text.
//! Bounds: [`Config`].
//! Invariant: no answer is given of which something changed after it was made. Never by time.
//! Not here: what a request reads, what an answer looks like, waiting (`rpc`).
#![forbid(unsafe_code)]

mod cache;
mod request_memo;
mod single_flight;
#[cfg(test)]
mod tests;

pub use cache::{Cache, Config, Counters, Entry, FillStart, Lookup, Weight};
pub use request_memo::{RequestMemo, TEXT_BYTES_MAX};
pub use single_flight::{FillGuard, FillTicket, OnFilled, WaitGuard};
