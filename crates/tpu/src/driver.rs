//! The driver of one endpoint: datagrams and the time in, transactions and datagrams out. It does
//! no I/O and reads no clock: the same code runs behind a socket and in a simulation.
//!
//! Shape: a round is any number of [`Driver::handle_datagram`], then one [`Driver::drive`]. `drive`
//! processes once every connection that has events: its timers, its streams, its packets. The
//! larger the round, the fewer packets are sent back and the fewer allocations are made. Between
//! rounds nothing happens before [`Driver::next_timeout`]. `Driver::sweep` handles everything that needs no
//! precise time: stalled streams, idle connections, windows, unused buffers.
//! Invariant: no unread bytes are left in `quinn-proto` on purpose. Backpressure is the number of
//! streams that may be open (`stream_window`, `stream_demand`), because unread bytes pin the buffers
//! in which they arrived.
//! Not here: sockets (`shard`), admission (`connection_admission`).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::{
    ConnectionError, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig,
    EndpointEvent, Event, IdleTimeout, Incoming, MtuDiscoveryConfig, ServerConfig, StreamEvent,
    Transmit, TransportConfig, VarInt,
};
use rustls::pki_types::CertificateDer;

use crate::buffer_pool::BufferPool;
use crate::certificate::{TlsError, TlsIdentity, find_pubkey};
use crate::config::Config;
use crate::connection::{CloseCode, Connection, ConnectionState, StreamReader};
use crate::connection_admission::{ConnectionAdmission, IncomingDecision};
use crate::connection_id::ShardConnectionIds;
use crate::counters::{Counters, DropReason};
use crate::driver_stats::{DriverGauges, DriverStats};
use crate::reassembly::Reassembler;
use crate::stream_window;
use crate::timers::Timers;
use crate::transaction::{ReceivedTransaction, TransactionSink};

/// Bytes of a receive buffer: more than the longest datagram that we agree to (1,472).
const BUFFER_BYTES: usize = 2_048;
/// Bytes that may be in flight on one stream. This is far more than a transaction: a limit of
/// exactly one transaction would cost an extra flow-control frame for each transaction that spans
/// two datagrams.
const STREAM_WINDOW_BYTES: u32 = 16_384;
/// Transactions sent to the sink at once. Each batch wakes a thread, which is not free.
const BATCH: usize = 256;
/// Streams are read before the end of a round if each connection has at least this many datagrams.
const DATAGRAMS_PER_CONNECTION_MIN: usize = 4;
/// Interval between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between the checks for rare conditions.
const SLOW_SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The endpoint's tables are rebuilt after the last connection has closed if at least this many
/// were open at once.
const ENDPOINT_REBUILD_CONNECTIONS_MIN: usize = 64;
/// Maximum passes over a connection in one round if each pass creates more work.
const PROCESS_PASSES_MAX: usize = 4;

/// A socket, or a simulated one.
pub trait DatagramSender {
    /// Sends one datagram. It may be lost.
    fn send(&mut self, transmit: &Transmit, datagram: &[u8]);
}

/// State that all shards of a server share.
pub(crate) struct SharedConfig {
    pub(crate) config: Arc<Config>,
    pub(crate) admission: Arc<ConnectionAdmission>,
    endpoint: EndpointConfig,
    server: Arc<ServerConfig>,
}

impl SharedConfig {
    pub(crate) fn new(
        config: Arc<Config>,
        admission: Arc<ConnectionAdmission>,
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
            admission,
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

/// Returns the limits of a connection before its peer is known: no streams.
fn transport(config: &Config) -> TransportConfig {
    let mut transport = TransportConfig::default();
    // We close idle connections ourselves, with a code. This timeout is for connections with an
    // unreachable peer.
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
        // We send little, so larger packets gain nothing.
        .mtu_discovery_config(None::<MtuDiscoveryConfig>);
    transport
}

/// The state of one endpoint and its connections.
pub struct Driver {
    shared: Arc<SharedConfig>,
    shard: u8,
    endpoint: Endpoint,
    connections: Vec<Option<Box<Connection>>>,
    open: usize,
    /// The maximum number of connections since the endpoint was created.
    open_max: usize,
    process_queue: Vec<usize>,
    timers: Timers,
    buffers: BufferPool,
    reassembler: Reassembler,
    batch: Vec<ReceivedTransaction>,
    scratch: Vec<u8>,
    stats: DriverStats,
    /// States of streams of all connections.
    stream_states: u64,
    swept_at: Instant,
    slow_swept_at: Instant,
    windows_version: u64,
    /// The version of the API keys that all connections were compared with.
    keys_version: u64,
    was_under_pressure: bool,
    /// Datagrams since streams were last read.
    datagrams_since_read: usize,
}

impl Driver {
    /// Creates a driver for one endpoint without a socket.
    pub fn new(
        config: Arc<Config>,
        admission: Arc<ConnectionAdmission>,
        identity: &TlsIdentity,
        now: Instant,
    ) -> Result<Self, TlsError> {
        Ok(Self::for_shard(Arc::new(SharedConfig::new(config, admission, identity)?), 0, now))
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
            stream_states: 0,
            swept_at: now,
            slow_swept_at: now,
            windows_version: 0,
            keys_version: shared.admission.keys_version(),
            was_under_pressure: false,
            datagrams_since_read: 0,
            shared,
        }
    }

    /// Processes a received datagram.
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

    /// Sends complete transactions to the sink in the middle of a round. Their buffers are released
    /// while they are in the processor's cache. Sends no packets, so that a round still has one
    /// acknowledgement.
    pub fn read_streams(&mut self, now: Instant, sink: &dyn TransactionSink) {
        // With one or two datagrams for each connection there is nothing to gain.
        if self.process_queue.len() * DATAGRAMS_PER_CONNECTION_MIN > self.datagrams_since_read {
            return;
        }
        self.datagrams_since_read = 0;
        for at in 0..self.process_queue.len() {
            self.poll_events(self.process_queue[at], now);
            self.report_peer_weight(self.process_queue[at], sink);
            if self.batch.len() >= BATCH {
                sink.push_batch(&mut self.batch);
            }
        }
    }

    /// Ends a round: processes its connections.
    pub fn drive(
        &mut self,
        now: Instant,
        out: &mut dyn DatagramSender,
        sink: &dyn TransactionSink,
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
            self.report_peer_weight(at, sink);
            if self.batch.len() >= BATCH {
                sink.push_batch(&mut self.batch);
            }
        }
        if !self.batch.is_empty() {
            sink.push_batch(&mut self.batch);
        }
        if now.saturating_duration_since(self.swept_at) >= SWEEP_INTERVAL {
            self.sweep(now, out, sink);
        }
    }

