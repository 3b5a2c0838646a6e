//! One WebSocket connection, from its upgrade to its end.
//!
//! In: a stream on which the handshake is done. Out: replies, and what the engine queues for this
//! client. One task does both; while a client does not take what we write, we read nothing from it. So a reply to
//! anything that it sends, a ping included, is written before the next is read.
//! Bounds: what comes in is the reader's; what goes out waits in the client's queue, and in the writer a buffer and
//! one long text; writing, closing and silence have time limits.
//! Ends: 1000 as the client wishes; 1001 we shut down; 1002 a frame out of protocol; 1007 text that is
//! not UTF-8; 1008 too slow, or silent, or a message that does not end; 1009 too large; 1013 no room, or events were
//! lost. The reason names the limit. A client that is closed in the middle of a long message, with no room to finish
//! it, sees the stream end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use pool::{ClientId, TaskEnd};
use subscriptions::{CloseReason, Next, OwnerId, SubscriptionId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::address_sets::{self, SessionOutput, SetTask};
use super::methods;
use super::metrics::SessionEvent;
use super::payload::{Payload, SplitPayload};
use super::reader::{MessageReader, ReadError, Received};
use super::session::Session;
use super::shared_text::SharedText;
use super::writer::{COPIED_BYTES_MAX, FrameWriter, WriteError};
use super::{Config, PubSub, set_task};
use crate::poll_budget::{self, Budgeted};

/// Notifications that are written before we look whether the client says something.
const BURST_MESSAGES: usize = 256;
/// Addresses that are let go with the connection on its own thread: some milliseconds.
const DROPPED_HERE_MAX: usize = 2_000;
/// A text that is freed on the connection's own thread.
const FREED_HERE_BYTES_MAX: usize = 256 * 1024;
/// How long work on a set waits for the notifier, which tells what the work is to follow.
const NOTIFIER_BACKOFF: Duration = Duration::from_millis(2);
/// What a client that is being closed may still send before we stop listening.
const DRAIN_BYTES_MAX: usize = 1024 * 1024;
/// What a closing frame has room for beside its code.
const REASON_BYTES_MAX: usize = 123;

const TEXT: OpCode = OpCode::Data(Data::Text);

/// Serves a client until it goes or must go. The handshake must be done; `io` is what follows it, and `of` whose
/// the connection is. What one poll of it does is counted (`poll_budget`).
pub async fn serve_connection<IO>(io: IO, of: ClientId, pubsub: Arc<PubSub>)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    Budgeted::new(serve(io, of, pubsub)).await;
}

async fn serve<IO>(mut io: IO, of: ClientId, pubsub: Arc<PubSub>)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut writer = FrameWriter::new(Arc::clone(&pubsub.unwritten));
    let (end, rest) = run_session(&mut io, &mut writer, of, &pubsub).await;
    // Its subscriptions are gone by now, however long the goodbye takes.
    let goodbye = match end {
        ConnectionEnd::Gone => return,
        ConnectionEnd::Closing(frame) => frame,
        ConnectionEnd::Close(code, mut reason) => {
            tracing::debug!(%code, reason, "a WebSocket connection is closed");
            reason.truncate(REASON_BYTES_MAX); // they are ASCII
            Some(CloseFrame { code, reason: reason.into() })
        }
    };
    let closing = close(&mut io, &mut writer, rest, goodbye);
    let _ = timeout(Duration::from_millis(pubsub.config.close_timeout_ms), closing).await;
}

/// How a conversation ends.
enum ConnectionEnd {
    /// The client is not there any more.
    Gone,
    /// The client closes, and waits for our answer.
    Closing(Option<CloseFrame>),
    /// We close.
    Close(CloseCode, String),
}

