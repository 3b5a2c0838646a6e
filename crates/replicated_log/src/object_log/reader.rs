//! A reader of a generation that is made of objects.
//!
//! A reader first finds the batch that contains its next message, by a list. It then reads the listed batches, several
//! at a time. At the end of the list it knows the name of the next batch, and polls that object. An append of the same
//! process wakes it at once.
//! Bounds: `in_flight_bytes` of batches that were requested in advance, the batch that is being delivered, and 16 bytes for
//! each batch of a page of the list.
//! Invariant: sequences have no gap. After each failure the reader finds its position again. This separates
//! batches that do not exist yet from removed ones and from lost ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use tokio::sync::watch;
use tokio::time::timeout;

use super::generation_files::{Batch, GenerationFiles, ListPage, ListedBatch};
use crate::error::{LogError, ReadError};
use crate::log::LogReader;
use crate::message::{BATCH_MESSAGES_MAX, LogMessage, StoredMessage};

/// Maximum number of batches that are requested in advance.
const REQUESTS_MAX: usize = 8;

/// Polls without a new batch after which a reader finds its position again, to notice that the log was truncated or
/// deleted. With the default intervals this happens every three seconds.
const IDLE_POLLS_MAX: u32 = 16;

/// Polls in a row that found a batch, after which a reader lists the log again: it is behind.
const FOUND_POLLS_MAX: u32 = 8;

/// Settings of all readers of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadSettings {
    /// The first wait at the end of the log. It doubles with each poll.
    pub(super) poll_interval_min: Duration,
    /// The longest wait at the end of the log.
    pub(super) poll_interval_max: Duration,
    /// Bytes of batches that are requested in advance. One batch may exceed them.
    pub(super) in_flight_bytes: u64,
}

/// Position of a reader, and the batches that follow it.
pub(super) struct ObjectReader {
    files: Arc<GenerationFiles>,
    settings: ReadSettings,
    /// The newest sequence that this process knows.
    ends: watch::Receiver<u64>,
    /// Sequence of the last delivered message.
    position: u64,
    /// The messages after `position` that were read.
    messages: VecDeque<LogMessage>,
    /// Whether `requests` and `listed` continue at the position.
    is_located: bool,
    requests: FuturesOrdered<BoxFuture<'static, RequestedBatch>>,
    requested_bytes: u64,
    /// Batches that were listed and not requested yet.
    listed: VecDeque<ListedBatch>,
    is_listed_to_end: bool,
    /// Whether the last list showed batches after its page.
    has_more: bool,
    /// The newest sequence that this reader knows of.
    known_last: u64,
    idle_polls: u32,
    found_polls: u32,
}

/// A listed batch and the result of its request.
struct RequestedBatch {
    listed: ListedBatch,
    result: Result<Option<Batch>, LogError>,
}

impl ObjectReader {
    pub(super) fn new(files: Arc<GenerationFiles>, settings: ReadSettings, after: u64) -> Self {
        let ends = files.subscribe_ends();
        Self {
            files,
            settings,
            ends,
            position: after,
            messages: VecDeque::new(),
            is_located: false,
            requests: FuturesOrdered::new(),
            requested_bytes: 0,
            listed: VecDeque::new(),
            is_listed_to_end: false,
            has_more: false,
            known_last: 0,
            idle_polls: 0,
            found_polls: 0,
        }
    }

    /// Takes the next message out of the batch that was read.
    fn pop_message(&mut self) -> Option<StoredMessage> {
        let message = self.messages.pop_front()?;
        self.position += 1;
        let known_last = self.known_last.max(*self.ends.borrow());
        let pending = known_last.saturating_sub(self.position);
        Some(StoredMessage {
            sequence: self.position,
            kind: message.kind,
            payload: message.payload,
            pending: pending.max(u64::from(self.has_more)),
        })
    }

