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

/// All epochs of a log in memory. Clones share their content.
#[derive(Clone, Debug)]
pub struct MemoryLogSpace {
    space: Arc<Space>,
}

impl MemoryLogSpace {
    /// Creates a log space without epochs, limits and faults.
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

    /// Returns all messages of an epoch without any fault of reading. Empty if the epoch does not exist.
    pub fn stored_messages(&self, epoch: u64) -> Vec<StoredMessage> {
        self.space.stored_messages(epoch)
    }

    /// Removes all messages before `first`, but never the last one.
    pub fn truncate_epoch(&self, epoch: u64, first: u64) {
        self.space.change_stream(epoch, |stream| stream.truncate_before(first));
    }

    /// Removes all messages, as an age limit does with a log without appends. The log still knows its end.
    pub fn empty_epoch(&self, epoch: u64) {
        self.space.change_stream(epoch, Stream::remove_all);
    }

    /// Loses a message for all readers, as a damaged store does. Readers of it fail with
    /// [`ReadError::Missing`](crate::ReadError::Missing), or wait if no message follows it.
    pub fn lose_message(&self, epoch: u64, sequence: u64) {
        self.space.change_stream(epoch, |stream| stream.lose_message(sequence));
    }

    /// Removes all messages after `last`, as a restore from an older backup does. Open readers fail with
    /// [`ReadError::Gone`](crate::ReadError::Gone).
    pub fn restore_epoch(&self, epoch: u64, last: u64) {
        self.space.restore_epoch(epoch, last);
    }

    /// Flips the lowest bit of a stored payload's first byte, for all readers.
    pub fn damage_message(&self, epoch: u64, sequence: u64) {
        self.space.change_stream(epoch, |stream| stream.damage_message(sequence));
    }

    /// Deletes an epoch. Open readers fail with [`ReadError::Gone`](crate::ReadError::Gone).
    pub fn delete_epoch(&self, epoch: u64) {
        self.space.delete_epoch(epoch);
    }

    /// Deletes an epoch and creates it again, without messages.
    pub fn recreate_epoch(&self, epoch: u64) {
        self.space.recreate_epoch(epoch);
    }
}

impl Default for MemoryLogSpace {
    fn default() -> Self {
        Self::new()
    }
}

impl LogSpace for MemoryLogSpace {
    fn newest_epoch(&self) -> BoxFuture<'_, Result<Option<u64>, LogError>> {
        Box::pin(ready(Ok(self.space.newest_epoch())))
    }

    fn create_epoch(&self, epoch: u64) -> BoxFuture<'_, Result<bool, LogError>> {
        Box::pin(ready(Ok(self.space.create_epoch(epoch))))
    }

    fn open_epoch(&self, epoch: u64) -> BoxFuture<'_, Result<Arc<dyn Log>, LogError>> {
        let log = self.space.check_epoch(epoch, "open it").map(|()| {
            let log: Arc<dyn Log> = Arc::new(MemoryLog { space: Arc::clone(&self.space), epoch });
            log
        });
        Box::pin(ready(log))
    }

    fn remove_epochs_below(&self, epoch: u64) -> BoxFuture<'_, Result<usize, LogError>> {
        Box::pin(ready(Ok(self.space.remove_epochs_below(epoch))))
    }

    fn durability_faults(&self) -> BoxFuture<'_, Result<Vec<String>, LogError>> {
        let fault = "a log in memory is lost when its process ends".to_owned();
        Box::pin(ready(Ok(vec![fault])))
    }
}

/// One epoch of a log in memory.
struct MemoryLog {
    space: Arc<Space>,
    epoch: u64,
}

impl Log for MemoryLog {
    fn append(
        &self,
        after: u64,
        batch: Vec<LogMessage>,
    ) -> BoxFuture<'_, Result<u64, AppendError>> {
        Box::pin(async move { self.space.append(self.epoch, after, batch) })
    }

    fn tail(&self) -> BoxFuture<'_, Result<Tail, LogError>> {
        Box::pin(async move { self.space.find_tail(self.epoch) })
    }

    fn read(&self, after: u64) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        Box::pin(async move {
            let reader = MemoryReader::open(&self.space, self.epoch, after)?;
            Ok(Box::new(reader) as Box<dyn LogReader>)
        })
    }
}