/// Speaks with a client; how it ended, and the text that is half written.
async fn run_session<IO>(
    io: &mut IO,
    writer: &mut FrameWriter,
    of: ClientId,
    pubsub: &Arc<PubSub>,
) -> (ConnectionEnd, Option<SharedText>)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let pulse = Arc::new(Notify::new());
    let wake = Arc::clone(&pulse);
    let client = match pubsub.subscriptions.listen(OwnerId(of.0), move || wake.notify_one()) {
        Ok(client) => client,
        Err(full) => {
            pubsub.metrics.add(SessionEvent::Refused, 1);
            let reason = format!("{} connections are open (pubsub.connections_max)", full.limit);
            return (ConnectionEnd::Close(CloseCode::Again, reason), None);
        }
    };
    let ping_every = Duration::from_millis(pubsub.config.ping_ms.max(1));
    let mut ping = interval(ping_every);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    let client = Arc::new(Session::new(client, of));
    let conversation = Connection {
        io,
        reader: MessageReader::new(&pubsub.config, Arc::clone(&pubsub.incoming), of),
        writer,
        pubsub,
        session: Arc::clone(&client),
        pulse,
        ping,
        heard: true,
        sequences: HashMap::default(),
    };
    let end = conversation.run().await.unwrap_or_else(|end| end);
    if let Some(why) = client.closed() {
        pubsub.metrics.record_close(why);
    }
    // The goodbye may take a while: half of the bound is left to those who are served.
    let half = pubsub.config.queues_bytes_max / 2;
    let rest = text_of(client.finish_writing())
        .filter(|_| pubsub.subscriptions.queue_memory().bytes() <= half);
    if client.tracked_addresses() > DROPPED_HERE_MAX {
        // Letting a large set go takes as long as taking it in.
        let gone = tokio::task::spawn_blocking(move || drop(client)).await;
        if gone.is_err() {
            tracing::error!("a connection's sets could not be let go");
        }
    }
    (end, rest)
}

struct Connection<'a, IO> {
    io: &'a mut IO,
    reader: MessageReader,
    writer: &'a mut FrameWriter,
    pubsub: &'a Arc<PubSub>,
    session: Arc<Session>,
    /// Notified when the client's queue has something, or is closed.
    pulse: Arc<Notify>,
    ping: Interval,
    /// Whether anything came since our last ping.
    heard: bool,
    /// The number of the next message of each set.
    sequences: HashMap<SubscriptionId, u64>,
}

/// What a connection wakes up for.
enum Event {
    Received(Result<Received, ReadError>),
    Queued,
    Ping,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Connection<'_, IO> {
    async fn run(mut self) -> Result<ConnectionEnd, ConnectionEnd> {
        loop {
            let event = tokio::select! {
                received = self.reader.next(self.io) => Event::Received(received),
                () = self.pulse.notified() => Event::Queued,
                _ = self.ping.tick() => Event::Ping,
            };
            let began = Instant::now();
            match event {
                Event::Received(Ok(received)) => {
                    self.heard = true;
                    self.pubsub.metrics.add(SessionEvent::Received, 1);
                    self.handle_received(received).await?;
                }
                Event::Received(Err(err)) => return Ok(self.end_of_reading(&err)),
                Event::Queued => self.send_queued().await?,
                Event::Ping => self.check_liveness().await?,
            }
            self.reader.defer(began.elapsed());
        }
    }

    fn end_of_reading(&self, err: &ReadError) -> ConnectionEnd {
        let config = &self.pubsub.config;
        match err {
            ReadError::Gone => ConnectionEnd::Gone,
            ReadError::Protocol(what) => {
                ConnectionEnd::Close(CloseCode::Protocol, (*what).to_owned())
            }
            ReadError::NotUtf8 => not_utf8(),
            ReadError::TooLong { limit, knob } => {
                self.pubsub.metrics.add(SessionEvent::TooLong, 1);
                ConnectionEnd::Close(
                    CloseCode::Size,
                    format!("a message over {limit} bytes ({knob})"),
                )
            }
            ReadError::Late => {
                self.pubsub.metrics.add(SessionEvent::Late, 1);
                let limit = config.message_timeout_ms;
                let reason = format!(
                    "a message was not whole within {limit} ms (pubsub.message_timeout_ms)"
                );
                ConnectionEnd::Close(CloseCode::Policy, reason)
            }
            ReadError::IncomingFull => {
                self.pubsub.metrics.add(SessionEvent::IncomingFull, 1);
                let limit = config.incoming_bytes_max;
                let reason = format!(
                    "no room for a message: {limit} bytes of all clients, a share of each \
                     (pubsub.incoming_bytes_max)"
                );
                ConnectionEnd::Close(CloseCode::Again, reason)
            }
        }
    }