    /// Makes one step towards more messages: a list, a batch, or a wait. Cancel safe: a dropped step is repeated.
    async fn advance(&mut self) -> Result<(), ReadError> {
        if !self.is_located {
            return self.locate().await;
        }
        self.start_requests();
        if let Some(requested) = self.requests.next().await {
            return self.accept_request(requested).await;
        }
        if self.is_listed_to_end {
            return self.poll_end().await;
        }
        let page_max = self.files.list_page();
        let page = self.files.list_batches(self.position + 1, page_max).await?;
        self.accept_page(page);
        Ok(())
    }

    /// Forgets all batches in advance. The next step finds the position again.
    fn unlocate(&mut self) {
        self.is_located = false;
        self.requests = FuturesOrdered::new();
        self.requested_bytes = 0;
        self.listed.clear();
    }

    /// Requests listed batches up to the limits.
    fn start_requests(&mut self) {
        while self.requests.len() < REQUESTS_MAX
            && let Some(batch) = self.listed.front().copied()
        {
            let bytes = self.requested_bytes + batch.bytes;
            if !self.requests.is_empty() && bytes > self.settings.in_flight_bytes {
                return;
            }
            self.listed.pop_front();
            self.requested_bytes = bytes;
            let files = Arc::clone(&self.files);
            self.requests.push_back(Box::pin(async move {
                RequestedBatch { listed: batch, result: files.read_batch(batch.first).await }
            }));
        }
    }

    async fn accept_request(&mut self, requested: RequestedBatch) -> Result<(), ReadError> {
        self.requested_bytes -= requested.listed.bytes;
        match requested.result? {
            Some(batch) if batch.first == self.position + 1 => {
                self.idle_polls = 0;
                self.accept_batch(batch);
            }
            // It was removed after it was listed, or it does not continue the one before.
            _ => {
                self.unlocate();
                self.idle_polls += 1;
                self.wait_for_append().await;
            }
        }
        Ok(())
    }

    /// Takes the messages of a batch that contains the next one.
    fn accept_batch(&mut self, batch: Batch) {
        self.known_last = self.known_last.max(batch.last());
        let delivered = (self.position + 1 - batch.first) as usize;
        self.messages = batch.messages.into();
        self.messages.drain(..delivered);
    }

    fn accept_page(&mut self, page: ListPage) {
        let continues = |batch: &ListedBatch| batch.first == self.position + 1;
        if !page.batches.first().is_none_or(continues) {
            return self.unlocate();
        }
        self.accept_list(&page.batches, page.is_last);
    }

    fn accept_list(&mut self, batches: &[ListedBatch], is_last: bool) {
        if let Some(newest) = batches.last() {
            self.known_last = self.known_last.max(newest.first);
        }
        self.listed.extend(batches);
        self.is_listed_to_end = is_last;
        self.has_more = !is_last;
    }

    /// Reads the next batch at the end of the log, or waits for it.
    async fn poll_end(&mut self) -> Result<(), ReadError> {
        self.ends.mark_unchanged();
        if let Some(batch) = self.files.read_batch(self.position + 1).await? {
            self.accept_batch(batch);
            self.idle_polls = 0;
            self.found_polls += 1;
            if self.found_polls == FOUND_POLLS_MAX {
                self.found_polls = 0;
                self.is_listed_to_end = false;
            }
            return Ok(());
        }
        self.found_polls = 0;
        self.idle_polls += 1;
        if self.idle_polls.is_multiple_of(IDLE_POLLS_MAX) {
            self.unlocate();
        }
        self.wait_for_append().await;
        Ok(())
    }

    /// Waits for an append of this process, or for the poll interval.
    async fn wait_for_append(&mut self) {
        let doubled = 2_u32.saturating_pow(self.idle_polls.saturating_sub(1).min(16));
        let interval = self.settings.poll_interval_min.saturating_mul(doubled);
        let interval = interval.min(self.settings.poll_interval_max);
        match timeout(interval, self.ends.changed()).await {
            Ok(Ok(())) | Err(_) => {}
            // No writer is left in this process.
            Ok(Err(_)) => tokio::time::sleep(interval).await,
        }
    }

