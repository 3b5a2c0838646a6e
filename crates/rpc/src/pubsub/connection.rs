//! One WebSocket connection, from its upgrade to its end.
//!
//! In: a stream on which the handshake is done. Out: replies, and what the engine queues for this
//! client. One task does both; while a client does not take what we write, we read nothing from it.
//! Bounds: messages of `Config::message_bytes_max` bytes come in; what goes out waits in the client's
//! queue; writing, closing and silence have time limits.
//! Ends: 1000 as the client wishes; 1001 we shut down; 1002 a frame out of protocol; 1007 text that is
//! not UTF-8; 1008 too slow, or silent; 1009 too large; 1013 no room, or events were lost. The reason
//! names the limit.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use futures_util::{SinkExt, StreamExt};
use pool::{ClientId, Ended};
use subs::{Closed, Next, SubscriptionId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};

use super::body::{Body, Placed};
use super::calls;
use super::client::Client;
use super::counted::{Counted, wire_bytes};
use super::figures::Told;
use super::sets::{self, Out, Task};
use super::{Config, PubSub, turns};

/// What is read at once. Messages are smaller.
const READ_BUFFER_BYTES: usize = 4 * 1024;
/// What is collected before it is written, unless nothing more waits.
const WRITE_BUFFER_BYTES: usize = 16 * 1024;
/// Notifications that are written before we look whether the client says something.
const BURST_MESSAGES: usize = 256;
/// Addresses that are let go with the connection on its own thread: some milliseconds.
const DROPPED_HERE_MAX: usize = 2_000;
/// How long work on a set waits for the notifier, which tells what the work is to follow.
const REST: Duration = Duration::from_millis(2);
/// What a client that is being closed may still send before we stop listening.
const DRAIN_BYTES_MAX: usize = 1024 * 1024;

/// Serves a client until it goes or must go. The handshake must be done; `io` is what follows it, and `of` whose
/// the connection is.
pub async fn serve_connection<IO>(io: IO, of: ClientId, pubsub: Arc<PubSub>)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let config = pubsub.config.clone();
    let framing = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_message_size(Some(bytes_max(&config)))
        .max_frame_size(Some(bytes_max(&config)));
    let io = Counted::new(io);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(framing)).await;
    let end = speak(&mut socket, of, &pubsub).await;
    // Its subscriptions are gone by now, however long the goodbye takes.
    match end {
        End::Gone => {}
        End::Closing => finish_closing(socket, &config).await,
        End::Close(code, reason) => {
            tracing::debug!(%code, reason, "a WebSocket connection is closed");
            close(socket, &config, code, reason).await;
        }
    }
}

/// How a conversation ends.
enum End {
    /// The client is not there any more.
    Gone,
    /// The client closes, and waits for our answer.
    Closing,
    /// We close.
    Close(CloseCode, String),
}

async fn speak<IO>(
    socket: &mut WebSocketStream<Counted<IO>>,
    of: ClientId,
    pubsub: &Arc<PubSub>,
) -> End
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let pulse = Arc::new(Notify::new());
    let wake = Arc::clone(&pulse);
    let client = match pubsub.subs.listen(move || wake.notify_one()) {
        Ok(client) => client,
        Err(full) => {
            pubsub.figures.add(Told::Refused, 1);
            let reason = format!("{} connections are open (pubsub.connections_max)", full.limit);
            return End::Close(CloseCode::Again, reason);
        }
    };
    let ping_every = Duration::from_millis(pubsub.config.ping_ms.max(1));
    let mut ping = interval(ping_every);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    let client = Arc::new(Client::new(client, of));
    let conversation = Conversation {
        socket,
        pubsub,
        client: Arc::clone(&client),
        pulse,
        ping,
        heard: true,
        sequences: HashMap::default(),
        taken: 0,
    };
    let end = conversation.run().await.unwrap_or_else(|end| end);
    if let Some(why) = client.closed() {
        pubsub.figures.closed(why);
    }
    if client.tracked() > DROPPED_HERE_MAX {
        // Letting a large set go takes as long as taking it in.
        let gone = tokio::task::spawn_blocking(move || drop(client)).await;
        if gone.is_err() {
            tracing::error!("a connection's sets could not be let go");
        }
    }
    end
}

