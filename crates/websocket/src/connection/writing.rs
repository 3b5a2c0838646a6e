//! The writing half of a connection: replies, parts of streamed messages, and the client's notifications.
//!
//! Invariant: frames are written in the order of the calls. A message of this client alone is whole, or streamed in
//! parts with nothing but control frames in between.
//! Bounds: the writer's buffer and one long payload. A write has a time limit, and ends at once if the client is
//! closed; at a shutdown not while a call waits for another server, because its reply must follow.
//! Not here: which notifications wait (`subscriptions`), and the close frame (`connection_end`).

use std::ops::ControlFlow;
use std::time::Duration;

use subscriptions::{CloseReason, Next, SubscriptionId};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::Connection;
use crate::config::Config;
use crate::connection_end::{ConnectionEnd, end_for, internal_error, missing_part};
use crate::counters::SessionEvent;
use crate::frame_writer::{COPIED_BYTES_MAX, WriteError};
use crate::message::{MessageKind, OutgoingMessage};
use crate::payload::{Payload, SplitPayload};
use crate::protocol::Protocol;
use crate::protocol_types::ProtocolTypes;
use crate::pulse::Pulse;
use crate::session::Session;
use crate::session_output::SessionOutput;
use crate::shared_bytes::SharedBytes;

/// Notifications that are written before the connection checks for a message from the client.
const BURST_MESSAGES: usize = 256;
/// Bytes of a payload that the connection's own thread frees.
const FREED_HERE_BYTES_MAX: usize = 256 * 1024;