    async fn handle_received(&mut self, received: Received) -> Result<(), ConnectionEnd> {
        let limit = self.pubsub.config.message_bytes_max;
        let reply = match received {
            Received::Text(text) if SetTask::is_set_message(&text, limit) => {
                let task = SetTask::from_text(self.pubsub, &self.session, text);
                return self.run_set_task(task).await;
            }
            Received::Text(text) => self.call(&text),
            Received::Binary(bytes) if bytes.first() == Some(&address_sets::BINARY) => {
                let task = SetTask::from_binary(self.pubsub, &self.session, bytes);
                return self.run_set_task(task).await;
            }
            // Agave takes either for text.
            Received::Binary(bytes) => match Utf8Bytes::try_from(bytes) {
                Ok(text) if SetTask::is_set_message(&text, limit) => {
                    let task = SetTask::from_text(self.pubsub, &self.session, text);
                    return self.run_set_task(task).await;
                }
                Ok(text) => self.call(&text),
                Err(_) => return Err(not_utf8()),
            },
            Received::Close(frame) => return Err(ConnectionEnd::Closing(frame)),
            Received::Ping(payload) => {
                self.feed_control(Control::Pong, &payload).await?;
                return self.flush().await;
            }
            Received::Pong => None,
        };
        let Some(reply) = reply else { return Ok(()) };
        let Ok(reply) = String::from_utf8(reply) else {
            unreachable!("replies are written as JSON")
        };
        self.feed_reply(reply).await?;
        self.flush().await
    }

    fn call(&self, text: &str) -> Option<Vec<u8>> {
        poll_budget::charge_parsed(text.len());
        let reply = methods::handle_message(self.pubsub, &self.session, text);
        poll_budget::charge(reply.as_ref().map_or(0, Vec::len));
        reply
    }

    /// Does what a message about a set is worth, step by step, elsewhere; what waits for the client is
    /// written in between. Nothing more is read from it meanwhile.
    async fn run_set_task(&mut self, task: SetTask) -> Result<(), ConnectionEnd> {
        let mut left = Some(task);
        while let Some(task) = left {
            let room = (&self.pubsub.set_permits, &*self.pubsub.pool);
            let mut step = std::pin::pin!(set_task::run_until_output(
                room,
                self.session.set_task_client(),
                task
            ));
            let stepped = loop {
                tokio::select! {
                    biased;
                    stepped = &mut step => break stepped,
                    () = self.pulse.notified() => self.send_waiting().await?,
                    _ = self.ping.tick() => self.feed_ping().await?,
                }
            };
            let (out, next) = stepped.map_err(end_for_task_error)?;
            self.enforce_memory_limit()?;
            let rests = out.iter().any(|out| matches!(out, SessionOutput::Backoff));
            for out in out {
                self.feed_output(out).await?;
            }
            self.flush().await?;
            if rests {
                tokio::time::sleep(NOTIFIER_BACKOFF).await;
            }
            left = next;
        }
        self.session.pause_delivery(None);
        self.heard = true; // we did not listen
        self.pulse.notify_one();
        Ok(())
    }

    /// What was made for this client is in no queue: if there is no room for it, the client is closed.
    fn enforce_memory_limit(&self) -> Result<(), ConnectionEnd> {
        let limit = self.pubsub.config.queues_bytes_max;
        self.pubsub.subscriptions.enforce_memory_limit();
        if self.pubsub.subscriptions.queue_memory().bytes() > limit {
            let why = CloseReason::NodeBytesFull { limit };
            self.pubsub.metrics.record_close(why);
            return Err(end_for(why));
        }
        Ok(())
    }

    async fn feed_output(&mut self, out: SessionOutput) -> Result<(), ConnectionEnd> {
        match out {
            SessionOutput::Text(text) => self.feed_reply(text).await,
            SessionOutput::Split(of, placed) => self.feed_split(of, placed).await,
            SessionOutput::Prefix(of, beginning) => {
                self.feed_split(of, SplitPayload { prefix: beginning, block_items: None }).await
            }
            SessionOutput::QueuedUntil(of, step) => self.send_until(of, step).await,
            SessionOutput::Backoff => Ok(()),
            SessionOutput::Close(code, reason) => Err(ConnectionEnd::Close(code, reason)),
        }
    }

    async fn feed_split(
        &mut self,
        of: SubscriptionId,
        placed: SplitPayload,
    ) -> Result<(), ConnectionEnd> {
        let next = self.sequences.entry(of).or_default();
        let end = SplitPayload::suffix(of, *next);
        *next += 1;
        self.feed_text(TEXT, false, placed.prefix).await?;
        self.feed(OpCode::Data(Data::Continue), true, end.as_bytes()).await
    }

    async fn feed_payload(
        &mut self,
        of: SubscriptionId,
        body: Payload,
    ) -> Result<(), ConnectionEnd> {
        self.pubsub.metrics.add(SessionEvent::Sent, 1);
        match body {
            Payload::Whole(text) => self.feed_text(TEXT, true, text).await,
            Payload::Split(placed) => self.feed_split(of, placed).await,
        }
    }

