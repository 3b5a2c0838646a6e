//! Reading a generation: a pull consumer of its own, which any server of the stream may hold, in memory.
//!
//! If the requested message was removed, a server starts the consumer at its first message without an error. It also
//! skips messages that are removed before they are delivered, and those that its store lost. So the reader compares each
//! sequence with the requested one. After a gap it creates the consumer again at the requested message. If the gap
//! remains, the extent of the log decides: it is truncated if it starts after the requested message, otherwise the
//! message is missing.
//! Bounds: `in_flight_bytes` of messages that are requested and not returned. A consumer that is not read for
//! [`INACTIVE_MAX`] is removed by the server, and created again by the next call.
//! Invariant: every message that is returned has the sequence after the one before it, and the stream still was the one
//! of the generation after the consumer was created.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind, State};
use async_nats::jetstream::{ErrorCode, Message};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::time::sleep;

use super::generation::Generation;
use crate::error::{LogError, ReadError};
use crate::log::LogReader;
use crate::message::{MESSAGE_BYTES_MAX, StoredMessage};

/// Time after which a server removes a consumer without requests.
const INACTIVE_MAX: Duration = Duration::from_secs(60);
/// Time after which a request for messages is repeated.
const REQUEST_EXPIRY: Duration = Duration::from_secs(20);
/// Interval at which the server says that a quiet consumer exists. Two missing ones are an error.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// Fewest messages of a request, so that small messages do not wait for one another.
const REQUEST_MESSAGES_MIN: usize = 4;
/// Most messages of a request: the bound for a large `in_flight_bytes`.
const REQUEST_MESSAGES_MAX: usize = 1_000;
/// Number of checks of a log that seems to end before the reader's position: its leader may still be applying its last
/// messages.
pub(super) const EXTENT_CHECKS: usize = 8;
pub(super) const EXTENT_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// First and longest pause before a consumer is created again without a message in between.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const ATTEMPT: &str = "read the log";

/// Position of a reader in a generation.
pub(super) struct NatsReader {
    generation: Arc<Generation>,
    /// Sequence of the next message.
    wanted: u64,
    consumer: ConsumerState,
    /// Consumers that ended, or could not be created, since the last message.
    failures: u32,
}

/// A consumer at the reader's next message. Its creation continues after a caller has dropped the future of `next`.
enum ConsumerState {
    Closed,
    Opening(BoxFuture<'static, Result<pull::Stream, ReadError>>),
    Open(Box<pull::Stream>),
}

/// A message as a consumer delivered it.
struct Delivery {
    message: StoredMessage,
    /// Whether the consumer had delivered nothing before.
    is_first: bool,
}

impl NatsReader {
    pub(super) fn new(generation: Arc<Generation>, after: u64) -> Self {
        let wanted = after.saturating_add(1);
        Self { generation, wanted, consumer: ConsumerState::Closed, failures: 0 }
    }

    async fn read_next(&mut self) -> Result<StoredMessage, ReadError> {
        loop {
            let received = self.receive().await?;
            let delivery = match read_delivery(&self.generation, &received) {
                Ok(delivery) => delivery,
                Err(err) => {
                    // Otherwise the next call would continue after the message.
                    self.close_consumer();
                    return Err(err);
                }
            };
            let sequence = delivery.message.sequence;
            // The consumer's server may have been behind when it was created.
            if sequence < self.wanted {
                continue;
            }
            if sequence == self.wanted {
                self.wanted += 1;
                self.failures = 0;
                return Ok(delivery.message);
            }
            // Messages were lost in transit, or removed from the log. A new consumer finds out which.
            self.close_consumer();
            if delivery.is_first {
                return Err(describe_gap(&self.generation, self.wanted, sequence).await);
            }
        }
    }

