//! The log of one epoch: one append at a time, and any number of readers.
//!
//! Invariant: [`tail`](Log::tail) reads both the extent and the last head from the stream's leader. Any server responds
//! to a direct get, even one that is behind. The extent may end within a batch that the leader is storing; a request
//! for a message waits for the rest of it. So an extent that is the same before and after that request ends with a
//! whole batch.

use std::sync::Arc;

use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use super::appender::Appender;
use super::connection::Connection;
use super::epoch::Epoch;
use super::epoch_stream::EpochStream;
use super::reader::NatsReader;
use crate::error::{AppendError, LogError};
use crate::log::{Log, LogReader};
use crate::message::{LogMessage, MessageKind, StoredMessage, Tail};

/// Number of tries to get an extent and a head that belong together, while another writer appends.
const TAIL_TRIES: usize = 10;
const TAIL_ATTEMPT: &str = "read the end of the log";

/// An epoch with the connection of its only appender.
pub(super) struct EpochLog {
    epoch: Arc<Epoch>,
    appender: Mutex<Appender>,
}

impl EpochLog {
    pub(super) async fn open(
        connection: Connection,
        stream: EpochStream,
    ) -> Result<Self, LogError> {
        let epoch = Arc::new(Epoch::open(connection, stream).await?);
        let appender = Appender::open(Arc::clone(&epoch)).await?;
        Ok(Self { epoch, appender: Mutex::new(appender) })
    }

    async fn find_tail(&self) -> Result<Tail, LogError> {
        let mut stream = self.epoch.stream_info(TAIL_ATTEMPT).await?;
        for _ in 0..TAIL_TRIES {
            let state = &stream.cached_info().state;
            let first = state.first_sequence;
            let last = state.last_sequence;
            if state.messages == 0 {
                return Ok(Tail { first: 0, last, head: None });
            }
            let head = self.find_last_head(&stream, last).await?;
            stream = self.epoch.stream_info(TAIL_ATTEMPT).await?;
            if stream.cached_info().state.last_sequence == last {
                return Ok(Tail { first, last, head });
            }
        }
        let reason = format!("it grew {TAIL_TRIES} times");
        Err(self.epoch.connection.error_with_reason(TAIL_ATTEMPT, reason))
    }

    /// Asks the stream's leader for the last head of a log that ends at `last`.
    async fn find_last_head(
        &self,
        stream: &Stream,
        last: u64,
    ) -> Result<Option<StoredMessage>, LogError> {
        let subject = &self.epoch.stream.head_subject;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(StoredMessage {
                sequence: message.sequence,
                kind: MessageKind::Head,
                payload: message.payload,
                pending: last.saturating_sub(message.sequence),
            })),
            Err(err) if err.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(err) => Err(self.epoch.connection.error(TAIL_ATTEMPT, err)),
        }
    }
}

impl Log for EpochLog {
    fn append(
        &self,
        after: u64,
        batch: Vec<LogMessage>,
    ) -> BoxFuture<'_, Result<u64, AppendError>> {
        Box::pin(async move { self.appender.lock().await.append(after, batch).await })
    }

    fn tail(&self) -> BoxFuture<'_, Result<Tail, LogError>> {
        Box::pin(self.find_tail())
    }

    fn read(&self, after: u64) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        let reader = NatsReader::new(Arc::clone(&self.epoch), after);
        Box::pin(async move { Ok(Box::new(reader) as Box<dyn LogReader>) })
    }
}
