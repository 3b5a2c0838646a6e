//! The log of one generation: one append at a time, and any number of readers.
//!
//! Invariant: [`tail`](Log::tail) reads the extent from the stream's leader. It may end within a batch that the leader
//! is storing; a request for a message waits for the rest of it. So an extent that is the same before and after that
//! request ends with a whole batch. A new leader may still be applying its last messages, and one that was cut off
//! responds until it steps down. So an extent that ends before a message which this process knows is requested again
//! for [`EXTENT_CHECKS`] times [`EXTENT_CHECK_INTERVAL`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::jetstream::stream::{LastRawMessageErrorKind, State, Stream};
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::appender::Appender;
use super::connection::Connection;
use super::generation::Generation;
use super::generation_stream::GenerationStream;
use super::reader::{EXTENT_CHECK_INTERVAL, EXTENT_CHECKS, NatsReader};
use crate::error::{AppendError, LogError};
use crate::log::{Log, LogReader};
use crate::message::{LogMessage, Tail};

/// Number of tries to get an extent that is the same before and after a request, while another writer appends.
const TAIL_TRIES: usize = 10;
const TAIL_ATTEMPT: &str = "read the end of the log";

/// A generation with the connection of its only appender.
pub(super) struct GenerationLog {
    generation: Arc<Generation>,
    appender: Mutex<Appender>,
    known_end: KnownEnd,
}

/// The end of the log as this process knows it, by its own appends and by the last look at it.
#[derive(Debug, Default)]
struct KnownEnd(AtomicU64);

impl KnownEnd {
    /// Notes a message that the log has.
    fn raise(&self, last: u64) {
        self.0.fetch_max(last, Ordering::Relaxed);
    }

    /// Notes the end of the log, which may be before a message that it had.
    fn replace(&self, last: u64) {
        self.0.store(last, Ordering::Relaxed);
    }

    /// Returns whether an extent ends before a message that the log had.
    fn is_after(&self, last: u64) -> bool {
        self.0.load(Ordering::Relaxed) > last
    }
}

impl GenerationLog {
    pub(super) async fn open(
        connection: Connection,
        stream: GenerationStream,
    ) -> Result<Self, LogError> {
        let generation = Arc::new(Generation::open(connection, stream).await?);
        let appender = Appender::open(Arc::clone(&generation)).await?;
        Ok(Self { generation, appender: Mutex::new(appender), known_end: KnownEnd::default() })
    }

    async fn append_batch(&self, after: u64, batch: Vec<LogMessage>) -> Result<u64, AppendError> {
        let last = self.appender.lock().await.append(after, batch).await?;
        self.known_end.raise(last);
        Ok(last)
    }

    async fn find_tail(&self) -> Result<Tail, LogError> {
        let tail = self.find_consistent_tail().await?;
        self.known_end.replace(tail.last);
        Ok(tail)
    }

    /// Asks the stream's leader for its state. An extent that ends too early is requested again.
    async fn find_settled_extent(&self) -> Result<Stream, LogError> {
        let mut stream = self.generation.stream_info(TAIL_ATTEMPT).await?;
        for _ in 1..EXTENT_CHECKS {
            if !self.known_end.is_after(stream.cached_info().state.last_sequence) {
                break;
            }
            sleep(EXTENT_CHECK_INTERVAL).await;
            stream = self.generation.stream_info(TAIL_ATTEMPT).await?;
        }
        Ok(stream)
    }

    async fn find_consistent_tail(&self) -> Result<Tail, LogError> {
        let mut stream = self.find_settled_extent().await?;
        for _ in 0..TAIL_TRIES {
            let state = &stream.cached_info().state;
            let first = state.first_sequence;
            let last = state.last_sequence;
            if state.messages == 0 {
                return Ok(empty_tail(state));
            }
            self.await_batch(&stream).await?;
            stream = self.generation.stream_info(TAIL_ATTEMPT).await?;
            if stream.cached_info().state.last_sequence == last {
                return Ok(Tail { first, last });
            }
        }
        let reason = format!("it grew {TAIL_TRIES} times");
        Err(self.generation.connection.error_with_reason(TAIL_ATTEMPT, reason))
    }

    /// Waits until the stream's leader has stored the batch that it is storing. Any server responds to a direct get,
    /// even one that is behind, so this is a request to the leader.
    async fn await_batch(&self, stream: &Stream) -> Result<(), LogError> {
        let subject = &self.generation.stream.head_subject;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(_) => Ok(()),
            Err(err) if err.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(()),
            Err(err) => Err(self.generation.connection.error(TAIL_ATTEMPT, err)),
        }
    }
}

impl Log for GenerationLog {
    fn append(
        &self,
        after: u64,
        batch: Vec<LogMessage>,
    ) -> BoxFuture<'_, Result<u64, AppendError>> {
        Box::pin(self.append_batch(after, batch))
    }

    fn tail(&self) -> BoxFuture<'_, Result<Tail, LogError>> {
        Box::pin(self.find_tail())
    }

    fn read(&self, after: u64) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        let reader = NatsReader::new(Arc::clone(&self.generation), after);
        Box::pin(async move { Ok(Box::new(reader) as Box<dyn LogReader>) })
    }
}

/// Returns the tail of a log without messages: a new one, or one whose messages were all removed.
fn empty_tail(state: &State) -> Tail {
    let last = state.last_sequence;
    Tail { first: if last == 0 { 0 } else { last.saturating_add(1) }, last }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_log_begins_after_its_end() {
        let tail = |last: u64| {
            let json = format!(
                r#"{{"messages":0,"bytes":0,"first_seq":{last},"first_ts":"2026-01-01T00:00:00Z",
                "last_seq":{last},"last_ts":"2026-01-01T00:00:00Z","consumer_count":0}}"#
            );
            let tail = empty_tail(&serde_json::from_str::<State>(&json).expect("a state"));
            [tail.first, tail.last]
        };
        assert_eq!([tail(0), tail(9)], [[0, 0], [10, 9]]);
    }

    #[test]
    fn an_extent_before_a_known_message_is_not_settled() {
        let end = KnownEnd::default();
        assert!(!end.is_after(0));
        end.raise(10);
        end.raise(7);
        assert!(end.is_after(9) && !end.is_after(10));
        // The log was restored from an older backup: its end is accepted after the checks.
        end.replace(8);
        assert!(!end.is_after(8));
    }
}