impl<P: Protocol, IO: AsyncRead + AsyncWrite + Unpin> Connection<'_, P, IO> {
    pub(super) async fn feed_output(
        &mut self,
        out: SessionOutput<P::Items>,
    ) -> Result<(), ConnectionEnd> {
        let is_message = !matches!(
            out,
            SessionOutput::Part(_)
                | SessionOutput::LastPart(_)
                | SessionOutput::Backoff
                | SessionOutput::Close(..)
        );
        if is_message && self.streamed.is_some() {
            tracing::error!("a task wrote within a streamed message; its connection is closed");
            return Err(internal_error());
        }
        match out {
            SessionOutput::Message(message) | SessionOutput::SubscribeReply(message) => {
                self.feed_whole(message).await
            }
            SessionOutput::Part(part) => self.feed_part(false, part).await,
            SessionOutput::LastPart(part) => self.feed_part(true, part).await,
            SessionOutput::Split(id, payload) => self.feed_split(id, payload).await,
            SessionOutput::Prefix(id, prefix) => {
                self.feed_split(id, SplitPayload { prefix, items: None }).await
            }
            SessionOutput::QueuedUntil(id, step) => self.send_until(id, step).await,
            SessionOutput::Backoff => Ok(()),
            SessionOutput::Close(code, reason) => Err(ConnectionEnd::Close(code, reason)),
        }
    }

    /// Writes a part of a streamed message.
    async fn feed_part(
        &mut self,
        is_last: bool,
        part: OutgoingMessage,
    ) -> Result<(), ConnectionEnd> {
        let kind = part.kind();
        let opcode = match self.streamed {
            None => data_opcode(kind),
            Some(first) if first == kind => OpCode::Data(Data::Continue),
            Some(_) => {
                tracing::error!("a streamed message is text and binary; its connection is closed");
                return Err(internal_error());
            }
        };
        if self.streamed.is_none() {
            // In a box: the state of a connection is small.
            Box::pin(self.send_all_waiting()).await?;
        }
        self.streamed = Some(kind).filter(|_| !is_last);
        self.feed_message(opcode, is_last, part).await?;
        if is_last {
            // Notifications have waited.
            self.pulse.notify_self();
        }
        Ok(())
    }

    async fn feed_split(
        &mut self,
        id: SubscriptionId,
        payload: SplitPayload<P::Items>,
    ) -> Result<(), ConnectionEnd> {
        let sequence = self.sequences.entry(id).or_default();
        let suffix = P::notification_suffix(id, *sequence);
        *sequence += 1;
        let opcode = data_opcode(payload.prefix.kind());
        self.feed_shared(opcode, suffix.is_empty(), payload.prefix).await?;
        if suffix.is_empty() {
            return Ok(());
        }
        self.feed(OpCode::Data(Data::Continue), true, &suffix).await
    }

    async fn feed_payload(
        &mut self,
        id: SubscriptionId,
        payload: Payload<P::Items>,
    ) -> Result<(), ConnectionEnd> {
        self.server.counters.add(SessionEvent::Sent, 1);
        match payload {
            Payload::Whole(bytes) => self.feed_shared(data_opcode(bytes.kind()), true, bytes).await,
            Payload::Split(payload) => self.feed_split(id, payload).await,
        }
    }

    /// Writes the subscription's queued notifications, up to and including a step.
    async fn send_until(&mut self, id: SubscriptionId, step: u64) -> Result<(), ConnectionEnd> {
        loop {
            match self.session.next_until(id, step) {
                Next::Message(delivery) => self.feed_payload(id, delivery.body).await?,
                Next::Empty | Next::Conflated(_) => return Ok(()),
                Next::Closed(reason) => return Err(end_for(reason)),
            }
        }
    }

    /// Writes the messages that are queued now, except those that are conflated, paused or on hold. Runs before a
    /// streamed message: later messages wait for its end, so those that waited for an earlier one must not wait again.
    async fn send_all_waiting(&mut self) -> Result<(), ConnectionEnd> {
        let bursts = self.session.queued_messages().div_ceil(BURST_MESSAGES);
        for _ in 0..bursts {
            self.send_waiting().await?;
        }
        Ok(())
    }

    /// Writes queued messages, except those that are conflated, paused or on hold. Writes none within a streamed
    /// message. Yields after a burst, so that the caller can check what it waits for.
    pub(super) async fn send_waiting(&mut self) -> Result<(), ConnectionEnd> {
        if self.streamed.is_some() {
            return self.session.closed().map_or(Ok(()), |reason| Err(end_for(reason)));
        }
        for _ in 0..BURST_MESSAGES {
            match self.session.next_message() {
                Next::Message(delivery) => {
                    self.feed_payload(delivery.subscription, delivery.body).await?;
                }
                Next::Empty | Next::Conflated(_) => return self.flush().await,
                Next::Closed(CloseReason::ShutDown) if self.awaits_reply => {
                    return self.flush().await;
                }
                Next::Closed(reason) => return Err(end_for(reason)),
            }
        }
        self.end_burst().await
    }

    /// Writes queued messages. Yields after a burst, so that messages of the client are read too.
    pub(super) async fn send_queued(&mut self) -> Result<(), ConnectionEnd> {
        for _ in 0..BURST_MESSAGES {
            match self.session.next() {
                Next::Message(delivery) => {
                    self.feed_payload(delivery.subscription, delivery.body).await?;
                }
                Next::Conflated(conflated) => {
                    self.server.counters.add(SessionEvent::Conflated, conflated.messages);
                    self.flush().await?;
                    let id = conflated.subscription;
                    let task = P::conflated_task(self.server, &self.session, conflated);
                    if let Some(task) = task {
                        // Later notifications of it are newer, so they wait.
                        self.session.pause_delivery(Some(id));
                        if Box::pin(self.run_task(task)).await?.is_some() {
                            return Err(missing_part());
                        }
                    }
                }
                Next::Empty => return self.flush().await,
                Next::Closed(reason) => return Err(end_for(reason)),
            }
        }
        self.end_burst().await
    }

    /// Flushes a burst of messages, and yields. The queue may have more, for which nothing else wakes the connection.
    async fn end_burst(&mut self) -> Result<(), ConnectionEnd> {
        self.pulse.notify_self();
        self.flush().await?;
        // The socket may accept all that is queued, and then nothing else would end this poll.
        tokio::task::yield_now().await;
        Ok(())
    }

    pub(super) async fn feed_ping(&mut self) -> Result<(), ConnectionEnd> {
        self.feed_control(Control::Ping, &[]).await?;
        self.flush().await
    }

    pub(super) async fn feed_control(
        &mut self,
        control: Control,
        payload: &[u8],
    ) -> Result<(), ConnectionEnd> {
        self.feed(OpCode::Control(control), true, payload).await
    }

    /// Writes a whole message of this client alone.
    pub(super) async fn feed_whole(
        &mut self,
        message: OutgoingMessage,
    ) -> Result<(), ConnectionEnd> {
        self.feed_message(data_opcode(message.kind()), true, message).await
    }

    /// Writes a message of this client alone, or a part of one. A long one counts as notification memory.
    async fn feed_message(
        &mut self,
        opcode: OpCode,
        is_final: bool,
        message: OutgoingMessage,
    ) -> Result<(), ConnectionEnd> {
        if message.as_bytes().len() <= COPIED_BYTES_MAX {
            return self.feed(opcode, is_final, message.as_bytes()).await;
        }
        let bytes = SharedBytes::new(message, self.server.subscriptions.queue_memory());
        self.enforce_memory_limit()?;
        self.feed_shared(opcode, is_final, bytes).await
    }

    /// Writes a frame whose payload is shared. Returns only after the end of a long one.
    async fn feed_shared(
        &mut self,
        opcode: OpCode,
        is_final: bool,
        bytes: SharedBytes,
    ) -> Result<(), ConnectionEnd> {
        if bytes.len() <= COPIED_BYTES_MAX {
            return self.feed(opcode, is_final, &bytes).await;
        }
        let len = bytes.len();
        self.session.charge(len);
        self.session.start_writing(Payload::Whole(bytes)).map_err(end_for)?;
        self.writer.add_long(opcode, is_final, len);
        self.flush().await?;
        if let Some(bytes) = self.session.finish_writing().and_then(Payload::into_whole)
            && bytes.is_last()
            && len > FREED_HERE_BYTES_MAX
        {
            // Freeing its pages takes as long as a write.
            tokio::task::spawn_blocking(move || drop(bytes));
        }
        Ok(())
    }

    async fn feed(
        &mut self,
        opcode: OpCode,
        is_final: bool,
        payload: &[u8],
    ) -> Result<(), ConnectionEnd> {
        self.session.charge(payload.len());
        if self.writer.is_full() {
            self.flush().await?;
        }
        self.writer.add(opcode, is_final, payload);
        Ok(())
    }

    pub(super) async fn flush(&mut self) -> Result<(), ConnectionEnd> {
        let awaits_reply = self.awaits_reply;
        let ends_write =
            move |reason: &CloseReason| !awaits_reply || *reason != CloseReason::ShutDown;
        loop {
            let session = &self.session;
            let payload = || session.writing().and_then(Payload::into_whole);
            let step = self.writer.advance(self.io, payload);
            let config = &self.server.config;
            match with_write_timeout(session, &self.pulse, config, ends_write, step).await? {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(()) => {}
            }
        }
    }
}

