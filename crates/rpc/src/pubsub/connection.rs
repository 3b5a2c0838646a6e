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
use subs::{Closed, Next, OwnerId, SubscriptionId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::body::{Body, Placed};
use super::calls;
use super::client::Client;
use super::figures::Told;
use super::reader::{ReadError, Reader, Received};
use super::sets::{self, Out, Task};
use super::text::SharedText;
use super::writer::{COPIED_BYTES_MAX, WriteError, Writer};
use super::{Config, PubSub, turns};
use crate::poll_budget::{self, Budgeted};

/// Notifications that are written before we look whether the client says something.
const BURST_MESSAGES: usize = 256;
/// Addresses that are let go with the connection on its own thread: some milliseconds.
const DROPPED_HERE_MAX: usize = 2_000;
/// A text that is freed on the connection's own thread.
const FREED_HERE_BYTES_MAX: usize = 256 * 1024;
/// How long work on a set waits for the notifier, which tells what the work is to follow.
const REST: Duration = Duration::from_millis(2);
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
    let mut writer = Writer::new(Arc::clone(&pubsub.unwritten));
    let (end, rest) = speak(&mut io, &mut writer, of, &pubsub).await;
    // Its subscriptions are gone by now, however long the goodbye takes.
    let goodbye = match end {
        End::Gone => return,
        End::Closing(frame) => frame,
        End::Close(code, mut reason) => {
            tracing::debug!(%code, reason, "a WebSocket connection is closed");
            reason.truncate(REASON_BYTES_MAX); // they are ASCII
            Some(CloseFrame { code, reason: reason.into() })
        }
    };
    let closing = close(&mut io, &mut writer, rest, goodbye);
    let _ = timeout(Duration::from_millis(pubsub.config.close_timeout_ms), closing).await;
}

/// How a conversation ends.
enum End {
    /// The client is not there any more.
    Gone,
    /// The client closes, and waits for our answer.
    Closing(Option<CloseFrame>),
    /// We close.
    Close(CloseCode, String),
}

/// Speaks with a client; how it ended, and the text that is half written.
async fn speak<IO>(
    io: &mut IO,
    writer: &mut Writer,
    of: ClientId,
    pubsub: &Arc<PubSub>,
) -> (End, Option<SharedText>)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let pulse = Arc::new(Notify::new());
    let wake = Arc::clone(&pulse);
    let client = match pubsub.subs.listen(OwnerId(of.0), move || wake.notify_one()) {
        Ok(client) => client,
        Err(full) => {
            pubsub.figures.add(Told::Refused, 1);
            let reason = format!("{} connections are open (pubsub.connections_max)", full.limit);
            return (End::Close(CloseCode::Again, reason), None);
        }
    };
    let ping_every = Duration::from_millis(pubsub.config.ping_ms.max(1));
    let mut ping = interval(ping_every);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    let client = Arc::new(Client::new(client, of));
    let conversation = Conversation {
        io,
        reader: Reader::new(&pubsub.config, Arc::clone(&pubsub.incoming), of),
        writer,
        pubsub,
        client: Arc::clone(&client),
        pulse,
        ping,
        heard: true,
        sequences: HashMap::default(),
    };
    let end = conversation.run().await.unwrap_or_else(|end| end);
    if let Some(why) = client.closed() {
        pubsub.figures.closed(why);
    }
    // The goodbye may take a while: half of the bound is left to those who are served.
    let half = pubsub.config.queues_bytes_max / 2;
    let rest = text_of(client.end_writing()).filter(|_| pubsub.subs.queue_memory().bytes() <= half);
    if client.tracked() > DROPPED_HERE_MAX {
        // Letting a large set go takes as long as taking it in.
        let gone = tokio::task::spawn_blocking(move || drop(client)).await;
        if gone.is_err() {
            tracing::error!("a connection's sets could not be let go");
        }
    }
    (end, rest)
}

struct Conversation<'a, IO> {
    io: &'a mut IO,
    reader: Reader,
    writer: &'a mut Writer,
    pubsub: &'a Arc<PubSub>,
    client: Arc<Client>,
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

