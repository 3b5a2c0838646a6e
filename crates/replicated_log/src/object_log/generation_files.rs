//! The objects of one generation: reading, listing, errors that name the object, and the newest sequence of this
//! process.
//!
//! Not here: their order of creation (`generation_log`), following their end (`reader`).

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use depot::{Depot, DepotError};
use tokio::sync::watch;

use super::batch_object::{
    BATCH_BYTES_MAX, BATCH_HEADER_BYTES, MARKER_BYTES, ObjectError, decode_batch, decode_header,
    decode_marker,
};
use super::keys::{format_batch_dir, format_batch_key, format_marker_key, parse_number};
use crate::error::LogError;
use crate::message::LogMessage;

/// The objects of one instance of a generation.
#[derive(Debug)]
pub(super) struct GenerationFiles {
    pub(super) depot: Depot,
    marker_key: String,
    batch_dir: String,
    instance: [u8; 16],
    /// The newest sequence that this process knows. It wakes readers in the same process.
    ends: watch::Sender<u64>,
}

/// A batch that was read.
#[derive(Debug)]
pub(super) struct Batch {
    /// Sequence of the first message.
    pub(super) first: u64,
    pub(super) messages: Vec<LogMessage>,
}

impl Batch {
    /// Sequence of the last message.
    pub(super) const fn last(&self) -> u64 {
        self.first + self.messages.len() as u64 - 1
    }
}

/// A batch in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListedBatch {
    /// Sequence of the first message.
    pub(super) first: u64,
    /// Length of the object.
    pub(super) bytes: u64,
}

/// Batches in the order of their sequences.
#[derive(Debug)]
pub(super) struct ListPage {
    pub(super) batches: Vec<ListedBatch>,
    /// Whether no batch follows the page.
    pub(super) is_last: bool,
}

impl GenerationFiles {
    /// Reads the marker of a generation. Returns `None` if the generation does not exist.
    pub(super) async fn open(
        depot: &Depot,
        cluster: &str,
        generation: u64,
    ) -> Result<Option<Self>, LogError> {
        let marker_key = format_marker_key(cluster, generation);
        let instance = read_marker(depot, &marker_key).await?;
        Ok(instance.map(|instance| Self {
            depot: depot.clone(),
            batch_dir: format_batch_dir(cluster, generation, instance),
            marker_key,
            instance,
            ends: watch::Sender::new(0),
        }))
    }

    /// Random number of the generation's creation.
    pub(super) const fn instance(&self) -> [u8; 16] {
        self.instance
    }

    /// Returns whether the generation is still the one that was opened.
    pub(super) async fn is_current(&self) -> Result<bool, LogError> {
        let found = read_marker(&self.depot, &self.marker_key).await?;
        Ok(found == Some(self.instance))
    }

    /// Starts to listen for appends of this process.
    pub(super) fn subscribe_ends(&self) -> watch::Receiver<u64> {
        self.ends.subscribe()
    }

    /// Wakes the readers of this process if `last` is the newest sequence so far.
    pub(super) fn announce_end(&self, last: u64) {
        self.ends.send_if_modified(|known| {
            let is_newer = last > *known;
            *known = last.max(*known);
            is_newer
        });
    }

    /// Returns the key of a batch.
    pub(super) fn batch_key(&self, first: u64) -> String {
        format_batch_key(&self.batch_dir, first)
    }

