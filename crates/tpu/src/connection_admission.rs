//! Admission of connections: counts of all connections, by address and by identity; handshake
//! rates; the weights of identities. All shards share one instance. It is called only when
//! connections open and close.
//!
//! Invariant: each [`ConnectionAdmission::on_incoming`] that accepts is followed by exactly one of
//! `on_handshake_failed` and `admit`. An `admit` that succeeds is followed by exactly one
//! `on_closed`.
//! Not here: the number of streams that a connection may open (`stream_window`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api_keys::{ApiKeys, AuthError, KeyNumber};
use chain_solana::Sender;
use clients::{ClientId, TokenBucket};
use foldhash::quality::RandomState;
use parking_lot::Mutex;
use solana_pubkey::Pubkey;

use crate::config::Config;
use crate::counters::DropReason;
use crate::handshake_rate::{AddressBuckets, HandshakeRate};
use crate::stream_window::PeerLoad;
use crate::transaction::PeerId;
use crate::weights::Weights;

/// Addresses with a stored handshake rate: about 4 MB.
const RATED_ADDRESSES_MAX: usize = 65_536;

/// Decision about a first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncomingDecision {
    Accept,
    /// The client must first prove its address.
    Retry,
    /// No response, which costs least.
    Ignore(DropReason),
    /// A response that refuses the connection.
    Refuse(DropReason),
}

/// Admits connections; one instance for all shards.
pub struct ConnectionAdmission {
    config: Arc<Config>,
    /// The rate of all addresses together.
    global_rate: HandshakeRate,
    started: Instant,
    state: Mutex<State>,
    /// Incremented whenever a stream window may have to change.
    version: AtomicU64,
    /// The API keys that list the admitted identities; `None`: any identity is admitted.
    api_keys: Option<Arc<ApiKeys>>,
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
    /// Number of connections of all others.
    unweighted_connections: usize,
    global_bucket: TokenBucket,
    address_buckets: AddressBuckets,
}

/// Key of a peer. A certificate with another key than Ed25519 has no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Identity(Pubkey),
    Address(IpAddr),
}

struct Peer {
    key: Key,
    /// Address of its newest connection.
    address: IpAddr,
    connections: usize,
    weight: Option<u32>,
    /// The API key that lists the identity.
    api_key: Option<KeyNumber>,
}

impl Peer {
    /// Returns the ledger's client that its transactions count for. It costs nothing to create an
    /// identity, so only identities in the weights file have a share of their own. All others of an
    /// address are one client, as over RPC. The identities of an API key are the client of that key.
    fn sender(&self) -> Sender {
        if let Some(number) = self.api_key {
            let sender = Sender::from(ClientId::from_key(number));
            return Sender { weight: self.weight.unwrap_or(sender.weight), ..sender };
        }
        match (self.key, self.weight) {
            (Key::Identity(identity), Some(weight)) => {
                Sender { client: ClientId::from_name(identity.as_ref()), weight }
            }
            _ => ClientId::from_ip(self.address).into(),
        }
    }
}

