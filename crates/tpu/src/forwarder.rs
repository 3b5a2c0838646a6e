//! The relay: what the ledger took goes on over QUIC to other nodes.
//!
//! Shape: one thread, one socket, one connection to each destination, which is kept and used again. A
//! transaction is one stream; it is delivered when the peer has acknowledged all of it. What was under
//! way when a connection broke is sent again over the next one, until its blockhash has expired.
//! Bounds: `forward_max` transactions for each destination, waiting or under way; the newest beyond that
//! is let go of and counted. A connection that cannot be made is tried again after 0.1 to 5 s.
//! Not here: who leads when. Whoever knows calls [`Forwarder::set_destinations`].

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

use crate::certificate::{TlsError, TlsIdentity, client_config};
use crate::clock;
use crate::driver::DatagramSender;
use crate::socket::{self, Socket, Unsent};

/// The first and the longest time between two tries to connect.
const RECONNECT_BACKOFF: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(5));
/// How long a transaction lives whose blockhash was never known here: that of a nonce, perhaps.
const UNKNOWN_BLOCKHASH_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks for what has expired.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Between two pings, so that the connection is there when it is wanted.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// Silence after which a peer is gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Datagrams read at once, and the longest that blocks.
const ROUND_MAX: usize = 1_024;
/// Streams written between two looks at the socket.
const WRITES_MAX: usize = 1_024;

/// Whether a blockhash may still be named.
pub type BlockhashCheck = Box<dyn Fn(&Hash) -> bool + Send + Sync>;

/// What became of the transactions for one destination.
#[derive(Debug, Default)]
pub struct DestinationStats {
    /// Written to a stream, for the first time or again.
    pub sent: AtomicU64,
    /// Acknowledged whole.
    pub delivered: AtomicU64,
    /// Under way when a connection broke, and waiting again.
    pub requeued: AtomicU64,
    /// Stopped by the peer.
    pub refused: AtomicU64,
    /// Let go of because their blockhash expired.
    pub expired: AtomicU64,
    /// Let go of because too many waited.
    pub queue_full: AtomicU64,
    /// Connections made.
    pub connections: AtomicU64,
    /// Connections, or tries, that broke.
    pub broken: AtomicU64,
}

impl fmt::Display for DestinationStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        write!(f, "{} sent, {} delivered", load(&self.sent), load(&self.delivered))?;
        for (name, count) in [
            ("again", &self.requeued),
            ("refused", &self.refused),
            ("expired", &self.expired),
            ("full", &self.queue_full),
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
pub struct Forwarder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    inbox: Mutex<Inbox>,
    destinations: Mutex<Destinations>,
    waker: UnixStream,
    is_blockhash_valid: BlockhashCheck,
    len_max: usize,
}

#[derive(Default)]
struct Inbox {
    pending: Vec<Arc<PendingTransaction>>,
    /// Where to from now on.
    new_destinations: Option<Destinations>,
    is_ending: bool,
}

/// Destinations, each with its counts.
type Destinations = Vec<(SocketAddr, Arc<DestinationStats>)>;

/// A transaction on its way.
struct PendingTransaction {
    bytes: Bytes,
    blockhash: Hash,
    since: Instant,
    was_known: bool,
}

