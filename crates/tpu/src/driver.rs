//! The driver of one endpoint: datagrams and the time in, transactions and datagrams out. No I/O, no
//! clock: the same code runs behind a socket and in a simulation.
//!
//! Shape: a round is any number of [`Driver::handle_datagram`], then one [`Driver::drive`], which turns every
//! connection that something happened to once: its timers, its streams, what it has to say. The larger
//! the round, the fewer packets are sent back and the fewer allocations they cost.
//! Between rounds nothing happens before [`Driver::next_timeout`]; [`Driver::sweep`] is for what needs no
//! precise time: stalled streams, idle connections, windows, buffers that are not needed any more.
//! Invariant: nothing unread is left with `quinn-proto` on purpose. Backpressure is the number of streams
//! that may be open (`window`), for unread bytes pin the buffers they came in.
//! Not here: sockets (`shard`), who may connect (`gate`).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quinn_proto::{
    ConnectionError, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig,
    EndpointEvent, Event, IdleTimeout, Incoming, MtuDiscoveryConfig, ServerConfig, StreamEvent,
    Transmit, TransportConfig, VarInt,
};
use rustls::pki_types::CertificateDer;

use crate::buffer_pool::BufferPool;
use crate::certificate::{TlsError, TlsIdentity, pubkey_of};
use crate::config::Config;
use crate::connection::{CloseCode, Connection, ConnectionState};
use crate::connection_admission::{ConnectionAdmission, IncomingDecision};
use crate::connection_id::ShardConnectionIds;
use crate::counters::{Counters, DropReason};
use crate::reassembly::Reassembler;
use crate::stream_window;
use crate::timers::Timers;
use crate::transaction::{ReceivedTransaction, TransactionSink};

/// Bytes of a receive buffer: more than any datagram that we agree to (1,472).
const BUFFER_BYTES: usize = 2_048;
/// Bytes that may be in flight on one stream. Well above a transaction: if it were just that, every
/// transaction cut by a datagram's border would cost a frame that gives more, which nobody needs.
const STREAM_WINDOW_BYTES: u32 = 16_384;
/// Transactions handed on at once: a thread behind is woken for them, and that is not free.
const BATCH: usize = 256;
/// Datagrams for each connection from which on streams are read before the round has ended.
const DATAGRAMS_PER_CONNECTION_MIN: usize = 4;
/// Between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);
/// Between two looks at what is seldom wrong.
const SLOW_SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Connections at once after which the endpoint's tables are made anew when the last has gone.
const ENDPOINT_REBUILD_CONNECTIONS_MIN: usize = 64;
/// How often a connection is turned in one round, if each turn brings more.
const PROCESS_PASSES_MAX: usize = 4;

/// Takes datagrams to be sent.
pub trait DatagramSender {
    /// Sends one datagram, or loses it.
    fn send(&mut self, transmit: &Transmit, datagram: &[u8]);
}

/// Counts of one driver since they were last published.
#[derive(Default)]
pub(crate) struct DriverStats {
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
    datagrams: u64,
    rounds: u64,
    admitted: u64,
    ended: u64,
    retries: u64,
    buffers_made: u64,
    refused: Vec<(DropReason, u64)>,
}

impl DriverStats {
    pub(crate) fn refuse(&mut self, cause: DropReason) {
        match self.refused.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += 1,
            None => self.refused.push((cause, 1)),
        }
    }
}

/// What all shards of a server have in common.
pub(crate) struct SharedConfig {
    pub(crate) config: Arc<Config>,
    pub(crate) admission: Arc<ConnectionAdmission>,
    endpoint: EndpointConfig,
    server: Arc<ServerConfig>,
}