impl ConnectionAdmission {
    /// Creates the admission of a server without connections.
    pub fn new(config: Arc<Config>, now: Instant) -> Self {
        let per_minute = config.handshakes_per_address_per_minute;
        let address_rate = HandshakeRate::new(per_minute, Duration::from_secs(60));
        let global_rate = HandshakeRate::new(config.handshakes_per_second, Duration::from_secs(1));
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
            global_bucket: TokenBucket::default(),
            address_buckets: AddressBuckets::new(address_rate, RATED_ADDRESSES_MAX),
        };
        let state = Mutex::new(state);
        let version = AtomicU64::new(0);
        Self { config, global_rate, started: now, state, version, api_keys: None }
    }

    /// Restricts admission to the identities that API keys list. If clients without a key are served, any other
    /// identity is admitted too.
    #[must_use]
    pub fn with_api_keys(self, api_keys: Option<Arc<ApiKeys>>) -> Self {
        Self { api_keys, ..self }
    }

    /// Decides about a first packet from `address`.
    pub(crate) fn on_incoming(
        &self,
        address: IpAddr,
        is_validated: bool,
        now: Instant,
    ) -> IncomingDecision {
        let state = &mut *self.state.lock();
        let config = &self.config;
        if !is_validated && state.handshakes >= config.retry_above {
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
        let now = now.saturating_duration_since(self.started);
        if !state.address_buckets.take_token(address, now)
            || !self.global_rate.take_token(&mut state.global_bucket, now)
        {
            return IncomingDecision::Ignore(DropReason::HandshakeRate);
        }
        state.connections += 1;
        state.handshakes += 1;
        *state.addresses.entry(address).or_default() += 1;
        IncomingDecision::Accept
    }

    /// Releases the counts of a failed handshake.
    pub(crate) fn on_handshake_failed(&self, address: IpAddr) {
        let state = &mut *self.state.lock();
        state.handshakes -= 1;
        state.release_connection(address);
    }

    /// Admits or refuses a peer after its handshake.
    pub(crate) fn admit(
        &self,
        address: IpAddr,
        identity: Option<Pubkey>,
    ) -> Result<(PeerId, Sender), DropReason> {
        let state = &mut *self.state.lock();
        state.handshakes -= 1;
        let Ok(api_key) = self.find_api_key(identity) else {
            state.release_connection(address);
            return Err(DropReason::Unauthorized);
        };
        let key = identity.map_or(Key::Address(address), Key::Identity);
        let weight = identity.and_then(|identity| state.weights.get(&identity).copied());
        let at = match state.by_key.get(&key) {
            Some(at) => *at,
            None => state.insert_peer(Peer { key, address, connections: 0, weight, api_key }),
        };
        // The table has this entry: it was found by its key, or just added.
        let Some(peer) = state.peers[at as usize].as_mut() else { return Err(DropReason::Closed) };
        if peer.connections >= self.config.connections_per_identity_max {
            state.release_connection(address);
            return Err(DropReason::IdentityFull);
        }
        peer.connections += 1;
        peer.address = address;
        peer.api_key = api_key;
        let sender = peer.sender();
        if peer.weight.is_none() {
            state.unweighted_connections += 1;
        }
        self.version.fetch_add(1, Ordering::Relaxed);
        Ok((PeerId(at), sender))
    }

    fn find_api_key(&self, identity: Option<Pubkey>) -> Result<Option<KeyNumber>, AuthError> {
        let Some(keys) = &self.api_keys else { return Ok(None) };
        let identity = identity.map(|identity| identity.to_string());
        keys.authenticate_identity(identity.as_deref().unwrap_or_default())
    }

    /// Returns a number that changes when the API keys change.
    pub(crate) fn keys_version(&self) -> u64 {
        self.api_keys.as_ref().map_or(0, |keys| keys.version())
    }

    /// Returns whether an admitted peer no longer has the API key that it was admitted with.
    pub(crate) fn is_revoked(&self, peer: PeerId) -> bool {
        let state = self.state.lock();
        let Some(Some(entry)) = state.peers.get(peer.0 as usize) else { return false };
        let identity = match entry.key {
            Key::Identity(identity) => Some(identity),
            Key::Address(_) => None,
        };
        self.find_api_key(identity) != Ok(entry.api_key)
    }

    /// Releases the counts of an admitted connection that has ended.
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

    /// Returns the load on which a peer's windows depend.
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

    /// Returns a number that is incremented with every change on which windows depend.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Returns whether more than 9 in 10 connections are in use. Connections without transactions are then
    /// closed.
    pub(crate) fn is_crowded(&self) -> bool {
        self.state.lock().connections * 10 > self.config.connections_max * 9
    }

    /// Applies new weights, also to connected peers. Returns the weight of each connected peer.
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

    /// Drops stale entries and releases memory. It must be called periodically.
    pub(crate) fn evict_stale(&self, now: Instant) {
        let state = &mut *self.state.lock();
        state.address_buckets.evict_full(now.saturating_duration_since(self.started));
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

    /// Returns the number of connections, including those with an incomplete handshake.
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

#[cfg(test)]
mod tests {
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
        let (admission, now) = admission(Config {
            connections_max: 3,
            connections_per_address_max: 2,
            connections_per_identity_max: 1,
            ..Config::default()
        });
        let other = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(admission.on_incoming(HERE, false, now), IncomingDecision::Accept);
        let (peer, sender) = admission.admit(HERE, key(1)).expect("the first");
        assert_eq!(sender, ClientId::from_ip(HERE).into());
        assert_eq!(admission.on_incoming(HERE, false, now), IncomingDecision::Accept);
        assert_eq!(admission.admit(HERE, key(1)), Err(DropReason::IdentityFull));
        assert_eq!(admission.on_incoming(HERE, false, now), IncomingDecision::Accept);
        assert_eq!(
            admission.on_incoming(HERE, false, now),
            IncomingDecision::Refuse(DropReason::AddressFull)
        );
        assert_eq!(admission.on_incoming(other, false, now), IncomingDecision::Accept);
        assert_eq!(
            admission.on_incoming(other, false, now),
            IncomingDecision::Refuse(DropReason::ConnectionsFull)
        );
        admission.on_closed(HERE, peer);
        assert_eq!(admission.on_incoming(other, false, now), IncomingDecision::Accept);
        admission.on_handshake_failed(other);
        assert_eq!(admission.connections(), 2);
    }

    #[test]
    fn api_keys_admit_their_identities_and_others_are_refused() {
        let hash = api_keys::KeyHash::of_key(b"a key");
        let identities = [key(1), key(2)].map(|it| it.expect("an identity").to_string());
        let file = format!(
            "[tiers.t]\n[[keys]]\nname = \"a\"\ntier = \"t\"\nsha256 = \"{hash}\"\nidentities = {identities:?}"
        );
        let file = |anonymous| {
            let text = format!("{anonymous}\n{file}");
            api_keys::KeyFile::parse(&text).expect("it is valid")
        };
        let keys = Arc::new(ApiKeys::new(file(""), 0));
        let (admission, now) = admission(Config::default());
        let admission = admission.with_api_keys(Some(Arc::clone(&keys)));
        let admit_peer = |identity| {
            assert_eq!(admission.on_incoming(HERE, true, now), IncomingDecision::Accept);
            admission.admit(HERE, identity)
        };
        let admit = |identity| admit_peer(identity).map(|(_, sender)| sender);
        let of_key = Sender::from(ClientId::from_key(KeyNumber(1)));
        assert_eq!((admit(key(1)), admit(key(2))), (Ok(of_key), Ok(of_key)));
        assert_eq!(admit(key(3)), Err(DropReason::Unauthorized));
        assert_eq!(admit(None), Err(DropReason::Unauthorized));
        assert_eq!(admission.connections(), 2);
        keys.reload(file("anonymous = \"t\""));
        assert_eq!(admit(key(3)), Ok(ClientId::from_ip(HERE).into()));
        // A reload that removes the key, or the tier of clients without one, ends their connections.
        let peers = [key(1), key(3)].map(|it| admit_peer(it).expect("it is admitted").0);
        assert_eq!(peers.map(|peer| admission.is_revoked(peer)), [false, false]);
        let version = admission.keys_version();
        keys.reload(file(""));
        assert_eq!(peers.map(|peer| admission.is_revoked(peer)), [false, true]);
        keys.reload(api_keys::KeyFile::parse("anonymous = \"t\"\n[tiers.t]").expect("valid"));
        assert_eq!(peers.map(|peer| admission.is_revoked(peer)), [true, false]);
        assert_ne!(admission.keys_version(), version);
    }

    #[test]
    fn many_handshakes_under_way_require_a_retry_and_then_are_ignored() {
        let (admission, now) =
            admission(Config { retry_above: 1, handshakes_max: 2, ..Config::default() });
        assert_eq!(admission.on_incoming(HERE, false, now), IncomingDecision::Accept);
        assert_eq!(admission.on_incoming(HERE, false, now), IncomingDecision::Retry);
        assert_eq!(admission.on_incoming(HERE, true, now), IncomingDecision::Accept);
        assert_eq!(
            admission.on_incoming(HERE, true, now),
            IncomingDecision::Ignore(DropReason::HandshakeRate)
        );
    }

    #[test]
    fn handshakes_from_an_address_have_a_rate() {
        let (admission, now) =
            admission(Config { handshakes_per_address_per_minute: 60, ..Config::default() });
        let accepted = |at| {
            (0..100)
                .filter(|_| admission.on_incoming(HERE, true, at) == IncomingDecision::Accept)
                .inspect(|_| admission.on_handshake_failed(HERE))
                .count()
        };
        assert_eq!((accepted(now), accepted(now + Duration::from_secs(10))), (60, 10));
    }

    #[test]
    fn new_weights_apply_to_connected_peers() {
        let (admission, now) = admission(Config::default());
        let peers = [1, 2].map(|n| {
            assert_eq!(admission.on_incoming(HERE, true, now), IncomingDecision::Accept);
            admission.admit(HERE, key(n)).expect("admitted").0
        });
        let before = admission.version();
        let weights = [(Pubkey::new_from_array([1; 32]), 30)].into_iter().collect();
        // An identity in the file has a share of its own. All others of an address share one.
        let named = Sender { client: ClientId::from_name(&[1; 32]), weight: 30 };
        let stranger = Sender::from(ClientId::from_ip(HERE));
        assert_eq!(admission.set_weights(weights), [(peers[0], named), (peers[1], stranger)]);
        assert!(admission.version() > before);
        let load = admission.peer_load(peers[0]);
        assert_eq!((load.weight, load.weights, load.unweighted_connections), (Some(30), 30, 1));
        peers.into_iter().for_each(|peer| admission.on_closed(HERE, peer));
        let load = admission.peer_load(peers[0]);
        assert_eq!((load.weights, load.unweighted_connections, admission.connections()), (0, 0, 0));
        admission.evict_stale(now);
        assert_eq!(admission.state.lock().peers.len(), 0);
    }
}
