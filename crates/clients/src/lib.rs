//! The clients of a node: who sent a request, and how much each may send.
//!
//! In: addresses, names and numbers of API keys; requests and bytes. Out: [`ClientId`]s, and refusals with the time to
//! wait ([`RateLimited`]).
//! Bounds: those of [`RateLimiter`].
//! Not here: API keys and their tiers (`api_keys`), the order in which clients are served (`cpu_pool`), a clock (the caller
//! passes the time).
#![forbid(unsafe_code)]

mod client_id;
mod rate_limit;
mod token_bucket;

pub use client_id::ClientId;
pub use rate_limit::{Limits, RateLimited, RateLimiter};
pub use token_bucket::TokenBucket;
