//! The nodes of the cluster, as gossip describes them, for the clients of `SubscribeGossip`.
//!
//! In: nodes that appear, change and leave, from any thread. Out: for each client the whole table, then its changes.
//! Shape: each change has a revision, and every node that of its last change. A client knows the revision that it has,
//! and takes the next one when it can send it. So no client has a queue: of several changes of a node it gets the last.
//! Bounds: [`NODES_MAX`] nodes, and the identities of as many that left. A client that did not take the departure of a
//! node with a removed identity gets the whole table again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use chain_solana::{ClusterNode, client_number};
use foldhash::{HashMap, HashSet};
use parking_lot::Mutex;
use solana_pubkey::Pubkey;
use tokio::sync::watch;
use yellowstone_grpc_proto::geyser::SubscribeUpdateContactInfoNode as ContactInfo;

/// Nodes in the table; further ones are left out. Mainnet has about 5,000.
const NODES_MAX: usize = 20_000;
/// Bytes of an entry besides its node: in both maps.
const ENTRY_BYTES: usize = 160;

/// The table of the cluster's nodes, with the revisions of their changes.
pub struct GossipTable {
    state: Mutex<State>,
    /// Revision of the newest change.
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    revision: u64,
    /// `None` for a node that left.
    nodes: HashMap<Pubkey, (u64, Option<Arc<ContactInfo>>)>,
    by_revision: BTreeMap<u64, Pubkey>,
    /// The nodes that left, in the order of their departure. A node that came back may still be in it.
    left: VecDeque<(u64, Pubkey)>,
    /// Departures up to this revision may be unknown.
    forgotten: u64,
    /// Number of nodes in the table.
    len: usize,
    bytes: usize,
}

/// The next messages of a client.
#[derive(Debug, PartialEq)]
pub(crate) enum GossipStep {
    Whole(Vec<Arc<ContactInfo>>),
    /// A node that is new or has changed.
    Changed(Arc<ContactInfo>),
    Left(Pubkey),
}

impl GossipTable {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), revision: watch::Sender::new(0) }
    }

    /// A node as gossip describes it now. An older description of it, and one without a key, is left out.
    pub fn insert(&self, node: ContactInfo) {
        let Ok(identity) = Pubkey::try_from(&node.pubkey[..]) else { return };
        let revision = {
            let state = &mut *self.state.lock();
            state.insert(identity, node);
            state.revision
        };
        self.publish(revision);
    }

    /// Removes a node that left the cluster.
    pub fn remove(&self, identity: &Pubkey) {
        let revision = {
            let state = &mut *self.state.lock();
            state.remove(identity);
            state.revision
        };
        self.publish(revision);
    }

    /// Replaces all nodes. Unknown fields of a node are 0 or absent.
    pub fn replace(&self, nodes: &[ClusterNode]) {
        let nodes: Vec<(Pubkey, ContactInfo)> =
            nodes.iter().map(|node| (node.identity, contact_info(node))).collect();
        let identities: HashSet<Pubkey> = nodes.iter().map(|(identity, _)| *identity).collect();
        let revision = {
            let state = &mut *self.state.lock();
            let is_gone = |identity: &&Pubkey| !identities.contains(identity);
            let gone: Vec<Pubkey> = state.nodes.keys().filter(is_gone).copied().collect();
            gone.iter().for_each(|identity| state.remove(identity));
            for (identity, node) in nodes {
                state.insert(identity, node);
            }
            state.revision
        };
        self.publish(revision);
    }

    fn publish(&self, revision: u64) {
        self.revision.send_if_modified(|newest| {
            let is_newer = revision > *newest;
            *newest = revision.max(*newest);
            is_newer
        });
    }

    /// Changes when there is something new.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Returns the next step of a client with everything up to `revision`, and the revision after it. `None` if it has
    /// all.
    /// A new client has no revision.
    pub(crate) fn next(&self, revision: Option<u64>) -> Option<(GossipStep, u64)> {
        let state = self.state.lock();
        let Some(revision) = revision.filter(|revision| *revision >= state.forgotten) else {
            let nodes = state.nodes.values().filter_map(|(_, node)| node.clone()).collect();
            return Some((GossipStep::Whole(nodes), state.revision));
        };
        let (next, identity) = state.by_revision.range(revision + 1..).next()?;
        let (_, node) = state.nodes.get(identity)?;
        let step = node.clone().map_or(GossipStep::Left(*identity), GossipStep::Changed);
        Some((step, *next))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }
}

