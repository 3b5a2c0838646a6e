//! The load generator, in its own process: many connections, each sending transactions one to a stream.
//!
//! Shape: `bench quic-load PORT KEY=VALUE...` connects and says `ready`. Each line `run KEY=VALUE...` is a load
//! of `streams` streams or `seconds` seconds. The reply is the nanoseconds until the last stream was acknowledged, and
//! the number of acknowledged streams. `end` or the end of input closes the connections.
//! One thread, one socket, `quinn-proto` driven directly: it has to be cheaper than any server.
//! Bounds: `under-way` streams of all connections together, so that the server's socket loses nothing.
//! Not here: the measurements (`tpu.rs`).

use std::collections::BTreeMap;
use std::io::{BufRead, IoSliceMut, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use ::tpu::{TlsIdentity, client_config};
use anyhow::{Context, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use solana_keypair::Keypair;
use solana_signer::Signer;
use testkit::clock;

/// Datagrams in one transmission with offload.
const SEGMENTS: usize = 10;
/// Time limit of a connection attempt, and of the acknowledgement of a stream.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Concurrent handshakes.
const HANDSHAKES: usize = 32;
/// Minimum streams in flight on a connection: two, so that delayed acknowledgements are not measured.
const IN_FLIGHT_MIN: u64 = 2;
/// Interval of the polls of all connections' timers.
const TIMER_INTERVAL: Duration = Duration::from_millis(2);
/// Interval of pings: long, because many connections wait while others are measured.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(8);
/// System calls that one step reads with.
const READS_MAX: usize = 8;
/// Interval of the bytes of a slow client.
const SLOW_WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// The behaviour of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientBehavior {
    /// End every stream.
    Honest,
    /// Leave one stream of each connection unfinished, and end all others.
    Stall,
    /// Open all allowed streams and end none.
    Greedy,
    /// Open all allowed streams, and send a byte of each every second.
    Slow,
    /// Send streams that are not transactions: too long, empty, reset.
    Broken,
}

struct GeneratorPlan {
    server: SocketAddr,
    connections: usize,
    /// Share of datagrams thrown away instead of sent, in thousandths.
    loss: u32,
    behavior: ClientBehavior,
    transactions: Option<String>,
    /// One key for all connections, instead of one for each.
    one_identity: bool,
    /// Streams of all connections together that are not acknowledged.
    in_flight_max: u64,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    /// Bytes of each transaction; 0 for the real mix.
    bytes: usize,
    offload: bool,
    /// Streams of all connections together, if `seconds` is not the limit.
    streams: u64,
    seconds: Option<f64>,
}

/// One connection.
struct Peer {
    handle: ConnectionHandle,
    inner: Connection,
    is_connected: bool,
    is_lost: bool,
    opened: u64,
    /// Streams that were acknowledged whole.
    finished: u64,
    /// Abandoned streams: stopped by the server, or never meant to end.
    abandoned: u64,
    needs_processing: bool,
    has_stalled: bool,
    /// A transaction that the server's windows accepted only in part, and the rest of it.
    pending: Option<(StreamId, Bytes)>,
    /// Streams that get a byte from time to time.
    slow: Vec<StreamId>,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let plan = plan(args)?;
    Generator::new(plan)?.run()
}

fn parse_args<'a>(args: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, &'a str> {
    args.filter_map(|arg| arg.split_once('=')).collect()
}

fn number(options: &BTreeMap<&str, &str>, key: &str, default: u64) -> Result<u64> {
    options.get(key).map_or(Ok(default), |text| text.parse().with_context(|| key.to_owned()))
}

fn plan(args: &[String]) -> Result<GeneratorPlan> {
    let (port, rest) = args.split_first().context("quic-load PORT KEY=VALUE...")?;
    let options = parse_args(rest.iter().map(String::as_str));
    Ok(GeneratorPlan {
        server: SocketAddr::from(([127, 0, 0, 1], port.parse()?)),
        connections: number(&options, "connections", 1)? as usize,
        loss: number(&options, "loss", 0)? as u32,
        behavior: match options.get("manner") {
            None | Some(&"honest") => ClientBehavior::Honest,
            Some(&"stall") => ClientBehavior::Stall,
            Some(&"greedy") => ClientBehavior::Greedy,
            Some(&"slow") => ClientBehavior::Slow,
            Some(&"broken") => ClientBehavior::Broken,
            Some(other) => bail!("no manner {other}"),
        },
        transactions: options.get("transactions").map(|path| (*path).to_owned()),
        one_identity: number(&options, "one-identity", 0)? != 0,
        in_flight_max: number(&options, "under-way", u64::MAX)?,
    })
}

impl Load {
    fn parse(line: &str) -> Result<Self> {
        let options = parse_args(line.split(' '));
        Ok(Self {
            bytes: number(&options, "bytes", 300)? as usize,
            offload: number(&options, "offload", 0)? != 0,
            streams: number(&options, "streams", 100_000)?,
            seconds: options.get("seconds").map(|text| text.parse()).transpose()?,
        })
    }
}

/// The seed of the key that all connections have in common.
const SEED: [u8; 32] = [7; 32];

/// The configuration of one connection.
fn config(plan: &GeneratorPlan) -> Result<ClientConfig> {
    let keypair = if plan.one_identity { Keypair::new_from_array(SEED) } else { Keypair::new() };
    let identity = TlsIdentity::new(*keypair.secret_bytes(), keypair.pubkey());
    let mut config = ClientConfig::new(Arc::new(client_config(&identity)?));
    let mut transport = TransportConfig::default();
    transport
        .keep_alive_interval(Some(KEEP_ALIVE_INTERVAL))
        .max_idle_timeout(Some(VarInt::from_u32(30_000).into()))
        .send_fairness(false)
        .enable_segmentation_offload(true);
    config.transport_config(Arc::new(transport));
    Ok(config)
}

impl Peer {
    /// Streams that may still be acknowledged.
    fn in_flight(&self) -> u64 {
        (self.opened - self.finished).saturating_sub(self.abandoned)
    }

    /// Writes the rest of a transaction. Returns whether all of it was written.
    fn write_pending(&mut self) -> bool {
        let Some((id, mut bytes)) = self.pending.take() else { return true };
        let mut stream = self.inner.send_stream(id);
        while !bytes.is_empty() {
            match stream.write(&bytes) {
                Ok(written) => drop(bytes.split_to(written)),
                Err(WriteError::Blocked) => {
                    self.pending = Some((id, bytes));
                    return false;
                }
                // The server stopped the stream; that is counted at its event.
                Err(_) => return true,
            }
        }
        drop(stream.finish());
        true
    }
}

struct Generator {
    plan: GeneratorPlan,
    load: Load,
    endpoint: Endpoint,
    socket: UdpSocket,
    state: UdpSocketState,
    peers: Vec<Peer>,
    by_handle: Vec<usize>,
    to_process: Vec<usize>,
    /// The payloads: real transactions, or bytes that differ by their number.
    transactions: Vec<Bytes>,
    sent: u64,
    /// Total number of streams that may be opened.
    allowed: u64,
    scratch: Vec<u8>,
    receive: Vec<u8>,
    random: u64,
    timers_polled_at: Instant,
    last_slow: Instant,
}

impl Generator {
    fn new(plan: GeneratorPlan) -> Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        socket2::SockRef::from(&socket).set_recv_buffer_size(8 << 20)?;
        socket2::SockRef::from(&socket).set_send_buffer_size(8 << 20)?;
        let state = UdpSocketState::new((&socket).into())?;
        let transactions = match &plan.transactions {
            Some(path) => read_transactions(path)?,
            None => Vec::new(),
        };
        Ok(Self {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None),
            receive: vec![0; 65_536 * BATCH_SIZE],
            socket,
            state,
            peers: Vec::new(),
            by_handle: Vec::new(),
            to_process: Vec::new(),
            transactions,
            sent: 0,
            allowed: 0,
            load: Load { bytes: 300, offload: false, streams: 0, seconds: None },
            timers_polled_at: clock::now(),
            last_slow: clock::now(),
            scratch: Vec::new(),
            random: 0x9e37_79b9_7f4a_7c15,
            plan,
        })
    }

    fn run(mut self) -> Result<()> {
        self.connect_all()?;
        let lines = lines()?;
        print_line("ready")?;
        loop {
            match lines.try_recv() {
                Ok(line) if line.starts_with("run") => self.run_load(Load::parse(&line)?)?,
                Ok(_) | Err(TryRecvError::Disconnected) => break,
                // Connections stay open, and their server's pings are acknowledged.
                Err(TryRecvError::Empty) => self.step(clock::now() + Duration::from_millis(5))?,
            }
        }
        let now = clock::now();
        for at in 0..self.peers.len() {
            self.peers[at].inner.close(now, VarInt::from_u32(0), Bytes::new());
            self.drive(at)?;
        }
        Ok(())
    }

    /// Sends one load, and prints the result.
    fn run_load(&mut self, load: Load) -> Result<()> {
        self.load = load;
        let began = clock::now();
        let before = self.finished();
        self.allowed = match load.seconds {
            None => self.sent + load.streams,
            Some(_) => u64::MAX,
        };
        self.schedule_all();
        if let Some(seconds) = load.seconds {
            let end = began + Duration::from_secs_f64(seconds);
            while clock::now() < end {
                self.step(end)?;
            }
            self.allowed = self.sent;
        }
        // A client that ends no stream gets no acknowledgement of a whole stream.
        if matches!(self.plan.behavior, ClientBehavior::Honest | ClientBehavior::Stall) {
            let streams_min = if load.seconds.is_some() { 0 } else { self.allowed };
            let mut unfinished = self.peers.len();
            self.run_until(|this| {
                if this.sent < streams_min {
                    return false;
                }
                // No peer opens another stream, so each is checked until it has none in flight.
                while unfinished > 0 && this.peers[unfinished - 1].in_flight() == 0 {
                    unfinished -= 1;
                }
                unfinished == 0
            })?;
        }
        let took = began.elapsed().as_nanos();
        let lost = self.peers.iter().filter(|peer| peer.is_lost).count();
        print_line(&format!("{took} {} {} {lost}", self.finished() - before, self.sent))
    }

    fn finished(&self) -> u64 {
        self.peers.iter().map(|peer| peer.finished).sum()
    }

    fn connect_all(&mut self) -> Result<()> {
        let end = clock::now() + TIMEOUT;
        loop {
            let connected = self.peers.iter().filter(|peer| peer.is_connected).count();
            if connected == self.plan.connections {
                return Ok(());
            }
            ensure!(clock::now() < end, "{connected} connected in time");
            while self.peers.len() < self.plan.connections
                && self.peers.len() - connected < HANDSHAKES
            {
                let now = clock::now();
                let config = config(&self.plan)?;
                let (handle, inner) =
                    self.endpoint.connect(now, config, self.plan.server, "localhost")?;
                let at = self.peers.len();
                if self.by_handle.len() <= handle.0 {
                    self.by_handle.resize(handle.0 + 1, usize::MAX);
                }
                self.by_handle[handle.0] = at;
                self.peers.push(Peer {
                    handle,
                    inner,
                    is_connected: false,
                    is_lost: false,
                    opened: 0,
                    finished: 0,
                    abandoned: 0,
                    needs_processing: false,
                    has_stalled: false,
                    pending: None,
                    slow: Vec::new(),
                });
                self.schedule(at);
            }
            self.step(end)?;
        }
    }

    fn run_until(&mut self, mut done: impl FnMut(&Self) -> bool) -> Result<()> {
        let mut progress = (0, clock::now());
        let mut steps = 0u32;
        loop {
            if done(self) {
                return Ok(());
            }
            // Counting the streams of all peers is not free with thousands of them.
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(8) || self.peers.len() < 64 {
                let finished = self.finished();
                if finished > progress.0 {
                    progress = (finished, clock::now());
                }
                ensure!(progress.1.elapsed() < TIMEOUT, "stuck after {finished} streams");
            }
            self.step(clock::now() + Duration::from_millis(20))?;
        }
    }

    fn schedule(&mut self, at: usize) {
        if !std::mem::replace(&mut self.peers[at].needs_processing, true) {
            self.to_process.push(at);
        }
    }

    fn schedule_all(&mut self) {
        (0..self.peers.len()).for_each(|at| self.schedule(at));
    }

    /// Reads received datagrams, lets every connection write, and waits if there was nothing to do.
    fn step(&mut self, end: Instant) -> Result<()> {
        let mut read = 0;
        for _ in 0..READS_MAX {
            match self.read()? {
                0 => break,
                count => read += count,
            }
        }
        let now = clock::now();
        if now.saturating_duration_since(self.timers_polled_at) >= TIMER_INTERVAL {
            self.timers_polled_at = now;
            for at in 0..self.peers.len() {
                if self.peers[at].inner.poll_timeout().is_some_and(|timeout| timeout <= now) {
                    self.peers[at].inner.handle_timeout(now);
                    self.schedule(at);
                }
            }
        }
        if self.plan.behavior == ClientBehavior::Slow
            && now.saturating_duration_since(self.last_slow) >= SLOW_WRITE_INTERVAL
        {
            self.last_slow = now;
            self.write_slowly();
        }
        let dirty = std::mem::take(&mut self.to_process);
        let was_idle = read == 0 && dirty.is_empty();
        for at in &dirty {
            self.drive(*at)?;
        }
        if was_idle {
            let patience = end.saturating_duration_since(now).min(TIMER_INTERVAL);
            self.wait(patience)?;
        }
        Ok(())
    }

    /// One more byte for every stream of a slow client.
    fn write_slowly(&mut self) {
        for at in 0..self.peers.len() {
            let peer = &mut self.peers[at];
            let inner = &mut peer.inner;
            // Stopped ones are not written to again.
            peer.slow.retain(|id| inner.send_stream(*id).write(&[1]).is_ok());
            self.schedule(at);
        }
    }

    fn wait(&self, timeout: Duration) -> Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let timeout = Timespec::try_from(timeout.min(Duration::from_millis(20)))?;
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(err) => Err(err.into()),
        }
    }

    fn read(&mut self) -> Result<usize> {
        let mut count = 0;
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut parts = self.receive.chunks_exact_mut(65_536);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        let messages = match self.state.recv((&self.socket).into(), &mut slices, &mut metas) {
            Ok(messages) => messages,
            Err(err) if err.kind() == std::io::ErrorKind::WouldBlock => return Ok(0),
            Err(err) => return Err(err.into()),
        };
        let mut touched = Vec::new();
        for (meta, message) in metas.iter().take(messages).zip(self.receive.chunks_exact(65_536)) {
            for datagram in message[..meta.len].chunks(meta.stride.max(1)) {
                count += 1;
                self.scratch.clear();
                let event = self.endpoint.handle(
                    clock::now(),
                    meta.addr,
                    None,
                    None,
                    BytesMut::from(datagram),
                    &mut self.scratch,
                );
                if let Some(DatagramEvent::ConnectionEvent(handle, event)) = event {
                    let at = self.by_handle[handle.0];
                    self.peers[at].inner.handle_event(event);
                    touched.push(at);
                }
            }
        }
        touched.into_iter().for_each(|at| self.schedule(at));
        Ok(count)
    }

    fn drive(&mut self, at: usize) -> Result<()> {
        let now = clock::now();
        let peer = &mut self.peers[at];
        peer.needs_processing = false;
        while let Some(event) = peer.inner.poll() {
            match event {
                Event::Connected => peer.is_connected = true,
                Event::ConnectionLost { reason } => {
                    ensure!(
                        self.plan.behavior != ClientBehavior::Honest,
                        "connection lost: {reason}"
                    );
                    peer.is_lost = true;
                }
                Event::Stream(StreamEvent::Finished { .. }) => peer.finished += 1,
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    peer.abandoned += 1;
                    // It may have been acknowledged meanwhile.
                    let _ = peer.inner.send_stream(id).reset(VarInt::from_u32(0));
                }
                _ => {}
            }
        }
        if self.peers[at].is_connected && !self.peers[at].is_lost {
            self.write(at);
        }
        let Self { peers, endpoint, scratch, socket, state, plan, load, random, .. } = self;
        let peer = &mut peers[at];
        while let Some(event) = peer.inner.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(peer.handle, event) {
                peer.inner.handle_event(event);
            }
        }
        let segments = if load.offload { SEGMENTS } else { 1 };
        scratch.clear();
        while let Some(transmit) = peer.inner.poll_transmit(now, segments, scratch) {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            if *random % 1_000 >= u64::from(plan.loss) {
                let transmit = quinn_udp::Transmit {
                    destination: transmit.destination,
                    ecn: None,
                    contents: &scratch[..transmit.size],
                    segment_size: transmit.segment_size,
                    src_ip: None,
                };
                // Datagrams that do not fit are lost, as on any network.
                let _ = state.try_send((&*socket).into(), &transmit);
            }
            scratch.clear();
        }
        Ok(())
    }

    /// Opens as many streams as allowed, and writes them whole.
    fn write(&mut self, at: usize) {
        // Each connection gets its share, so that thousands of connections all have some.
        let count = self.peers.len() as u64;
        let part = (self.allowed / count).saturating_add(1);
        let under_way_max = (self.plan.in_flight_max / count).max(IN_FLIGHT_MIN);
        if !self.peers[at].write_pending() {
            return;
        }
        while self.sent < self.allowed
            && self.peers[at].opened < part
            && self.peers[at].in_flight() < under_way_max
        {
            let Some(id) = self.peers[at].inner.streams().open(Dir::Uni) else { return };
            self.sent += 1;
            self.peers[at].opened += 1;
            let bytes = self.transaction();
            if !self.fill(at, id, bytes) {
                return;
            }
        }
    }

    /// Writes a stream. Returns false if the windows had no space for all of it.
    fn fill(&mut self, at: usize, id: StreamId, bytes: Bytes) -> bool {
        let peer = &mut self.peers[at];
        let number = peer.opened;
        let mut stream = peer.inner.send_stream(id);
        let ends = match self.plan.behavior {
            ClientBehavior::Honest => true,
            ClientBehavior::Stall if !peer.has_stalled => {
                peer.has_stalled = true;
                peer.abandoned += 1;
                false
            }
            ClientBehavior::Stall => true,
            ClientBehavior::Greedy => false,
            ClientBehavior::Slow => {
                peer.slow.push(id);
                false
            }
            ClientBehavior::Broken => {
                match number % 3 {
                    0 => drop(stream.write(&[1; 1_233])),
                    1 => {}
                    _ => {
                        drop(stream.write(&bytes[..bytes.len() / 2]));
                        drop(stream.reset(VarInt::from_u32(1)));
                        return true;
                    }
                }
                drop(stream.finish());
                return true;
            }
        };
        if ends {
            peer.pending = Some((id, bytes));
            return peer.write_pending();
        }
        // One byte, which fits wherever a stream does.
        drop(stream.write(&bytes[..1]));
        true
    }

    fn transaction(&mut self) -> Bytes {
        let number = self.sent;
        if !self.transactions.is_empty() {
            return self.transactions[number as usize % self.transactions.len()].clone();
        }
        // The real mix: most are small, some fill a packet.
        let bytes = match self.load.bytes {
            0 => [230, 300, 420, 300, 650, 900, 300, 1_232][number as usize % 8],
            bytes => bytes,
        };
        let mut transaction = vec![1; bytes];
        let first = if bytes > 1_232 { 0x81 } else { 1 };
        transaction[0] = first;
        transaction[1..9].copy_from_slice(&number.to_le_bytes());
        Bytes::from(transaction)
    }
}

/// A file of transactions: each its length in four bytes, then its bytes.
fn read_transactions(path: &str) -> Result<Vec<Bytes>> {
    let mut file = Bytes::from(std::fs::read(path)?);
    let mut all = Vec::new();
    while file.len() > 4 {
        let len = file.split_to(4);
        let len = u32::from_le_bytes(len.as_ref().try_into()?) as usize;
        all.push(file.split_to(len.min(file.len())));
    }
    Ok(all)
}

/// The next command on standard input.
fn lines() -> Result<Receiver<String>> {
    let (to, from) = sync_channel(16);
    std::thread::Builder::new().name("lines".into()).spawn(move || {
        let lines = std::io::stdin().lock().lines();
        // The receiver is dropped: the generator has ended.
        lines.map_while(Result::ok).all(|line| to.send(line).is_ok())
    })?;
    Ok(from)
}

#[expect(clippy::print_stdout, reason = "the benchmark reads it")]
fn print_line(text: &str) -> Result<()> {
    println!("{text}");
    Ok(std::io::stdout().flush()?)
}
