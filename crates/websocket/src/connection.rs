//! One WebSocket connection, from its upgrade to its end.
//!
//! In: a stream after the handshake. Out: replies, and the notifications queued for this client. One task does both.
//! While the client does not read what we write, we read nothing from it: the reply to each message, a ping included,
//! is written before the next message is read. So there is one call at a time. While it runs, notifications are
//! written, and pings that the client sent before its next message get their pongs.
//! A client learns the id of a subscription from the reply, often after it has read all messages of one burst. So the
//! first notification follows the reply after `Config::hold_ms`; until then it waits in the queue.
//! The parts of a streamed message are written as its task makes them, with pings and pongs in between. RFC 6455 (5.4)
//! allows no other message there, so notifications wait in the queue until its last part has been written. Queued ones
//! are written before the next streamed message. The protocol limits the time of a streamed message. A client that
//! reads it too slowly is closed when its queue is full.
//! Bounds: the reader limits what comes in. What goes out waits in the client's queue; the writer has a buffer and one
//! long payload. Writing, closing and silence have time limits.
//! Close codes: 1000 the client closed; 1001 we shut down; 1002 a frame out of protocol; 1007 text that is not UTF-8;
//! 1008 too slow, silent, a message that does not end, or an API key that was removed; 1009 too large; 1011 the
//! protocol failed; 1013 no memory, or events were lost. The reason names the limit. If a client is closed in the middle
//! of a long message, and there is no memory to finish it, the stream ends without a close frame.
//! Not here: writing (`writing`), and the close frame itself (`connection_end`).

mod writing;

use std::collections::VecDeque;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clients::ClientId;
use foldhash::HashMap;
use http_server::poll_budget::{self, Budgeted};
use http_server::{Socket, WebSocketHandler};
use subscriptions::{CloseReason, Hold, OwnerId, SubscriptionId};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval, sleep_until, timeout};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control};

use crate::connection_end::{
    ConnectionEnd, close, end_for, end_for_task_error, internal_error, missing_part,
};
use crate::counters::SessionEvent;
use crate::frame_writer::FrameWriter;
use crate::message::{IncomingPart, MessageKind, NOT_UTF8};
use crate::message_reader::{MessageReader, ReadError, Received};
use crate::payload::Payload;
use crate::protocol::{Protocol, Reply};
use crate::pulse::Pulse;
use crate::server::Server;
use crate::session::Session;
use crate::session_output::SessionOutput;
use crate::session_task::{self, SessionTask};
use crate::shared_bytes::SharedBytes;

/// Addresses in the sets of a connection that its own thread releases: some milliseconds.
const DROPPED_HERE_MAX: usize = 2_000;
/// Unanswered pings that a connection survives: a client may be busy for a while. At the next ping it is closed.
const SILENT_PINGS_MAX: u32 = 2;
/// Time limit of a task's wait until the protocol has published the blocks that the task follows.
const NOTIFIER_BACKOFF: Duration = Duration::from_millis(2);
/// Maximum number of held subscriptions that are released in one poll.
const RELEASED_MAX: usize = 64;
/// Bytes of a close frame's payload after its code.
const REASON_BYTES_MAX: usize = 123;

impl<P: Protocol> WebSocketHandler for Server<P> {
    fn handle(
        self: Arc<Self>,
        socket: Socket,
        client_id: ClientId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(serve_connection(socket, client_id, self))
    }
}

/// Serves a client until its connection ends. `io` is the stream after the handshake, `client_id` the client that the
/// connection belongs to. The work of one poll is charged to the poll budget (`poll_budget`).
pub async fn serve_connection<P, IO>(io: IO, client_id: ClientId, server: Arc<Server<P>>)
where
    P: Protocol,
    IO: AsyncRead + AsyncWrite + Unpin,
{
    serve_session(io, client_id, server, P::SessionState::default()).await;
}

/// Serves a client as [`serve_connection`] does. `state` is the state that its session starts with: for a protocol
/// whose ports differ. Returns the close frame of a connection that the server closed. Its client may not have read it in
/// `Config::close_timeout_ms`.
pub async fn serve_session<P, IO>(
    io: IO,
    client_id: ClientId,
    server: Arc<Server<P>>,
    state: P::SessionState,
) -> Option<CloseFrame>
where
    P: Protocol,
    IO: AsyncRead + AsyncWrite + Unpin,
{
    Budgeted::new(serve(io, client_id, server, state)).await
}