    /// Waits for the next message of the consumer, which is created again when it ends.
    async fn receive(&mut self) -> Result<Message, ReadError> {
        loop {
            match &mut self.consumer {
                ConsumerState::Closed => {
                    let generation = Arc::clone(&self.generation);
                    let opening = open_after_pause(generation, self.wanted, self.failures);
                    self.consumer = ConsumerState::Opening(Box::pin(opening));
                }
                ConsumerState::Opening(opening) => match opening.await {
                    Ok(messages) => self.consumer = ConsumerState::Open(Box::new(messages)),
                    Err(err) => {
                        self.close_consumer();
                        return Err(err);
                    }
                },
                ConsumerState::Open(messages) => match messages.next().await {
                    Some(Ok(message)) => return Ok(message),
                    Some(Err(err)) => {
                        let stream = &self.generation.stream.name;
                        tracing::debug!(%stream, %err, "a reader's consumer is created again");
                        self.close_consumer();
                    }
                    None => self.close_consumer(),
                },
            }
        }
    }

    fn close_consumer(&mut self) {
        self.consumer = ConsumerState::Closed;
        self.failures = self.failures.saturating_add(1);
    }
}

impl LogReader for NatsReader {
    fn next(&mut self) -> BoxFuture<'_, Result<StoredMessage, ReadError>> {
        Box::pin(self.read_next())
    }
}

/// Creates a consumer at the requested message, after a pause that grows with the number of failures before.
async fn open_after_pause(
    generation: Arc<Generation>,
    wanted: u64,
    failures: u32,
) -> Result<pull::Stream, ReadError> {
    if failures > 0 {
        sleep(pause_after(failures)).await;
    }
    let error = |err| describe_failure(&generation, wanted, err);
    let context = &generation.connection.queries;
    let settings = consumer_settings(wanted);
    let consumer =
        context.create_consumer_on_stream(settings, generation.stream.name.as_str()).await;
    let consumer = match consumer {
        Ok(consumer) => consumer,
        Err(err) if is_stream_missing(&err) => return Err(ReadError::Gone),
        Err(err) => return Err(error(err.into()).into()),
    };
    // After the creation: the stream may be another one since the last look at it.
    check_extent(&generation, wanted).await?;
    let messages = consumer
        .stream()
        .max_messages_per_batch(count_requested(generation.connection.in_flight_bytes))
        .expires(REQUEST_EXPIRY)
        .heartbeat(HEARTBEAT)
        .messages()
        .await;
    Ok(messages.map_err(|err| error(err.into()))?)
}

fn consumer_settings(wanted: u64) -> pull::Config {
    pull::Config {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: wanted },
        ack_policy: AckPolicy::None,
        inactive_threshold: INACTIVE_MAX,
        memory_storage: true,
        num_replicas: 1,
        ..pull::Config::default()
    }
}

/// Returns an error unless the log has the requested message, or ends right before it.
async fn check_extent(generation: &Generation, wanted: u64) -> Result<(), ReadError> {
    for _ in 0..EXTENT_CHECKS {
        let stream = generation.stream_info(ATTEMPT).await?;
        match compare_extent(&stream.cached_info().state, wanted) {
            Extent::Covers => return Ok(()),
            Extent::StartsAfter(first) => return Err(ReadError::Truncated { wanted, first }),
            Extent::EndsBefore => sleep(EXTENT_CHECK_INTERVAL).await,
        }
    }
    Err(ReadError::Gone)
}

fn read_delivery(generation: &Generation, message: &Message) -> Result<Delivery, ReadError> {
    let info = message.info().map_err(|err| generation.connection.error(ATTEMPT, err))?;
    let sequence = info.stream_sequence;
    let kind = generation.stream.find_kind(&message.subject).ok_or_else(|| {
        let damage = format!("message {sequence} has subject {}", message.subject);
        let error = generation.connection.damage(ATTEMPT, damage);
        ReadError::Damaged { sequence, error }
    })?;
    let payload = message.payload.clone();
    let message = StoredMessage { sequence, kind, payload, pending: info.pending };
    Ok(Delivery { message, is_first: info.consumer_sequence == 1 })
}

fn describe_failure(generation: &Generation, wanted: u64, source: async_nats::Error) -> LogError {
    let attempt = format!("read message {wanted} of {}", generation.stream.name);
    generation.connection.error(attempt, source)
}