impl SharedConfig {
    pub(crate) fn new(
        config: Arc<Config>,
        gate: Arc<ConnectionAdmission>,
        identity: &TlsIdentity,
    ) -> Result<Self, TlsError> {
        let mut server = ServerConfig::with_crypto(Arc::new(identity.server_config()?));
        server
            .transport_config(Arc::new(transport(&config)))
            .max_incoming(config.handshakes_max)
            .incoming_buffer_size(16 << 10)
            .incoming_buffer_size_total(1 << 20);
        Ok(Self {
            config,
            admission: gate,
            endpoint: EndpointConfig::default(),
            server: Arc::new(server),
        })
    }

    fn new_endpoint(&self, shard: u8) -> Endpoint {
        let mut config = self.endpoint.clone();
        config.cid_generator(move || Box::new(ShardConnectionIds { shard }));
        Endpoint::new(Arc::new(config), Some(Arc::clone(&self.server)), true, None)
    }
}

/// What a connection is allowed before anybody knows whose it is: no streams yet.
fn transport(config: &Config) -> TransportConfig {
    let mut transport = TransportConfig::default();
    // We close idle connections ourselves, with a code; this is for those that cannot be told.
    let idle_ms = config.idle_timeout_ms.saturating_add(2_000).min(600_000) as u32;
    transport
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(config.receive_window_bytes))
        .send_window(0)
        .datagram_receive_buffer_size(None)
        .enable_segmentation_offload(false)
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(idle_ms))))
        // We send next to nothing, so there is nothing to gain from larger packets.
        .mtu_discovery_config(None::<MtuDiscoveryConfig>);
    transport
}

/// The driver of one endpoint.
pub struct Driver {
    shared: Arc<SharedConfig>,
    shard: u8,
    endpoint: Endpoint,
    connections: Vec<Option<Box<Connection>>>,
    open: usize,
    /// The most connections since the endpoint was made.
    open_max: usize,
    process_queue: Vec<usize>,
    timers: Timers,
    buffers: BufferPool,
    reassembler: Reassembler,
    batch: Vec<ReceivedTransaction>,
    scratch: Vec<u8>,
    stats: DriverStats,
    swept_at: Instant,
    slow_swept_at: Instant,
    windows_version: u64,
    was_under_pressure: bool,
    /// Datagrams since streams were read.
    datagrams_since_read: usize,
}

impl Driver {
    /// A driver alone, for one endpoint without a socket.
    pub fn new(
        config: Arc<Config>,
        gate: Arc<ConnectionAdmission>,
        identity: &TlsIdentity,
        now: Instant,
    ) -> Result<Self, TlsError> {
        Ok(Self::for_shard(Arc::new(SharedConfig::new(config, gate, identity)?), 0, now))
    }

    pub(crate) fn for_shard(shared: Arc<SharedConfig>, shard: u8, now: Instant) -> Self {
        Self {
            endpoint: shared.new_endpoint(shard),
            shard,
            connections: Vec::new(),
            open: 0,
            open_max: 0,
            process_queue: Vec::new(),
            timers: Timers::default(),
            buffers: BufferPool::new(BUFFER_BYTES, shared.config.buffers_max),
            reassembler: Reassembler::new(&shared.config),
            batch: Vec::with_capacity(BATCH),
            scratch: Vec::new(),
            stats: DriverStats::default(),
            swept_at: now,
            slow_swept_at: now,
            windows_version: 0,
            was_under_pressure: false,
            datagrams_since_read: 0,
            shared,
        }
    }