async fn serve<P, IO>(
    mut io: IO,
    client_id: ClientId,
    server: Arc<Server<P>>,
    state: P::SessionState,
) -> Option<CloseFrame>
where
    P: Protocol,
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut writer = FrameWriter::new(Arc::clone(&server.unwritten));
    let (end, rest) = run_session(&mut io, &mut writer, client_id, &server, state).await;
    // The subscriptions have ended by now, however long closing takes.
    let is_closed_by_client = matches!(end, ConnectionEnd::Closing(_));
    let close_frame = match end {
        ConnectionEnd::Gone => return None,
        ConnectionEnd::Closing(frame) => frame,
        ConnectionEnd::Close(code, mut reason) => {
            tracing::debug!(%code, reason, "a WebSocket connection is closed");
            reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
            Some(CloseFrame { code, reason: reason.into() })
        }
    };
    let own_frame = close_frame.clone().filter(|_| !is_closed_by_client);
    let closing = close(&mut io, &mut writer, rest, close_frame);
    let _ = timeout(Duration::from_millis(server.config.close_timeout_ms), closing).await;
    own_frame
}

/// Serves a session. Returns how it ended, and the payload that is partly written.
async fn run_session<P, IO>(
    io: &mut IO,
    writer: &mut FrameWriter,
    client_id: ClientId,
    server: &Arc<Server<P>>,
    state: P::SessionState,
) -> (ConnectionEnd, Option<SharedBytes>)
where
    P: Protocol,
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let pulse = Arc::new(Pulse::new());
    let owner = OwnerId(client_id.0);
    let listener = match server.subscriptions.listen(owner, Arc::clone(&pulse)) {
        Ok(listener) => listener,
        Err(full) => {
            server.counters.add(SessionEvent::Refused, 1);
            let reason = format!("{} connections are open (pubsub.connections_max)", full.limit);
            return (ConnectionEnd::Close(CloseCode::Again, reason), None);
        }
    };
    let ping_interval = Duration::from_millis(server.config.ping_ms.max(1));
    let mut ping = interval(ping_interval);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    let clients = Arc::clone(&server.clients);
    let pool = Arc::clone(&server.pool);
    let session = Arc::new(Session::<P>::new(state, listener, client_id, clients, pool));
    if session.is_revoked() {
        // A reload that removed the key did not find this listener.
        return (end_for(CloseReason::Revoked), None);
    }
    let incoming = Arc::clone(&server.incoming);
    let connection = Connection {
        io,
        reader: MessageReader::new(&server.config, P::message_bound, incoming, client_id),
        writer,
        server,
        session: Arc::clone(&session),
        pulse,
        ping,
        silent_pings: 0,
        sequences: HashMap::default(),
        streamed: None,
        awaits_reply: false,
        receiving: None,
        holds: VecDeque::new(),
        hold_timer: None,
    };
    let end = connection.run().await.unwrap_or_else(|end| end);
    if let Some(reason) = session.closed() {
        server.counters.record_close(reason);
    }
    // Closing may take a while: half of the limit is left to the clients that are served.
    let half = server.config.limits.queues_bytes_max / 2;
    let rest = session
        .finish_writing()
        .and_then(Payload::into_whole)
        .filter(|_| server.subscriptions.queue_memory().bytes() <= half);
    if session.tracked_addresses() > DROPPED_HERE_MAX {
        // Releasing a large set takes as long as indexing it.
        let released = tokio::task::spawn_blocking(move || drop(session)).await;
        if released.is_err() {
            tracing::error!("a connection's sets could not be released");
        }
    }
    (end, rest)
}

struct Connection<'a, P: Protocol, IO> {
    io: &'a mut IO,
    reader: MessageReader,
    writer: &'a mut FrameWriter,
    server: &'a Arc<Server<P>>,
    session: Arc<Session<P>>,
    /// Notified when the client's queue has something, or is closed.
    pulse: Arc<Pulse>,
    ping: Interval,
    /// Pings since anything came.
    silent_pings: u32,
    /// The sequence number of each set's next message.
    sequences: HashMap<SubscriptionId, u64>,
    /// The kind of the streamed message whose last part has not been written.
    streamed: Option<MessageKind>,
    /// Whether a call waits for the reply of another server, which is written even if this server is shut down.
    awaits_reply: bool,
    /// The client's streamed message whose last part has not been read.
    receiving: Option<Receiving<P::Task>>,
    /// New subscriptions, and when their notifications start.
    holds: VecDeque<(Instant, Hold)>,
    /// Of the oldest hold. In a box: the state of a connection is small.
    hold_timer: Option<Pin<Box<Sleep>>>,
}

