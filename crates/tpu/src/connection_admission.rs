//! Who may connect: counts of connections in all, by address and by identity; rates of handshakes; the
//! weights of identities. One gate for all shards, asked only when connections come and go.
//!
//! Invariant: each [`ConnectionAdmission::on_incoming`] that let one in is followed by exactly one of `abandon`, or `admit`
//! and, if that let it in, `leave`.
//! Not here: how many streams a connection gets (`window`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use chain_solana::Sender;
use foldhash::quality::RandomState;
use parking_lot::Mutex;
use pool::ClientId;
use solana_pubkey::Pubkey;

use crate::config::Config;
use crate::counters::DropReason;
use crate::stream_window::PeerLoad;
use crate::token_bucket::{RateConfig, TokenBucket, TokenBucketTable};
use crate::transaction::PeerId;
use crate::weights::Weights;

/// Addresses whose rate of handshakes is known: about 4 MB.
const RATED_ADDRESSES_MAX: usize = 65_536;

/// What becomes of a first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncomingDecision {
    Accept,
    /// Prove your address first.
    Retry,
    /// No answer, which costs least.
    Ignore(DropReason),
    /// An answer that says no.
    Refuse(DropReason),
}

/// The one gate of all shards.
pub struct ConnectionAdmission {
    config: Arc<Config>,
    state: Mutex<State>,
    /// Changes whenever a window may have to.
    version: AtomicU64,
}

struct State {
    connections: usize,
    handshakes: usize,
    addresses: HashMap<IpAddr, usize, RandomState>,
    by_key: HashMap<Key, u32, RandomState>,
    peers: Vec<Option<Peer>>,
    free: Vec<u32>,
    weights: Weights,
    /// The sum of weights of connected identities that have one.
    weights_sum: u64,
    /// Connections of all others.
    unweighted_connections: usize,
    global_bucket: TokenBucket,
    address_buckets: TokenBucketTable,
}

/// What a peer is known by: a certificate whose key is not Ed25519 shows no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Identity(Pubkey),
    Address(IpAddr),
}

struct Peer {
    key: Key,
    /// Where its newest connection came from.
    address: IpAddr,
    connections: usize,
    weight: Option<u32>,
}

impl Peer {
    /// Whose share of the ledger's queue its transactions are counted to. An identity costs nothing to make, so only
    /// those that the weights' file names have one of their own; all others of an address are one client, as over RPC.
    fn sender(&self) -> Sender {
        match (self.key, self.weight) {
            (Key::Identity(identity), Some(weight)) => {
                Sender { client: ClientId::from_name(identity.as_ref()), weight }
            }
            _ => ClientId::from_ip(self.address).into(),
        }
    }
}

impl ConnectionAdmission {
    /// A gate with nobody inside.
    pub fn new(config: Arc<Config>, now: Instant) -> Self {
        let per_minute = f64::from(config.handshakes_per_address_per_minute);
        let common = global_rate(&config);
        let rates = TokenBucketTable::new(
            RateConfig { per_second: per_minute / 60.0, burst: per_minute },
            RATED_ADDRESSES_MAX,
        );
        let state = State {
            connections: 0,
            handshakes: 0,
            addresses: HashMap::default(),
            by_key: HashMap::default(),
            peers: Vec::new(),
            free: Vec::new(),
            weights: Weights::default(),
            weights_sum: 0,
            unweighted_connections: 0,
            global_bucket: TokenBucket::new_full(common, now),
            address_buckets: rates,
        };
        Self { config, state: Mutex::new(state), version: AtomicU64::new(0) }
    }

    /// Decides about a first packet from `address`.
    pub(crate) fn on_incoming(
        &self,
        address: IpAddr,
        is_proved: bool,
        now: Instant,
    ) -> IncomingDecision {
        let state = &mut *self.state.lock();
        let config = &self.config;
        if !is_proved && state.handshakes >= config.retry_above {
            return IncomingDecision::Retry;
        }
        if state.handshakes >= config.handshakes_max {
            return IncomingDecision::Ignore(DropReason::HandshakeRate);
        }
        if state.connections >= config.connections_max {
            return IncomingDecision::Refuse(DropReason::ConnectionsFull);
        }
        let from_address = state.addresses.get(&address).copied().unwrap_or_default();
        if from_address >= config.connections_per_address_max {
            return IncomingDecision::Refuse(DropReason::AddressFull);
        }
        if !state.address_buckets.take_token(address, now)
            || !state.global_bucket.take_token(global_rate(config), now)
        {
            return IncomingDecision::Ignore(DropReason::HandshakeRate);
        }
        state.connections += 1;
        state.handshakes += 1;
        *state.addresses.entry(address).or_default() += 1;
        IncomingDecision::Accept
    }

