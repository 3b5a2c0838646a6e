//! One connection: HTTP/2 over a socket, or over TLS, until either side ends it.
//!
//! Bounds: streams, bytes of headers, windows, short frames that are not read (`Config::connection_window_bytes`),
//! streams that are not read ([`UnreadStreams`](crate::unread_streams)), the time until HTTP/2 starts. A client that
//! does not read the rest of an ended subscription within `Config::close_timeout_ms` is disconnected
//! ([`StatusTimer`](crate::status_timer::StatusTimer)); one that does not acknowledge HTTP/2's pings too, one that has
//! no accepted call for `Config::idle_timeout_ms`, and one with too many calls beyond its rate (`excess_calls`), which
//! gets a GOAWAY frame with the reason. A connection is read at the rate of its address (`read_rate`).

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use clients::ClientId;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::{Config, STREAM_WINDOW_BYTES};
use crate::connection_context::ConnectionContext;
use crate::counters::Event;
use crate::dispatcher::{Dispatcher, Service};
use crate::go_away::{ANY_STREAM, ENHANCE_YOUR_CALM, NO_STREAM, SETTINGS, encode_go_away};
use crate::read_rate::ReadRate;
use crate::socket::{Socket, SocketState};
use crate::tls::{self, TlsAcceptor};
use crate::transport::{Transport, TransportStream};

/// Bytes of a request's headers.
const HEADERS_BYTES_MAX: u32 = 16 << 10;
/// Bytes that wait for the socket, for each stream.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Time that a connection may continue without a call after `GOAWAY`.
const LAST_CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Time in which the client of a connection with too many calls may read the reason, and close the connection. A larger
/// value lets such connections stay open for longer.
const EXCESS_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves a connection until it ends.
pub(crate) async fn serve<S: Service>(
    socket: TcpStream,
    dispatcher: Arc<Dispatcher<S>>,
    acceptor: Option<Arc<dyn TlsAcceptor>>,
    mut closing: watch::Receiver<bool>,
) {
    let server = Arc::clone(dispatcher.state());
    // It only fails on a socket that is closed already, which the next read reports.
    let _ = socket.set_nodelay(true);
    // Unknown only for a socket that is closed already.
    let peer = socket.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |it| it.ip());
    let reached = socket.local_addr().ok().map(|it| it.ip());
    let deadline = Instant::now() + server.config.handshake_timeout();
    let stream = match acceptor {
        None => TransportStream::Plain(socket),
        Some(acceptor) => {
            let stream = tokio::select! {
                stream = tls::handshake(&*acceptor, socket, peer, deadline) => stream,
                () = wait_until_closing(&mut closing) => return,
            };
            match stream {
                Ok(stream) => TransportStream::Tls(stream),
                Err(end) => return server.counters.record(end),
            }
        }
    };
    let subscriptions_max = server.config.connection_subscriptions_max();
    let context = Arc::new(ConnectionContext::new(peer, reached, subscriptions_max));
    let timer = Arc::clone(&context.timer);
    let activity = Arc::clone(&context.activity);
    let shared_context = Arc::clone(&context);
    let builder = new_builder(&server.config, dispatcher.connection_window_bytes());
    let calls = service_fn(move |request| {
        let dispatcher = Arc::clone(&dispatcher);
        let context = Arc::clone(&shared_context);
        async move { Ok::<_, Infallible>(dispatcher.call(request, &context).await) }
    });
    let read_rate = ReadRate::new(Arc::clone(&server), ClientId::from_ip(peer))
        .with_excess_calls(Arc::clone(&context.excess_calls));
    let polled_bytes = read_rate.polled_bytes();
    let socket = Socket::new(Transport::new(stream, read_rate));
    let state = socket.state();
    let connection = builder.serve_connection(socket, calls);
    tokio::pin!(connection);
    // One future for all iterations, because the start of HTTP/2 is notified once.
    let start_timeout = wait_until_late(&state, deadline);
    tokio::pin!(start_timeout);
    let mut idle_timeout = server.config.idle_timeout();
    let mut is_idle = false;
    let close_timeout = loop {
        let serving = poll_fn(|context| {
            timer.before_poll(context.waker());
            polled_bytes.start_poll();
            let ended = connection.as_mut().poll(context);
            timer.after_poll(state.is_full());
            ended
        });
        tokio::select! {
            ended = serving => {
                if let Err(err) = ended {
                    tracing::debug!(%err, "a gRPC connection has ended");
                }
                return;
            }
            () = &mut start_timeout => return server.counters.record(Event::Late),
            () = timer.wait_until_expired(server.config.close_timeout()) => {
                return server.counters.record(Event::Aborted);
            }
            () = context.excess_calls.wait_for_end() => {
                server.counters.record(Event::CallExcess);
                if is_idle {
                    // Its client has a GOAWAY frame, and a later one must not name a later stream.
                    return;
                }
                let reason = explain_excess(server.config.calls_per_s);
                state.end_with(encode_go_away(ANY_STREAM, ENHANCE_YOUR_CALM, &reason));
                break EXCESS_CLOSE_TIMEOUT;
            }
            () = activity.wait_until_idle(idle_timeout) => {
                if is_idle {
                    return;
                }
                server.counters.record(Event::Idle);
                connection.as_mut().graceful_shutdown();
                // A call that the client sends before it reads the final GOAWAY is served to its end.
                idle_timeout = LAST_CALL_TIMEOUT;
                is_idle = true;
            }
            () = wait_until_closing(&mut closing) => {
                connection.as_mut().graceful_shutdown();
                break server.config.shutdown_timeout();
            }
        }
    };
    let ended = poll_fn(|context| {
        polled_bytes.start_poll();
        connection.as_mut().poll(context)
    });
    // It is dropped after the timeout.
    let _ = timeout(close_timeout, ended).await;
}

