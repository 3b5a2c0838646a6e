//! A server, clients, and links between them that lose, delay and duplicate datagrams, on simulated
//! time.
//!
//! Invariant: real time is read only at the start; a run takes as long as its work.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api_keys::ApiKeys;
use quinn_proto::Transmit;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use solana_keypair::Keypair;
use tpu::{Config, ConnectionAdmission, Counters, DatagramSender, Driver, MetricsSnapshot};

use crate::client::{Client, identity};
use crate::collecting_sink::CollectingSink;

/// The effects of links on datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Network delay in one direction.
    pub(crate) delay: Duration,
    pub(crate) loss: f64,
    pub(crate) repeat: f64,
    /// Additional delay of a datagram, at most.
    pub(crate) jitter: Duration,
}

impl Default for Link {
    fn default() -> Self {
        Self { delay: Duration::from_millis(10), loss: 0.0, repeat: 0.0, jitter: Duration::ZERO }
    }
}

/// A datagram in flight: its arrival, a sequence number, its receiver, its bytes.
type Flying = Reverse<(Instant, u64, Option<usize>, Vec<u8>)>;

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) server: Driver,
    pub(crate) sink: CollectingSink,
    pub(crate) counters: Counters,
    pub(crate) admission: Arc<ConnectionAdmission>,
    pub(crate) clients: Vec<Option<Client>>,
    pub(crate) addresses: Vec<SocketAddr>,
    in_flight: BinaryHeap<Flying>,
    number: u64,
    link: Link,
    random: StdRng,
}

/// Collects the datagrams of the server.
#[derive(Default)]
struct Sent(Vec<(SocketAddr, Vec<u8>)>);

impl DatagramSender for Sent {
    fn send(&mut self, transmit: &Transmit, datagram: &[u8]) {
        self.0.push((transmit.destination, datagram.to_vec()));
    }
}

#[expect(clippy::disallowed_methods, reason = "simulated time has to begin somewhere")]
fn start_time() -> Instant {
    Instant::now()
}

impl World {
    pub(crate) fn new(config: Config, link: Link, seed: u64) -> Self {
        Self::with_keys(config, link, seed, None)
    }

    /// A world whose server admits the identities of API keys.
    pub(crate) fn with_keys(
        config: Config,
        link: Link,
        seed: u64,
        keys: Option<Arc<ApiKeys>>,
    ) -> Self {
        let now = start_time();
        let config = Arc::new(config);
        let admission = ConnectionAdmission::new(Arc::clone(&config), now).with_api_keys(keys);
        let admission = Arc::new(admission);
        let server = Driver::new(config, Arc::clone(&admission), &identity(&Keypair::new()), now)
            .expect("TLS");
        Self {
            now,
            server,
            sink: CollectingSink::default(),
            counters: Counters::default(),
            admission,
            clients: Vec::new(),
            addresses: Vec::new(),
            in_flight: BinaryHeap::new(),
            number: 0,
            link,
            random: StdRng::seed_from_u64(seed),
        }
    }

