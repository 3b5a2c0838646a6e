//! Reads the messages of a log from the first to the last one.
//!
//! Behaviour on faults: an attempt that fails is repeated. In a directory or bucket, messages that cannot be read are then
//! skipped, up to the next object. In NATS the rest of the log is not read.

use std::time::Duration;

use anyhow::{Error, Result};
use replicated_log::{BATCH_MESSAGES_MAX, Log, LogReader, ReadError, StoredMessage};
use tokio::time::timeout;

use crate::log_check::checker::LogChecker;

/// Time limit of the wait for a message that exists.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Attempts after the first one to read a message.
const RETRIES_MAX: u32 = 2;
/// Time between attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Reads all messages that existed at the start. `has_objects`: the messages after an unreadable one may be readable.
pub(super) async fn read_through(
    log: &dyn Log,
    has_objects: bool,
    checker: &mut LogChecker,
) -> Result<()> {
    if checker.is_complete() {
        return Ok(());
    }
    let mut reader = log.read(checker.next_sequence() - 1).await?;
    let mut retries = 0;
    while !checker.is_complete() {
        let next = checker.next_sequence();
        match timeout(MESSAGE_TIMEOUT, reader.next()).await {
            Ok(Ok(message)) => {
                retries = 0;
                checker.push(message);
            }
            // The limits of retention apply while the log is read.
            Ok(Err(ReadError::Truncated { first, .. })) if first > next => {
                checker.skip_removed(first);
                reader = log.read(first - 1).await?;
            }
            Ok(Err(err)) if is_local(&err) && retries < RETRIES_MAX => {
                retries += 1;
                tokio::time::sleep(RETRY_INTERVAL).await;
                reader = log.read(next - 1).await?;
            }
            Ok(Err(err)) if is_local(&err) => {
                let name = match &err {
                    ReadError::Damaged { .. } => "damaged",
                    ReadError::Missing { .. } => "missing",
                    _ => "unreadable",
                };
                checker.add_damage(name, format!("{:#}", Error::from(err)));
                let readable = match has_objects {
                    true => find_readable(log, next, checker.last_sequence()).await,
                    false => None,
                };
                let Some(found) = readable else { return Ok(()) };
                retries = 0;
                checker.skip_unreadable(found.message.sequence);
                checker.push(found.message);
                reader = found.reader;
            }
            Ok(Err(err)) => {
                checker.add_damage("gone", err.to_string());
                return Ok(());
            }
            Err(_) => {
                checker.add_damage("unreadable", format!("no message in {MESSAGE_TIMEOUT:?}"));
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Whether an error is about one message, so that those after it may be readable.
fn is_local(err: &ReadError) -> bool {
    matches!(err, ReadError::Log(_) | ReadError::Damaged { .. } | ReadError::Missing { .. })
}

/// A message after unreadable ones, and the reader after it.
struct Readable {
    message: StoredMessage,
    reader: Box<dyn LogReader>,
}

/// Finds the first readable message after an unreadable one. An object has at most [`BATCH_MESSAGES_MAX`] messages.
async fn find_readable(log: &dyn Log, unreadable: u64, last: u64) -> Option<Readable> {
    let end = last.min(unreadable.saturating_add(BATCH_MESSAGES_MAX as u64));
    for sequence in unreadable + 1..=end {
        let Ok(mut reader) = log.read(sequence - 1).await else { continue };
        if let Ok(Ok(message)) = timeout(MESSAGE_TIMEOUT, reader.next()).await {
            return Some(Readable { message, reader });
        }
    }
    None
}