/// Returns why a connection with too many calls ends.
fn explain_excess(calls_per_s: u32) -> String {
    format!(
        "this client makes more than {calls_per_s} calls a second (grpc.calls_per_s), and this \
         connection has too many of them"
    )
}

/// Returns HTTP/2 with the bounds of a connection.
fn new_builder(config: &Config, window_bytes: u32) -> http2::Builder<TokioExecutor> {
    let streams_max = u32::try_from(config.connection_streams_max).unwrap_or(u32::MAX);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams_max)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(window_bytes)
        .keep_alive_interval(config.keep_alive())
        .keep_alive_timeout(config.keep_alive());
    builder
}

/// Ends a connection without TLS that its address may not have. The reason is best effort: it is lost if the client's
/// first bytes reset the socket.
pub(crate) fn refuse(socket: TcpStream, reason: &str) {
    let go_away = encode_go_away(NO_STREAM, ENHANCE_YOUR_CALM, reason);
    let frames = [&SETTINGS[..], &go_away[..]].concat();
    // The send buffer of a new socket has space for this, unless the client has disconnected.
    let _ = socket.into_std().and_then(|mut socket| socket.write(&frames));
}

/// Waits until a new connection is due at the rate of its address. Returns false if the server ends before.
pub(crate) async fn wait_until_due(delay: Duration, closing: &mut watch::Receiver<bool>) -> bool {
    delay.is_zero() || timeout(delay, wait_until_closing(closing)).await.is_err()
}

/// Waits until a client that has not started HTTP/2 is too late: forever if it has, because pings follow then.
async fn wait_until_late(state: &SocketState, deadline: Instant) {
    if timeout_at(deadline, state.wait_until_started()).await.is_ok() {
        std::future::pending().await
    }
}

/// Waits until the server ends.
pub(crate) async fn wait_until_closing(closing: &mut watch::Receiver<bool>) {
    // A dropped sender means the same.
    let _ = closing.wait_for(|is_closing| *is_closing).await;
}
