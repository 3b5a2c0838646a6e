//! Appends: a batch of messages, its flow control, and its replies.
//!
//! A batch of several messages is an atomic batch of JetStream: each message has the batch's id and its position, the
//! first one the sequence that the stream must end with, the last one the commit. A single message has no batch.
//! Bounds: [`Window`] limits the bytes that no server has confirmed. Each reply is waited for `request_timeout` long. A
//! server drops a batch that gets no message for 10 s, and accepts 50 open ones of a stream: both are `Unknown`.
//! Not here: the meaning of replies (`reply`).

use std::sync::Arc;
use std::time::Duration;

use async_nats::header::{
    NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL, NATS_BATCH_ID, NATS_BATCH_SEQUENCE,
    NATS_EXPECTED_LAST_SEQUENCE,
};
use async_nats::{HeaderMap, HeaderValue, Message, PublishErrorKind, Subscriber};
use futures_util::StreamExt;
use tokio::time::timeout;

use super::generation::Generation;
use super::reply::{ATTEMPT, Reply, read_reply};
use super::window::Window;
use crate::error::{AppendError, LogError};
use crate::message::{LogMessage, check_batch};

/// Appends batches to a generation, one at a time.
pub(super) struct Appender {
    generation: Arc<Generation>,
    /// The prefix of the subjects of replies.
    inbox: String,
    replies: Subscriber,
}

/// A batch in transit: its position in the log, and the names of its replies.
struct OutgoingBatch {
    id: String,
    after: u64,
    messages: usize,
    /// The subject of the reply to a message is this and the message's position.
    reply_prefix: String,
}

/// A message and its position in a batch.
struct OutgoingMessage {
    position: usize,
    message: LogMessage,
    asks_for_reply: bool,
}

impl Appender {
    pub(super) async fn open(generation: Arc<Generation>) -> Result<Self, LogError> {
        let inbox = generation.connection.client.new_inbox();
        let replies = generation.connection.client.subscribe(format!("{inbox}.>")).await;
        let replies =
            replies.map_err(|err| generation.connection.error("subscribe to replies", err))?;
        Ok(Self { generation, inbox, replies })
    }

    /// Appends a batch after the message `after`. Returns the sequence of its last message.
    pub(super) async fn append(
        &mut self,
        after: u64,
        messages: Vec<LogMessage>,
    ) -> Result<u64, AppendError> {
        check_batch(&self.generation.stream.name, &messages)?;
        let batch = self.new_batch(after, messages.len());
        let mut window = Window::new(self.generation.connection.in_flight_bytes);
        for (index, message) in messages.into_iter().enumerate() {
            let position = index + 1;
            let bytes = message.payload.len();
            while !window.may_send(bytes) {
                let reply = self.receive_reply(&batch).await?;
                read_reply(&self.generation.connection, &reply.message)?;
                window.confirm(reply.position);
            }
            let asks_for_reply = window.add(position, bytes, position == batch.messages);
            self.send(&batch, OutgoingMessage { position, message, asks_for_reply }).await?;
        }
        loop {
            let reply = self.receive_reply(&batch).await?;
            if let Reply::Committed(last) = read_reply(&self.generation.connection, &reply.message)?
            {
                return self.check_position(&batch, last);
            }
        }
    }

    fn new_batch(&self, after: u64, messages: usize) -> OutgoingBatch {
        let id = self.generation.connection.new_id();
        OutgoingBatch { after, messages, reply_prefix: format!("{}.{id}.", self.inbox), id }
    }