    /// Finds the batch that contains the next message, or why there is none.
    async fn locate(&mut self) -> Result<(), ReadError> {
        if !self.files.is_current().await? {
            return Err(ReadError::Gone);
        }
        let next = self.position + 1;
        let page = self.list_around(next).await?;
        let Some(index) = page.batches.iter().rposition(|batch| batch.first <= next) else {
            return self.locate_outside(page.batches.first().copied()).await;
        };
        let later = &page.batches[index + 1..];
        let found = page.batches[index];
        if found.first == next {
            self.accept_list(&page.batches[index..], page.is_last);
            self.is_located = true;
            return Ok(());
        }
        // It was removed after it was listed: the next step lists again.
        let Some(batch) = self.files.read_batch(found.first).await? else { return Ok(()) };
        let last = batch.last();
        if last >= next {
            self.accept_batch(batch);
        } else if let Some(after) = later.first() {
            return self.check_gap(after.first).await;
        } else if last < self.position {
            return Err(ReadError::Gone);
        }
        self.known_last = self.known_last.max(last);
        self.accept_list(later, page.is_last);
        self.is_located = true;
        Ok(())
    }

    /// Lists the batches around a sequence. The list has the batch of the message before it, and reaches the sequence
    /// if the log does.
    async fn list_around(&mut self, sequence: u64) -> Result<ListPage, LogError> {
        let from = sequence.saturating_sub(BATCH_MESSAGES_MAX as u64);
        let page_max = self.files.list_page();
        let mut page = self.files.list_batches(from, page_max).await?;
        while let Some(newest) = page.batches.last()
            && newest.first < sequence
            && !page.is_last
        {
            let next_page = self.files.list_batches(newest.first + 1, page_max).await?;
            page.batches.extend(next_page.batches);
            page.is_last = next_page.is_last;
        }
        Ok(page)
    }

    /// Classifies a position without a batch near it. `after` is the first batch after the position.
    async fn locate_outside(&mut self, after: Option<ListedBatch>) -> Result<(), ReadError> {
        let wanted = self.position + 1;
        let oldest = self.files.list_batches(0, 1).await?.batches.first().copied();
        match (oldest, after) {
            (Some(oldest), _) if oldest.first > wanted => {
                Err(ReadError::Truncated { wanted, first: oldest.first })
            }
            (Some(_), Some(after)) => self.check_gap(after.first).await,
            (None, _) if self.position == 0 => {
                self.accept_list(&[], true);
                self.is_located = true;
                Ok(())
            }
            _ => Err(ReadError::Gone),
        }
    }

    /// Fails if the next batch does not exist although the batch `later` does. A list of a directory may miss a batch
    /// that is created meanwhile: then the next step lists again.
    async fn check_gap(&mut self, later: u64) -> Result<(), ReadError> {
        let wanted = self.position + 1;
        if self.files.read_batch(wanted).await?.is_some() {
            return Ok(());
        }
        Err(ReadError::Missing { wanted, found: later })
    }
}

/// Returns the error of a reader whose next message is `sequence`. Damage of an object has a variant of its own.
fn name_damage(error: ReadError, sequence: u64) -> ReadError {
    match error {
        ReadError::Log(error) if error.is_damage() => ReadError::Damaged { sequence, error },
        error => error,
    }
}

impl LogReader for ObjectReader {
    fn next(&mut self) -> BoxFuture<'_, Result<StoredMessage, ReadError>> {
        Box::pin(async move {
            loop {
                if let Some(message) = self.pop_message() {
                    return Ok(message);
                }
                if let Err(error) = self.advance().await {
                    self.unlocate();
                    return Err(name_damage(error, self.position + 1));
                }
            }
        })
    }
}