    /// Takes a datagram in.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        ecn: Option<EcnCodepoint>,
        datagram: &[u8],
        out: &mut dyn DatagramSender,
    ) {
        self.stats.datagrams += 1;
        self.datagrams_since_read += 1;
        if datagram.len() > BUFFER_BYTES {
            return self.stats.refuse(DropReason::DatagramTooLong);
        }
        let bytes = self.buffers.copy(datagram);
        self.scratch.clear();
        match self.endpoint.handle(now, remote, local_ip, ecn, bytes, &mut self.scratch) {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(Some(connection)) = self.connections.get_mut(handle.0) else { return };
                connection.last_datagram_at = now;
                connection.inner.handle_event(event);
                self.mark_needs_processing(handle.0);
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.handle_incoming(incoming, now, out)
            }
            Some(DatagramEvent::Response(transmit)) => {
                out.send(&transmit, &self.scratch[..transmit.size]);
            }
        }
    }

    /// Hands on what is whole already, in the middle of a round: buffers come back while they are in the
    /// processor's cache. Nothing is sent, so that a round still has one acknowledgement.
    pub fn read_streams(&mut self, now: Instant, outlet: &dyn TransactionSink) {
        // With a datagram or two for each connection there is nothing to gain.
        if self.process_queue.len() * DATAGRAMS_PER_CONNECTION_MIN > self.datagrams_since_read {
            return;
        }
        self.datagrams_since_read = 0;
        for at in 0..self.process_queue.len() {
            self.poll_events(self.process_queue[at], now);
            self.report_peer_weight(self.process_queue[at], outlet);
            if self.batch.len() >= BATCH {
                outlet.push_batch(&mut self.batch);
            }
        }
    }

    /// Ends a round.
    pub fn drive(
        &mut self,
        now: Instant,
        out: &mut dyn DatagramSender,
        outlet: &dyn TransactionSink,
    ) {
        self.stats.rounds += 1;
        self.datagrams_since_read = 0;
        while let Some((when, at)) = self.timers.due(now) {
            let Some(Some(connection)) = self.connections.get_mut(at) else { continue };
            if connection.deadline == Some(when) {
                connection.deadline = None;
                self.mark_needs_processing(at);
            }
        }
        while let Some(at) = self.process_queue.pop() {
            self.process_connection(at, now, out);
            self.report_peer_weight(at, outlet);
            if self.batch.len() >= BATCH {
                outlet.push_batch(&mut self.batch);
            }
        }
        if !self.batch.is_empty() {
            outlet.push_batch(&mut self.batch);
        }
        if now.saturating_duration_since(self.swept_at) >= SWEEP_INTERVAL {
            self.sweep(now, out, outlet);
        }
    }

    /// When [`Driver::drive`] is to be called although nothing came.
    pub fn next_timeout(&self) -> Option<Instant> {
        let sweep = (self.open > 0).then(|| self.swept_at + SWEEP_INTERVAL);
        self.timers.next().into_iter().chain(sweep).min()
    }

    /// Connections, those included that are on their way out.
    pub fn connections(&self) -> usize {
        self.open
    }

    fn mark_needs_processing(&mut self, at: usize) {
        if let Some(Some(connection)) = self.connections.get_mut(at)
            && !connection.needs_processing
        {
            connection.needs_processing = true;
            self.process_queue.push(at);
        }
    }

    fn handle_incoming(&mut self, incoming: Incoming, now: Instant, out: &mut dyn DatagramSender) {
        let address = incoming.remote_address().ip();
        let is_proved = incoming.remote_address_validated() || !incoming.may_retry();
        self.scratch.clear();
        let response = match self.shared.admission.on_incoming(address, is_proved, now) {
            IncomingDecision::Accept => {
                match self.endpoint.accept(incoming, now, &mut self.scratch, None) {
                    Ok((handle, inner)) => {
                        self.insert(handle, Connection::new(inner, address, now));
                        None
                    }
                    Err(err) => {
                        self.shared.admission.on_handshake_failed(address);
                        self.stats.refuse(DropReason::HandshakeFailed);
                        err.response
                    }
                }
            }
            IncomingDecision::Retry => {
                self.stats.retries += 1;
                match self.endpoint.retry(incoming, &mut self.scratch) {
                    Ok(transmit) => Some(transmit),
                    Err(err) => {
                        self.endpoint.ignore(err.into_incoming());
                        None
                    }
                }
            }
            IncomingDecision::Refuse(cause) => {
                self.stats.refuse(cause);
                Some(self.endpoint.refuse(incoming, &mut self.scratch))
            }
            IncomingDecision::Ignore(cause) => {
                self.stats.refuse(cause);
                self.endpoint.ignore(incoming);
                None
            }
        };
        if let Some(transmit) = response {
            out.send(&transmit, &self.scratch[..transmit.size]);
        }
    }

    fn insert(&mut self, handle: ConnectionHandle, connection: Connection) {
        if self.connections.len() <= handle.0 {
            self.connections.resize_with(handle.0 + 1, || None);
        }
        self.connections[handle.0] = Some(Box::new(connection));
        self.open += 1;
        self.open_max = self.open_max.max(self.open);
        self.mark_needs_processing(handle.0);
    }

    /// Lets one connection do all that it can.
    fn process_connection(&mut self, at: usize, now: Instant, out: &mut dyn DatagramSender) {
        for _ in 0..PROCESS_PASSES_MAX {
            let Some(Some(connection)) = self.connections.get_mut(at) else { return };
            connection.needs_processing = false;
            if connection.inner.poll_timeout().is_some_and(|timeout| timeout <= now) {
                connection.inner.handle_timeout(now);
            }
            self.poll_events(at, now);
            let Some(Some(connection)) = self.connections.get_mut(at) else { return };
            while let Some(event) = connection.inner.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(ConnectionHandle(at), event) {
                    connection.inner.handle_event(event);
                }
            }
            if connection.is_closed_by_peer {
                // Nothing may be sent any more. What is still under way to us is answered with a reset,
                // so its state need not be kept: thousands that leave at once give their memory back at once.
                self.endpoint.handle_event(ConnectionHandle(at), EndpointEvent::drained());
                return self.remove(at);
            }
            self.scratch.clear();
            while let Some(transmit) = connection.inner.poll_transmit(now, 1, &mut self.scratch) {
                out.send(&transmit, &self.scratch[..transmit.size]);
                self.scratch.clear();
            }
            if connection.inner.is_drained() {
                return self.remove(at);
            }
            let timeout = connection.inner.poll_timeout();
            if timeout.is_some_and(|timeout| timeout <= now) {
                continue;
            }
            if let Some(timeout) = timeout
                && connection.deadline.is_none_or(|deadline| timeout < deadline)
            {
                connection.deadline = Some(timeout);
                self.timers.add(timeout, at);
            }
            return;
        }
        // It has still something to do: in the next round.
        self.timers.add(now, at);
        if let Some(Some(connection)) = self.connections.get_mut(at) {
            connection.deadline = Some(now);
        }
    }

    /// What a connection has to tell us.
    fn poll_events(&mut self, at: usize, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(at) else { return };
        while let Some(event) = connection.inner.poll() {
            match (event, connection.state) {
                (Event::Connected, ConnectionState::Handshake) => {
                    admit(&self.shared, connection, now, &mut self.stats);
                }
                (Event::ConnectionLost { reason }, _) => {
                    connection.is_closed_by_peer = is_closed_by_peer(&reason);
                    end_connection(
                        &self.shared,
                        connection,
                        &mut self.reassembler,
                        &mut self.stats,
                    );
                }
                (
                    Event::Stream(StreamEvent::Opened { dir: Dir::Uni }),
                    ConnectionState::Open(peer),
                ) => {
                    let (bench, batch) = (&mut self.reassembler, &mut self.batch);
                    connection.accept_streams(peer, now, bench, batch, &mut self.stats);
                }
                (Event::Stream(StreamEvent::Readable { id }), ConnectionState::Open(peer)) => {
                    let (bench, batch) = (&mut self.reassembler, &mut self.batch);
                    connection.resume_stream(id, peer, now, bench, batch, &mut self.stats);
                }
                // We send no streams, and want no datagrams.
                _ => {}
            }
        }
    }

    /// Tells the outlet what a new peer weighs.
    fn report_peer_weight(&mut self, at: usize, outlet: &dyn TransactionSink) {
        let Some(Some(connection)) = self.connections.get_mut(at) else { return };
        if let Some((peer, sender)) = connection.unreported_peer.take() {
            outlet.set_peer_weight(peer, sender);
        }
    }

    fn remove(&mut self, at: usize) {
        let Some(mut connection) = self.connections.get_mut(at).and_then(Option::take) else {
            return;
        };
        end_connection(&self.shared, &mut connection, &mut self.reassembler, &mut self.stats);
        self.open -= 1;
    }

    fn sweep(&mut self, now: Instant, out: &mut dyn DatagramSender, outlet: &dyn TransactionSink) {
        self.swept_at = now;
        let is_slow = now.saturating_duration_since(self.slow_swept_at) >= SLOW_SWEEP_INTERVAL;
        let pressure = outlet.pressure();
        let version = self.shared.admission.version();
        let has_pressure = pressure >= 0.5;
        let windows_change =
            version != self.windows_version || has_pressure || self.was_under_pressure;
        (self.windows_version, self.was_under_pressure) = (version, has_pressure);
        let is_crowded = is_slow && self.shared.admission.is_crowded();

        for at in 0..self.connections.len() {
            let Some(connection) = self.connections[at].as_mut() else { continue };
            let config = &self.shared.config;
            let passed = |since: Instant| now.saturating_duration_since(since);
            let idle = Duration::from_millis(config.idle_timeout_ms);
            // Only who has something to be told gets a turn.
            let mut has_news = false;
            let farewell = match connection.state {
                ConnectionState::Handshake => {
                    let timeout = Duration::from_millis(config.handshake_timeout_ms);
                    (passed(connection.since) >= timeout).then_some((CloseCode::Slow, "handshake"))
                }
                ConnectionState::Closed => None,
                ConnectionState::Open(peer) => {
                    let bench = &mut self.reassembler;
                    has_news = connection.stop_stalled(config, now, bench, &mut self.stats);
                    if windows_change {
                        let over_share = has_pressure && outlet.is_over_share(peer);
                        let standing = self.shared.admission.peer_load(peer);
                        let window = stream_window::window(config, standing);
                        let window =
                            stream_window::under_pressure(config, window, pressure, over_share);
                        has_news |= connection.set_window(window);
                    }
                    if passed(connection.last_datagram_at) >= idle {
                        Some((CloseCode::Dropped, "idle"))
                    } else if is_crowded && passed(connection.last_transaction_at) >= idle {
                        Some((CloseCode::TooMany, "idle, and others want in"))
                    } else if connection.breaks_too_much(config)
                        || is_slow && connection.wastes_frames()
                    {
                        self.stats.refuse(DropReason::Misbehaved);
                        Some((CloseCode::InvalidStream, "too many broken streams"))
                    } else {
                        None
                    }
                }
            };
            if let Some((code, reason)) = farewell {
                if connection.state == ConnectionState::Handshake {
                    self.stats.refuse(DropReason::HandshakeFailed);
                }
                connection.close(code, reason, now);
                end_connection(&self.shared, connection, &mut self.reassembler, &mut self.stats);
                has_news = true;
            }
            if has_news {
                self.process_connection(at, now, out);
            }
        }
        if is_slow {
            self.slow_swept_at = now;
            self.release_memory(now);
        }
    }

    /// Gives memory back that a burst left.
    fn release_memory(&mut self, now: Instant) {
        self.buffers.shrink();
        self.reassembler.shrink();
        self.timers.shrink();
        while self.connections.last().is_some_and(Option::is_none) {
            self.connections.pop();
        }
        self.connections.shrink_to(self.connections.len() * 2);
        self.process_queue.shrink_to(self.connections.len() * 2);
        self.batch.shrink_to(BATCH);
        if self.shard == 0 {
            self.shared.admission.evict_stale(now);
        }
        if self.open == 0
            && self.open_max > ENDPOINT_REBUILD_CONNECTIONS_MIN
            && self.endpoint.open_connections() == 0
        {
            // Its tables never shrink. The keys are common to all, so tokens and resets stay valid.
            self.endpoint = self.shared.new_endpoint(self.shard);
            self.timers = Timers::default();
            self.open_max = 0;
        }
    }

    /// Closes everything: the node is going.
    pub fn close(&mut self, now: Instant, out: &mut dyn DatagramSender) {
        for at in 0..self.connections.len() {
            let Some(connection) = self.connections[at].as_mut() else { continue };
            connection.close(CloseCode::Dropped, "shutting down", now);
            end_connection(&self.shared, connection, &mut self.reassembler, &mut self.stats);
            self.process_connection(at, now, out);
        }
        self.forget_connections();
    }

    /// Forgets all connections and says nothing, as after a restart with the same keys.
    pub fn forget_connections(&mut self) {
        for mut connection in self.connections.drain(..).flatten() {
            end_connection(&self.shared, &mut connection, &mut self.reassembler, &mut self.stats);
        }
        self.open = 0;
        self.process_queue.clear();
        self.timers = Timers::default();
        self.endpoint = self.shared.new_endpoint(self.shard);
    }

    /// Adds what was counted since the last call.
    pub fn publish(&mut self, counters: &Counters) {
        let tally = std::mem::take(&mut self.stats);
        let add = |to: &std::sync::atomic::AtomicU64, count: u64| {
            if count > 0 {
                to.fetch_add(count, Ordering::Relaxed);
            }
        };
        add(&counters.received, tally.received);
        add(&counters.received_bytes, tally.received_bytes);
        add(&counters.datagrams, tally.datagrams);
        add(&counters.rounds, tally.rounds);
        add(&counters.retries, tally.retries);
        add(&counters.connections, tally.admitted);
        add(&counters.open, tally.admitted);
        counters.open.fetch_sub(tally.ended, Ordering::Relaxed);
        let made = self.buffers.made + self.reassembler.buffers_made();
        add(&counters.buffers_made, made - tally.buffers_made);
        self.stats.buffers_made = made;
        for (cause, count) in &tally.refused {
            counters.refuse_many(*cause, *count);
        }
        // Its memory is used again.
        self.stats.refused = tally.refused;
        self.stats.refused.clear();
    }
}

