//! API keys: the client of a request, its permissions, its limits, and its usage.
//!
//! In: the text of a key file ([`KeyFile`]), and the keys that clients send. Out: the number of a key, admissions of
//! requests, permits for sockets and streams, a report of the usage, the day's requests as text.
//! Shape: a table of keys that is replaced as a whole. The state of a key (its usage) continues if its hash is in
//! the next file too. A key is known by its SHA-256 alone; the key itself is in no table, log or metric.
//! Bounds: [`KEYS_MAX`] keys, about 270 bytes each; [`ANONYMOUS_CLIENTS_MAX`] clients without a key, and
//! [`FAILING_CLIENTS_MAX`] clients that sent wrong keys. Clients past these bounds share one allowance.
//! Invariant: a number is never that of another key, for as long as the process runs.
//! Not here: files, clocks, sockets (the callers), how a protocol words a refusal.
#![forbid(unsafe_code)]

mod address_range;
mod allowance;
mod atomic_bucket;
mod client_table;
mod daily_usage;
mod error;
mod ids;
mod key_file;
mod key_hash;
mod key_table;
mod permit;
mod registry;
mod report;
#[cfg(test)]
mod tests;
mod tier;
mod usage;
mod utc;

pub use daily_usage::UsageTextError;
pub use error::{AuthError, LimitReached};
pub use ids::{CLASS_NAMES, Caller, Charge, KeyNumber};
pub use key_file::{FileError, KEYS_MAX, KeyFile};
pub use key_hash::{KEY_BYTES_MAX, KeyHash};
pub use permit::{Permit, SubscriptionGauge};
pub use registry::{
    ANONYMOUS_CLIENTS_MAX, ApiKeys, Credentials, FAILING_CLIENTS_MAX, REFUSAL_DELAY_MAX,
    RateStatus, Reload,
};
pub use report::{REPORTED_KEYS_MAX, UsageRow};
pub use utc::utc_text;
