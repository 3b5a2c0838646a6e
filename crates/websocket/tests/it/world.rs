//! A server of the test protocol on a loopback port, and its clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clients::{ClientId, RateLimiter};
use cpu_pool::{Clock, Pool};
use futures_util::{FutureExt, SinkExt, StreamExt};
use subscriptions::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use websocket::{Config, Stats, serve_connection};

use crate::blob_protocol::{BlobProtocol, BlobServer, HEAD_BYTES, request};

/// Much longer than any test waits. Only a bug reaches it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A server and the task that accepts its connections.
pub(crate) struct World {
    pub(crate) server: Arc<BlobServer>,
    address: std::net::SocketAddr,
    accepting: JoinHandle<()>,
}

/// A client that reads and writes whole messages.
pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<TcpStream>,
}

/// A close frame: its code and its reason.
pub(crate) type Closed = (u16, String);

struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Limits like those of a node, for few clients.
pub(crate) fn config() -> Config {
    Config {
        limits: Limits {
            listeners_max: 100,
            subscriptions_max: 1_000,
            subscriptions_per_listener_max: 100,
            addresses_max: 1_000,
            address_pairs_max: 1_000,
            addresses_per_owner_max: 1_000,
            addresses_per_listener_max: 100,
            retained_steps: 0,
            retained_bytes: 0,
            unrooted_max: 1,
            queue_messages_max: 1_000,
            queue_bytes_max: 1 << 20,
            queues_bytes_max: 16 << 20,
        },
        message_bytes_max: 4_096,
        addresses_message_bytes_max: 1 << 20,
        message_timeout_ms: 60_000,
        incoming_bytes_max: 4 << 20,
        set_tasks_max: 4,
        write_timeout_ms: 60_000,
        close_timeout_ms: 60_000,
        hold_ms: 0,
        ping_ms: 60_000,
    }
}

impl World {
    pub(crate) async fn start(config: Config) -> Self {
        let clock = Arc::new(TestClock(Instant::now()));
        let pool = Pool::new(cpu_pool::Config::default(), clock, || {}).expect("threads");
        let clients = Arc::new(RateLimiter::new(clients::Limits::default()));
        let protocol = BlobProtocol {
            list_parts: AtomicUsize::new(0),
            forwarded: Arc::new(Semaphore::new(0)),
            forwarded_calls: AtomicUsize::new(0),
        };
        let server = Arc::new(BlobServer::new(protocol, config, Arc::new(pool), clients));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback");
        let address = listener.local_addr().expect("it is bound");
        let accepting = tokio::spawn(accept(listener, Arc::clone(&server)));
        Self { server, address, accepting }
    }

    /// A connection after the handshake.
    pub(crate) async fn socket(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).await.expect("it listens");
        socket.set_nodelay(true).expect("it is open");
        socket
    }

    pub(crate) async fn connect(&self) -> Client {
        let socket = self.socket().await;
        let socket = WebSocketStream::from_raw_socket(socket, Role::Client, None)
            .now_or_never()
            .expect("it only wraps the socket");
        Client { socket }
    }

    /// Waits until the counts meet a condition.
    pub(crate) async fn wait_until(&self, is_met: impl Fn(Stats) -> bool) {
        let met = async {
            while !is_met(self.server.stats()) {
                tokio::task::yield_now().await;
            }
        };
        let met = timeout(TIMEOUT, met).await;
        assert!(met.is_ok(), "the counts stay {:?}", self.server.stats());
    }

    /// Waits until parts of a list have been made, more than two. Returns how many.
    pub(crate) async fn wait_for_list(&self) -> usize {
        let made = || self.server.list_parts.load(Ordering::SeqCst);
        self.wait_until(|_| made() > 2).await;
        made()
    }

    /// Waits until no connection is left, and checks that nothing of one is.
    pub(crate) async fn wait_until_empty(&self) {
        self.wait_until(|stats| stats == Stats::default()).await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: Arc<BlobServer>) {
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await.expect("loopback");
        socket.set_nodelay(true).expect("it is open");
        connections.spawn(serve_connection(socket, ClientId(7), Arc::clone(&server)));
    }
}

impl Client {
    pub(crate) async fn send(&mut self, message: impl Into<Message>) {
        self.socket.send(message.into()).await.expect("it is open");
    }

    /// The next message, or the close frame.
    pub(crate) async fn receive(&mut self) -> Result<Message, Closed> {
        loop {
            let message = timeout(TIMEOUT, self.socket.next()).await.expect("a message comes");
            match message.expect("a close frame comes first").expect("it is open") {
                Message::Close(frame) => {
                    let frame = frame.expect("a reason");
                    return Err((frame.code.into(), frame.reason.to_string()));
                }
                message @ (Message::Text(_) | Message::Binary(_)) => return Ok(message),
                _ => {}
            }
        }
    }

    /// The next message, which is binary.
    pub(crate) async fn bytes(&mut self) -> Bytes {
        match self.receive().await {
            Ok(Message::Binary(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }

    /// Sends a request and returns the payload of its reply.
    pub(crate) async fn call(&mut self, operation: u8, payload: &[u8]) -> Vec<u8> {
        let request = request(7, operation, payload);
        self.send(Bytes::from(request.clone())).await;
        let reply = self.bytes().await;
        assert_eq!(reply[..HEAD_BYTES], request[..HEAD_BYTES], "the head of the request");
        reply[HEAD_BYTES..].to_vec()
    }

    /// The close frame, after all that was sent before it.
    pub(crate) async fn read_close(&mut self) -> Closed {
        loop {
            if let Err(closed) = self.receive().await {
                return closed;
            }
        }
    }
}

/// The mask of whole frames. No byte of it is zero, so that a payload that is not unmasked differs.
const MASK: [u8; 4] = [0x5a, 0xc3, 0x01, 0xfe];

/// The header of a frame of a client, masked with zeros: the payload is written as it is.
pub(crate) fn header(first: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![first, 0xff];
    bytes.extend_from_slice(&(len as u64).to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

/// A frame of a client, masked.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = header(first, payload.len());
    let mask_at = bytes.len() - MASK.len();
    bytes[mask_at..].copy_from_slice(&MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// Sends bytes, and reads frames up to the close frame. Returns their first bytes, and the close frame.
pub(crate) async fn exchange(socket: &mut TcpStream, bytes: &[u8]) -> (Vec<u8>, Closed) {
    socket.write_all(bytes).await.expect("it is open");
    let mut firsts = Vec::new();
    loop {
        let (first, payload) = read_frame(socket).await;
        if first != 0x88 {
            firsts.push(first);
            continue;
        }
        let code = u16::from_be_bytes([payload[0], payload[1]]);
        return (firsts, (code, String::from_utf8_lossy(&payload[2..]).into_owned()));
    }
}

/// Reads a frame of the server: its first byte and its payload.
pub(crate) async fn read_frame(socket: &mut TcpStream) -> (u8, Vec<u8>) {
    let read = async {
        let first = socket.read_u8().await?;
        let len = match socket.read_u8().await? {
            126 => usize::from(socket.read_u16().await?),
            127 => socket.read_u64().await? as usize,
            len => usize::from(len),
        };
        let mut payload = vec![0; len];
        socket.read_exact(&mut payload).await?;
        Ok::<_, std::io::Error>((first, payload))
    };
    timeout(TIMEOUT, read).await.expect("a frame comes").expect("it is open")
}