    /// Returns the time at which [`Driver::drive`] must be called if no datagram arrives.
    pub fn next_timeout(&self) -> Option<Instant> {
        let sweep = (self.open > 0).then(|| self.swept_at + SWEEP_INTERVAL);
        self.timers.next().into_iter().chain(sweep).min()
    }

    /// Returns the number of connections, including those that are closing.
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
        let is_validated = incoming.remote_address_validated() || !incoming.may_retry();
        self.scratch.clear();
        let response = match self.shared.admission.on_incoming(address, is_validated, now) {
            IncomingDecision::Accept => {
                match self.endpoint.accept(incoming, now, &mut self.scratch, None) {
                    Ok((handle, inner)) => {
                        let config = &self.shared.config;
                        self.insert(handle, Connection::new(inner, address, config, now));
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

    /// Processes one connection until it has nothing left to do, or [`PROCESS_PASSES_MAX`] times.
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
                // Nothing more may be sent. Late packets of the peer get a stateless
                // reset, so the connection's state is not needed: thousands that close at once
                // release their memory at once.
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
        // It has more to do: continue in the next round.
        self.timers.add(now, at);
        if let Some(Some(connection)) = self.connections.get_mut(at) {
            connection.deadline = Some(now);
        }
    }

    /// Handles the connection's events.
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
                (Event::Stream(event), ConnectionState::Open(peer)) => {
                    let reader = StreamReader {
                        peer,
                        now,
                        reassembler: &mut self.reassembler,
                        out: &mut self.batch,
                        stats: &mut self.stats,
                    };
                    match event {
                        StreamEvent::Opened { dir: Dir::Uni } => {
                            self.stream_states += connection.accept_streams(reader);
                        }
                        StreamEvent::Readable { id } => connection.resume_stream(id, reader),
                        // We send no streams.
                        _ => {}
                    }
                }
                // We accept no datagrams.
                _ => {}
            }
        }
    }

    /// Reports the weight of a new peer to the sink.
    fn report_peer_weight(&mut self, at: usize, sink: &dyn TransactionSink) {
        let Some(Some(connection)) = self.connections.get_mut(at) else { return };
        if let Some((peer, sender)) = connection.unreported_peer.take() {
            sink.set_peer_weight(peer, sender);
        }
    }

    fn remove(&mut self, at: usize) {
        let Some(mut connection) = self.connections.get_mut(at).and_then(Option::take) else {
            return;
        };
        end_connection(&self.shared, &mut connection, &mut self.reassembler, &mut self.stats);
        self.open -= 1;
        self.stream_states -= connection.stream_states();
    }