impl State {
    fn insert(&mut self, identity: Pubkey, node: ContactInfo) {
        if let Some((_, Some(known))) = self.nodes.get(&identity) {
            let version = |node: &ContactInfo| (node.outset, node.wallclock);
            if version(&node) < version(known) || node == **known {
                return;
            }
        } else if self.len >= NODES_MAX {
            return;
        } else {
            self.len += 1;
        }
        self.set(identity, Some(Arc::new(node)));
    }

    fn remove(&mut self, identity: &Pubkey) {
        if !matches!(self.nodes.get(identity), Some((_, Some(_)))) {
            return;
        }
        self.len -= 1;
        self.set(*identity, None);
        self.left.push_back((self.revision, *identity));
        while self.left.len() > NODES_MAX
            && let Some((revision, identity)) = self.left.pop_front()
        {
            // It may have come back.
            if self.by_revision.remove(&revision).is_some() {
                self.nodes.remove(&identity);
                self.bytes -= ENTRY_BYTES;
                self.forgotten = revision;
            }
        }
    }

    fn set(&mut self, identity: Pubkey, node: Option<Arc<ContactInfo>>) {
        self.revision += 1;
        self.bytes += ENTRY_BYTES + node.as_deref().map_or(0, count_bytes);
        self.by_revision.insert(self.revision, identity);
        if let Some((before, node)) = self.nodes.insert(identity, (self.revision, node)) {
            self.by_revision.remove(&before);
            self.bytes -= ENTRY_BYTES + node.as_deref().map_or(0, count_bytes);
        }
    }
}

fn count_bytes(node: &ContactInfo) -> usize {
    let addresses = [
        &node.gossip,
        &node.tpu_quic,
        &node.tpu_forwards_quic,
        &node.tpu_vote_udp,
        &node.tpu_vote_quic,
        &node.tvu_udp,
        &node.tvu_quic,
        &node.serve_repair_udp,
        &node.serve_repair_quic,
        &node.rpc,
        &node.rpc_pubsub,
        &node.alpenglow,
    ];
    let addresses = addresses.into_iter().flatten().map(String::len);
    size_of::<ContactInfo>() + node.pubkey.len() + addresses.sum::<usize>()
}

