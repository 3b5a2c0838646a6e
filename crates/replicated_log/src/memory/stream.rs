//! The messages of one generation in memory.
//!
//! Invariant: sequences are without gaps from `first` to `last`, and the oldest message is not a lost one. A stream
//! knows its end although all its messages were removed.

use std::collections::VecDeque;

use crate::message::{LogMessage, StoredMessage, Tail};

/// Stored messages of a generation, from its creation to its deletion.
#[derive(Debug)]
pub(super) struct Stream {
    /// Distinguishes the streams that had the same generation.
    pub(super) instance: u64,
    /// Sequence of the oldest message, or of the first one to come.
    first: u64,
    /// The messages from `first` on. `None` is a lost one.
    messages: VecDeque<Option<LogMessage>>,
}

impl Stream {
    pub(super) const fn new(instance: u64) -> Self {
        Self { instance, first: 1, messages: VecDeque::new() }
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

    /// Appends a batch if the stream ends at `after`. Returns whether it did.
    pub(super) fn append(&mut self, after: u64, batch: Vec<LogMessage>) -> bool {
        if self.last() != after {
            return false;
        }
        self.messages.extend(batch.into_iter().map(Some));
        true
    }

    /// Returns a message, or `None` if the stream does not have it.
    pub(super) fn stored_message(&self, sequence: u64) -> Option<StoredMessage> {
        let message = self.messages.get(self.find_index(sequence)?)?.as_ref()?;
        Some(StoredMessage {
            sequence,
            kind: message.kind,
            payload: message.payload.clone(),
            pending: self.last() - sequence,
        })
    }

    /// Returns the sequence of the next message that is not lost, from `sequence` on.
    pub(super) fn find_intact(&self, sequence: u64) -> Option<u64> {
        let index = self.find_index(sequence)?;
        let lost = self.messages.iter().skip(index).position(Option::is_some)?;
        Some(sequence + lost as u64)
    }

    fn find_index(&self, sequence: u64) -> Option<usize> {
        usize::try_from(sequence.checked_sub(self.first)?).ok()
    }

    pub(super) fn tail(&self) -> Tail {
        let last = self.last();
        Tail { first: if last == 0 { 0 } else { self.first }, last }
    }

    /// Removes the messages before `first`, except the last message.
    pub(super) fn truncate_before(&mut self, first: u64) {
        while self.first < first && self.messages.len() > 1 {
            self.remove_oldest();
        }
    }

    /// Removes the oldest message, and the lost ones after it.
    pub(super) fn remove_oldest(&mut self) {
        if self.messages.pop_front().is_some() {
            self.first += 1;
        }
        self.remove_lost_oldest();
    }

    /// Removes all messages. The stream still knows its end.
    pub(super) fn remove_all(&mut self) {
        self.first = self.last() + 1;
        self.messages.clear();
    }

    /// Loses a message for all readers. The stream starts after it if it was the oldest.
    pub(super) fn lose_message(&mut self, sequence: u64) {
        let index = self.find_index(sequence);
        if let Some(message) = index.and_then(|index| self.messages.get_mut(index)) {
            *message = None;
        }
        self.remove_lost_oldest();
    }

    fn remove_lost_oldest(&mut self) {
        while self.messages.front().is_some_and(Option::is_none) {
            self.messages.pop_front();
            self.first += 1;
        }
    }

    /// Removes the messages after `last`.
    pub(super) fn cut_after(&mut self, last: u64) {
        while self.last() > last && self.messages.pop_back().is_some() {}
    }

    /// Flips a bit of a stored payload, if there is such a message and it has a payload.
    pub(super) fn damage_message(&mut self, sequence: u64) {
        let index = self.find_index(sequence);
        if let Some(Some(message)) = index.and_then(|index| self.messages.get_mut(index)) {
            let mut payload = message.payload.to_vec();
            if let Some(byte) = payload.first_mut() {
                *byte ^= 1;
            }
            message.payload = payload.into();
        }
    }
}
