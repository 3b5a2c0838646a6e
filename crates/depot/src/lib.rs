//! Immutable objects by key, in a directory or in a bucket: created once, read by range, listed, deleted.
//!
//! Shape: a [`Depot`] is opened at a URL: `file:///directory`, `s3://bucket/prefix`, or `memory:` for tests. Each method
//! retries temporary failures with backoff. [`Depot::put_new`] creates an object once or not at all, also if a
//! response is lost.
//! Bounds: [`DepotConfig`] limits attempts and the time of each; a read and a list have a limit of their own.
//! Invariant: an error names the object by the depot's URL and its key, and no user, password or query.
//! Not here: the content of objects, and their digests (`cluster_snapshot`, `log`).
//! The only crate that imports `object_store`.
#![forbid(unsafe_code)]

mod attempts;
mod backend;
mod config;
mod depot;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod faults;
mod file_store;
mod http_connector;
mod inner;
mod key;
mod metrics;
mod object_backend;
mod object_writer;
mod redact;
mod requests;
mod s3;
#[cfg(test)]
mod tests;
mod tls;

pub use config::DepotConfig;
pub use depot::{Depot, Put};
pub use error::DepotError;
pub use object_store::ObjectStore;
pub use object_writer::ObjectWriter;
pub use requests::ObjectInfo;
