//! The forwarder: it sends transactions that the ledger accepted to other nodes over QUIC.
//!
//! Shape: one thread, one socket, and one reused connection to each destination. A transaction is
//! one stream. It is delivered when the peer has acknowledged all of it. Transactions in flight
//! when a connection breaks are sent again over the next one, until their blockhash expires.
//! Bounds: `forward_max` transactions for each destination, waiting or in flight. The newest beyond
//! that are dropped and counted. A failed connection is retried after 0.1 to 5 s.
//! Not here: the leader schedule. The caller sets the leaders with [`Forwarder::set_destinations`].

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

/// The first and the longest delay between two attempts to connect.
const RECONNECT_BACKOFF: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(5));
/// Time for which a transaction is retried if this node never knew its blockhash. It may be a durable
/// nonce.
const UNKNOWN_BLOCKHASH_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between the checks for expired transactions.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of pings, so that the connection is open when it is needed.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// A connection without packets for this long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum datagrams that are read at once.
const ROUND_MAX: usize = 1_024;
/// Streams written before the socket is read again.
const WRITES_MAX: usize = 1_024;

/// Whether a blockhash is still valid.
pub type BlockhashCheck = Box<dyn Fn(&Hash) -> bool + Send + Sync>;

/// Counts of the transactions for one destination.
#[derive(Debug, Default)]
pub struct DestinationStats {
    /// Transactions written to a stream, for the first time or again.
    pub sent: AtomicU64,
    /// Transactions that were acknowledged completely.
    pub delivered: AtomicU64,
    /// Transactions in flight when a connection broke, which wait again.
    pub requeued: AtomicU64,
    /// Transactions that the peer stopped.
    pub refused: AtomicU64,
    /// Transactions that were dropped because their blockhash expired.
    pub expired: AtomicU64,
    /// Transactions that were dropped because too many were waiting.
    pub queue_full: AtomicU64,
    /// Connections that were established.
    pub connections: AtomicU64,
    /// Connections, or attempts to connect, that failed.
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

/// A running forwarder. Dropping it stops it and discards the transactions that are not delivered.
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
    /// Bytes of all transactions that are not delivered yet, each counted once.
    waiting_bytes: Arc<AtomicU64>,
}

#[derive(Default)]
struct Inbox {
    pending: Vec<Arc<PendingTransaction>>,
    /// New destinations, if they changed.
    new_destinations: Option<Destinations>,
    is_ending: bool,
}

/// Destinations, each with its counts.
type Destinations = Vec<(SocketAddr, Arc<DestinationStats>)>;

/// A transaction that is not delivered yet.
struct PendingTransaction {
    bytes: Bytes,
    blockhash: Hash,
    since: Instant,
    was_known: bool,
    _count: WaitingBytes,
}

/// Bytes that are counted until this is dropped.
struct WaitingBytes {
    total: Arc<AtomicU64>,
    bytes: u64,
}

impl WaitingBytes {
    fn new(total: &Arc<AtomicU64>, bytes: usize) -> Self {
        let bytes = bytes as u64;
        total.fetch_add(bytes, Ordering::Relaxed);
        Self { total: Arc::clone(total), bytes }
    }
}

