//! One generation as a log of objects: appending, finding the end, removing old batches.
//!
//! Create-if-absent is the fence. A batch is named by its first sequence, and batches never change. So all writers
//! that know the end of the log try to create the same object, and one of them succeeds.
//!
//! That argument needs a writer that does know the end. A writer that was stopped for hours could create an object
//! whose predecessors were removed meanwhile. So an append lists the end first if the last list is older than
//! [`KNOWN_END_TIMEOUT`], and checks the object after its own if the creation itself took that long.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use depot::Put;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::batch_object::{BATCH_BYTES_MAX, BatchHeader, encode_batch};
use super::generation_files::{Batch, GenerationFiles, is_full, read_clock_ms};
use super::reader::{ObjectReader, ReadSettings};
use super::retention::{EarlierEnd, Retention, remove_aged};
use crate::error::{AppendError, LogError};
use crate::log::{Log, LogReader};
use crate::message::{LogMessage, Tail, check_batch};

/// Age at which a known end is listed again before an append. It is shorter than the time for which each batch stays
/// ([`BATCH_AGE_MIN`](super::retention::BATCH_AGE_MIN)).
pub(super) const KNOWN_END_TIMEOUT: Duration = Duration::from_secs(10);

/// Attempts to read the newest batch, which another process may remove after it was listed.
const FIND_END_ATTEMPTS: u32 = 4;

/// One generation of a log in a directory or bucket, and the end of the log as one writer knows it.
#[derive(Debug)]
pub(super) struct GenerationLog {
    files: Arc<GenerationFiles>,
    known_end: Mutex<Option<KnownEnd>>,
    retention: Retention,
    /// The end in a list before, for the removal of old batches.
    earlier_end: EarlierEnd,
    read_settings: ReadSettings,
}

/// The newest batch, as far as this process knows.
#[derive(Clone, Copy, Debug)]
struct KnownEnd {
    /// First sequence of the newest batch. 0 in an empty log.
    first: u64,
    /// Last sequence of the newest batch. 0 in an empty log.
    last: u64,
    /// Time of the last list. Appends do not renew it, so a writer notices that its generation was deleted.
    listed_at: Instant,
}

impl KnownEnd {
    fn is_recent(&self) -> bool {
        self.listed_at.elapsed() < KNOWN_END_TIMEOUT
    }
}

impl GenerationLog {
    pub(super) fn new(
        files: Arc<GenerationFiles>,
        retention: Retention,
        read_settings: ReadSettings,
    ) -> Self {
        Self {
            files,
            known_end: Mutex::new(None),
            retention,
            earlier_end: EarlierEnd::default(),
            read_settings,
        }
    }

    /// Removes old batches at a time of the wall clock.
    pub(super) async fn remove_old_at(
        &self,
        now_ms: u64,
        needed_from: u64,
    ) -> Result<usize, LogError> {
        let earlier = &self.earlier_end;
        remove_aged(&self.files, self.retention, earlier, now_ms, needed_from).await
    }

    async fn append_batch(&self, after: u64, batch: &[LogMessage]) -> Result<u64, AppendError> {
        check_batch(&self.files.name(), batch)?;
        let known = *self.known_end.lock();
        let known = match known.filter(|end| end.last == after && end.is_recent()) {
            Some(end) => end,
            None => self.list_end().await.map_err(AppendError::Unknown)?,
        };
        if known.last != after {
            return Err(AppendError::Fenced { last: known.last });
        }
        let first = after + 1;
        let last = after + batch.len() as u64;
        let header = BatchHeader {
            first,
            created_at_ms: read_clock_ms(),
            append_id: fastrand::u128(..).to_le_bytes(),
        };
        self.create_batch(first, encode_batch(&header, batch)).await?;
        if !known.is_recent() {
            self.check_neighbours(first, last).await?;
        }
        self.note_end(KnownEnd { first, last, listed_at: known.listed_at });
        Ok(last)
    }

