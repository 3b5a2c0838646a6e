//! A reader of a generation in memory.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::faults::ReadFate;
use super::space::{Space, name_generation};
use super::stream::Stream;
use crate::error::{LogError, ReadError};
use crate::log::LogReader;
use crate::message::StoredMessage;

/// Position of a reader, and the stream that it was opened on.
pub(super) struct MemoryReader {
    space: Arc<Space>,
    generation: u64,
    /// Instance of the stream that the reader belongs to. `None` if that stream ended before its position.
    instance: Option<u64>,
    /// Sequence of the last delivered message.
    position: u64,
    /// A message that a fault delivers next.
    upcoming: Option<StoredMessage>,
    changes: watch::Receiver<()>,
}

impl MemoryReader {
    pub(super) fn open(space: &Arc<Space>, generation: u64, after: u64) -> Result<Self, LogError> {
        space.check_generation(generation, "read it")?;
        let state = space.start_operation(generation);
        let stream = state.streams.get(&generation).filter(|stream| stream.last() >= after);
        let instance = stream.map(|stream| stream.instance);
        drop(state);
        Ok(Self {
            space: Arc::clone(space),
            generation,
            instance,
            position: after,
            upcoming: None,
            changes: space.subscribe(),
        })
    }

    /// Returns the next message, or `None` at the end of the log.
    fn read_next(&mut self) -> Result<Option<StoredMessage>, ReadError> {
        let space = Arc::clone(&self.space);
        let mut state = space.start_operation(self.generation);
        let state = &mut *state;
        let stream = state.streams.get(&self.generation);
        let is_same = |stream: &&Stream| Some(stream.instance) == self.instance;
        let Some(stream) = stream.filter(is_same) else { return Err(ReadError::Gone) };
        if let Some(message) = self.upcoming.take() {
            self.position = message.sequence;
            return Ok(Some(message));
        }
        loop {
            let sequence = self.position + 1;
            if sequence < stream.first() {
                return Err(ReadError::Truncated { wanted: sequence, first: stream.first() });
            }
            let Some(mut message) = stream.stored_message(sequence) else {
                // Lost messages at the end look like messages to come.
                let Some(found) = stream.find_intact(sequence) else { return Ok(None) };
                return Err(ReadError::Missing { wanted: sequence, found });
            };
            let fate = state.schedule.draw_read_fate();
            match fate {
                ReadFate::Delivered => {}
                ReadFate::FlippedBit => {
                    let drawn = state.schedule.draw_below(message.payload.len().max(1) * 8);
                    message.payload = flip_bit(&message.payload, drawn);
                }
                ReadFate::Missing => {
                    self.position = sequence;
                    continue;
                }
                ReadFate::Doubled => self.upcoming = Some(message.clone()),
                ReadFate::Swapped => {
                    if let Some(mut next) = stream.stored_message(sequence + 1) {
                        std::mem::swap(&mut next.kind, &mut message.kind);
                        std::mem::swap(&mut next.payload, &mut message.payload);
                        self.upcoming = Some(next);
                    }
                }
                ReadFate::Failed => {
                    let name = name_generation(self.generation);
                    let attempt = format!("read message {sequence}");
                    return Err(LogError::with_reason(name, attempt, "no response").into());
                }
            }
            self.position = sequence;
            return Ok(Some(message));
        }
    }
}

impl LogReader for MemoryReader {
    fn next(&mut self) -> BoxFuture<'_, Result<StoredMessage, ReadError>> {
        Box::pin(async move {
            loop {
                self.changes.mark_unchanged();
                if let Some(message) = self.read_next()? {
                    return Ok(message);
                }
                // The sender is part of the space, which this reader holds.
                self.changes.changed().await.map_err(|_| ReadError::Gone)?;
            }
        })
    }
}

/// Returns a payload with one flipped bit. An empty payload stays empty.
fn flip_bit(payload: &Bytes, bit: usize) -> Bytes {
    let mut flipped = payload.to_vec();
    if let Some(byte) = flipped.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
    flipped.into()
}
