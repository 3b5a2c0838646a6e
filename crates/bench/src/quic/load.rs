//! The load generator, in its own process: many connections, each sending transactions one to a stream.
//!
//! Shape: `bench quic-load PORT KEY=VALUE...`. It says `ready` when all are connected and the warm-up has
//! been acknowledged, waits for a line, sends the measured streams, and says how many nanoseconds that
//! took. One thread, one socket, `quinn-proto` driven directly: it has to be cheaper than any server.
//! Not here: what is measured (`quic.rs`).

use std::collections::BTreeMap;
use std::io::{BufRead, IoSliceMut, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use quic::{Identity, client_config};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, StreamEvent, StreamId, TransportConfig, VarInt,
};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use solana_keypair::Keypair;
use solana_signer::Signer;

/// Datagrams in one transmission with offload.
const SEGMENTS: usize = 10;
/// How long a connection may take, and a stream to be acknowledged.
const PATIENCE: Duration = Duration::from_secs(60);
/// Handshakes under way at once.
const HANDSHAKES: usize = 32;
/// Streams that one connection may have under way: less than this means that the server's window limits.
const UNDER_WAY_MAX: u64 = 1 << 20;

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// End every stream.
    Honest,
    /// Leave one stream of each connection unfinished, and end all others.
    Stall,
    /// Open every stream there is and end none.
    Greedy,
    /// Send what is no transaction: too long, empty, reset.
    Broken,
}

struct Plan {
    server: SocketAddr,
    connections: usize,
    bytes: usize,
    /// Streams of all connections together.
    warm_up: u64,
    streams: u64,
    offload: bool,
    /// Share of datagrams thrown away instead of sent, in thousandths.
    loss: u32,
    manner: Manner,
    /// Send for so long instead of so many.
    seconds: Option<f64>,
    transactions: Option<String>,
    /// One key for all connections, instead of one for each.
    one_identity: bool,
}

/// One connection.
struct Peer {
    handle: ConnectionHandle,
    inner: Connection,
    is_connected: bool,
    is_lost: bool,
    opened: u64,
    finished: u64,
    is_dirty: bool,
    has_stalled: bool,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let plan = plan(args)?;
    Generator::new(plan)?.run()
}

fn plan(args: &[String]) -> Result<Plan> {
    let (port, rest) = args.split_first().context("quic-load PORT KEY=VALUE...")?;
    let given: BTreeMap<&str, &str> = rest.iter().filter_map(|arg| arg.split_once('=')).collect();
    let number = |key: &str, default: u64| -> Result<u64> {
        given.get(key).map_or(Ok(default), |text| text.parse().with_context(|| key.to_owned()))
    };
    Ok(Plan {
        server: SocketAddr::from(([127, 0, 0, 1], port.parse()?)),
        connections: number("connections", 1)? as usize,
        bytes: number("bytes", 300)? as usize,
        warm_up: number("warm-up", 0)?,
        streams: number("streams", 100_000)?,
        offload: number("offload", 0)? != 0,
        loss: number("loss", 0)? as u32,
        manner: match given.get("manner") {
            None | Some(&"honest") => Manner::Honest,
            Some(&"stall") => Manner::Stall,
            Some(&"greedy") => Manner::Greedy,
            Some(&"broken") => Manner::Broken,
            Some(other) => bail!("no manner {other}"),
        },
        seconds: given.get("seconds").map(|text| text.parse()).transpose()?,
        transactions: given.get("transactions").map(|path| (*path).to_owned()),
        one_identity: number("one-identity", 0)? != 0,
    })
}

/// The seed of the key that all connections have in common.
const SEED: [u8; 32] = [7; 32];

/// The configuration of one connection.
fn config(plan: &Plan) -> Result<ClientConfig> {
    let keypair = if plan.one_identity { Keypair::new_from_array(SEED) } else { Keypair::new() };
    let identity = Identity::new(*keypair.secret_bytes(), keypair.pubkey());
    let mut config = ClientConfig::new(Arc::new(client_config(&identity)?));
    let mut transport = TransportConfig::default();
    transport
        .keep_alive_interval(Some(Duration::from_secs(1)))
        .max_idle_timeout(Some(VarInt::from_u32(30_000).into()))
        .send_fairness(false)
        .enable_segmentation_offload(plan.offload);
    config.transport_config(Arc::new(transport));
    Ok(config)
}