    /// Creates the object of a batch, or finds out why it was not created.
    async fn create_batch(&self, first: u64, bytes: Bytes) -> Result<(), AppendError> {
        let key = self.files.batch_key(first);
        let error = match self.files.depot.put_new(&key, bytes.clone()).await {
            Ok(Put::Created) => return Ok(()),
            Ok(Put::Exists) => return Err(self.describe_fence(first).await),
            Err(error) => error,
        };
        let name = self.files.name_batch(first);
        if is_full(&error) {
            return Err(AppendError::Full(LogError::new(name, "append a batch", error)));
        }
        // The object may exist although nothing confirmed it. An absent object proves nothing: the request may still be
        // on its way.
        match self.files.depot.get(&key, BATCH_BYTES_MAX).await {
            Ok(found) if found == bytes => Ok(()),
            Ok(_) => Err(self.describe_fence(first).await),
            Err(_) => Err(AppendError::Unknown(LogError::new(name, "append a batch", error))),
        }
    }

    /// Returns the refusal of an append, after another writer created its object.
    async fn describe_fence(&self, first: u64) -> AppendError {
        let end = self.list_end().await;
        AppendError::Fenced { last: end.map_or(first, |end| end.last.max(first)) }
    }

    /// Checks after a slow creation that the batch is not below the start of the log: the next batch, if there is one,
    /// must continue it.
    async fn check_neighbours(&self, first: u64, last: u64) -> Result<(), AppendError> {
        let listed = self.files.list_batches(first, 2).await.map_err(AppendError::Unknown)?;
        match listed.batches.as_slice() {
            [ours, next, ..] if ours.first == first && next.first != last + 1 => {
                self.files.delete_batch(first).await.map_err(AppendError::Unknown)?;
                Err(self.describe_fence(first).await)
            }
            [ours, ..] if ours.first == first => Ok(()),
            _ => {
                let name = self.files.name_batch(first);
                let reason = "it was removed meanwhile";
                let error = LogError::with_reason(name, "append a batch", reason);
                Err(AppendError::Unknown(error))
            }
        }
    }

    /// Lists the end of the log, and remembers it.
    async fn list_end(&self) -> Result<KnownEnd, LogError> {
        let started_at = Instant::now();
        let newest = self.read_newest_batch().await?;
        let end = KnownEnd {
            first: newest.as_ref().map_or(0, |batch| batch.first),
            last: newest.as_ref().map_or(0, Batch::last),
            listed_at: started_at,
        };
        self.note_end(end);
        Ok(end)
    }

    async fn read_newest_batch(&self) -> Result<Option<Batch>, LogError> {
        if !self.files.is_current().await? {
            let name = self.files.name();
            return Err(LogError::with_reason(name, "find its end", "the generation was deleted"));
        }
        for _ in 0..FIND_END_ATTEMPTS {
            let hint = self.known_end.lock().map_or(0, |end| end.first);
            let Some(first) = self.files.find_newest(hint).await? else { return Ok(None) };
            if let Some(batch) = self.files.read_batch(first).await? {
                return Ok(Some(batch));
            }
        }
        let reason = "the newest batch was removed each time it was read";
        Err(LogError::with_reason(self.files.name(), "find its end", reason))
    }

    /// Remembers the end of the log, and wakes the readers of this process if it is newer.
    fn note_end(&self, end: KnownEnd) {
        *self.known_end.lock() = Some(end);
        self.files.announce_end(end.last);
    }

    async fn find_tail(&self) -> Result<Tail, LogError> {
        let started_at = Instant::now();
        let Some(newest) = self.read_newest_batch().await? else {
            self.note_end(KnownEnd { first: 0, last: 0, listed_at: started_at });
            return Ok(Tail { first: 0, last: 0 });
        };
        let last = newest.last();
        self.note_end(KnownEnd { first: newest.first, last, listed_at: started_at });
        let oldest = self.files.list_batches(0, 1).await?;
        let first = oldest.batches.first().map_or(newest.first, |batch| batch.first);
        Ok(Tail { first, last })
    }
}

impl Log for GenerationLog {
    fn append(
        &self,
        after: u64,
        batch: Vec<LogMessage>,
    ) -> BoxFuture<'_, Result<u64, AppendError>> {
        Box::pin(async move { self.append_batch(after, &batch).await })
    }

    fn tail(&self) -> BoxFuture<'_, Result<Tail, LogError>> {
        Box::pin(self.find_tail())
    }

    fn read(&self, after: u64) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        let reader = ObjectReader::new(Arc::clone(&self.files), self.read_settings, after);
        Box::pin(std::future::ready(Ok(Box::new(reader) as Box<dyn LogReader>)))
    }

    fn remove_old(&self, needed_from: u64) -> BoxFuture<'_, Result<usize, LogError>> {
        Box::pin(self.remove_old_at(read_clock_ms(), needed_from))
    }
}
