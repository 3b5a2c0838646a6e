//! A log in memory, with faults that a seed repeats.
//!
//! Input: appends, and the rates of [`Faults`]. Output: the same messages as any other log, and the faults of a real
//! one. There is no clock: delays count operations, and readers are woken by notification.
//! Bounds: `messages_max` of [`Faults`], if it is set. Otherwise the log grows without a limit.
//! Not here: rates and draws (`faults`), stored messages (`stream`), reading (`reader`).

mod faults;
mod reader;
mod space;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};

pub use self::faults::{AppendFaults, Faults, ReadFaults};
use self::reader::MemoryReader;
use self::space::Space;
use self::stream::Stream;
use crate::error::{AppendError, LogError};
use crate::log::{Log, LogReader, LogSpace};
use crate::message::{LogMessage, StoredMessage, Tail};

/// All generations of a log in memory. Clones share their content.
#[derive(Clone, Debug)]
pub struct MemoryLogSpace {
    space: Arc<Space>,
}

impl MemoryLogSpace {
    /// Creates a log space without generations, limits and faults.
    pub fn new() -> Self {
        Self::with_faults(Faults::default())
    }

    /// Creates a log space with faults. They follow from their seed and the order of calls.
    pub fn with_faults(faults: Faults) -> Self {
        Self { space: Arc::new(Space::new(faults)) }
    }

    /// Replaces the rates of faults and their seed. Late appends that are on their way still land.
    pub fn set_faults(&self, faults: Faults) {
        self.space.set_faults(faults);
    }

    /// Lands all late appends now. Those after a position that is not the end are refused.
    pub fn land_late_appends(&self) {
        self.space.land_late_appends();
    }

    /// Returns all messages of a generation without any fault of reading. Empty if the generation does not exist.
    pub fn stored_messages(&self, generation: u64) -> Vec<StoredMessage> {
        self.space.stored_messages(generation)
    }

    /// Removes all messages before `first`, but never the last one.
    pub fn truncate_generation(&self, generation: u64, first: u64) {
        self.space.change_stream(generation, |stream| stream.truncate_before(first));
    }

    /// Removes all messages, as an age limit does with a log without appends. The log still knows its end.
    pub fn empty_generation(&self, generation: u64) {
        self.space.change_stream(generation, Stream::remove_all);
    }

    /// Loses a message for all readers, as a damaged store does. Readers of it fail with
    /// [`ReadError::Missing`](crate::ReadError::Missing), or wait if no message follows it.
    pub fn lose_message(&self, generation: u64, sequence: u64) {
        self.space.change_stream(generation, |stream| stream.lose_message(sequence));
    }

    /// Removes all messages after `last`, as a restore from an older backup does. Open readers fail with
    /// [`ReadError::Gone`](crate::ReadError::Gone).
    pub fn restore_generation(&self, generation: u64, last: u64) {
        self.space.restore_generation(generation, last);
    }

    /// Flips the lowest bit of a stored payload's first byte, for all readers.
    pub fn damage_message(&self, generation: u64, sequence: u64) {
        self.space.change_stream(generation, |stream| stream.damage_message(sequence));
    }

    /// Deletes a generation. Open readers fail with [`ReadError::Gone`](crate::ReadError::Gone).
    pub fn delete_generation(&self, generation: u64) {
        self.space.delete_generation(generation);
    }

    /// Deletes a generation and creates it again, without messages.
    pub fn recreate_generation(&self, generation: u64) {
        self.space.recreate_generation(generation);
    }
}

impl Default for MemoryLogSpace {
    fn default() -> Self {
        Self::new()
    }
}

impl LogSpace for MemoryLogSpace {
    fn newest_generation(&self) -> BoxFuture<'_, Result<Option<u64>, LogError>> {
        Box::pin(ready(Ok(self.space.newest_generation())))
    }

    fn create_generation(&self, generation: u64) -> BoxFuture<'_, Result<bool, LogError>> {
        Box::pin(ready(Ok(self.space.create_generation(generation))))
    }

    fn open_generation(&self, generation: u64) -> BoxFuture<'_, Result<Arc<dyn Log>, LogError>> {
        let log = self.space.check_generation(generation, "open it").map(|()| {
            let log: Arc<dyn Log> =
                Arc::new(MemoryLog { space: Arc::clone(&self.space), generation });
            log
        });
        Box::pin(ready(log))
    }

    fn remove_generations_below(&self, generation: u64) -> BoxFuture<'_, Result<usize, LogError>> {
        Box::pin(ready(Ok(self.space.remove_generations_below(generation))))
    }

    fn durability_faults(&self) -> BoxFuture<'_, Result<Vec<String>, LogError>> {
        let fault = "a log in memory is lost when its process ends".to_owned();
        Box::pin(ready(Ok(vec![fault])))
    }
}

/// One generation of a log in memory.
struct MemoryLog {
    space: Arc<Space>,
    generation: u64,
}

impl Log for MemoryLog {
    fn append(
        &self,
        after: u64,
        batch: Vec<LogMessage>,
    ) -> BoxFuture<'_, Result<u64, AppendError>> {
        Box::pin(async move { self.space.append(self.generation, after, batch) })
    }

    fn tail(&self) -> BoxFuture<'_, Result<Tail, LogError>> {
        Box::pin(async move { self.space.find_tail(self.generation) })
    }

    fn read(&self, after: u64) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        Box::pin(async move {
            let reader = MemoryReader::open(&self.space, self.generation, after)?;
            Ok(Box::new(reader) as Box<dyn LogReader>)
        })
    }
}