    pub(crate) fn server_address() -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 8003))
    }

    /// Connects a client with a key of its own. Returns its index.
    pub(crate) fn connect(&mut self) -> usize {
        self.connect_as(&Keypair::new())
    }

    pub(crate) fn connect_as(&mut self, keypair: &Keypair) -> usize {
        let at = self.clients.len();
        self.clients.push(Some(Client::connect(Self::server_address(), keypair, self.now)));
        self.addresses.push(SocketAddr::from(([10, 1, (at >> 8) as u8, at as u8], 5_000)));
        self.drive_client(at);
        at
    }

    pub(crate) fn client(&mut self, at: usize) -> &mut Client {
        self.clients[at].as_mut().expect("this client is there")
    }

    /// Removes a client without closing its connection.
    pub(crate) fn vanish(&mut self, at: usize) {
        self.clients[at] = None;
    }

    /// Runs until `done` is true, and panics after `limit` of simulated time.
    pub(crate) fn run_until(&mut self, limit: Duration, done: impl Fn(&mut Self) -> bool) {
        let end = self.now + limit;
        while !done(self) {
            if !self.step(end) && !done(self) {
                let metrics = self.metrics();
                panic!("not done after {limit:?}: {metrics}");
            }
        }
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {}
    }

    pub(crate) fn metrics(&mut self) -> MetricsSnapshot {
        self.server.publish(&self.counters);
        self.counters.snapshot()
    }

    /// Advances to the next event. Returns `false` if it is after `end`.
    fn step(&mut self, end: Instant) -> bool {
        for at in 0..self.clients.len() {
            self.drive_client(at);
        }
        let arrival = self.in_flight.peek().map(|Reverse((when, ..))| *when);
        let clients = self.clients.iter_mut().flatten().filter_map(Client::next_timeout).min();
        let next = [arrival, clients, self.server.next_timeout()].into_iter().flatten().min();
        let Some(next) = next.filter(|next| *next <= end) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(next);
        let mut sent = Sent::default();
        while let Some(Reverse((when, ..))) = self.in_flight.peek()
            && *when <= self.now
        {
            let Some(Reverse((_, _, to, datagram))) = self.in_flight.pop() else { break };
            match to {
                Some(at) => {
                    let now = self.now;
                    if let Some(client) = &mut self.clients[at] {
                        client.datagram(now, Self::server_address(), &datagram);
                    }
                }
                None => {
                    // The first eight bytes are the sender's index.
                    let (from, datagram) = datagram.split_at(8);
                    let at = u64::from_le_bytes(from.try_into().expect("eight bytes")) as usize;
                    let from = self.addresses[at];
                    self.server.handle_datagram(self.now, from, None, None, datagram, &mut sent);
                }
            }
        }
        self.server.drive(self.now, &mut sent, &self.sink);
        for (to, datagram) in sent.0 {
            if let Some(at) = self.addresses.iter().position(|address| *address == to) {
                self.fly(Some(at), datagram);
            }
        }
        true
    }

    fn drive_client(&mut self, at: usize) {
        let now = self.now;
        let Some(client) = &mut self.clients[at] else { return };
        let mut out = Vec::new();
        client.drive(now, &mut out);
        for datagram in out {
            let with_sender = [&(at as u64).to_le_bytes()[..], &datagram].concat();
            self.fly(None, with_sender);
        }
    }

    /// Sends any datagram to the server, as if from a client.
    pub(crate) fn inject(&mut self, at: usize, datagram: &[u8]) {
        let with_sender = [&(at as u64).to_le_bytes()[..], datagram].concat();
        self.fly(None, with_sender);
    }

    fn fly(&mut self, to: Option<usize>, datagram: Vec<u8>) {
        if self.random.random_bool(self.link.loss) {
            return;
        }
        if self.random.random_bool(self.link.repeat) {
            self.take_off(to, datagram.clone());
        }
        self.take_off(to, datagram);
    }

    fn take_off(&mut self, to: Option<usize>, datagram: Vec<u8>) {
        let jitter = self.link.jitter.mul_f64(self.random.random_range(0.0..=1.0));
        self.number += 1;
        let arrival = self.now + self.link.delay + jitter;
        self.in_flight.push(Reverse((arrival, self.number, to, datagram)));
    }
}

/// Creates different transactions of `bytes` bytes each.
pub(crate) fn transactions(from: u32, count: u32, bytes: usize) -> Vec<Vec<u8>> {
    let one = |number: u32| {
        let mut transaction = vec![1; bytes];
        transaction[1..5].copy_from_slice(&number.to_le_bytes());
        for (at, byte) in transaction.iter_mut().enumerate().skip(5) {
            *byte = (at as u32).wrapping_mul(number.wrapping_add(7)) as u8;
        }
        transaction
    };
    (from..from + count).map(one).collect()
}
