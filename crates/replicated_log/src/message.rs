//! Messages of a log, their positions, and the limits of a batch.
//!
//! Invariant: a batch holds whole records, so its first message is a head.
//! Not here: the content of a payload (the crates of the chains).

use bytes::Bytes;

use crate::error::{AppendError, LogError};

/// Maximum number of messages of a batch. NATS JetStream accepts no larger atomic batch.
pub const BATCH_MESSAGES_MAX: usize = 1_000;

/// Maximum payload of a message in bytes: 240 KiB, below the 256 KiB that JetStream's Raft log writes at once.
pub const MESSAGE_BYTES_MAX: usize = 245_760;

/// A message before it has a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMessage {
    /// Whether the message starts a record.
    pub kind: MessageKind,
    /// Content, at most [`MESSAGE_BYTES_MAX`] bytes.
    pub payload: Bytes,
}

impl LogMessage {
    /// Creates the first message of a record.
    pub const fn head(payload: Bytes) -> Self {
        Self { kind: MessageKind::Head, payload }
    }

    /// Creates a message that continues a record.
    pub const fn body(payload: Bytes) -> Self {
        Self { kind: MessageKind::Body, payload }
    }
}

/// Position of a message in its record. A head starts a record; the bodies that follow belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// The first message of a record.
    Head,
    /// Message that continues the record of the head before it.
    Body,
}

/// A message as the log stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Position in the log. The first message of a generation has sequence 1.
    pub sequence: u64,
    /// Whether the message starts a record.
    pub kind: MessageKind,
    /// Content, byte for byte as it was appended.
    pub payload: Bytes,
    /// Number of messages after this one, as far as known.
    pub pending: u64,
}

/// Extent of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Oldest sequence that can be read. `last + 1` if all messages were removed, 0 in a log that never had one.
    pub first: u64,
    /// Newest sequence, of a message that may have been removed. 0 in a log that never had one.
    pub last: u64,
}

/// Returns an error that names value and limit, unless a batch can be appended to the log at `location`.
pub(crate) fn check_batch(location: &str, batch: &[LogMessage]) -> Result<(), AppendError> {
    let refuse = |reason: String| {
        AppendError::Refused(LogError::with_reason(location, "append a batch", reason))
    };
    if batch.len() > BATCH_MESSAGES_MAX {
        return Err(refuse(format!(
            "it has {} messages, the limit is {BATCH_MESSAGES_MAX}",
            batch.len()
        )));
    }
    match batch.first() {
        None => return Err(refuse("it has no messages".to_owned())),
        Some(message) if message.kind == MessageKind::Body => {
            return Err(refuse("its first message is not the head of a record".to_owned()));
        }
        Some(_) => {}
    }
    let too_long = batch.iter().position(|message| message.payload.len() > MESSAGE_BYTES_MAX);
    too_long.map_or(Ok(()), |index| {
        let bytes = batch[index].payload.len();
        Err(refuse(format!("message {index} has {bytes} bytes, the limit is {MESSAGE_BYTES_MAX}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(batch: &[LogMessage]) -> String {
        match check_batch("log x", batch) {
            Err(AppendError::Refused(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_batch_at_the_limits_is_accepted() {
        let mut batch = vec![LogMessage::body(Bytes::new()); BATCH_MESSAGES_MAX];
        batch[0] = LogMessage::head(vec![0; MESSAGE_BYTES_MAX].into());
        assert!(check_batch("log x", &batch).is_ok());
    }

    #[test]
    fn a_refusal_names_value_and_limit() {
        let long = LogMessage::body(vec![0; MESSAGE_BYTES_MAX + 1].into());
        let head = LogMessage::head(Bytes::new());
        assert_eq!(
            refusal(&[head.clone(), long]),
            "log x: cannot append a batch: message 1 has 245761 bytes, the limit is 245760"
        );
        assert_eq!(
            refusal(&vec![head; BATCH_MESSAGES_MAX + 1]),
            "log x: cannot append a batch: it has 1001 messages, the limit is 1000"
        );
    }

    #[test]
    fn a_batch_without_a_head_is_refused() {
        assert!(refusal(&[]).ends_with("it has no messages"));
        assert!(refusal(&[LogMessage::body(Bytes::new())]).ends_with("not the head of a record"));
    }
}
