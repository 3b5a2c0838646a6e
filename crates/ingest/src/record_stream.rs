//! From the messages of a log to the heads of its records.
//!
//! Input: messages in the order of a reader, which may repeat some. Output: each head, once all messages of its record
//! have arrived. The bodies are counted and not decoded: replicas check them.
//! Invariant: a missing message is an error, and a repeated one is ignored.
//! Not here: the chain of records (`log_chain`).

use chain_solana::wire::{RecordHead, WireError, read_head};
use replicated_log::{MessageKind, StoredMessage};

use crate::log_chain::Damage;

/// A record whose messages have all arrived.
#[derive(Clone, Debug)]
pub(crate) struct WholeRecord {
    pub(crate) head: RecordHead,
    /// Sequence of its last message.
    pub(crate) sequence: u64,
}

/// Why a message ends the stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// A newer release wrote the record.
    #[error(transparent)]
    Version(WireError),
    #[error(transparent)]
    Damage(#[from] Damage),
}

/// The records of a log from one position on.
#[derive(Clone, Debug)]
pub(crate) struct RecordStream {
    /// Sequence of the last message.
    position: u64,
    /// The record whose bodies arrive.
    open: Option<OpenRecord>,
    /// Whether the stream may have started within a record.
    seeks_head: bool,
}

#[derive(Clone, Debug)]
struct OpenRecord {
    head: RecordHead,
    missing: u16,
}

impl RecordStream {
    /// A stream from the end of a record on.
    pub(crate) fn after_record(position: u64) -> Self {
        Self { position, open: None, seeks_head: false }
    }

    /// A stream from any message on. Bodies before the first head are skipped.
    pub(crate) fn after_message(position: u64) -> Self {
        Self { position, open: None, seeks_head: position > 0 }
    }

    /// Returns the sequence of the last message.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Takes a message. Messages up to `known` belong to records that need not be read.
    pub(crate) fn push(
        &mut self,
        message: &StoredMessage,
        known: u64,
    ) -> Result<Option<WholeRecord>, StreamError> {
        let sequence = message.sequence;
        if sequence <= self.position {
            return Ok(None);
        }
        let damage = |what, number| StreamError::Damage(Damage { what, number, sequence });
        let number = self.open.as_ref().map_or(0, |open| open.head.link.number);
        if sequence != self.position + 1 {
            return Err(damage("message", number));
        }
        self.position = sequence;
        if sequence <= known {
            self.open = None;
            return Ok(None);
        }
        match (message.kind, self.open.take()) {
            (MessageKind::Head, None) => {
                self.seeks_head = false;
                let head = read_head(&message.payload).map_err(|err| match err {
                    WireError::Version { .. } => StreamError::Version(err),
                    _ => damage("head", number),
                })?;
                Ok(self.add(OpenRecord { missing: head.body_messages, head }))
            }
            (MessageKind::Body, Some(open)) => {
                Ok(self.add(OpenRecord { missing: open.missing - 1, ..open }))
            }
            (MessageKind::Body, None) if self.seeks_head => Ok(None),
            _ => Err(damage("message", number)),
        }
    }

    /// Returns the record if it has no more messages.
    fn add(&mut self, open: OpenRecord) -> Option<WholeRecord> {
        if open.missing > 0 {
            self.open = Some(open);
            return None;
        }
        Some(WholeRecord { head: open.head, sequence: self.position })
    }
}