impl Drop for WaitingBytes {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Forwarder {
    /// Starts a forwarder to `destinations`.
    ///
    /// Fails without a free socket or thread, or if TLS refuses the identity.
    pub fn start(
        destinations: &[SocketAddr],
        identity: &TlsIdentity,
        len_max: usize,
        is_blockhash_valid: BlockhashCheck,
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
            is_blockhash_valid,
            len_max,
            waiting_bytes: Arc::default(),
        });
        let worker = ForwarderThread {
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
            if let Err(err) = worker.run() {
                tracing::error!(%err, "the forwarder's socket failed");
            }
        })?;
        let forwarder = Self { shared, thread: Some(thread) };
        forwarder.set_destinations(destinations);
        Ok(forwarder)
    }

    /// Replaces the destinations. Connections to those that remain stay open.
    pub fn set_destinations(&self, destinations: &[SocketAddr]) {
        let new_destinations: Destinations = {
            let mut current = self.shared.destinations.lock();
            let stats_of =
                |address: &SocketAddr| current.iter().find(|(known, _)| known == address).cloned();
            let new_destinations = destinations
                .iter()
                .map(|address| stats_of(address).unwrap_or_else(|| (*address, Arc::default())))
                .collect();
            current.clone_from(&new_destinations);
            new_destinations
        };
        self.shared.inbox.lock().new_destinations = Some(new_destinations);
        self.shared.wake();
    }

    /// Forwards a transaction that the ledger accepted.
    pub fn forward(&self, bytes: &[u8], blockhash: Hash, now: Instant) {
        // A copy: it may wait long, and must not pin the buffer it was received in.
        let bytes = Bytes::copy_from_slice(bytes);
        let was_known = (self.shared.is_blockhash_valid)(&blockhash);
        let _count = WaitingBytes::new(&self.shared.waiting_bytes, bytes.len());
        let pending = PendingTransaction { bytes, blockhash, since: now, was_known, _count };
        let pending = Arc::new(pending);
        let mut inbox = self.shared.inbox.lock();
        if inbox.pending.len() < self.shared.len_max {
            let is_first = inbox.pending.is_empty();
            inbox.pending.push(pending);
            drop(inbox);
            if is_first {
                self.shared.wake();
            }
            return;
        }
        drop(inbox);
        for (_, stats) in self.shared.destinations.lock().iter() {
            stats.queue_full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the bytes of the transactions that are not delivered yet. One that waits for several destinations
    /// counts once.
    pub fn waiting_bytes(&self) -> u64 {
        self.shared.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Returns the counts of each destination.
    pub fn destinations(&self) -> Vec<(SocketAddr, Arc<DestinationStats>)> {
        self.shared.destinations.lock().clone()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.shared.inbox.lock().is_ending = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // The panic hook has logged a panic already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn wake(&self) {
        // A full pipe wakes the thread, too.
        let _ = (&self.waker).write(&[1]);
    }
}

/// Why the forwarder could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwarderError {
    /// The system has no more sockets or threads.
    #[error("open the forwarder's socket")]
    Io(#[from] io::Error),
    /// TLS refuses the identity of the node.
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
        // Streams are sent in the order in which they were opened, each completely.
        .send_fairness(false);
    transport
}

/// State of the forwarder's thread.
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

/// A destination with its transactions.
struct DestinationConnection {
    address: SocketAddr,
    stats: Arc<DestinationStats>,
    waiting: VecDeque<Arc<PendingTransaction>>,
    open: Option<OpenConnection>,
    /// Time of the next attempt to connect, and the delay after that.
    retry_at: Instant,
    retry_after: Duration,
}

/// An open connection to a destination.
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

    /// Distributes new transactions to the destinations. Returns `true` if the forwarder is stopping.
    fn drain_inbox(&mut self, now: Instant) -> bool {
        let (received, new_destinations) = {
            let mut inbox = self.shared.inbox.lock();
            if inbox.is_ending {
                return true;
            }
            (std::mem::take(&mut inbox.pending), inbox.new_destinations.take())
        };
        if let Some(new_destinations) = new_destinations {
            self.set_destinations(new_destinations, now);
        }
        for pending in received {
            for destination in &mut self.destinations {
                let in_flight = destination.open.as_ref().map_or(0, |open| open.in_flight.len());
                if destination.waiting.len() + in_flight >= self.shared.len_max {
                    destination.stats.queue_full.fetch_add(1, Ordering::Relaxed);
                } else {
                    destination.waiting.push_back(Arc::clone(&pending));
                }
            }
        }
        false
    }

    fn set_destinations(&mut self, new_destinations: Destinations, now: Instant) {
        let (remaining, removed): (Vec<_>, Vec<_>) =
            self.destinations.drain(..).partition(|destination| {
                new_destinations.iter().any(|(address, _)| *address == destination.address)
            });
        self.destinations = remaining;
        for mut destination in removed {
            destination.close(&mut self.endpoint, &self.socket, &mut self.unsent, now);
        }
        for (address, stats) in new_destinations {
            if !self.destinations.iter().any(|destination| destination.address == address) {
                self.destinations.push(DestinationConnection {
                    address,
                    stats,
                    waiting: VecDeque::new(),
                    open: None,
                    retry_at: now,
                    retry_after: RECONNECT_BACKOFF.0,
                });
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let Self { socket, endpoint, destinations, unsent, scratch, .. } = self;
        let mut count = 0;
        while count < ROUND_MAX {
            let read = socket.receive(unsent, |remote, local_ip, ecn, datagram, out| {
                scratch.clear();
                let bytes = BytesMut::from(datagram);
                match endpoint.handle(clock::now(), remote, local_ip, ecn, bytes, scratch) {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        let mut open = destinations
                            .iter_mut()
                            .filter_map(|destination| destination.open.as_mut());
                        if let Some(open) = open.find(|open| open.handle == handle) {
                            open.connection.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::Response(transmit)) => {
                        out.send(&transmit, &scratch[..transmit.size]);
                    }
                    // This endpoint accepts no connections.
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

    /// Drives every destination. Returns whether one has more to write.
    fn drive(&mut self, now: Instant) -> bool {
        let mut has_more = false;
        for destination in &mut self.destinations {
            if destination.open.is_none()
                && !destination.waiting.is_empty()
                && destination.retry_at <= now
            {
                destination.connect(&mut self.endpoint, &self.config, now);
            }
            let socket = &self.socket;
            let unsent = &mut self.unsent;
            has_more |=
                destination.drive(&mut self.endpoint, now, socket, unsent, &mut self.scratch);
        }
        has_more
    }

    fn drop_expired(&mut self, now: Instant) {
        let is_blockhash_valid = &self.shared.is_blockhash_valid;
        let has_expired = |pending: &PendingTransaction| match pending.was_known {
            true => !is_blockhash_valid(&pending.blockhash),
            false => now.saturating_duration_since(pending.since) >= UNKNOWN_BLOCKHASH_TIMEOUT,
        };
        for destination in &mut self.destinations {
            let before = destination.waiting.len();
            destination.waiting.retain(|pending| !has_expired(pending));
            let expired = (before - destination.waiting.len()) as u64;
            destination.stats.expired.fetch_add(expired, Ordering::Relaxed);
        }
    }

    fn timeout(&mut self, now: Instant) -> Duration {
        let timers =
            self.destinations.iter_mut().filter_map(|destination| match &mut destination.open {
                Some(open) => open.connection.poll_timeout(),
                None => (!destination.waiting.is_empty()).then_some(destination.retry_at),
            });
        let next =
            timers.min().map_or(EXPIRY_CHECK_INTERVAL, |next| next.saturating_duration_since(now));
        next.min(EXPIRY_CHECK_INTERVAL)
    }

    fn close(&mut self, now: Instant) {
        for destination in &mut self.destinations {
            destination.close(&mut self.endpoint, &self.socket, &mut self.unsent, now);
        }
    }
}

impl DestinationConnection {
    fn connect(&mut self, endpoint: &mut Endpoint, config: &ClientConfig, now: Instant) {
        self.retry_at = now + self.retry_after;
        self.retry_after = (self.retry_after * 2).min(RECONNECT_BACKOFF.1);
        // The name is not checked: identities are keys.
        match endpoint.connect(now, config.clone(), self.address, "hydrant") {
            Ok((handle, connection)) => {
                let in_flight = HashMap::default();
                self.open =
                    Some(OpenConnection { handle, connection, is_connected: false, in_flight });
            }
            Err(err) => {
                self.stats.broken.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(address = %self.address, %err, "no connection to forward over");
            }
        }
    }

    /// Processes events and writes transactions. Returns whether there is more to write.
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
                    tracing::debug!(address = %self.address, %reason, "a forwarder's connection broke");
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

    /// Moves transactions in flight back to the front of the waiting ones.
    fn on_connection_lost(&mut self, endpoint: &mut Endpoint, now: Instant) {
        let Some(mut open) = self.open.take() else { return };
        self.stats.broken.fetch_add(1, Ordering::Relaxed);
        let mut in_flight: Vec<_> = open.in_flight.drain().collect();
        in_flight.sort_by_key(|(id, _)| id.index());
        self.stats.requeued.fetch_add(in_flight.len() as u64, Ordering::Relaxed);
        for (_, pending) in in_flight.into_iter().rev() {
            self.waiting.push_front(pending);
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
    /// Writes waiting transactions as far as the peer's window allows. Returns whether more could
    /// be written.
    fn write(
        &mut self,
        waiting: &mut VecDeque<Arc<PendingTransaction>>,
        stats: &DestinationStats,
    ) -> bool {
        for _ in 0..WRITES_MAX {
            let Some(pending) = waiting.front() else { return false };
            let Some(id) = self.connection.streams().open(Dir::Uni) else { return false };
            let mut stream = self.connection.send_stream(id);
            match stream.write(&pending.bytes) {
                // A part of a transaction is useless: reset the stream and send all of it later.
                Ok(written) if written == pending.bytes.len() => {
                    // The peer cannot have stopped a stream that was just opened.
                    let _ = stream.finish();
                }
                _ => {
                    let _ = stream.reset(VarInt::from_u32(0));
                    return false;
                }
            }
            stats.sent.fetch_add(1, Ordering::Relaxed);
            if let Some(pending) = waiting.pop_front() {
                self.in_flight.insert(id, pending);
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