impl Forwarder {
    /// Starts a relay to `destinations`.
    ///
    /// Errors: no socket or thread, or an identity that TLS does not take.
    pub fn start(
        destinations: &[SocketAddr],
        identity: &TlsIdentity,
        len_max: usize,
        is_valid: BlockhashCheck,
    ) -> Result<Self, ForwarderError> {
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
            destinations: Mutex::default(),
            waker,
            is_blockhash_valid: is_valid,
            len_max,
        });
        let sender = ForwarderThread {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None),
            config,
            socket,
            wakes,
            destinations: Vec::new(),
            shared: Arc::clone(&shared),
            scratch: Vec::new(),
            unsent: Unsent::default(),
            expiry_checked_at: clock::now(),
        };
        let thread = std::thread::Builder::new().name("quic-relay".into()).spawn(move || {
            if let Err(err) = sender.run() {
                tracing::error!(%err, "the relay's socket failed");
            }
        })?;
        let relay = Self { shared, thread: Some(thread) };
        relay.set_destinations(destinations);
        Ok(relay)
    }

    /// Sends to these from now on. Connections to those that stay are kept.
    pub fn set_destinations(&self, destinations: &[SocketAddr]) {
        let aim: Destinations = {
            let mut counts = self.shared.destinations.lock();
            let known = |address: &SocketAddr| counts.iter().find(|(of, _)| of == address).cloned();
            let aim = destinations
                .iter()
                .map(|address| known(address).unwrap_or_else(|| (*address, Arc::default())))
                .collect();
            counts.clone_from(&aim);
            aim
        };
        self.shared.inbox.lock().new_destinations = Some(aim);
        self.shared.wake();
    }

    /// Takes a transaction that the ledger took.
    pub fn forward(&self, bytes: &[u8], blockhash: Hash, now: Instant) {
        // A copy: it may wait long, and must not pin the buffer it was received in.
        let bytes = Bytes::copy_from_slice(bytes);
        let was_known = (self.shared.is_blockhash_valid)(&blockhash);
        let forward = Arc::new(PendingTransaction { bytes, blockhash, since: now, was_known });
        let mut inbox = self.shared.inbox.lock();
        if inbox.pending.len() < self.shared.len_max {
            let is_first = inbox.pending.is_empty();
            inbox.pending.push(forward);
            drop(inbox);
            if is_first {
                self.shared.wake();
            }
            return;
        }
        drop(inbox);
        for (_, counts) in self.shared.destinations.lock().iter() {
            counts.queue_full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What became of everything, by destination.
    pub fn destinations(&self) -> Vec<(SocketAddr, Arc<DestinationStats>)> {
        self.shared.destinations.lock().clone()
    }
}

impl Drop for Forwarder {
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
pub enum ForwarderError {
    /// The system has no more sockets or threads.
    #[error("open the relay's socket")]
    Io(#[from] io::Error),
    /// The identity is not taken.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl From<io::ErrorKind> for ForwarderError {
    fn from(kind: io::ErrorKind) -> Self {
        Self::Io(kind.into())
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .keep_alive_interval(Some(KEEP_ALIVE_INTERVAL))
        .max_idle_timeout(IdleTimeout::try_from(IDLE_TIMEOUT).ok())
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .enable_segmentation_offload(false)
        // Streams leave in the order in which they were begun, each whole.
        .send_fairness(false);
    transport
}

/// The relay's thread.
struct ForwarderThread {
    endpoint: Endpoint,
    config: ClientConfig,
    socket: Socket,
    wakes: UnixStream,
    destinations: Vec<DestinationConnection>,
    shared: Arc<Shared>,
    scratch: Vec<u8>,
    unsent: Unsent,
    expiry_checked_at: Instant,
}

/// One destination.
struct DestinationConnection {
    address: SocketAddr,
    stats: Arc<DestinationStats>,
    waiting: VecDeque<Arc<PendingTransaction>>,
    open: Option<OpenConnection>,
    /// When to try next, and how long to wait after that.
    retry_at: Instant,
    retry_after: Duration,
}

/// Its connection.
struct OpenConnection {
    handle: ConnectionHandle,
    connection: Connection,
    is_connected: bool,
    in_flight: HashMap<StreamId, Arc<PendingTransaction>, RandomState>,
}

impl ForwarderThread {
    fn run(mut self) -> io::Result<()> {
        loop {
            let now = clock::now();
            if self.drain_inbox(now) {
                self.close(now);
                return Ok(());
            }
            let read = self.receive()?;
            let has_more = self.drive(now);
            if now.saturating_duration_since(self.expiry_checked_at) >= EXPIRY_CHECK_INTERVAL {
                self.expiry_checked_at = now;
                self.drop_expired(now);
            }
            if read == 0 && !has_more {
                let timeout = self.timeout(now);
                self.socket.wait(&self.wakes, timeout)?;
                drain(&self.wakes);
            }
        }
    }

    /// Distributes what was offered. True when it is over.
    fn drain_inbox(&mut self, now: Instant) -> bool {
        let (offered, aim) = {
            let mut inbox = self.shared.inbox.lock();
            if inbox.is_ending {
                return true;
            }
            (std::mem::take(&mut inbox.pending), inbox.new_destinations.take())
        };
        if let Some(aim) = aim {
            self.set_destinations(aim, now);
        }
        for forward in offered {
            for link in &mut self.destinations {
                let under_way = link.open.as_ref().map_or(0, |open| open.in_flight.len());
                if link.waiting.len() + under_way >= self.shared.len_max {
                    link.stats.queue_full.fetch_add(1, Ordering::Relaxed);
                } else {
                    link.waiting.push_back(Arc::clone(&forward));
                }
            }
        }
        false
    }

    fn set_destinations(&mut self, aim: Destinations, now: Instant) {
        let (kept, gone): (Vec<_>, Vec<_>) = self
            .destinations
            .drain(..)
            .partition(|link| aim.iter().any(|(address, _)| *address == link.address));
        self.destinations = kept;
        for mut link in gone {
            link.close(&mut self.endpoint, &self.socket, &mut self.unsent, now);
        }
        for (address, counts) in aim {
            if !self.destinations.iter().any(|link| link.address == address) {
                self.destinations.push(DestinationConnection {
                    address,
                    stats: counts,
                    waiting: VecDeque::new(),
                    open: None,
                    retry_at: now,
                    retry_after: RECONNECT_BACKOFF.0,
                });
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let Self { socket, endpoint, destinations: links, unsent, scratch, .. } = self;
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
        for link in &mut self.destinations {
            if link.open.is_none() && !link.waiting.is_empty() && link.retry_at <= now {
                link.connect(&mut self.endpoint, &self.config, now);
            }
            let (socket, unsent) = (&self.socket, &mut self.unsent);
            has_more |= link.drive(&mut self.endpoint, now, socket, unsent, &mut self.scratch);
        }
        has_more
    }

    fn drop_expired(&mut self, now: Instant) {
        let is_valid = &self.shared.is_blockhash_valid;
        let has_expired = |forward: &PendingTransaction| match forward.was_known {
            true => !is_valid(&forward.blockhash),
            false => now.saturating_duration_since(forward.since) >= UNKNOWN_BLOCKHASH_TIMEOUT,
        };
        for link in &mut self.destinations {
            let before = link.waiting.len();
            link.waiting.retain(|forward| !has_expired(forward));
            let expired = (before - link.waiting.len()) as u64;
            link.stats.expired.fetch_add(expired, Ordering::Relaxed);
        }
    }

    fn timeout(&mut self, now: Instant) -> Duration {
        let timers = self.destinations.iter_mut().filter_map(|link| match &mut link.open {
            Some(open) => open.connection.poll_timeout(),
            None => (!link.waiting.is_empty()).then_some(link.retry_at),
        });
        let next =
            timers.min().map_or(EXPIRY_CHECK_INTERVAL, |next| next.saturating_duration_since(now));
        next.min(EXPIRY_CHECK_INTERVAL)
    }

    fn close(&mut self, now: Instant) {
        for link in &mut self.destinations {
            link.close(&mut self.endpoint, &self.socket, &mut self.unsent, now);
        }
    }
}

impl DestinationConnection {
    fn connect(&mut self, endpoint: &mut Endpoint, config: &ClientConfig, now: Instant) {
        self.retry_at = now + self.retry_after;
        self.retry_after = (self.retry_after * 2).min(RECONNECT_BACKOFF.1);
        // The name is not looked at: identities are keys.
        match endpoint.connect(now, config.clone(), self.address, "hydrant") {
            Ok((handle, connection)) => {
                let under_way = HashMap::default();
                self.open = Some(OpenConnection {
                    handle,
                    connection,
                    is_connected: false,
                    in_flight: under_way,
                });
            }
            Err(err) => {
                self.stats.broken.fetch_add(1, Ordering::Relaxed);
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
                    self.retry_after = RECONNECT_BACKOFF.0;
                    self.stats.connections.fetch_add(1, Ordering::Relaxed);
                }
                Event::ConnectionLost { reason } => {
                    tracing::debug!(address = %self.address, %reason, "a relay's connection broke");
                    is_lost = true;
                }
                Event::Stream(StreamEvent::Finished { id }) => {
                    let delivered = open.in_flight.remove(&id).is_some();
                    self.stats.delivered.fetch_add(delivered.into(), Ordering::Relaxed);
                }
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    if open.in_flight.remove(&id).is_some() {
                        self.stats.refused.fetch_add(1, Ordering::Relaxed);
                    }
                    // It may have been acknowledged meanwhile; then there is nothing to reset.
                    let _ = open.connection.send_stream(id).reset(VarInt::from_u32(0));
                }
                _ => {}
            }
        }
        let has_more = open.is_connected && !is_lost && open.write(&mut self.waiting, &self.stats);
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
            self.on_connection_lost(endpoint, now);
        }
        has_more
    }

    /// What was under way waits again, in front of what waits.
    fn on_connection_lost(&mut self, endpoint: &mut Endpoint, now: Instant) {
        let Some(mut open) = self.open.take() else { return };
        self.stats.broken.fetch_add(1, Ordering::Relaxed);
        let mut under_way: Vec<_> = open.in_flight.drain().collect();
        under_way.sort_by_key(|(id, _)| id.index());
        self.stats.requeued.fetch_add(under_way.len() as u64, Ordering::Relaxed);
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

impl OpenConnection {
    /// Writes what waits, as far as the peer lets us; whether there is more that it would let us.
    fn write(
        &mut self,
        waiting: &mut VecDeque<Arc<PendingTransaction>>,
        counts: &DestinationStats,
    ) -> bool {
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
                self.in_flight.insert(id, forward);
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