    /// Sends a message without waiting for its reply.
    async fn send(
        &self,
        batch: &OutgoingBatch,
        outgoing: OutgoingMessage,
    ) -> Result<(), AppendError> {
        if !self.generation.connection.is_connected() {
            return Err(self.unknown("not connected"));
        }
        let client = &self.generation.connection.client;
        let headers = batch.headers(outgoing.position);
        let subject = self.generation.stream.subject(outgoing.message.kind).to_owned();
        let payload = outgoing.message.payload;
        let sending = async {
            if outgoing.asks_for_reply {
                let reply = format!("{}{}", batch.reply_prefix, outgoing.position);
                client.publish_with_reply_and_headers(subject, reply, headers, payload).await
            } else {
                client.publish_with_headers(subject, headers, payload).await
            }
        };
        match timeout(self.request_timeout(), sending).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(err)) if err.kind() == PublishErrorKind::MaxPayloadExceeded => {
                Err(AppendError::Refused(self.generation.connection.error(ATTEMPT, err)))
            }
            Ok(Err(err)) => {
                Err(AppendError::Unknown(self.generation.connection.error(ATTEMPT, err)))
            }
            Err(_) => Err(self.unknown("the socket accepts no messages")),
        }
    }

    /// Waits for a reply to a message of the batch. Late replies to earlier batches are passed over.
    async fn receive_reply(&mut self, batch: &OutgoingBatch) -> Result<ReceivedReply, AppendError> {
        let limit = self.request_timeout();
        let replies = &mut self.replies;
        let receiving = async {
            while let Some(message) = replies.next().await {
                if let Some(position) = batch.find_position(&message.subject) {
                    return Some(ReceivedReply { position, message });
                }
            }
            None
        };
        match timeout(limit, receiving).await {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.unknown("the connection was closed")),
            Err(_) => Err(self.unknown(&format!("no reply within {limit:?}"))),
        }
    }

    /// Checks that the batch follows the message that it was appended after.
    fn check_position(&self, batch: &OutgoingBatch, last: u64) -> Result<u64, AppendError> {
        let expected = batch.after + batch.messages as u64;
        if last == expected {
            return Ok(last);
        }
        Err(self.unknown(&format!("the batch ends at message {last} instead of {expected}")))
    }

    fn unknown(&self, reason: &str) -> AppendError {
        AppendError::Unknown(self.generation.connection.error_with_reason(ATTEMPT, reason))
    }

    fn request_timeout(&self) -> Duration {
        self.generation.connection.request_timeout
    }
}

/// A reply to the message at a position.
struct ReceivedReply {
    position: usize,
    message: Message,
}

impl OutgoingBatch {
    /// Returns the headers of the message at a position.
    fn headers(&self, position: usize) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if position == 1 {
            headers.insert(NATS_EXPECTED_LAST_SEQUENCE, HeaderValue::from(self.after));
        }
        if self.messages == 1 {
            return headers;
        }
        headers.insert(NATS_BATCH_ID, self.id.as_str());
        headers.insert(NATS_BATCH_SEQUENCE, HeaderValue::from(position));
        if position == self.messages {
            headers.insert(NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL);
        }
        headers
    }

    /// Returns the position of the message that a subject replies to.
    fn find_position(&self, subject: &str) -> Option<usize> {
        subject.strip_prefix(&self.reply_prefix)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(messages: usize) -> OutgoingBatch {
        OutgoingBatch {
            id: "b".to_owned(),
            after: 0,
            messages,
            reply_prefix: "_INBOX.x.b.".to_owned(),
        }
    }

    fn values(batch: &OutgoingBatch, position: usize) -> [Option<String>; 4] {
        let headers = batch.headers(position);
        [NATS_EXPECTED_LAST_SEQUENCE, NATS_BATCH_ID, NATS_BATCH_SEQUENCE, NATS_BATCH_COMMIT]
            .map(|name| headers.get(name).map(|value| value.as_str().to_owned()))
    }

    #[test]
    fn only_the_first_message_is_fenced_and_only_the_last_commits() {
        let some = |value: &str| Some(value.to_owned());
        assert_eq!(values(&batch(3), 1), [some("0"), some("b"), some("1"), None]);
        assert_eq!(values(&batch(3), 2), [None, some("b"), some("2"), None]);
        assert_eq!(values(&batch(3), 3), [None, some("b"), some("3"), some("1")]);
        assert_eq!(values(&batch(1), 1), [some("0"), None, None, None]);
    }

    #[test]
    fn replies_to_other_batches_are_told_apart() {
        assert_eq!(batch(3).find_position("_INBOX.x.b.2"), Some(2));
        assert_eq!(batch(3).find_position("_INBOX.x.a.2"), None);
    }
}