struct Generator {
    plan: Plan,
    endpoint: Endpoint,
    socket: UdpSocket,
    state: UdpSocketState,
    peers: Vec<Peer>,
    by_handle: Vec<usize>,
    dirty: Vec<usize>,
    /// What is sent: real transactions, or bytes that differ by their number.
    transactions: Vec<Bytes>,
    sent: u64,
    /// Streams that may be opened, all in all.
    allowed: u64,
    scratch: Vec<u8>,
    receive: Vec<u8>,
    random: u64,
}

impl Generator {
    fn new(plan: Plan) -> Result<Self> {
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
            dirty: Vec::new(),
            transactions,
            sent: 0,
            allowed: plan.warm_up,
            scratch: Vec::new(),
            random: 0x9e37_79b9_7f4a_7c15,
            plan,
        })
    }

    fn run(mut self) -> Result<()> {
        self.connect_all()?;
        // A stalled stream is one that does not finish.
        let stalled = match self.plan.manner {
            Manner::Stall => self.plan.connections as u64,
            _ => 0,
        };
        self.run_until(|this| this.finished() + stalled >= this.plan.warm_up)?;
        say("ready")?;
        wait_for_line()?;
        let began = crate::now();
        let before = self.finished();
        match self.plan.seconds {
            None => {
                self.allowed = self.sent + self.plan.streams;
                let wanted = before + self.plan.streams;
                self.mark_all();
                self.run_until(|this| this.finished() >= wanted)?;
            }
            Some(seconds) => {
                self.allowed = u64::MAX;
                self.mark_all();
                let end = began + Duration::from_secs_f64(seconds);
                while crate::now() < end {
                    self.step(end)?;
                }
            }
        }
        let took = began.elapsed().as_nanos();
        let lost = self.peers.iter().filter(|peer| peer.is_lost).count();
        say(&format!("{took} {} {} {lost}", self.finished() - before, self.sent))?;
        // Connections stay open until the benchmark says otherwise, or ends us.
        let waiter = std::thread::spawn(wait_for_line);
        while !waiter.is_finished() {
            self.step(crate::now() + Duration::from_millis(20))?;
        }
        let now = crate::now();
        for at in 0..self.peers.len() {
            self.peers[at].inner.close(now, VarInt::from_u32(0), Bytes::new());
            self.drive(at)?;
        }
        Ok(())
    }

    fn finished(&self) -> u64 {
        self.peers.iter().map(|peer| peer.finished).sum()
    }

    fn connect_all(&mut self) -> Result<()> {
        let end = crate::now() + PATIENCE;
        loop {
            let connected = self.peers.iter().filter(|peer| peer.is_connected).count();
            if connected == self.plan.connections {
                return Ok(());
            }
            ensure!(crate::now() < end, "{connected} connected in time");
            while self.peers.len() < self.plan.connections
                && self.peers.len() - connected < HANDSHAKES
            {
                let now = crate::now();
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
                    is_dirty: false,
                    has_stalled: false,
                });
                self.mark(at);
            }
            self.step(end)?;
        }
    }

    fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> Result<()> {
        let mut progress = (0, crate::now());
        let mut steps = 0u32;
        loop {
            // Counting all peers is not free with thousands of them.
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(8) || self.peers.len() < 64 {
                if done(self) {
                    return Ok(());
                }
                let finished = self.finished();
                if finished > progress.0 {
                    progress = (finished, crate::now());
                }
                ensure!(progress.1.elapsed() < PATIENCE, "stuck after {finished} streams");
            }
            self.step(crate::now() + Duration::from_millis(20))?;
        }
    }

    fn mark(&mut self, at: usize) {
        if !std::mem::replace(&mut self.peers[at].is_dirty, true) {
            self.dirty.push(at);
        }
    }

    fn mark_all(&mut self) {
        (0..self.peers.len()).for_each(|at| self.mark(at));
    }

    /// Reads what is there, lets everybody write, and waits if there is nothing to do.
    fn step(&mut self, end: Instant) -> Result<()> {
        let read = self.read()?;
        let now = crate::now();
        for at in 0..self.peers.len() {
            if self.peers[at].inner.poll_timeout().is_some_and(|timeout| timeout <= now) {
                self.peers[at].inner.handle_timeout(now);
                self.mark(at);
            }
        }
        let dirty = std::mem::take(&mut self.dirty);
        let was_idle = read == 0 && dirty.is_empty();
        for at in dirty {
            self.drive(at)?;
        }
        if was_idle {
            let timers = self.peers.iter_mut().filter_map(|peer| peer.inner.poll_timeout()).min();
            let until = timers.map_or(end, |timer| timer.min(end));
            self.wait(until.saturating_duration_since(now))?;
        }
        Ok(())
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
                    crate::now(),
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
        touched.into_iter().for_each(|at| self.mark(at));
        Ok(count)
    }

    fn drive(&mut self, at: usize) -> Result<()> {
        let now = crate::now();
        let peer = &mut self.peers[at];
        peer.is_dirty = false;
        while let Some(event) = peer.inner.poll() {
            match event {
                Event::Connected => peer.is_connected = true,
                Event::ConnectionLost { reason } => {
                    ensure!(self.plan.manner != Manner::Honest, "connection lost: {reason}");
                    peer.is_lost = true;
                }
                Event::Stream(StreamEvent::Finished { .. }) => peer.finished += 1,
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    // It may have been acknowledged meanwhile.
                    let _ = peer.inner.send_stream(id).reset(VarInt::from_u32(0));
                }
                _ => {}
            }
        }
        if self.peers[at].is_connected && !self.peers[at].is_lost {
            self.write(at);
        }
        let Self { peers, endpoint, scratch, socket, state, plan, random, .. } = self;
        let peer = &mut peers[at];
        while let Some(event) = peer.inner.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(peer.handle, event) {
                peer.inner.handle_event(event);
            }
        }
        let segments = if plan.offload { SEGMENTS } else { 1 };
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
                // What does not fit is lost, as anywhere.
                let _ = state.try_send((&*socket).into(), &transmit);
            }
            scratch.clear();
        }
        Ok(())
    }

    /// Opens as many streams as there may be, and writes them whole.
    fn write(&mut self, at: usize) {
        // Everybody gets his part, so that thousands of connections all have some.
        let part = (self.allowed / self.peers.len() as u64).saturating_add(1);
        while self.sent < self.allowed
            && self.peers[at].opened < part
            && self.peers[at].opened - self.peers[at].finished < UNDER_WAY_MAX
        {
            let Some(id) = self.peers[at].inner.streams().open(Dir::Uni) else { return };
            self.sent += 1;
            self.peers[at].opened += 1;
            let bytes = self.transaction();
            self.fill(at, id, &bytes);
        }
    }

    fn fill(&mut self, at: usize, id: StreamId, bytes: &Bytes) {
        let peer = &mut self.peers[at];
        let number = peer.opened;
        let mut stream = peer.inner.send_stream(id);
        let ends = match self.plan.manner {
            Manner::Honest => true,
            Manner::Stall => std::mem::replace(&mut peer.has_stalled, true),
            Manner::Greedy => false,
            Manner::Broken => {
                match number % 3 {
                    0 => drop(stream.write(&[1; 1_233])),
                    1 => {}
                    _ => {
                        drop(stream.write(&bytes[..bytes.len() / 2]));
                        drop(stream.reset(VarInt::from_u32(1)));
                        return;
                    }
                }
                drop(stream.finish());
                return;
            }
        };
        let bytes = if ends { &bytes[..] } else { &bytes[..1] };
        // The send window is far larger than all that may be under way.
        drop(stream.write(bytes));
        if ends {
            drop(stream.finish());
        }
    }

    fn transaction(&mut self) -> Bytes {
        let number = self.sent;
        if !self.transactions.is_empty() {
            return self.transactions[number as usize % self.transactions.len()].clone();
        }
        // The real mix: most are small, some fill a packet.
        let bytes = match self.plan.bytes {
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

fn wait_for_line() -> Result<()> {
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is how the benchmark hears of it")]
fn say(text: &str) -> Result<()> {
    println!("{text}");
    Ok(std::io::stdout().flush()?)
}
