//! The relay: what the ledger took goes on over QUIC to other nodes.
//!
//! Shape: one thread, one socket, one connection to each destination, which is kept and used again. A
//! transaction is one stream; it is delivered when the peer has acknowledged all of it. What was under
//! way when a connection broke is sent again over the next one, until its blockhash has expired.
//! Bounds: `forward_max` transactions for each destination, waiting or under way; the newest beyond that
//! is let go of and counted. A connection that cannot be made is tried again after 0.1 to 5 s.
//! Not here: who leads when. Whoever knows calls [`Relay::aim`].

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, IdleTimeout, StreamEvent, StreamId, TransportConfig, VarInt,
};
use solana_hash::Hash;

use crate::certificate::{Identity, TlsError, client_config};
use crate::clock;
use crate::driver::Outgoing;
use crate::socket::{self, Socket, Unsent};

/// The first and the longest time between two tries to connect.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long a transaction lives whose blockhash was never known here: that of a nonce, perhaps.
const UNKNOWN_LIVES: Duration = Duration::from_secs(60);
/// Between two looks for what has expired.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Between two pings, so that the connection is there when it is wanted.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Silence after which a peer is gone.
const IDLE: Duration = Duration::from_secs(10);
/// Datagrams read at once, and the longest that blocks.
const ROUND_MAX: usize = 1_024;
/// Streams written between two looks at the socket.
const WRITES_MAX: usize = 1_024;

/// Whether a blockhash may still be named.
pub type IsValid = Box<dyn Fn(&Hash) -> bool + Send + Sync>;

/// What became of the transactions for one destination.
#[derive(Debug, Default)]
pub struct Destination {
    /// Written to a stream, for the first time or again.
    pub sent: AtomicU64,
    /// Acknowledged whole.
    pub delivered: AtomicU64,
    /// Under way when a connection broke, and waiting again.
    pub again: AtomicU64,
    /// Stopped by the peer.
    pub refused: AtomicU64,
    /// Let go of because their blockhash expired.
    pub expired: AtomicU64,
    /// Let go of because too many waited.
    pub full: AtomicU64,
    /// Connections made.
    pub connections: AtomicU64,
    /// Connections, or tries, that broke.
    pub broken: AtomicU64,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        write!(f, "{} sent, {} delivered", load(&self.sent), load(&self.delivered))?;
        for (name, count) in [
            ("again", &self.again),
            ("refused", &self.refused),
            ("expired", &self.expired),
            ("full", &self.full),
            ("broken connections", &self.broken),
        ] {
            let count = load(count);
            if count > 0 {
                write!(f, ", {count} {name}")?;
            }
        }
        Ok(())
    }
}

/// A running relay. Dropped, it ends; what was not delivered is not.
pub struct Relay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    inbox: Mutex<Inbox>,
    counts: Mutex<Aim>,
    waker: UnixStream,
    is_valid: IsValid,
    len_max: usize,
}

#[derive(Default)]
struct Inbox {
    offered: Vec<Arc<Forward>>,
    /// Where to from now on.
    aim: Option<Aim>,
    is_ending: bool,
}

/// Destinations, each with its counts.
type Aim = Vec<(SocketAddr, Arc<Destination>)>;

/// A transaction on its way.
struct Forward {
    bytes: Bytes,
    blockhash: Hash,
    since: Instant,
    was_known: bool,
}