    fn sweep(&mut self, now: Instant, out: &mut dyn DatagramSender, sink: &dyn TransactionSink) {
        self.swept_at = now;
        let is_slow = now.saturating_duration_since(self.slow_swept_at) >= SLOW_SWEEP_INTERVAL;
        let pressure = sink.pressure();
        let version = self.shared.admission.version();
        let has_pressure = pressure >= 0.5;
        let windows_change =
            version != self.windows_version || has_pressure || self.was_under_pressure;
        (self.windows_version, self.was_under_pressure) = (version, has_pressure);
        let is_crowded = is_slow && self.shared.admission.is_crowded();
        let keys_version = self.shared.admission.keys_version();
        let have_keys_changed = keys_version != self.keys_version;
        self.keys_version = keys_version;

        for at in 0..self.connections.len() {
            let Some(connection) = self.connections[at].as_mut() else { continue };
            let config = &self.shared.config;
            let passed = |since: Instant| now.saturating_duration_since(since);
            let idle = Duration::from_millis(config.idle_timeout_ms);
            // Process only connections that have packets to send.
            let mut has_news = false;
            let close_reason = match connection.state {
                ConnectionState::Handshake => {
                    let timeout = Duration::from_millis(config.handshake_timeout_ms);
                    (passed(connection.since) >= timeout).then_some((CloseCode::Slow, "handshake"))
                }
                ConnectionState::Closed => None,
                ConnectionState::Open(peer) => {
                    let reassembler = &mut self.reassembler;
                    has_news = connection.stop_stalled(config, now, reassembler, &mut self.stats);
                    if windows_change {
                        let over_share = has_pressure && sink.is_over_share(peer);
                        let load = self.shared.admission.peer_load(peer);
                        let share = stream_window::share(config, load);
                        let share =
                            stream_window::under_pressure(config, share, pressure, over_share);
                        has_news |= connection.set_share(share);
                    }
                    if passed(connection.last_datagram_at) >= idle {
                        Some((CloseCode::Dropped, "idle"))
                    } else if is_crowded && passed(connection.last_transaction_at) >= idle {
                        Some((CloseCode::TooMany, "idle, and others want in"))
                    } else if have_keys_changed && self.shared.admission.is_revoked(peer) {
                        self.stats.refuse(DropReason::Unauthorized);
                        Some((CloseCode::Dropped, "the API key was removed"))
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
            if let Some((code, reason)) = close_reason {
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

    /// Releases memory that a burst left.
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
            // Its tables never shrink. All endpoints share the keys, so tokens and resets stay
            // valid.
            self.endpoint = self.shared.new_endpoint(self.shard);
            self.timers = Timers::default();
            self.open_max = 0;
        }
    }

    /// Closes all connections: the node is stopping.
    pub fn close(&mut self, now: Instant, out: &mut dyn DatagramSender) {
        for at in 0..self.connections.len() {
            let Some(connection) = self.connections[at].as_mut() else { continue };
            connection.close(CloseCode::Dropped, "shutting down", now);
            end_connection(&self.shared, connection, &mut self.reassembler, &mut self.stats);
            self.process_connection(at, now, out);
        }
        self.forget_connections();
    }

    /// Drops all connections without notifying their peers, as after a restart with the same keys.
    pub fn forget_connections(&mut self) {
        for mut connection in self.connections.drain(..).flatten() {
            end_connection(&self.shared, &mut connection, &mut self.reassembler, &mut self.stats);
        }
        self.open = 0;
        self.stream_states = 0;
        self.process_queue.clear();
        self.timers = Timers::default();
        self.endpoint = self.shared.new_endpoint(self.shard);
    }

    /// Adds the counts since the last call to `counters`.
    pub fn publish(&mut self, counters: &Counters) {
        let buffers_made = self.buffers.made + self.reassembler.buffers_made();
        let unfinished_bytes = self.reassembler.unfinished_bytes();
        let gauges =
            DriverGauges { buffers_made, unfinished_bytes, stream_states: self.stream_states };
        self.stats.publish(gauges, counters);
    }
}

/// Returns whether the peer closed the connection or no longer knows it.
fn is_closed_by_peer(reason: &ConnectionError) -> bool {
    matches!(
        reason,
        ConnectionError::ConnectionClosed(_)
            | ConnectionError::ApplicationClosed(_)
            | ConnectionError::Reset
    )
}

/// Admits the peer after its handshake, or closes the connection with the reason.
fn admit(
    shared: &SharedConfig,
    connection: &mut Connection,
    now: Instant,
    stats: &mut DriverStats,
) {
    let certificates = connection
        .inner
        .crypto_session()
        .peer_identity()
        .and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    let identity = certificates.and_then(|chain| chain.first().and_then(find_pubkey));
    match shared.admission.admit(connection.address, identity) {
        Ok((peer, sender)) => {
            stats.admitted += 1;
            connection.state = ConnectionState::Open(peer);
            connection.unreported_peer = Some((peer, sender));
            let load = shared.admission.peer_load(peer);
            connection.grant_initial(&shared.config, load);
        }
        Err(cause) => {
            stats.refuse(cause);
            connection.state = ConnectionState::Closed;
            connection.close(CloseCode::TooMany, "too many connections of this identity", now);
        }
    }
}

/// Reports to the admission, once, that a connection has ended or is about to end.
fn end_connection(
    shared: &SharedConfig,
    connection: &mut Connection,
    reassembler: &mut Reassembler,
    stats: &mut DriverStats,
) {
    match std::mem::replace(&mut connection.state, ConnectionState::Closed) {
        ConnectionState::Handshake => shared.admission.on_handshake_failed(connection.address),
        ConnectionState::Open(peer) => {
            stats.ended += 1;
            shared.admission.on_closed(connection.address, peer);
        }
        ConnectionState::Closed => {}
    }
    connection.discard_unfinished(reassembler, stats);
}