    /// A handshake came to nothing.
    pub(crate) fn on_handshake_failed(&self, address: IpAddr) {
        let state = &mut *self.state.lock();
        state.handshakes -= 1;
        state.release_connection(address);
    }

    /// A handshake is complete: who is it, and may he?
    pub(crate) fn admit(
        &self,
        address: IpAddr,
        identity: Option<Pubkey>,
    ) -> Result<(PeerId, Sender), DropReason> {
        let state = &mut *self.state.lock();
        state.handshakes -= 1;
        let key = identity.map_or(Key::Address(address), Key::Identity);
        let weight = identity.and_then(|identity| state.weights.get(&identity).copied());
        let at = match state.by_key.get(&key) {
            Some(at) => *at,
            None => state.insert_peer(Peer { key, address, connections: 0, weight }),
        };
        // The table has it: it was found by its key, or just added.
        let Some(peer) = state.peers[at as usize].as_mut() else { return Err(DropReason::Closed) };
        if peer.connections >= self.config.connections_per_identity_max {
            state.release_connection(address);
            return Err(DropReason::IdentityFull);
        }
        peer.connections += 1;
        peer.address = address;
        let sender = peer.sender();
        if peer.weight.is_none() {
            state.unweighted_connections += 1;
        }
        self.version.fetch_add(1, Ordering::Relaxed);
        Ok((PeerId(at), sender))
    }

    /// An admitted connection has ended.
    pub(crate) fn on_closed(&self, address: IpAddr, peer: PeerId) {
        let state = &mut *self.state.lock();
        state.release_connection(address);
        let Some(Some(entry)) = state.peers.get_mut(peer.0 as usize) else { return };
        entry.connections -= 1;
        match entry.weight {
            None => state.unweighted_connections -= 1,
            Some(weight) if entry.connections == 0 => state.weights_sum -= u64::from(weight),
            Some(_) => {}
        }
        if entry.connections == 0 {
            let key = entry.key;
            state.by_key.remove(&key);
            state.peers[peer.0 as usize] = None;
            state.free.push(peer.0);
        }
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    /// What a peer's windows depend on.
    pub(crate) fn peer_load(&self, peer: PeerId) -> PeerLoad {
        let state = self.state.lock();
        let entry = state.peers.get(peer.0 as usize).and_then(Option::as_ref);
        PeerLoad {
            weight: entry.and_then(|peer| peer.weight),
            connections: entry.map_or(0, |peer| peer.connections),
            weights: state.weights_sum,
            unweighted_connections: state.unweighted_connections,
        }
    }

    /// Changes with everything that windows depend on.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Whether connections are about to run out, so that those that do nothing have to go.
    pub(crate) fn is_crowded(&self) -> bool {
        self.state.lock().connections * 10 > self.config.connections_max * 9
    }

    /// Puts new weights in force, for those who are connected too. Returns who weighs what now.
    pub(crate) fn set_weights(&self, weights: Weights) -> Vec<(PeerId, Sender)> {
        let state = &mut *self.state.lock();
        state.weights = weights;
        (state.weights_sum, state.unweighted_connections) = (0, 0);
        let mut all = Vec::new();
        for (at, peer) in state.peers.iter_mut().enumerate() {
            let Some(peer) = peer else { continue };
            peer.weight = match &peer.key {
                Key::Identity(identity) => state.weights.get(identity).copied(),
                Key::Address(_) => None,
            };
            match peer.weight {
                Some(weight) => state.weights_sum += u64::from(weight),
                None => state.unweighted_connections += peer.connections,
            }
            all.push((PeerId(at as u32), peer.sender()));
        }
        self.version.fetch_add(1, Ordering::Relaxed);
        all
    }

    /// Forgets what is of no use any more; call it now and then.
    pub(crate) fn evict_stale(&self, now: Instant) {
        let state = &mut *self.state.lock();
        state.address_buckets.evict_full(now);
        while state.peers.last().is_some_and(Option::is_none) {
            state.peers.pop();
        }
        let len = state.peers.len();
        state.free.retain(|at| (*at as usize) < len);
        state.peers.shrink_to(len * 2);
        state.free.shrink_to(state.free.len() * 2);
        state.addresses.shrink_to(state.addresses.len() * 2);
        state.by_key.shrink_to(state.by_key.len() * 2);
    }

    /// Connections, those that are not complete yet included.
    pub fn connections(&self) -> usize {
        self.state.lock().connections
    }
}

impl State {
    fn insert_peer(&mut self, peer: Peer) -> u32 {
        if let Some(weight) = peer.weight {
            self.weights_sum += u64::from(weight);
        }
        let key = peer.key;
        let at = match self.free.pop() {
            Some(at) => {
                self.peers[at as usize] = Some(peer);
                at
            }
            None => {
                self.peers.push(Some(peer));
                (self.peers.len() - 1) as u32
            }
        };
        self.by_key.insert(key, at);
        at
    }