    /// Returns the name of the generation's directory in errors.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.depot.name(), self.batch_dir)
    }

    /// Returns the name of a batch in errors.
    pub(super) fn name_batch(&self, first: u64) -> String {
        format!("{}/{}", self.depot.name(), self.batch_key(first))
    }

    /// Reads a batch. Returns `None` if it does not exist.
    pub(super) async fn read_batch(&self, first: u64) -> Result<Option<Batch>, LogError> {
        let found = self.depot.get(&self.batch_key(first), BATCH_BYTES_MAX).await;
        let Some(bytes) = self.check_found(first, found)? else { return Ok(None) };
        let messages = self.check_decoded(first, decode_batch(&bytes, first))?;
        Ok(Some(Batch { first, messages }))
    }

    /// Reads the creation time of a batch, in milliseconds since 1970. Returns `None` if the batch does not exist.
    pub(super) async fn read_created_at_ms(&self, first: u64) -> Result<Option<u64>, LogError> {
        let range = 0..BATCH_HEADER_BYTES as u64;
        let found = self.depot.get_range(&self.batch_key(first), range).await;
        let Some(bytes) = self.check_found(first, found)? else { return Ok(None) };
        let header = self.check_decoded(first, decode_header(&bytes))?;
        Ok(Some(header.created_at_ms))
    }

    /// Number of batches of a page. A page is listed with one object more.
    pub(super) fn list_page(&self) -> usize {
        self.depot.list_page() - 1
    }

    /// Lists up to `max` batches that start at the sequence `from` or later.
    pub(super) async fn list_batches(&self, from: u64, max: usize) -> Result<ListPage, LogError> {
        let after = self.batch_key(from.saturating_sub(1));
        // One object more shows whether the page is the last one.
        let listed = self.depot.list_after(&self.batch_dir, &after, max + 1).await;
        let listed = listed.map_err(|error| LogError::new(self.name(), "list batches", error))?;
        let is_last = listed.len() <= max;
        let mut batches = Vec::with_capacity(listed.len());
        for object in listed.iter().take(max) {
            let Some(first) = parse_number(&object.key) else {
                let reason = format!("{} is not a batch", object.key);
                return Err(LogError::with_reason(self.name(), "list batches", reason));
            };
            batches.push(ListedBatch { first, bytes: object.bytes });
        }
        Ok(ListPage { batches, is_last })
    }

    /// Lists all batches from the first one.
    pub(super) async fn list_all(&self) -> Result<Vec<ListedBatch>, LogError> {
        let mut all = Vec::new();
        loop {
            let from = all.last().map_or(0, |batch: &ListedBatch| batch.first + 1);
            let page = self.list_batches(from, self.list_page()).await?;
            all.extend(page.batches);
            if page.is_last {
                return Ok(all);
            }
        }
    }

    /// Returns the first sequence of the newest batch, which is searched from the batch `hint` on.
    pub(super) async fn find_newest(&self, hint: u64) -> Result<Option<u64>, LogError> {
        match self.find_newest_from(hint).await? {
            // The log was restored from an older backup.
            None if hint > 0 => self.find_newest_from(0).await,
            newest => Ok(newest),
        }
    }

    async fn find_newest_from(&self, from: u64) -> Result<Option<u64>, LogError> {
        let mut newest = None;
        loop {
            let from = newest.map_or(from, |first: u64| first + 1);
            let page = self.list_batches(from, self.list_page()).await?;
            newest = page.batches.last().map(|batch| batch.first).or(newest);
            if page.is_last {
                return Ok(newest);
            }
        }
    }

    /// Deletes a batch. It may be absent.
    pub(super) async fn delete_batch(&self, first: u64) -> Result<(), LogError> {
        let deleted = self.depot.delete(&self.batch_key(first)).await;
        deleted.map_err(|error| LogError::new(self.name_batch(first), "delete it", error))
    }

    fn check_found(
        &self,
        first: u64,
        found: Result<Bytes, DepotError>,
    ) -> Result<Option<Bytes>, LogError> {
        match found {
            Ok(bytes) => Ok(Some(bytes)),
            Err(DepotError::NotFound { .. }) => Ok(None),
            Err(error) => Err(describe_failure(self.name_batch(first), "read it", error)),
        }
    }

    fn check_decoded<T>(&self, first: u64, decoded: Result<T, ObjectError>) -> Result<T, LogError> {
        decoded.map_err(|error| describe_damage(self.name_batch(first), "decode it", &error))
    }
}

/// Returns whether a put failed because its disk is full.
pub(super) fn is_full(error: &DepotError) -> bool {
    matches!(error, DepotError::Full { .. })
}

/// Wall clock in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the age limit compares times of several machines")]
pub(super) fn read_clock_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Reads the instance of a generation. Returns `None` if there is no marker.
async fn read_marker(depot: &Depot, key: &str) -> Result<Option<[u8; 16]>, LogError> {
    let name = || format!("{}/{key}", depot.name());
    match depot.get(key, MARKER_BYTES + 1).await {
        Ok(bytes) => decode_marker(&bytes)
            .map(Some)
            .map_err(|error| describe_damage(name(), "open the generation", &error)),
        Err(DepotError::NotFound { .. }) => Ok(None),
        Err(error) => Err(describe_failure(name(), "open the generation", error)),
    }
}

/// Returns the error of an object that cannot be decoded. One of another version is not damaged.
fn describe_damage(name: String, attempt: &str, error: &ObjectError) -> LogError {
    match error {
        ObjectError::Damaged { .. } => LogError::with_damage(name, attempt, error),
        ObjectError::Version { .. } => LogError::with_reason(name, attempt, error),
    }
}

/// Returns the error of an object that cannot be read. One that is longer than any that a writer creates is damaged.
fn describe_failure(name: String, attempt: &str, error: DepotError) -> LogError {
    match error {
        DepotError::TooLong { .. } => LogError::with_damage(name, attempt, error),
        _ => LogError::new(name, attempt, error),
    }
}