    /// Writes what was told of a subscription up to a step.
    async fn send_until(&mut self, of: SubscriptionId, step: u64) -> Result<(), ConnectionEnd> {
        loop {
            match self.session.next_until(of, step) {
                Next::Message(delivery) => self.feed_payload(of, delivery.body).await?,
                Next::Empty | Next::Conflated(_) => return Ok(()),
                Next::Closed(why) => return Err(end_for(why)),
            }
        }
    }

    /// Writes messages that wait; what was conflated waits on, and what is held back.
    async fn send_waiting(&mut self) -> Result<(), ConnectionEnd> {
        for _ in 0..BURST_MESSAGES {
            match self.session.next_message() {
                Next::Message(delivery) => {
                    self.feed_payload(delivery.subscription, delivery.body).await?;
                }
                Next::Empty | Next::Conflated(_) => break,
                Next::Closed(why) => return Err(end_for(why)),
            }
        }
        self.flush().await
    }

    /// Writes what waits for the client, and yields after a while so that the client is heard too.
    async fn send_queued(&mut self) -> Result<(), ConnectionEnd> {
        for _ in 0..BURST_MESSAGES {
            match self.session.next() {
                Next::Message(delivery) => {
                    self.feed_payload(delivery.subscription, delivery.body).await?;
                }
                Next::Conflated(conflated) => {
                    self.pubsub.metrics.add(SessionEvent::Conflated, conflated.messages);
                    self.flush().await?;
                    let of = conflated.subscription;
                    let task = SetTask::from_conflated(self.pubsub, &self.session, conflated);
                    if let Some(task) = task {
                        // What comes after it is newer.
                        self.session.pause_delivery(Some(of));
                        Box::pin(self.run_set_task(task)).await?;
                    }
                }
                Next::Empty => return self.flush().await,
                Next::Closed(why) => return Err(end_for(why)),
            }
        }
        self.pulse.notify_one();
        self.flush().await
    }

    /// Sends a ping; ends with a client from which nothing came since the last.
    async fn check_liveness(&mut self) -> Result<(), ConnectionEnd> {
        if !self.heard {
            let ping_ms = self.pubsub.config.ping_ms;
            let reason = format!("no answer to a ping within {ping_ms} ms (pubsub.ping_ms)");
            return Err(ConnectionEnd::Close(CloseCode::Policy, reason));
        }
        self.heard = false;
        self.feed_ping().await
    }

    async fn feed_ping(&mut self) -> Result<(), ConnectionEnd> {
        self.feed_control(Control::Ping, &[]).await?;
        self.flush().await
    }

    async fn feed_control(
        &mut self,
        control: Control,
        payload: &[u8],
    ) -> Result<(), ConnectionEnd> {
        self.feed(OpCode::Control(control), true, payload).await
    }

    /// A reply. A long one counts like a notification.
    async fn feed_reply(&mut self, text: String) -> Result<(), ConnectionEnd> {
        if text.len() <= COPIED_BYTES_MAX {
            return self.feed(TEXT, true, text.as_bytes()).await;
        }
        let text = SharedText::new(text, self.pubsub.subscriptions.queue_memory());
        self.enforce_memory_limit()?;
        self.feed_text(TEXT, true, text).await
    }

    /// Writes a frame whose payload is shared: a long one to its end.
    async fn feed_text(
        &mut self,
        opcode: OpCode,
        is_final: bool,
        text: SharedText,
    ) -> Result<(), ConnectionEnd> {
        if text.len() <= COPIED_BYTES_MAX {
            return self.feed(opcode, is_final, text.as_bytes()).await;
        }
        self.session.charge(self.pubsub, text.len());
        let len = text.len();
        self.session.start_writing(Payload::Whole(text)).map_err(end_for)?;
        self.writer.add_long(opcode, is_final, len);
        self.flush().await?;
        if let Some(text) = text_of(self.session.finish_writing())
            && text.is_last()
            && len > FREED_HERE_BYTES_MAX
        {
            // Giving back its pages takes as long as a write.
            tokio::task::spawn_blocking(move || drop(text));
        }
        Ok(())
    }

    async fn feed(
        &mut self,
        opcode: OpCode,
        is_final: bool,
        payload: &[u8],
    ) -> Result<(), ConnectionEnd> {
        self.session.charge(self.pubsub, payload.len());
        if self.writer.is_full() {
            self.flush().await?;
        }
        self.writer.add(opcode, is_final, payload);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), ConnectionEnd> {
        loop {
            let client = &self.session;
            let step = self.writer.advance(self.io, || text_of(client.writing()));
            match with_write_timeout(client, &self.pulse, &self.pubsub.config, step).await? {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(()) => {}
            }
        }
    }
}

