//! From the messages of a log to the heads of its records.
//!
//! Input: messages in the order of a reader, which may repeat some. Output: each head, once all messages of its record
//! have arrived.
//! Invariant: a missing message is an error, and a repeated one is ignored. Bodies have the checksums and the digests of
//! their head, so a record that is damaged in the log is found here, even if no replica could say so.
//! Bounds: one block, unpacked. Cost: that of reading a block at a replica.
//! Not here: the chain of records (`log_chain`).

use chain_solana::wire::{RecordHead, RecordReader, WireError, read_head};
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
pub(crate) struct RecordStream {
    /// Sequence of the last message.
    position: u64,
    /// Sequence of the last message of the last whole record.
    record_end: u64,
    /// The record whose bodies arrive.
    open: Option<OpenRecord>,
    /// Whether the stream may have started within a record.
    seeks_head: bool,
}

struct OpenRecord {
    head: RecordHead,
    missing: u16,
    /// Checks the bodies.
    bodies: RecordReader,
}

impl RecordStream {
    /// A stream from the end of a record on.
    pub(crate) fn after_record(position: u64) -> Self {
        Self { position, record_end: position, open: None, seeks_head: false }
    }

    /// A stream from any message on. Bodies before the first head are skipped.
    pub(crate) fn after_message(position: u64) -> Self {
        Self { seeks_head: position > 0, ..Self::after_record(position) }
    }

    /// Returns the sequence of the last message.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the sequence of the last message of the last whole record.
    pub(crate) fn record_end(&self) -> u64 {
        self.record_end
    }

    /// Takes a message. Returns the record that it completes.
    pub(crate) fn push(
        &mut self,
        message: &StoredMessage,
    ) -> Result<Option<WholeRecord>, StreamError> {
        let sequence = message.sequence;
        if sequence <= self.position {
            return Ok(None);
        }
        let number = self.open.as_ref().map_or(0, |open| open.head.link.number);
        let damage = |what| StreamError::Damage(Damage { what, number, sequence });
        if sequence != self.position + 1 {
            return Err(damage("missing"));
        }
        self.position = sequence;
        let payload = message.payload.clone();
        match (message.kind, self.open.take()) {
            (MessageKind::Head, None) => {
                self.seeks_head = false;
                let head = read_head(&payload).map_err(|err| match err {
                    WireError::Version { .. } => StreamError::Version(err),
                    err => damage(err.name()),
                })?;
                let mut bodies = RecordReader::new();
                bodies.push(true, payload).map_err(|err| damage(err.name()))?;
                Ok(self.add(OpenRecord { missing: head.body_messages, head, bodies }))
            }
            (MessageKind::Body, Some(mut open)) => {
                open.bodies.push(false, payload).map_err(|err| damage(err.name()))?;
                Ok(self.add(OpenRecord { missing: open.missing - 1, ..open }))
            }
            (MessageKind::Body, None) if self.seeks_head => Ok(None),
            _ => Err(damage("order")),
        }
    }

    /// Returns the record if it has no more messages.
    fn add(&mut self, open: OpenRecord) -> Option<WholeRecord> {
        if open.missing > 0 {
            self.open = Some(open);
            return None;
        }
        self.record_end = self.position;
        Some(WholeRecord { head: open.head, sequence: self.position })
    }
}
