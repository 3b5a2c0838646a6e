//! The interface of a log: [`Log`] is one generation, [`LogSpace`] is all generations of one cluster.
//!
//! Invariant: an append at `after` succeeds only if `after` is the last sequence. So of several writers that all
//! believe that they lead, one succeeds at each position.
//! Not here: implementations (`memory`, `object_log`), leases and terms (the writers).

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::error::{AppendError, LogError, ReadError};
use crate::message::{LogMessage, StoredMessage, Tail};

/// A log of one generation: messages that are appended in batches and never change.
///
/// The first message of a generation has sequence 1. Position 0 is before the first message.
pub trait Log: Send + Sync {
    /// Appends a batch after the message `after`, as a whole or not at all. Returns the sequence of its last message.
    ///
    /// A batch holds whole records: its first message is a head. Limits: [`BATCH_MESSAGES_MAX`] messages of
    /// [`MESSAGE_BYTES_MAX`] bytes.
    ///
    /// [`BATCH_MESSAGES_MAX`]: crate::BATCH_MESSAGES_MAX
    /// [`MESSAGE_BYTES_MAX`]: crate::MESSAGE_BYTES_MAX
    fn append(&self, after: u64, batch: Vec<LogMessage>)
    -> BoxFuture<'_, Result<u64, AppendError>>;

    /// Returns the extent of the log, as the leader of the log knows it. An extent that is shorter than one before is
    /// not a proof that the log was replaced: a leader may be late. Damage of the end is an error for which
    /// [`LogError::is_damage`] is true, here and in [`AppendError::Unknown`].
    fn tail(&self) -> BoxFuture<'_, Result<Tail, LogError>>;

    /// Reads the messages after `after`. The reader waits for more at the end. If the log ends before `after`, the
    /// reader fails with [`ReadError::Gone`].
    fn read(&self, after: u64) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>>;

    /// Removes messages that the retention limits no longer cover, all of them before `needed_from`. Returns the number
    /// of removed objects. Only the leading writer calls this. Does nothing in a log whose server applies the limits.
    fn remove_old(&self, needed_from: u64) -> BoxFuture<'_, Result<usize, LogError>> {
        let _ = needed_from;
        Box::pin(std::future::ready(Ok(0)))
    }
}

/// Position of one reader in a log.
pub trait LogReader: Send {
    /// Returns the next message, or waits for it. Cancel safe. Fails with [`ReadError::Truncated`] if messages were
    /// removed before they were read, and with [`ReadError::Damaged`] or [`ReadError::Missing`] if the log is damaged
    /// at the next message. The reader stays at that message after a failure.
    fn next(&mut self) -> BoxFuture<'_, Result<StoredMessage, ReadError>>;
}

/// All generations of one cluster's log: `hydrant-<cluster>-<generation>`.
pub trait LogSpace: Send + Sync {
    /// Returns the newest generation, or `None` if no generation was created yet.
    fn newest_generation(&self) -> BoxFuture<'_, Result<Option<u64>, LogError>>;

    /// Creates a generation. Returns `false` if it exists already. If the servers have no space for it, the limits of
    /// older generations are lowered to their size. If that is not enough, it fails, and
    /// [`LogError::lacks_space`] is true.
    fn create_generation(&self, generation: u64) -> BoxFuture<'_, Result<bool, LogError>>;

    /// Removes all generations before `generation`, with their messages. Returns the number of removed generations.
    /// Their readers fail with [`ReadError::Gone`] or [`ReadError::Truncated`]. The leading writer calls this when
    /// readers no longer need them; nothing else removes a generation. After an error the next call continues.
    fn remove_generations_below(&self, generation: u64) -> BoxFuture<'_, Result<usize, LogError>>;

    /// Opens a generation, or fails if it does not exist.
    fn open_generation(&self, generation: u64) -> BoxFuture<'_, Result<Arc<dyn Log>, LogError>>;

    /// Returns the ways in which the log can lose acknowledged messages, one sentence each. Callers refuse such a log
    /// unless their configuration allows it. A store that replaces objects cannot fence appends, and is an error.
    fn durability_faults(&self) -> BoxFuture<'_, Result<Vec<String>, LogError>>;
}
