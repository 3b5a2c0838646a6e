//! The messages of one epoch in memory.
//!
//! Invariant: sequences are without gaps from `first` to `last`. Truncation retains the last message, so a stream that
//! ever had messages still knows its end.

use std::collections::VecDeque;

use crate::message::{LogMessage, MessageKind, StoredMessage, Tail};

/// Stored messages of an epoch, from its creation to its deletion.
#[derive(Debug)]
pub(super) struct Stream {
    /// Distinguishes the streams that had the same epoch.
    pub(super) instance: u64,
    /// Sequence of the oldest message, or of the first one to come.
    first: u64,
    messages: VecDeque<LogMessage>,
    payload_bytes: u64,
}

impl Stream {
    pub(super) const fn new(instance: u64) -> Self {
        Self { instance, first: 1, messages: VecDeque::new(), payload_bytes: 0 }
    }

    /// The oldest sequence, or 1 in an empty stream.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// The newest sequence, or 0 in an empty stream.
    pub(super) fn last(&self) -> u64 {
        self.first + self.messages.len() as u64 - 1
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) const fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Appends a batch if the stream ends at `after`. Returns whether it did.
    pub(super) fn append(&mut self, after: u64, batch: Vec<LogMessage>) -> bool {
        if self.last() != after {
            return false;
        }
        self.payload_bytes += batch.iter().map(count_bytes).sum::<u64>();
        self.messages.extend(batch);
        true
    }

    pub(super) fn stored_message(&self, sequence: u64) -> Option<StoredMessage> {
        let index = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        let message = self.messages.get(index)?;
        Some(StoredMessage {
            sequence,
            kind: message.kind,
            payload: message.payload.clone(),
            pending: self.last() - sequence,
        })
    }

    pub(super) fn tail(&self) -> Tail {
        let is_head = |message: &LogMessage| message.kind == MessageKind::Head;
        let head = self.messages.iter().rposition(is_head);
        Tail {
            first: if self.messages.is_empty() { 0 } else { self.first },
            last: self.last(),
            head: head.and_then(|index| self.stored_message(self.first + index as u64)),
        }
    }

    /// Removes the messages before `first`, except the last message.
    pub(super) fn truncate_before(&mut self, first: u64) {
        while self.first < first && self.messages.len() > 1 {
            self.remove_oldest();
        }
    }

    /// Removes the oldest message.
    pub(super) fn remove_oldest(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.first += 1;
            self.payload_bytes -= count_bytes(&message);
        }
    }

    /// Removes the messages after `last`.
    pub(super) fn cut_after(&mut self, last: u64) {
        while self.last() > last
            && let Some(message) = self.messages.pop_back()
        {
            self.payload_bytes -= count_bytes(&message);
        }
    }

    /// Flips a bit of a stored payload, if there is such a message and it has a payload.
    pub(super) fn damage_message(&mut self, sequence: u64) {
        let index = sequence.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(message) = index.and_then(|index| self.messages.get_mut(index)) {
            let mut payload = message.payload.to_vec();
            if let Some(byte) = payload.first_mut() {
                *byte ^= 1;
            }
            message.payload = payload.into();
        }
    }
}

fn count_bytes(message: &LogMessage) -> u64 {
    message.payload.len() as u64
}