impl<IO: AsyncRead + AsyncWrite + Unpin> Conversation<'_, IO> {
    async fn run(mut self) -> Result<End, End> {
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
                    self.pubsub.figures.add(Told::Received, 1);
                    self.answer(received).await?;
                }
                Event::Received(Err(err)) => return Ok(self.end_of_reading(&err)),
                Event::Queued => self.send_queued().await?,
                Event::Ping => self.look_after().await?,
            }
            self.reader.defer(began.elapsed());
        }
    }

    fn end_of_reading(&self, err: &ReadError) -> End {
        let config = &self.pubsub.config;
        match err {
            ReadError::Gone => End::Gone,
            ReadError::Protocol(what) => End::Close(CloseCode::Protocol, (*what).to_owned()),
            ReadError::NotUtf8 => not_utf8(),
            ReadError::TooLong { limit, knob } => {
                self.pubsub.figures.add(Told::TooLong, 1);
                End::Close(CloseCode::Size, format!("a message over {limit} bytes ({knob})"))
            }
            ReadError::Late => {
                self.pubsub.figures.add(Told::Late, 1);
                let limit = config.message_timeout_ms;
                let reason = format!(
                    "a message was not whole within {limit} ms (pubsub.message_timeout_ms)"
                );
                End::Close(CloseCode::Policy, reason)
            }
            ReadError::NoRoom => {
                self.pubsub.figures.add(Told::NoRoom, 1);
                let limit = config.incoming_bytes_max;
                let reason = format!(
                    "no room for a message: {limit} bytes of all clients, a share of each \
                     (pubsub.incoming_bytes_max)"
                );
                End::Close(CloseCode::Again, reason)
            }
        }
    }

    async fn answer(&mut self, received: Received) -> Result<(), End> {
        let limit = self.pubsub.config.message_bytes_max;
        let reply = match received {
            Received::Text(text) if Task::is_for(&text, limit) => {
                let task = Task::text(self.pubsub, &self.client, text);
                return self.work(task).await;
            }
            Received::Text(text) => self.call(&text),
            Received::Binary(bytes) if bytes.first() == Some(&sets::BINARY) => {
                let task = Task::binary(self.pubsub, &self.client, bytes);
                return self.work(task).await;
            }
            // Agave takes either for text.
            Received::Binary(bytes) => match Utf8Bytes::try_from(bytes) {
                Ok(text) if Task::is_for(&text, limit) => {
                    let task = Task::text(self.pubsub, &self.client, text);
                    return self.work(task).await;
                }
                Ok(text) => self.call(&text),
                Err(_) => return Err(not_utf8()),
            },
            Received::Close(frame) => return Err(End::Closing(frame)),
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
        let reply = calls::answer(self.pubsub, &self.client, text);
        poll_budget::charge(reply.as_ref().map_or(0, Vec::len));
        reply
    }

    /// Does what a message about a set is worth, step by step, elsewhere; what waits for the client is
    /// written in between. Nothing more is read from it meanwhile.
    async fn work(&mut self, task: Task) -> Result<(), End> {
        let mut left = Some(task);
        while let Some(task) = left {
            let room = (&self.pubsub.set_permits, &*self.pubsub.pool);
            let mut step = std::pin::pin!(turns::stepped(room, self.client.turn(), task));
            let stepped = loop {
                tokio::select! {
                    biased;
                    stepped = &mut step => break stepped,
                    () = self.pulse.notified() => self.send_waiting().await?,
                    _ = self.ping.tick() => self.feed_ping().await?,
                }
            };
            let (out, next) = stepped.map_err(end_of_work)?;
            self.make_room()?;
            let rests = out.iter().any(|out| matches!(out, Out::Rest));
            for out in out {
                self.feed_out(out).await?;
            }
            self.flush().await?;
            if rests {
                tokio::time::sleep(REST).await;
            }
            left = next;
        }
        self.client.hold(None);
        self.heard = true; // we did not listen
        self.pulse.notify_one();
        Ok(())
    }

    /// What was made for this client is in no queue: if there is no room for it, the client is closed.
    fn make_room(&self) -> Result<(), End> {
        let limit = self.pubsub.config.queues_bytes_max;
        self.pubsub.subs.make_room();
        if self.pubsub.subs.queue_memory().bytes() > limit {
            let why = Closed::NodeBytesFull { limit };
            self.pubsub.figures.closed(why);
            return Err(end_for(why));
        }
        Ok(())
    }

    async fn feed_out(&mut self, out: Out) -> Result<(), End> {
        match out {
            Out::Text(text) => self.feed_reply(text).await,
            Out::Placed(of, placed) => self.feed_placed(of, placed).await,
            Out::Beginning(of, beginning) => {
                self.feed_placed(of, Placed { beginning, things: None }).await
            }
            Out::Until(of, step) => self.send_until(of, step).await,
            Out::Rest => Ok(()),
            Out::Close(code, reason) => Err(End::Close(code, reason)),
        }
    }

    async fn feed_placed(&mut self, of: SubscriptionId, placed: Placed) -> Result<(), End> {
        let next = self.sequences.entry(of).or_default();
        let end = Placed::end(of, *next);
        *next += 1;
        self.feed_text(TEXT, false, placed.beginning).await?;
        self.feed(OpCode::Data(Data::Continue), true, end.as_bytes()).await
    }

    async fn feed_body(&mut self, of: SubscriptionId, body: Body) -> Result<(), End> {
        self.pubsub.figures.add(Told::Sent, 1);
        match body {
            Body::Whole(text) => self.feed_text(TEXT, true, text).await,
            Body::Placed(placed) => self.feed_placed(of, placed).await,
        }
    }

    /// Writes what was told of a subscription up to a step.
    async fn send_until(&mut self, of: SubscriptionId, step: u64) -> Result<(), End> {
        loop {
            match self.client.next_until(of, step) {
                Next::Message(delivery) => self.feed_body(of, delivery.body).await?,
                Next::Empty | Next::Conflated(_) => return Ok(()),
                Next::Closed(why) => return Err(end_for(why)),
            }
        }
    }

    /// Writes messages that wait; what was conflated waits on, and what is held back.
    async fn send_waiting(&mut self) -> Result<(), End> {
        for _ in 0..BURST_MESSAGES {
            match self.client.next_message() {
                Next::Message(delivery) => {
                    self.feed_body(delivery.subscription, delivery.body).await?;
                }
                Next::Empty | Next::Conflated(_) => break,
                Next::Closed(why) => return Err(end_for(why)),
            }
        }
        self.flush().await
    }

    /// Writes what waits for the client, and yields after a while so that the client is heard too.
    async fn send_queued(&mut self) -> Result<(), End> {
        for _ in 0..BURST_MESSAGES {
            match self.client.next() {
                Next::Message(delivery) => {
                    self.feed_body(delivery.subscription, delivery.body).await?;
                }
                Next::Conflated(conflated) => {
                    self.pubsub.figures.add(Told::Conflated, conflated.messages);
                    self.flush().await?;
                    let of = conflated.subscription;
                    let task = Task::conflated(self.pubsub, &self.client, conflated);
                    if let Some(task) = task {
                        // What comes after it is newer.
                        self.client.hold(Some(of));
                        Box::pin(self.work(task)).await?;
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
    async fn look_after(&mut self) -> Result<(), End> {
        if !self.heard {
            let ping_ms = self.pubsub.config.ping_ms;
            let reason = format!("no answer to a ping within {ping_ms} ms (pubsub.ping_ms)");
            return Err(End::Close(CloseCode::Policy, reason));
        }
        self.heard = false;
        self.feed_ping().await
    }

    async fn feed_ping(&mut self) -> Result<(), End> {
        self.feed_control(Control::Ping, &[]).await?;
        self.flush().await
    }

    async fn feed_control(&mut self, control: Control, payload: &[u8]) -> Result<(), End> {
        self.feed(OpCode::Control(control), true, payload).await
    }

    /// A reply. A long one counts like a notification.
    async fn feed_reply(&mut self, text: String) -> Result<(), End> {
        if text.len() <= COPIED_BYTES_MAX {
            return self.feed(TEXT, true, text.as_bytes()).await;
        }
        let text = SharedText::new(text, self.pubsub.subs.queue_memory());
        self.make_room()?;
        self.feed_text(TEXT, true, text).await
    }

    /// Writes a frame whose payload is shared: a long one to its end.
    async fn feed_text(
        &mut self,
        opcode: OpCode,
        is_final: bool,
        text: SharedText,
    ) -> Result<(), End> {
        if text.len() <= COPIED_BYTES_MAX {
            return self.feed(opcode, is_final, text.as_bytes()).await;
        }
        self.client.charge(self.pubsub, text.len());
        let len = text.len();
        self.client.begin_writing(Body::Whole(text)).map_err(end_for)?;
        self.writer.add_long(opcode, is_final, len);
        self.flush().await?;
        if let Some(text) = text_of(self.client.end_writing())
            && text.is_last()
            && len > FREED_HERE_BYTES_MAX
        {
            // Giving back its pages takes as long as a write.
            tokio::task::spawn_blocking(move || drop(text));
        }
        Ok(())
    }

    async fn feed(&mut self, opcode: OpCode, is_final: bool, payload: &[u8]) -> Result<(), End> {
        self.client.charge(self.pubsub, payload.len());
        if self.writer.is_full() {
            self.flush().await?;
        }
        self.writer.add(opcode, is_final, payload);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), End> {
        loop {
            let client = &self.client;
            let step = self.writer.advance(self.io, || text_of(client.writing()));
            match patiently(client, &self.pulse, &self.pubsub.config, step).await? {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(()) => {}
            }
        }
    }
}

/// The text of a message that is written by itself.
fn text_of(writing: Option<Body>) -> Option<SharedText> {
    match writing {
        Some(Body::Whole(text)) => Some(text),
        Some(Body::Placed(_)) | None => None,
    }
}

/// Waits for a write, but not for ever, and not when the client is to be closed anyway.
async fn patiently(
    client: &Client,
    pulse: &Notify,
    config: &Config,
    step: impl Future<Output = Result<ControlFlow<()>, WriteError>>,
) -> Result<ControlFlow<()>, End> {
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
        Ok(Err(WriteError::Broken)) => Err(End::Gone),
        Ok(Err(WriteError::Evicted)) => Err(client.closed().map_or(End::Gone, end_for)),
        Err(_) => {
            let limit = config.write_timeout_ms;
            let reason = format!("nothing was read for {limit} ms (pubsub.write_timeout_ms)");
            Err(End::Close(CloseCode::Policy, reason))
        }
    }
}

/// What it comes to when the pool ends what a client waits for.
fn end_of_work(why: TaskEnd) -> End {
    match why {
        TaskEnd::Panicked => End::Close(CloseCode::Error, "internal error".to_owned()),
        TaskEnd::ExpiredWaiting | TaskEnd::Expired => {
            End::Close(CloseCode::Again, "the node is busy (pool.medium.deadline_ms)".to_owned())
        }
        TaskEnd::Cancelled | TaskEnd::ShutDown => end_for(Closed::ShutDown),
    }
}

fn not_utf8() -> End {
    End::Close(CloseCode::Invalid, "a message that is not UTF-8".to_owned())
}

fn end_for(why: Closed) -> End {
    let (code, knob) = match why {
        Closed::MessagesFull { .. } => (CloseCode::Policy, Some("pubsub.queue_messages_max")),
        Closed::BytesFull { .. } => (CloseCode::Policy, Some("pubsub.queue_bytes_max")),
        Closed::NodeBytesFull { .. } => (CloseCode::Policy, Some("pubsub.queues_bytes_max")),
        Closed::EventsLost => (CloseCode::Again, Some("pubsub.events_max")),
        Closed::ShutDown => (CloseCode::Away, None),
    };
    End::Close(
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
    writer: &mut Writer,
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
    hang_up(io).await
}

/// Ends our half of the stream, then reads on until the client ends its half: what is not read when a
/// socket is closed makes the system reset it, and the client would never see our last words.
async fn hang_up<IO>(io: &mut IO) -> Option<()>
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