/// The longest message that is read at all.
fn bytes_max(config: &Config) -> usize {
    config.message_bytes_max.max(config.addresses_message_bytes_max)
}

struct Conversation<'a, IO> {
    socket: &'a mut WebSocketStream<Counted<IO>>,
    pubsub: &'a Arc<PubSub>,
    client: Arc<Client>,
    /// Notified when the client's queue has something, or is closed.
    pulse: Arc<Notify>,
    ping: Interval,
    /// Whether anything came since our last ping.
    heard: bool,
    /// The number of the next message of each set.
    sequences: HashMap<SubscriptionId, u64>,
    /// Bytes that all messages so far took on the wire at least.
    taken: u64,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Conversation<'_, IO> {
    async fn run(mut self) -> Result<End, End> {
        loop {
            tokio::select! {
                received = self.socket.next() => {
                    self.heard = true;
                    match received {
                        None => return Ok(End::Gone),
                        Some(Err(err)) => return Ok(end_of(&err, &self.pubsub.config)),
                        Some(Ok(message)) => self.handle(message).await?,
                    }
                }
                () = self.pulse.notified() => self.send_queued().await?,
                _ = self.ping.tick() => self.look_after().await?,
            }
        }
    }

    async fn handle(&mut self, message: Message) -> Result<(), End> {
        let bytes = message.len();
        self.taken += wire_bytes(bytes);
        self.pubsub.figures.add(Told::Received, 1);
        self.answer(message).await?;
        if bytes > READ_BUFFER_BYTES && self.socket.get_ref().bytes_read() == self.taken {
            // All that was read has been taken, and all that we wrote is flushed.
            let (io, config) = (self.socket.get_ref().clone(), *self.socket.get_config());
            *self.socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        }
        Ok(())
    }

    async fn answer(&mut self, message: Message) -> Result<(), End> {
        let limit = self.pubsub.config.message_bytes_max;
        let reply = match message {
            Message::Text(text) if Task::is_for(&text, limit) => {
                let task = Task::text(self.pubsub, &self.client, text);
                return self.work(task).await;
            }
            Message::Text(text) => calls::answer(self.pubsub, &self.client, &text),
            Message::Binary(bytes) if bytes.first() == Some(&sets::BINARY) => {
                let task = Task::binary(self.pubsub, &self.client, bytes);
                return self.work(task).await;
            }
            // Agave takes either for text.
            Message::Binary(bytes) => match Utf8Bytes::try_from(bytes) {
                Ok(text) if Task::is_for(&text, limit) => {
                    let task = Task::text(self.pubsub, &self.client, text);
                    return self.work(task).await;
                }
                Ok(text) => calls::answer(self.pubsub, &self.client, &text),
                Err(_) => return Err(not_utf8()),
            },
            Message::Close(_) => return Err(End::Closing),
            // Pings are answered by the next read; frames never come out of it.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => None,
        };
        let Some(reply) = reply else { return Ok(()) };
        let Ok(reply) = Utf8Bytes::try_from(reply) else {
            unreachable!("replies are written as JSON")
        };
        self.feed(Message::Text(reply)).await?;
        self.flush().await
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

    async fn feed_out(&mut self, out: Out) -> Result<(), End> {
        match out {
            Out::Text(text) => self.feed(Message::Text(text)).await,
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
        let frames = placed.frames(of, *next);
        *next += 1;
        for frame in frames {
            self.feed(frame).await?;
        }
        Ok(())
    }

    async fn feed_body(&mut self, of: SubscriptionId, body: Body) -> Result<(), End> {
        self.pubsub.figures.add(Told::Sent, 1);
        match body {
            Body::Whole(text) => self.feed(Message::Text(text)).await,
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
        self.feed(Message::Ping(Bytes::new())).await?;
        self.flush().await
    }

    async fn feed(&mut self, message: Message) -> Result<(), End> {
        self.client.charge(self.pubsub, message.len());
        let step = self.socket.feed(message);
        patiently(&self.client, &self.pulse, &self.pubsub.config, step).await
    }

    async fn flush(&mut self) -> Result<(), End> {
        let step = self.socket.flush();
        patiently(&self.client, &self.pulse, &self.pubsub.config, step).await
    }
}

/// Waits for a write, but not for ever, and not when the client is to be closed anyway.
async fn patiently(
    client: &Client,
    pulse: &Notify,
    config: &Config,
    step: impl Future<Output = Result<(), Error>>,
) -> Result<(), End> {
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
        Ok(Ok(())) => Ok(()),
        Ok(Err(err)) => Err(end_of(&err, config)),
        Err(_) => {
            let limit = config.write_timeout_ms;
            let reason = format!("nothing was read for {limit} ms (pubsub.write_timeout_ms)");
            Err(End::Close(CloseCode::Policy, reason))
        }
    }
}

/// What it comes to when the pool ends what a client waits for.
fn end_of_work(why: Ended) -> End {
    match why {
        Ended::Panicked => End::Close(CloseCode::Error, "internal error".to_owned()),
        Ended::ExpiredWaiting | Ended::Expired => {
            End::Close(CloseCode::Again, "the node is busy (pool.medium.deadline_ms)".to_owned())
        }
        Ended::Cancelled | Ended::ShutDown => end_for(Closed::ShutDown),
    }
}

/// What a broken conversation comes to.
fn end_of(err: &Error, config: &Config) -> End {
    match err {
        Error::Protocol(
            tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
        ) => End::Gone,
        Error::Protocol(err) => End::Close(CloseCode::Protocol, err.to_string()),
        Error::Utf8(_) => not_utf8(),
        Error::Capacity(_) => {
            let limit = bytes_max(config);
            let knob = if limit > config.message_bytes_max {
                "pubsub.addresses_message_bytes_max"
            } else {
                "pubsub.message_bytes_max"
            };
            let reason = format!("a message over {limit} bytes ({knob})");
            End::Close(CloseCode::Size, reason)
        }
        _ => End::Gone,
    }
}

fn not_utf8() -> End {
    End::Close(CloseCode::Invalid, "a message that is not UTF-8".to_owned())
}

fn end_for(why: Closed) -> End {
    let (code, knob) = match why {
        Closed::MessagesFull { .. } => (CloseCode::Policy, Some("pubsub.queue_messages_max")),
        Closed::BytesFull { .. } => (CloseCode::Policy, Some("pubsub.queue_bytes_max")),
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

/// Says why, and gives the client some time to read it.
async fn close<IO>(
    mut socket: WebSocketStream<IO>,
    config: &Config,
    code: CloseCode,
    reason: String,
) where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let frame = CloseFrame { code, reason: reason.into() };
    let goodbye = async {
        socket.close(Some(frame)).await.is_ok().then_some(())?;
        hang_up(&mut socket).await
    };
    let _ = timeout(Duration::from_millis(config.close_timeout_ms), goodbye).await;
}

/// Sends the answer to the client's goodbye.
async fn finish_closing<IO>(mut socket: WebSocketStream<IO>, config: &Config)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let goodbye = async {
        socket.flush().await.is_ok().then_some(())?;
        hang_up(&mut socket).await
    };
    let _ = timeout(Duration::from_millis(config.close_timeout_ms), goodbye).await;
}

/// Ends our half of the stream, then reads on until the client ends its half: what is not read when a
/// socket is closed makes the system reset it, and the client would never see our last words.
async fn hang_up<IO>(socket: &mut WebSocketStream<IO>) -> Option<()>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let io = socket.get_mut();
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