/// Whether the peer said good-bye, or does not know of the connection any more.
fn is_closed_by_peer(reason: &ConnectionError) -> bool {
    matches!(
        reason,
        ConnectionError::ConnectionClosed(_)
            | ConnectionError::ApplicationClosed(_)
            | ConnectionError::Reset
    )
}

/// A handshake is complete: the peer comes in, or is told why not.
fn admit(
    common: &SharedConfig,
    connection: &mut Connection,
    now: Instant,
    tally: &mut DriverStats,
) {
    let certificates = connection
        .inner
        .crypto_session()
        .peer_identity()
        .and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    let identity = certificates.and_then(|chain| chain.first().and_then(pubkey_of));
    match common.admission.admit(connection.address, identity) {
        Ok((peer, sender)) => {
            tally.admitted += 1;
            connection.state = ConnectionState::Open(peer);
            connection.unreported_peer = Some((peer, sender));
            let standing = common.admission.peer_load(peer);
            connection.set_window(stream_window::window(&common.config, standing));
        }
        Err(cause) => {
            tally.refuse(cause);
            connection.state = ConnectionState::Closed;
            connection.close(CloseCode::TooMany, "too many connections of this identity", now);
        }
    }
}

/// A connection has ended, or is about to: the gate hears of it once.
fn end_connection(
    common: &SharedConfig,
    connection: &mut Connection,
    bench: &mut Reassembler,
    tally: &mut DriverStats,
) {
    match std::mem::replace(&mut connection.state, ConnectionState::Closed) {
        ConnectionState::Handshake => common.admission.on_handshake_failed(connection.address),
        ConnectionState::Open(peer) => {
            tally.ended += 1;
            common.admission.on_closed(connection.address, peer);
        }
        ConnectionState::Closed => {}
    }
    connection.discard_unfinished(bench, tally);
}