/// The extent of a log, seen from a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// It has the message, or ends right before it.
    Covers,
    /// The log starts after the message, at this one.
    StartsAfter(u64),
    /// It has neither the message nor the one before it, since it ends earlier.
    EndsBefore,
}

/// Compares the extent with a position. If all messages were removed, `first_sequence` is `last_sequence + 1`.
fn compare_extent(state: &State, wanted: u64) -> Extent {
    if state.last_sequence.saturating_add(1) < wanted {
        Extent::EndsBefore
    } else if state.first_sequence > wanted {
        Extent::StartsAfter(state.first_sequence)
    } else {
        Extent::Covers
    }
}

/// Requests the extent of the log from the stream's leader. Returns the reason why the message `found` was delivered
/// instead of the requested one.
async fn describe_gap(generation: &Generation, wanted: u64, found: u64) -> ReadError {
    match generation.stream_info(ATTEMPT).await {
        Ok(stream) => classify_gap(&stream.cached_info().state, wanted, found),
        Err(err) => err.into(),
    }
}

/// Returns the reason why the message `found` was delivered instead of the requested one, in a log of this extent.
fn classify_gap(state: &State, wanted: u64, found: u64) -> ReadError {
    match compare_extent(state, wanted) {
        Extent::StartsAfter(first) => ReadError::Truncated { wanted, first },
        Extent::Covers | Extent::EndsBefore => ReadError::Missing { wanted, found },
    }
}

/// Messages of one request. The client requests the next ones when half of them are there, so up to one and a half
/// requests are in transit.
fn count_requested(in_flight_bytes: usize) -> usize {
    (in_flight_bytes / 3 * 2 / MESSAGE_BYTES_MAX).clamp(REQUEST_MESSAGES_MIN, REQUEST_MESSAGES_MAX)
}

fn pause_after(failures: u32) -> Duration {
    PAUSE_MIN.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(PAUSE_MAX)
}

fn is_stream_missing(err: &ConsumerError) -> bool {
    match err.kind() {
        ConsumerErrorKind::JetStream(err) => err.error_code() == ErrorCode::STREAM_NOT_FOUND,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_stays_within_the_memory_for_messages() {
        assert_eq!(count_requested(4 << 20), 11);
        assert_eq!(count_requested(0), REQUEST_MESSAGES_MIN);
        assert_eq!(count_requested(usize::MAX), REQUEST_MESSAGES_MAX);
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses = [1, 2, 3, 10, u32::MAX].map(|failures| pause_after(failures).as_millis());
        assert_eq!(pauses, [100, 200, 400, 2_000, 2_000]);
    }

    fn state(first: u64, last: u64) -> State {
        let json = format!(
            r#"{{"messages":1,"bytes":1,"first_seq":{first},"first_ts":"2026-01-01T00:00:00Z",
            "last_seq":{last},"last_ts":"2026-01-01T00:00:00Z","consumer_count":0}}"#
        );
        serde_json::from_str::<State>(&json).expect("a state")
    }

    #[test]
    fn a_gap_is_a_truncation_or_a_lost_message() {
        let gap = classify_gap(&state(7, 20), 5, 7);
        assert!(matches!(gap, ReadError::Truncated { wanted: 5, first: 7 }), "{gap}");
        let gap = classify_gap(&state(1, 20), 5, 7);
        assert!(matches!(gap, ReadError::Missing { wanted: 5, found: 7 }), "{gap}");
    }

    #[test]
    fn an_extent_is_compared_with_a_position() {
        // Empty logs: new, and with all messages removed.
        assert_eq!(compare_extent(&state(0, 0), 1), Extent::Covers);
        assert_eq!(compare_extent(&state(10, 9), 10), Extent::Covers);
        assert_eq!(compare_extent(&state(10, 9), 9), Extent::StartsAfter(10));
        assert_eq!(compare_extent(&state(5, 9), 5), Extent::Covers);
        assert_eq!(compare_extent(&state(5, 9), 4), Extent::StartsAfter(5));
        assert_eq!(compare_extent(&state(5, 9), 10), Extent::Covers);
        assert_eq!(compare_extent(&state(5, 9), 11), Extent::EndsBefore);
    }
}