    fn release_connection(&mut self, address: IpAddr) {
        self.connections -= 1;
        if let Some(count) = self.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
    }
}

fn global_rate(config: &Config) -> RateConfig {
    let per_second = f64::from(config.handshakes_per_second);
    RateConfig { per_second, burst: per_second }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn admission(config: Config) -> (ConnectionAdmission, Instant) {
        let now = clock::now();
        (ConnectionAdmission::new(Arc::new(config), now), now)
    }

    fn key(n: u8) -> Option<Pubkey> {
        Some(Pubkey::new_from_array([n; 32]))
    }

    #[test]
    fn each_limit_has_its_own_decision_and_closing_frees_a_connection() {
        let (gate, now) = admission(Config {
            connections_max: 3,
            connections_per_address_max: 2,
            connections_per_identity_max: 1,
            ..Config::default()
        });
        let other = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(gate.on_incoming(HERE, false, now), IncomingDecision::Accept);
        let (peer, sender) = gate.admit(HERE, key(1)).expect("the first");
        assert_eq!(sender, ClientId::from_ip(HERE).into());
        assert_eq!(gate.on_incoming(HERE, false, now), IncomingDecision::Accept);
        assert_eq!(gate.admit(HERE, key(1)), Err(DropReason::IdentityFull));
        assert_eq!(gate.on_incoming(HERE, false, now), IncomingDecision::Accept);
        assert_eq!(
            gate.on_incoming(HERE, false, now),
            IncomingDecision::Refuse(DropReason::AddressFull)
        );
        assert_eq!(gate.on_incoming(other, false, now), IncomingDecision::Accept);
        assert_eq!(
            gate.on_incoming(other, false, now),
            IncomingDecision::Refuse(DropReason::ConnectionsFull)
        );
        gate.on_closed(HERE, peer);
        assert_eq!(gate.on_incoming(other, false, now), IncomingDecision::Accept);
        gate.on_handshake_failed(other);
        assert_eq!(gate.connections(), 2);
    }

    #[test]
    fn many_handshakes_under_way_require_a_retry_and_then_are_ignored() {
        let (gate, now) =
            admission(Config { retry_above: 1, handshakes_max: 2, ..Config::default() });
        assert_eq!(gate.on_incoming(HERE, false, now), IncomingDecision::Accept);
        assert_eq!(gate.on_incoming(HERE, false, now), IncomingDecision::Retry);
        assert_eq!(gate.on_incoming(HERE, true, now), IncomingDecision::Accept);
        assert_eq!(
            gate.on_incoming(HERE, true, now),
            IncomingDecision::Ignore(DropReason::HandshakeRate)
        );
    }

    #[test]
    fn handshakes_of_an_address_have_a_rate() {
        let (gate, now) =
            admission(Config { handshakes_per_address_per_minute: 60, ..Config::default() });
        let let_in = |at| {
            (0..100)
                .filter(|_| gate.on_incoming(HERE, true, at) == IncomingDecision::Accept)
                .inspect(|_| gate.on_handshake_failed(HERE))
                .count()
        };
        assert_eq!((let_in(now), let_in(now + Duration::from_secs(10))), (60, 10));
    }

    #[test]
    fn new_weights_apply_to_connected_peers() {
        let (gate, now) = admission(Config::default());
        let peers = [1, 2].map(|n| {
            assert_eq!(gate.on_incoming(HERE, true, now), IncomingDecision::Accept);
            gate.admit(HERE, key(n)).expect("let in").0
        });
        let before = gate.version();
        let weights = [(Pubkey::new_from_array([1; 32]), 30)].into_iter().collect();
        // What the file names has a share of its own, everything else of an address one together.
        let named = Sender { client: ClientId::from_name(&[1; 32]), weight: 30 };
        let stranger = Sender::from(ClientId::from_ip(HERE));
        assert_eq!(gate.set_weights(weights), [(peers[0], named), (peers[1], stranger)]);
        assert!(gate.version() > before);
        let standing = gate.peer_load(peers[0]);
        assert_eq!(
            (standing.weight, standing.weights, standing.unweighted_connections),
            (Some(30), 30, 1)
        );
        peers.into_iter().for_each(|peer| gate.on_closed(HERE, peer));
        let standing = gate.peer_load(peers[0]);
        assert_eq!(
            (standing.weights, standing.unweighted_connections, gate.connections()),
            (0, 0, 0)
        );
        gate.evict_stale(now);
        assert_eq!(gate.state.lock().peers.len(), 0);
    }
}