fn data_opcode(kind: MessageKind) -> OpCode {
    OpCode::Data(match kind {
        MessageKind::Text => Data::Text,
        MessageKind::Binary => Data::Binary,
    })
}

/// Waits for a write, up to `Config::write_timeout_ms`, or until the client is to be closed for a reason that ends it.
async fn with_write_timeout<P: ProtocolTypes>(
    session: &Session<P>,
    pulse: &Pulse,
    config: &Config,
    ends_write: impl Fn(&CloseReason) -> bool,
    step: impl Future<Output = Result<ControlFlow<()>, WriteError>>,
) -> Result<ControlFlow<()>, ConnectionEnd> {
    let step = timeout(Duration::from_millis(config.write_timeout_ms), step);
    let mut step = std::pin::pin!(step);
    let mut is_pulsed = false;
    let result = loop {
        tokio::select! {
            biased;
            result = &mut step => break result,
            () = pulse.notified() => {
                is_pulsed = true;
                if let Some(reason) = session.closed().filter(&ends_write) {
                    return Err(end_for(reason));
                }
            }
        }
    };
    if is_pulsed {
        pulse.notify_self();
    }
    match result {
        Ok(Ok(progress)) => Ok(progress),
        Ok(Err(WriteError::Broken)) => Err(ConnectionEnd::Gone),
        Ok(Err(WriteError::Evicted)) => Err(session.closed().map_or(ConnectionEnd::Gone, end_for)),
        Err(_) => {
            let limit = config.write_timeout_ms;
            let reason =
                format!("less than 64 KiB was read within {limit} ms (pubsub.write_timeout_ms)");
            Err(ConnectionEnd::Close(CloseCode::Policy, reason))
        }
    }
}