impl Relay {
    /// Starts a relay to `destinations`.
    ///
    /// Errors: no socket or thread, or an identity that TLS does not take.
    pub fn start(
        destinations: &[SocketAddr],
        identity: &Identity,
        len_max: usize,
        is_valid: IsValid,
    ) -> Result<Self, RelayError> {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let socket = socket::bind(any, 1, 1 << 20)?.pop().ok_or(io::ErrorKind::NotFound)?;
        let socket = Socket::new(socket, false)?;
        let (waker, wakes) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        wakes.set_nonblocking(true)?;
        let mut config = ClientConfig::new(Arc::new(client_config(identity)?));
        config.transport_config(Arc::new(transport()));
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            counts: Mutex::default(),
            waker,
            is_valid,
            len_max,
        });
        let sender = Sender {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None),
            config,
            socket,
            wakes,
            links: Vec::new(),
            shared: Arc::clone(&shared),
            scratch: Vec::new(),
            unsent: Unsent::default(),
            looked: clock::now(),
        };
        let thread = std::thread::Builder::new().name("quic-relay".into()).spawn(move || {
            if let Err(err) = sender.run() {
                tracing::error!(%err, "the relay's socket failed");
            }
        })?;
        let relay = Self { shared, thread: Some(thread) };
        relay.aim(destinations);
        Ok(relay)
    }

    /// Sends to these from now on. Connections to those that stay are kept.
    pub fn aim(&self, destinations: &[SocketAddr]) {
        let aim: Aim = {
            let mut counts = self.shared.counts.lock();
            let known = |address: &SocketAddr| counts.iter().find(|(of, _)| of == address).cloned();
            let aim = destinations
                .iter()
                .map(|address| known(address).unwrap_or_else(|| (*address, Arc::default())))
                .collect();
            counts.clone_from(&aim);
            aim
        };
        self.shared.inbox.lock().aim = Some(aim);
        self.shared.wake();
    }

    /// Takes a transaction that the ledger took.
    pub fn offer(&self, bytes: &[u8], blockhash: Hash, now: Instant) {
        // A copy: it may wait long, and must not pin the buffer it was received in.
        let bytes = Bytes::copy_from_slice(bytes);
        let was_known = (self.shared.is_valid)(&blockhash);
        let forward = Arc::new(Forward { bytes, blockhash, since: now, was_known });
        let mut inbox = self.shared.inbox.lock();
        if inbox.offered.len() < self.shared.len_max {
            let is_first = inbox.offered.is_empty();
            inbox.offered.push(forward);
            drop(inbox);
            if is_first {
                self.shared.wake();
            }
            return;
        }
        drop(inbox);
        for (_, counts) in self.shared.counts.lock().iter() {
            counts.full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What became of everything, by destination.
    pub fn destinations(&self) -> Vec<(SocketAddr, Arc<Destination>)> {
        self.shared.counts.lock().clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.inbox.lock().is_ending = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of it has been told by its hook already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn wake(&self) {
        // Full of wakes, it wakes as well.
        let _ = (&self.waker).write(&[1]);
    }
}

/// Why there is no relay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The system has no more sockets or threads.
    #[error("open the relay's socket")]
    Io(#[from] io::Error),
    /// The identity is not taken.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl From<io::ErrorKind> for RelayError {
    fn from(kind: io::ErrorKind) -> Self {
        Self::Io(kind.into())
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .enable_segmentation_offload(false)
        // Streams leave in the order in which they were begun, each whole.
        .send_fairness(false);
    transport
}

/// The relay's thread.
struct Sender {
    endpoint: Endpoint,
    config: ClientConfig,
    socket: Socket,
    wakes: UnixStream,
    links: Vec<Link>,
    shared: Arc<Shared>,
    scratch: Vec<u8>,
    unsent: Unsent,
    looked: Instant,
}

/// One destination.
struct Link {
    address: SocketAddr,
    counts: Arc<Destination>,
    waiting: VecDeque<Arc<Forward>>,
    open: Option<Open>,
    /// When to try next, and how long to wait after that.
    retry_at: Instant,
    retry_after: Duration,
}

/// Its connection.
struct Open {
    handle: ConnectionHandle,
    connection: Connection,
    is_connected: bool,
    under_way: HashMap<StreamId, Arc<Forward>, RandomState>,
}

impl Sender {
    fn run(mut self) -> io::Result<()> {
        loop {
            let now = clock::now();
            if self.take_inbox(now) {
                self.close(now);
                return Ok(());
            }
            let read = self.receive()?;
            let has_more = self.drive(now);
            if now.saturating_duration_since(self.looked) >= LOOK_EVERY {
                self.looked = now;
                self.expire(now);
            }
            if read == 0 && !has_more {
                let timeout = self.timeout(now);
                self.socket.wait(&self.wakes, timeout)?;
                drain(&self.wakes);
            }
        }
    }

    /// Distributes what was offered. True when it is over.
    fn take_inbox(&mut self, now: Instant) -> bool {
        let (offered, aim) = {
            let mut inbox = self.shared.inbox.lock();
            if inbox.is_ending {
                return true;
            }
            (std::mem::take(&mut inbox.offered), inbox.aim.take())
        };
        if let Some(aim) = aim {
            self.aim(aim, now);
        }
        for forward in offered {
            for link in &mut self.links {
                let under_way = link.open.as_ref().map_or(0, |open| open.under_way.len());
                if link.waiting.len() + under_way >= self.shared.len_max {
                    link.counts.full.fetch_add(1, Ordering::Relaxed);
                } else {
                    link.waiting.push_back(Arc::clone(&forward));
                }
            }
        }
        false
    }

    fn aim(&mut self, aim: Aim, now: Instant) {
        let (kept, gone): (Vec<_>, Vec<_>) = self
            .links
            .drain(..)
            .partition(|link| aim.iter().any(|(address, _)| *address == link.address));
        self.links = kept;
        for mut link in gone {
            link.close(&mut self.endpoint, &self.socket, &mut self.unsent, now);
        }
        for (address, counts) in aim {
            if !self.links.iter().any(|link| link.address == address) {
                self.links.push(Link {
                    address,
                    counts,
                    waiting: VecDeque::new(),
                    open: None,
                    retry_at: now,
                    retry_after: RETRY.0,
                });
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let Self { socket, endpoint, links, unsent, scratch, .. } = self;
        let mut count = 0;
        while count < ROUND_MAX {
            let read = socket.receive(unsent, |remote, local_ip, ecn, datagram, out| {
                scratch.clear();
                let bytes = BytesMut::from(datagram);
                match endpoint.handle(clock::now(), remote, local_ip, ecn, bytes, scratch) {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        let mut open = links.iter_mut().filter_map(|link| link.open.as_mut());
                        if let Some(open) = open.find(|open| open.handle == handle) {
                            open.connection.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::Response(transmit)) => {
                        out.send(&transmit, &scratch[..transmit.size]);
                    }
                    // There is no server here.
                    Some(DatagramEvent::NewConnection(_)) | None => {}
                }
            })?;
            if read == 0 {
                break;
            }
            count += read;
        }
        Ok(count)
    }

    /// Lets every link do what it can; whether one has more to write than it wrote.
    fn drive(&mut self, now: Instant) -> bool {
        let mut has_more = false;
        for link in &mut self.links {
            if link.open.is_none() && !link.waiting.is_empty() && link.retry_at <= now {
                link.connect(&mut self.endpoint, &self.config, now);
            }
            let (socket, unsent) = (&self.socket, &mut self.unsent);
            has_more |= link.drive(&mut self.endpoint, now, socket, unsent, &mut self.scratch);
        }
        has_more
    }

    fn expire(&mut self, now: Instant) {
        let is_valid = &self.shared.is_valid;
        let has_expired = |forward: &Forward| match forward.was_known {
            true => !is_valid(&forward.blockhash),
            false => now.saturating_duration_since(forward.since) >= UNKNOWN_LIVES,
        };
        for link in &mut self.links {
            let before = link.waiting.len();
            link.waiting.retain(|forward| !has_expired(forward));
            let expired = (before - link.waiting.len()) as u64;
            link.counts.expired.fetch_add(expired, Ordering::Relaxed);
        }
    }

    fn timeout(&mut self, now: Instant) -> Duration {
        let timers = self.links.iter_mut().filter_map(|link| match &mut link.open {
            Some(open) => open.connection.poll_timeout(),
            None => (!link.waiting.is_empty()).then_some(link.retry_at),
        });
        let next = timers.min().map_or(LOOK_EVERY, |next| next.saturating_duration_since(now));
        next.min(LOOK_EVERY)
    }

    fn close(&mut self, now: Instant) {
        for link in &mut self.links {
            link.close(&mut self.endpoint, &self.socket, &mut self.unsent, now);
        }
    }
}

impl Link {
    fn connect(&mut self, endpoint: &mut Endpoint, config: &ClientConfig, now: Instant) {
        self.retry_at = now + self.retry_after;
        self.retry_after = (self.retry_after * 2).min(RETRY.1);
        // The name is not looked at: identities are keys.
        match endpoint.connect(now, config.clone(), self.address, "hydrant") {
            Ok((handle, connection)) => {
                let under_way = HashMap::default();
                self.open = Some(Open { handle, connection, is_connected: false, under_way });
            }
            Err(err) => {
                self.counts.broken.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(address = %self.address, %err, "no connection to forward over");
            }
        }
    }

    /// Does all that can be done now; whether there is more to write.
    fn drive(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        socket: &Socket,
        unsent: &mut Unsent,
        scratch: &mut Vec<u8>,
    ) -> bool {
        let Some(open) = &mut self.open else { return false };
        if open.connection.poll_timeout().is_some_and(|timeout| timeout <= now) {
            open.connection.handle_timeout(now);
        }
        let mut is_lost = false;
        while let Some(event) = open.connection.poll() {
            match event {
                Event::Connected => {
                    open.is_connected = true;
                    self.retry_after = RETRY.0;
                    self.counts.connections.fetch_add(1, Ordering::Relaxed);
                }
                Event::ConnectionLost { reason } => {
                    tracing::debug!(address = %self.address, %reason, "a relay's connection broke");
                    is_lost = true;
                }
                Event::Stream(StreamEvent::Finished { id }) => {
                    let delivered = open.under_way.remove(&id).is_some();
                    self.counts.delivered.fetch_add(delivered.into(), Ordering::Relaxed);
                }
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    if open.under_way.remove(&id).is_some() {
                        self.counts.refused.fetch_add(1, Ordering::Relaxed);
                    }
                    // It may have been acknowledged meanwhile; then there is nothing to reset.
                    let _ = open.connection.send_stream(id).reset(VarInt::from_u32(0));
                }
                _ => {}
            }
        }
        let has_more = open.is_connected && !is_lost && open.write(&mut self.waiting, &self.counts);
        while let Some(event) = open.connection.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(open.handle, event) {
                open.connection.handle_event(event);
            }
        }
        scratch.clear();
        while let Some(transmit) = open.connection.poll_transmit(now, 1, scratch) {
            socket.sender(unsent).send(&transmit, &scratch[..transmit.size]);
            scratch.clear();
        }
        if is_lost {
            self.lose(endpoint, now);
        }
        has_more
    }

    /// What was under way waits again, in front of what waits.
    fn lose(&mut self, endpoint: &mut Endpoint, now: Instant) {
        let Some(mut open) = self.open.take() else { return };
        self.counts.broken.fetch_add(1, Ordering::Relaxed);
        let mut under_way: Vec<_> = open.under_way.drain().collect();
        under_way.sort_by_key(|(id, _)| id.index());
        self.counts.again.fetch_add(under_way.len() as u64, Ordering::Relaxed);
        for (_, forward) in under_way.into_iter().rev() {
            self.waiting.push_front(forward);
        }
        self.retry_at = self.retry_at.max(now);
        if !open.connection.is_drained() {
            endpoint.handle_event(open.handle, quinn_proto::EndpointEvent::drained());
        }
    }

    fn close(
        &mut self,
        endpoint: &mut Endpoint,
        socket: &Socket,
        unsent: &mut Unsent,
        now: Instant,
    ) {
        let Some(mut open) = self.open.take() else { return };
        open.connection.close(now, VarInt::from_u32(0), Bytes::new());
        let mut scratch = Vec::new();
        while let Some(transmit) = open.connection.poll_transmit(now, 1, &mut scratch) {
            socket.sender(unsent).send(&transmit, &scratch[..transmit.size]);
            scratch.clear();
        }
        endpoint.handle_event(open.handle, quinn_proto::EndpointEvent::drained());
    }
}

impl Open {
    /// Writes what waits, as far as the peer lets us; whether there is more that it would let us.
    fn write(&mut self, waiting: &mut VecDeque<Arc<Forward>>, counts: &Destination) -> bool {
        for _ in 0..WRITES_MAX {
            let Some(forward) = waiting.front() else { return false };
            let Some(id) = self.connection.streams().open(Dir::Uni) else { return false };
            let mut stream = self.connection.send_stream(id);
            match stream.write(&forward.bytes) {
                // Half a transaction is none: the stream is given up, and the whole goes out later.
                Ok(written) if written == forward.bytes.len() => {
                    // It was opened just now: nobody can have stopped it.
                    let _ = stream.finish();
                }
                _ => {
                    let _ = stream.reset(VarInt::from_u32(0));
                    return false;
                }
            }
            counts.sent.fetch_add(1, Ordering::Relaxed);
            if let Some(forward) = waiting.pop_front() {
                self.under_way.insert(id, forward);
            }
        }
        !waiting.is_empty()
    }
}

fn drain(mut wakes: &UnixStream) {
    use std::io::Read;
    // Nothing to read is the usual case.
    let _ = wakes.read(&mut [0; 64]);
}