/// A node as gossip describes it.
fn contact_info(node: &ClusterNode) -> ContactInfo {
    let numbers = node.version.as_deref().unwrap_or_default().split('.');
    let mut numbers = numbers.map(|number| number.parse().unwrap_or(0));
    let mut number = || numbers.next().unwrap_or(0);
    let version_major = number();
    let version_minor = number();
    let version_patch = number();
    let text = |address: Option<std::net::SocketAddr>| address.map(|address| address.to_string());
    let client = node.client_id.as_deref().and_then(client_number);
    ContactInfo {
        pubkey: node.identity.to_bytes().to_vec(),
        shred_version: node.shred_version.unwrap_or_default().into(),
        version_major,
        version_minor,
        version_patch,
        version_feature_set: node.feature_set.unwrap_or_default(),
        version_client_id: client.unwrap_or_default(),
        gossip: text(node.gossip),
        tpu_quic: text(node.tpu_quic),
        tpu_forwards_quic: text(node.tpu_forwards_quic),
        tpu_vote_udp: text(node.tpu_vote),
        tvu_udp: text(node.tvu),
        serve_repair_udp: text(node.serve_repair),
        rpc: text(node.rpc),
        rpc_pubsub: text(node.pubsub),
        ..ContactInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(n: u64) -> Pubkey {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        Pubkey::new_from_array(bytes)
    }

    fn node(n: u64, wallclock: u64) -> ContactInfo {
        let pubkey = identity(n).to_bytes().to_vec();
        ContactInfo { pubkey, wallclock, ..ContactInfo::default() }
    }

    /// All that a client gets from a revision on: the number of a node, and its time.
    fn rest(table: &GossipTable, mut revision: u64) -> Vec<(u64, Option<u64>)> {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        let mut all = Vec::new();
        while let Some((step, next)) = table.next(Some(revision)) {
            assert!(next > revision, "revisions rise");
            revision = next;
            all.push(match step {
                GossipStep::Changed(node) => (number(&node.pubkey), Some(node.wallclock)),
                GossipStep::Left(identity) => (number(identity.as_ref()), None),
                GossipStep::Whole(_) => panic!("it has a revision"),
            });
        }
        all
    }

    #[test]
    fn a_client_gets_the_table_and_then_the_last_change_of_each_node() {
        let table = GossipTable::new();
        assert_eq!(table.next(None), Some((GossipStep::Whole(Vec::new()), 0)));
        assert_eq!(table.next(Some(0)), None);
        (1..=3).for_each(|n| table.insert(node(n, 1)));
        let Some((GossipStep::Whole(nodes), 3)) = table.next(None) else { panic!("a table") };
        assert_eq!(nodes.len(), 3);
        table.insert(node(1, 2));
        table.remove(&identity(2));
        table.insert(node(1, 3));
        // A repeated node, an older one, one that is not in the table, and one without a key.
        table.insert(node(1, 3));
        table.insert(node(1, 2));
        table.remove(&identity(2));
        table.insert(ContactInfo { pubkey: vec![1; 31], ..ContactInfo::default() });
        assert_eq!(rest(&table, 3), [(2, None), (1, Some(3))]);
        assert_eq!(*table.subscribe().borrow(), 6);
        table.insert(node(2, 1));
        assert_eq!(rest(&table, 3), [(1, Some(3)), (2, Some(1))]);
    }

    #[test]
    fn nodes_and_departures_are_bounded_and_their_bytes_are_counted() {
        let table = GossipTable::new();
        let max = NODES_MAX as u64;
        (0..max + 5).for_each(|n| table.insert(node(n, 1)));
        let Some((GossipStep::Whole(nodes), revision)) = table.next(None) else {
            panic!("a table")
        };
        assert_eq!((nodes.len(), revision), (NODES_MAX, max));
        let full = table.bytes();
        assert!(full > NODES_MAX * size_of::<ContactInfo>());
        (0..max).for_each(|n| table.remove(&identity(n)));
        assert_eq!(rest(&table, max).len(), NODES_MAX);
        assert_eq!(table.bytes(), NODES_MAX * ENTRY_BYTES);
        // One departure more than fits: a client that did not take the first one starts again.
        table.insert(node(max, 1));
        table.remove(&identity(max));
        assert_eq!(table.bytes(), NODES_MAX * ENTRY_BYTES);
        assert_eq!(table.next(Some(max)), Some((GossipStep::Whole(Vec::new()), 2 * max + 2)));
        assert_eq!(rest(&table, max + 1).len(), NODES_MAX);
    }

    #[test]
    fn a_table_that_is_replaced_changes_where_it_differs() {
        let table = GossipTable::new();
        let node = |n: u64, version: &str| ClusterNode {
            identity: identity(n),
            tpu_quic: "127.0.0.1:8009".parse().ok(),
            version: Some(version.to_owned()),
            client_id: Some("Firedancer".to_owned()),
            shred_version: Some(7),
            ..ClusterNode::default()
        };
        table.replace(&[node(1, "4.2.2"), node(2, "4.2.2")]);
        table.replace(&[node(2, "4.2.2"), node(3, "4.3.0")]);
        assert_eq!(rest(&table, 2), [(1, None), (3, Some(0))]);
        let Some((GossipStep::Changed(third), _)) = table.next(Some(3)) else { panic!("a node") };
        assert_eq!((third.version_major, third.version_minor, third.version_patch), (4, 3, 0));
        assert_eq!((third.version_client_id, third.shred_version), (5, 7));
        assert_eq!(third.tpu_quic.as_deref(), Some("127.0.0.1:8009"));
    }
}