/// The text of a message that is written by itself.
fn text_of(writing: Option<Payload>) -> Option<SharedText> {
    match writing {
        Some(Payload::Whole(text)) => Some(text),
        Some(Payload::Split(_)) | None => None,
    }
}

/// Waits for a write, but not for ever, and not when the client is to be closed anyway.
async fn with_write_timeout(
    client: &Session,
    pulse: &Notify,
    config: &Config,
    step: impl Future<Output = Result<ControlFlow<()>, WriteError>>,
) -> Result<ControlFlow<()>, ConnectionEnd> {
    let step = timeout(Duration::from_millis(config.write_timeout_ms), step);
    let mut step = std::pin::pin!(step);
    let mut pulsed = false;
    let done = loop {
        tokio::select! {
            biased;
            done = &mut step => break done,
            () = pulse.notified() => {
                pulsed = true;
                if let Some(why) = client.closed() {
                    return Err(end_for(why));
                }
            }
        }
    };
    if pulsed {
        pulse.notify_one();
    }
    match done {
        Ok(Ok(progress)) => Ok(progress),
        Ok(Err(WriteError::Broken)) => Err(ConnectionEnd::Gone),
        Ok(Err(WriteError::Evicted)) => Err(client.closed().map_or(ConnectionEnd::Gone, end_for)),
        Err(_) => {
            let limit = config.write_timeout_ms;
            let reason = format!("nothing was read for {limit} ms (pubsub.write_timeout_ms)");
            Err(ConnectionEnd::Close(CloseCode::Policy, reason))
        }
    }
}

/// What it comes to when the pool ends what a client waits for.
fn end_for_task_error(why: TaskEnd) -> ConnectionEnd {
    match why {
        TaskEnd::Panicked => ConnectionEnd::Close(CloseCode::Error, "internal error".to_owned()),
        TaskEnd::ExpiredWaiting | TaskEnd::Expired => ConnectionEnd::Close(
            CloseCode::Again,
            "the node is busy (pool.medium.deadline_ms)".to_owned(),
        ),
        TaskEnd::Cancelled | TaskEnd::ShutDown => end_for(CloseReason::ShutDown),
    }
}

fn not_utf8() -> ConnectionEnd {
    ConnectionEnd::Close(CloseCode::Invalid, "a message that is not UTF-8".to_owned())
}

fn end_for(why: CloseReason) -> ConnectionEnd {
    let (code, knob) = match why {
        CloseReason::MessagesFull { .. } => (CloseCode::Policy, Some("pubsub.queue_messages_max")),
        CloseReason::BytesFull { .. } => (CloseCode::Policy, Some("pubsub.queue_bytes_max")),
        CloseReason::NodeBytesFull { .. } => (CloseCode::Policy, Some("pubsub.queues_bytes_max")),
        CloseReason::EventsLost => (CloseCode::Again, Some("pubsub.events_max")),
        CloseReason::ShutDown => (CloseCode::Away, None),
    };
    ConnectionEnd::Close(
        code,
        match knob {
            Some(knob) => format!("{why} ({knob})"),
            None => why.to_string(),
        },
    )
}

/// Says goodbye, after the rest of what is half written. If there is no rest, nothing can be said any more.
async fn close<IO>(
    io: &mut IO,
    writer: &mut FrameWriter,
    rest: Option<SharedText>,
    goodbye: Option<CloseFrame>,
) -> Option<()>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    if !writer.withdraw_long() {
        let text = || rest.clone();
        while writer.advance(io, text).await.ok()?.is_continue() {}
    }
    drop(rest);
    let payload = goodbye.map_or_else(Vec::new, |frame| {
        let code = u16::from(frame.code).to_be_bytes();
        [&code[..], frame.reason.as_bytes()].concat()
    });
    writer.add(OpCode::Control(Control::Close), true, &payload);
    while writer.advance(io, || None).await.ok()?.is_continue() {}
    half_close(io).await
}

/// Ends our half of the stream, then reads on until the client ends its half: what is not read when a
/// socket is closed makes the system reset it, and the client would never see our last words.
async fn half_close<IO>(io: &mut IO) -> Option<()>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    io.shutdown().await.ok()?;
    let mut rest = [0; 1024];
    let mut left = DRAIN_BYTES_MAX;
    loop {
        let read = io.read(&mut rest).await.ok()?;
        if read == 0 {
            return Some(());
        }
        left = left.checked_sub(read)?;
    }
}