/// A client's message that is read in parts.
enum Receiving<T> {
    /// The task that gets its parts. In a box: the state of a connection is small.
    Task(Box<T>),
    /// Its parts are dropped.
    Discarded,
}

/// An event that a connection waits for.
enum Event {
    Received(Result<Received, ReadError>),
    Queued,
    HoldOver,
    Ping,
}

/// An event that a connection handles during a call.
enum CallEvent {
    Queued,
    HoldOver,
    Ping,
    /// A ping or a pong of the client.
    Control(Received),
}

impl<P: Protocol, IO: AsyncRead + AsyncWrite + Unpin> Connection<'_, P, IO> {
    async fn run(mut self) -> Result<ConnectionEnd, ConnectionEnd> {
        loop {
            let event = tokio::select! {
                received = self.reader.next(self.io) => Event::Received(received),
                () = self.pulse.notified() => Event::Queued,
                () = wait_for_timer(&mut self.hold_timer) => Event::HoldOver,
                _ = self.ping.tick() => Event::Ping,
            };
            let started_at = Instant::now();
            match event {
                Event::Received(Ok(received)) => {
                    self.silent_pings = 0;
                    if received.ends_message() {
                        self.server.counters.add(SessionEvent::Received, 1);
                    }
                    self.handle_received(received).await?;
                    if let Some(pause) = self.session.take_pause() {
                        // In a box: the state of a connection is small.
                        Box::pin(self.pause(pause)).await?;
                    }
                }
                Event::Received(Err(err)) => return Ok(self.end_of_reading(&err)),
                Event::Queued => self.send_queued().await?,
                Event::HoldOver => self.release_holds(),
                Event::Ping => self.check_liveness().await?,
            }
            self.reader.defer(started_at.elapsed());
        }
    }

    fn end_of_reading(&self, err: &ReadError) -> ConnectionEnd {
        let config = &self.server.config;
        match err {
            ReadError::Gone => ConnectionEnd::Gone,
            ReadError::Protocol(what) => {
                ConnectionEnd::Close(CloseCode::Protocol, (*what).to_owned())
            }
            ReadError::NotUtf8 => ConnectionEnd::Close(CloseCode::Invalid, NOT_UTF8.to_owned()),
            ReadError::TooLong { limit, setting } => {
                self.server.counters.add(SessionEvent::TooLong, 1);
                ConnectionEnd::Close(
                    CloseCode::Size,
                    format!("a message over {limit} bytes ({setting})"),
                )
            }
            ReadError::Late => {
                self.server.counters.add(SessionEvent::Late, 1);
                let limit = config.message_timeout_ms;
                let reason = format!(
                    "a message was not whole within {limit} ms (pubsub.message_timeout_ms)"
                );
                ConnectionEnd::Close(CloseCode::Policy, reason)
            }
            ReadError::IncomingFull => {
                self.server.counters.add(SessionEvent::IncomingFull, 1);
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
        let message = match received {
            Received::Message(message) => message,
            // In a box: the state of a connection is small.
            Received::Part(part) => return Box::pin(self.handle_part(part)).await,
            Received::Close(frame) => return Err(ConnectionEnd::Closing(frame)),
            control @ (Received::Ping(_) | Received::Pong) => {
                return self.handle_control(control).await;
            }
        };
        let bytes = message.len();
        let handle = || P::handle_message(self.server, &self.session, message);
        let reply = catch_unwind(AssertUnwindSafe(handle)).map_err(|_| {
            tracing::error!("a protocol panicked at a message; its connection is closed");
            internal_error()
        })?;
        let is_read_here = match reply {
            Reply::Task(_) => false,
            // A future of a long message reads it on another thread.
            Reply::Future(_) => bytes <= self.server.config.message_bytes_max,
            Reply::Nothing | Reply::Message(_) | Reply::Close(..) => true,
        };
        if is_read_here {
            poll_budget::charge_parsed(bytes);
        }
        self.write_reply(reply).await
    }

    /// Writes the pong of a ping.
    async fn handle_control(&mut self, received: Received) -> Result<(), ConnectionEnd> {
        let Received::Ping(payload) = received else { return Ok(()) };
        self.feed_control(Control::Pong, &payload).await?;
        self.flush().await
    }

    /// Writes the reply to a message, or what its task writes.
    async fn write_reply(&mut self, reply: Reply<P::Task>) -> Result<(), ConnectionEnd> {
        let reply = match reply {
            Reply::Future(future) => {
                // In boxes: the state of a connection is small.
                self.awaits_reply = true;
                let reply = Box::pin(self.wait_for_reply(future)).await?;
                self.awaits_reply = matches!(reply, Reply::Message(_));
                Box::pin(self.write_reply(reply)).await?;
                self.awaits_reply = false;
                // The server may have been shut down meanwhile.
                return self.session.closed().map_or(Ok(()), |reason| Err(end_for(reason)));
            }
            Reply::Task(task) => {
                if self.run_task(task).await?.is_some() {
                    return Err(missing_part());
                }
                return Ok(());
            }
            Reply::Close(code, reason) => return Err(ConnectionEnd::Close(code, reason)),
            Reply::Message(reply) => Some(reply),
            Reply::Nothing => None,
        };
        poll_budget::charge(reply.as_ref().map_or(0, |reply| reply.as_bytes().len()));
        self.session.count_subscriptions();
        let Some(reply) = reply else { return Ok(()) };
        self.feed_whole(reply).await?;
        self.flush().await?;
        self.start_holds();
        Ok(())
    }

    /// Waits for a reply. Queued notifications are written in between. If the server is shut down meanwhile, the
    /// connection still waits: the call may have had an effect, which its client must know.
    async fn wait_for_reply(
        &mut self,
        reply: Pin<Box<dyn Future<Output = Reply<P::Task>> + Send>>,
    ) -> Result<Reply<P::Task>, ConnectionEnd> {
        let reply = self.serve_until(std::pin::pin!(reply)).await?;
        self.silent_pings = 0; // no message was read meanwhile
        if self.session.closed().is_none() {
            self.pulse.notify_self();
        }
        Ok(reply)
    }

    /// Gives the next part of a streamed message to its task.
    async fn handle_part(&mut self, part: IncomingPart) -> Result<(), ConnectionEnd> {
        let is_last = part.is_last;
        let task = match self.receiving.take() {
            None => P::stream_task(self.server, &self.session, part.kind),
            Some(Receiving::Task(task)) => Some(*task),
            Some(Receiving::Discarded) => None,
        };
        let rest = match task {
            None => None,
            Some(mut task) => {
                task.push_part(part);
                self.run_task(task).await?
            }
        };
        if !is_last {
            let receiving = |task| Receiving::Task(Box::new(task));
            self.receiving = Some(rest.map_or(Receiving::Discarded, receiving));
        } else if rest.is_some() {
            return Err(missing_part());
        }
        Ok(())
    }

    /// Starts the time after which subscriptions get notifications. Runs once their replies are written.
    fn start_holds(&mut self) {
        let new_holds = self.session.take_new_holds();
        if new_holds.is_empty() {
            return;
        }
        let until = Instant::now() + Duration::from_millis(self.server.config.hold_ms);
        self.holds.extend(new_holds.into_iter().map(|hold| (until, hold)));
        if self.server.config.hold_ms == 0 {
            self.release_holds();
        } else if self.hold_timer.is_none() {
            self.hold_timer = Some(Box::pin(sleep_until(until)));
        }
    }

    /// Starts the notifications of the subscriptions whose time has come.
    fn release_holds(&mut self) {
        let now = Instant::now();
        for _ in 0..RELEASED_MAX {
            let Some((_, hold)) = self.holds.pop_front_if(|(until, _)| *until <= now) else {
                break;
            };
            if self.session.has_hold(hold) {
                self.session.release(hold);
                let catch_up = || P::catch_up(self.server, &self.session, hold.subscription);
                if catch_unwind(AssertUnwindSafe(catch_up)).is_err() {
                    tracing::error!("a subscription panicked while it caught up");
                }
            }
        }
        let next = self.holds.front().map(|(until, _)| Box::pin(sleep_until(*until)));
        self.hold_timer = next;
        self.pulse.notify_self();
    }

    /// Runs the steps of a task on the pool. Queued notifications are written in between. No message is read from the
    /// client meanwhile. Returns the task if it needs a part of its message.
    async fn run_task(&mut self, task: P::Task) -> Result<Option<P::Task>, ConnectionEnd> {
        let mut remaining = Some(task);
        while let Some(task) = remaining.take_if(|task| !task.needs_part()) {
            let step = std::pin::pin!(session_task::run_until_output(
                &self.server.task_permits,
                &self.server.pool,
                self.session.task_client(),
                task
            ));
            let result = self.serve_until(step).await?;
            let (out, next) = result.map_err(end_for_task_error)?;
            self.enforce_memory_limit()?;
            let must_wait = out.iter().any(|out| matches!(out, SessionOutput::Backoff));
            let is_new = out.iter().any(|out| matches!(out, SessionOutput::SubscribeReply(_)));
            for out in out {
                self.feed_output(out).await?;
            }
            self.flush().await?;
            self.start_holds();
            let hold = Duration::from_millis(self.server.config.hold_ms);
            if is_new && next.is_some() && !hold.is_zero() {
                Box::pin(self.pause(hold)).await?;
            }
            if must_wait {
                tokio::time::sleep(NOTIFIER_BACKOFF).await;
            }
            remaining = next;
        }
        if self.streamed.is_some() {
            tracing::error!("a task ended within a streamed message; its connection is closed");
            return Err(internal_error());
        }
        self.session.pause_delivery(None);
        self.session.count_subscriptions();
        self.silent_pings = 0; // no message was read meanwhile
        self.pulse.notify_self();
        Ok(remaining)
    }

    /// Reads no message from the client for a while. Queued notifications are written.
    async fn pause(&mut self, pause: Duration) -> Result<(), ConnectionEnd> {
        self.serve_until(std::pin::pin!(tokio::time::sleep(pause))).await?;
        self.silent_pings = 0; // no message was read meanwhile
        self.pulse.notify_self();
        Ok(())
    }

    /// Waits for a result. Meanwhile queued notifications are written, and the client's pings get their pongs. Within a
    /// streamed message only pings and pongs are written. The future is polled during these writes, too: it may have a
    /// permit that other clients wait for, and its own client may not read.
    async fn serve_until<T>(
        &mut self,
        mut future: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, ConnectionEnd> {
        let has_pings = P::has_pings(&self.session);
        loop {
            let event = tokio::select! {
                biased;
                result = &mut future => return Ok(result),
                () = self.pulse.notified() => CallEvent::Queued,
                () = wait_for_timer(&mut self.hold_timer) => CallEvent::HoldOver,
                _ = self.ping.tick() => CallEvent::Ping,
                control = self.reader.next_control(self.io), if has_pings => {
                    CallEvent::Control(control)
                }
            };
            let mut result = None;
            // In a box: the state of a connection is small.
            let mut writing = Box::pin(self.handle_call_event(event));
            loop {
                tokio::select! {
                    biased;
                    output = &mut future, if result.is_none() => result = Some(output),
                    written = &mut writing => {
                        written?;
                        break;
                    }
                }
            }
            if let Some(result) = result {
                return Ok(result);
            }
        }
    }

    /// Handles an event that comes during a call.
    async fn handle_call_event(&mut self, event: CallEvent) -> Result<(), ConnectionEnd> {
        match event {
            CallEvent::Queued => match self.session.closed() {
                // It finds a client that has left.
                Some(CloseReason::ShutDown) if self.awaits_reply => self.feed_ping().await,
                _ => self.send_waiting().await,
            },
            CallEvent::HoldOver => {
                self.release_holds();
                Ok(())
            }
            CallEvent::Ping => self.feed_ping().await,
            CallEvent::Control(control) => self.handle_control(control).await,
        }
    }

    /// Closes the client if the messages of all clients exceed their limit. Bytes that were encoded for this client
    /// alone are in no queue, so the queue does not check it.
    fn enforce_memory_limit(&self) -> Result<(), ConnectionEnd> {
        let limit = self.server.config.limits.queues_bytes_max;
        self.server.subscriptions.enforce_memory_limit();
        if self.server.subscriptions.queue_memory().bytes() > limit {
            let reason = CloseReason::NodeBytesFull { limit };
            self.server.counters.record_close(reason);
            return Err(end_for(reason));
        }
        Ok(())
    }

    /// Sends a ping. Ends the connection if nothing came since too many of them.
    async fn check_liveness(&mut self) -> Result<(), ConnectionEnd> {
        if self.silent_pings == SILENT_PINGS_MAX {
            let ping_ms = self.server.config.ping_ms;
            let reason = format!(
                "no answer to {SILENT_PINGS_MAX} pings, one every {ping_ms} ms (pubsub.ping_ms)"
            );
            return Err(ConnectionEnd::Close(CloseCode::Policy, reason));
        }
        self.silent_pings += 1;
        self.feed_ping().await
    }
}

/// Waits for a timer, forever without one.
async fn wait_for_timer(timer: &mut Option<Pin<Box<Sleep>>>) {
    match timer {
        Some(timer) => timer.as_mut().await,
        None => pending().await,
    }
}
