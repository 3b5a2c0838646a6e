//! The clients of a node: who sent a request, how much each may send, and how much of a resource each may hold.
//!
//! In: addresses, names and numbers of API keys; requests and bytes. Out: [`ClientId`]s, refusals with the time to
//! wait ([`RateLimited`]), and shares ([`Share`]).
//! Also here: [`trim_spare_capacity`], for buffers that count by their length.
//! Bounds: those of [`RateLimiter`] and [`ClientShares`].
//! Not here: API keys and their tiers (`api_keys`), the order in which clients are served (`cpu_pool`), a clock (the caller
//! passes the time).
#![forbid(unsafe_code)]

mod client_id;
mod client_shares;
mod rate_limit;
mod spare_capacity;
mod token_bucket;

pub use client_id::ClientId;
pub use client_shares::{ClientShares, Share, ShareFull, ShareLimit, ShareNames};
pub use rate_limit::{Limits, RateLimited, RateLimiter};
pub use spare_capacity::trim_spare_capacity;
pub use token_bucket::TokenBucket;
