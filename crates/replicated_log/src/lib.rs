//! A replicated log of messages: positions, batches that are appended as a whole, readers that wait at the end.
//!
//! Input: batches of one writer at a time, fenced by the position that they are appended after. Output: each message
//! once and in order, to any number of readers. Implementations: a directory or bucket ([`object_log`]), JetStream of
//! NATS ([`nats`]), and for tests one in memory with seeded faults (`memory`, feature `testing`).
//! Bounds: [`BATCH_MESSAGES_MAX`], [`MESSAGE_BYTES_MAX`], and the settings of [`LogConfig`].
//! Not here: the content of messages, chains of digests, leases and terms (the crates of the chains). A reader of this
//! crate notices removed messages and damaged objects; only a chain of digests proves that a log is the same one.

mod config;
mod error;
mod log;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
mod message;
#[cfg(test)]
mod model_tests;
pub mod nats;
pub mod object_log;
mod open;

pub use crate::config::{LogConfig, describe_url};
pub use crate::error::{AppendError, LogError, ReadError};
pub use crate::log::{Log, LogReader, LogSpace};
pub use crate::message::{
    BATCH_MESSAGES_MAX, LogMessage, MESSAGE_BYTES_MAX, MessageKind, StoredMessage, Tail,
};
pub use crate::open::open_log_space;
