//! The nodes of the cluster: from the gossip stream of a source, or from an upstream's `getClusterNodes`.
//!
//! In: `SubscribeGossip` of one source after another; where no source has it, JSON-RPC of the upstream every
//! [`UPSTREAM_INTERVAL`], on a thread that may block. Out: the nodes of [`FollowedCluster`], replaced as a whole.
//! Bounds: [`NODES_MAX`] nodes, in the stream and in a response; further ones are left out. A response has at most
//! [`RESPONSE_BYTES_MAX`], and is parsed without its further nodes. The table is published at most once per
//! [`PUBLISH_INTERVAL`]. A stream that sends nothing for [`STALL_TIMEOUT`] is closed.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{ClusterNode, client_name, is_dialable};
use futures_util::StreamExt as _;
use http_client::{Client, Endpoint, HttpClientError, describe_error, shorten_message};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;
use solana_pubkey::Pubkey;
use tonic::Status;
use tonic::metadata::{Ascii, MetadataValue};
use yellowstone_grpc_proto::geyser::subscribe_update_gossip::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SubscribeGossipRequest, SubscribeUpdateContactInfoNode};

use crate::clock::now;
use crate::cluster::FollowedCluster;
use crate::stream::{SourceConfig, StreamConfig, connect};

/// Nodes of a cluster. Mainnet has about 5,000 in gossip.
const NODES_MAX: usize = 20_000;
/// Bytes of an upstream's response. The 5,000 nodes of mainnet have about 3 MB.
const RESPONSE_BYTES_MAX: usize = 16 << 20;
/// Interval between publications of a changed table.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between requests for the nodes of an upstream.
const UPSTREAM_INTERVAL: Duration = Duration::from_secs(30);
/// Interval between attempts to connect to the sources.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Servers ping every 15 seconds.
const STALL_TIMEOUT: Duration = Duration::from_secs(45);

/// Follows the nodes until it is aborted.
pub(crate) async fn follow_nodes(
    sources: Vec<SourceConfig>,
    config: StreamConfig,
    upstream: Option<Endpoint>,
    cluster: Arc<FollowedCluster>,
) {
    let mut next_upstream = now();
    loop {
        for source in &sources {
            if let Err(end) = follow_gossip(source, &config, &cluster).await {
                let end = shorten_message(&end);
                tracing::debug!(server = %source.server(), end, "no gossip of this source");
            }
        }
        if let Some(endpoint) = upstream.clone().filter(|_| now() >= next_upstream) {
            next_upstream = now() + UPSTREAM_INTERVAL;
            match request_nodes_on_thread(endpoint).await {
                Some(Ok(nodes)) => cluster.set_nodes(nodes),
                Some(Err(err)) => {
                    let err = describe_error(&err);
                    tracing::debug!(err, "the upstream names no nodes");
                }
                None => tracing::debug!("no thread for a request of the cluster's nodes"),
            }
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// One gossip stream, to its end. The error is for the log.
async fn follow_gossip(
    source: &SourceConfig,
    config: &StreamConfig,
    cluster: &FollowedCluster,
) -> Result<(), String> {
    let mut client = connect(source, config).await.map_err(|end| end.to_string())?;
    let mut request = tonic::Request::new(SubscribeGossipRequest {});
    if let Some(token) = source.x_token.as_deref() {
        let token = MetadataValue::<Ascii>::try_from(token).map_err(|err| err.to_string())?;
        request.metadata_mut().insert("x-token", token);
    }
    let response = tokio::time::timeout(STALL_TIMEOUT, client.subscribe_gossip(request)).await;
    let status = |status: Status| status.message().to_owned();
    let response = response.map_err(|err| err.to_string())?.map_err(status)?;
    let mut stream = response.into_inner();
    let mut table = NodeTable::default();
    let mut is_new = false;
    let mut received_at = now();
    let mut publish = tokio::time::interval(PUBLISH_INTERVAL);
    loop {
        tokio::select! {
            update = stream.next() => {
                let Some(update) = update else { return Err("it ended".into()) };
                received_at = now();
                is_new |= update.map_err(status)?.update_oneof.is_some_and(|it| table.apply(it));
            }
            _ = publish.tick() => {
                if now() - received_at > STALL_TIMEOUT {
                    return Err(format!("nothing for {STALL_TIMEOUT:?}"));
                }
                if std::mem::take(&mut is_new) {
                    cluster.set_nodes(table.nodes());
                }
            }
        }
    }
}

/// The gossip table of a source.
#[derive(Default)]
struct NodeTable(HashMap<Pubkey, ClusterNode>);

impl NodeTable {
    /// Applies an update. Whether anything changed.
    fn apply(&mut self, update: UpdateOneof) -> bool {
        match update {
            UpdateOneof::Snapshot(topology) => {
                self.0.clear();
                topology.nodes.iter().for_each(|node| _ = self.insert(node));
                true
            }
            UpdateOneof::Node(node) => self.insert(&node),
            UpdateOneof::Removed(removed) => {
                let pubkey = Pubkey::try_from(&*removed.pubkey);
                pubkey.is_ok_and(|pubkey| self.0.remove(&pubkey).is_some())
            }
            UpdateOneof::Ping(_) => false,
        }
    }

    fn insert(&mut self, node: &SubscribeUpdateContactInfoNode) -> bool {
        let Some(node) = contact_info(node) else { return false };
        if self.0.len() >= NODES_MAX && !self.0.contains_key(&node.identity) {
            return false;
        }
        let identity = node.identity;
        self.0.insert(identity, node.clone()).as_ref() != Some(&node)
    }

    /// The nodes in the order of addresses.
    fn nodes(&self) -> Vec<ClusterNode> {
        let mut nodes: Vec<ClusterNode> = self.0.values().cloned().collect();
        nodes.sort_unstable_by_key(|node| node.identity);
        nodes
    }
}

/// A node as gossip describes it. `None` if its key is none.
fn contact_info(node: &SubscribeUpdateContactInfoNode) -> Option<ClusterNode> {
    let address = |text: &Option<String>| text.as_deref().and_then(parse_address);
    let major = node.version_major;
    let minor = node.version_minor;
    let patch = node.version_patch;
    Some(ClusterNode {
        identity: Pubkey::try_from(&*node.pubkey).ok()?,
        gossip: address(&node.gossip),
        tvu: address(&node.tvu_udp),
        tpu: None,
        tpu_quic: address(&node.tpu_quic),
        tpu_forwards: None,
        tpu_forwards_quic: address(&node.tpu_forwards_quic),
        tpu_vote: address(&node.tpu_vote_udp),
        serve_repair: address(&node.serve_repair_udp),
        rpc: address(&node.rpc),
        pubsub: address(&node.rpc_pubsub),
        version: Some(format!("{major}.{minor}.{patch}")),
        client_id: Some(client_name(node.version_client_id)),
        feature_set: Some(node.version_feature_set),
        shred_version: u16::try_from(node.shred_version).ok(),
    })
}

/// A thread of its own, not the runtime's: an upstream that stalls must not delay the node's end.
async fn request_nodes_on_thread(
    upstream: Endpoint,
) -> Option<Result<Vec<ClusterNode>, HttpClientError>> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("nodes".into());
    // Without a receiver the node is ending.
    thread.spawn(move || drop(sender.send(request_nodes(&upstream)))).ok()?;
    receiver.await.ok()
}

/// Requests the nodes that an upstream names. It blocks.
fn request_nodes(upstream: &Endpoint) -> Result<Vec<ClusterNode>, HttpClientError> {
    let mut client = Client::open_with_body_limit(upstream.clone(), RESPONSE_BYTES_MAX)?;
    let ListedNodes(nodes) = client.call_as("getClusterNodes", &json!([]))?;
    Ok(nodes)
}

/// The first [`NODES_MAX`] nodes of a list, without those that have no valid identity or a field of another type.
#[derive(Default)]
struct ListedNodes(Vec<ClusterNode>);

impl<'de> Deserialize<'de> for ListedNodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(NodeListVisitor)
    }
}

struct NodeListVisitor;

impl<'de> Visitor<'de> for NodeListVisitor {
    type Value = ListedNodes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ListedNodes, A::Error> {
        let mut nodes = Vec::new();
        while nodes.len() < NODES_MAX {
            let Some(text) = list.next_element::<Box<RawValue>>()? else {
                return Ok(ListedNodes(nodes));
            };
            let node = serde_json::from_str::<ListedNode>(text.get());
            nodes.extend(node.ok().and_then(ListedNode::parse));
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(ListedNodes(nodes))
    }
}

/// A node as Agave's `getClusterNodes` has it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListedNode {
    pubkey: String,
    gossip: Option<String>,
    tvu: Option<String>,
    tpu: Option<String>,
    tpu_quic: Option<String>,
    tpu_forwards: Option<String>,
    tpu_forwards_quic: Option<String>,
    tpu_vote: Option<String>,
    serve_repair: Option<String>,
    rpc: Option<String>,
    pubsub: Option<String>,
    version: Option<String>,
    client_id: Option<String>,
    feature_set: Option<u64>,
    shred_version: Option<u64>,
}

impl ListedNode {
    /// Returns `None` if the identity is not a public key.
    fn parse(self) -> Option<ClusterNode> {
        let address = |text: Option<String>| text.as_deref().and_then(parse_address);
        Some(ClusterNode {
            identity: self.pubkey.parse().ok()?,
            gossip: address(self.gossip),
            tvu: address(self.tvu),
            tpu: address(self.tpu),
            tpu_quic: address(self.tpu_quic),
            tpu_forwards: address(self.tpu_forwards),
            tpu_forwards_quic: address(self.tpu_forwards_quic),
            tpu_vote: address(self.tpu_vote),
            serve_repair: address(self.serve_repair),
            rpc: address(self.rpc),
            pubsub: address(self.pubsub),
            version: self.version,
            client_id: self.client_id,
            feature_set: self.feature_set.and_then(|it| u32::try_from(it).ok()),
            shred_version: self.shred_version.and_then(|it| u16::try_from(it).ok()),
        })
    }
}

/// An address that can be dialled.
fn parse_address(text: &str) -> Option<SocketAddr> {
    text.parse().ok().filter(is_dialable)
}

#[cfg(test)]
mod tests {
    use yellowstone_grpc_proto::geyser::{GossipTopology, SubscribeUpdateContactInfoRemoved};

    use super::*;

    fn node(n: u8, tpu_quic: &str) -> SubscribeUpdateContactInfoNode {
        SubscribeUpdateContactInfoNode {
            pubkey: vec![n; 32],
            tpu_quic: Some(tpu_quic.into()),
            version_major: 4,
            version_client_id: 5,
            shred_version: 7,
            ..SubscribeUpdateContactInfoNode::default()
        }
    }

    #[test]
    fn an_address_that_nobody_can_dial_is_left_out() {
        let parse = |tpu_quic: &str| contact_info(&node(1, tpu_quic)).expect("a node").tpu_quic;
        assert_eq!((parse("0.0.0.0:9901"), parse("[::]:9901")), (None, None));
        assert_eq!(parse("10.77.0.1:9901"), Some(([10, 77, 0, 1], 9901).into()));
        let json =
            json!([{ "pubkey": Pubkey::new_unique().to_string(), "tpuQuic": "0.0.0.0:9901" }]);
        assert_eq!(parse_nodes(&json)[0].tpu_quic, None);
    }

    #[test]
    fn the_table_follows_its_source() {
        let mut table = NodeTable::default();
        let nodes = vec![node(2, "127.0.0.2:1"), node(1, "127.0.0.1:1")];
        assert!(table.apply(UpdateOneof::Snapshot(GossipTopology { nodes })));
        assert!(!table.apply(UpdateOneof::Node(node(1, "127.0.0.1:1"))));
        assert!(table.apply(UpdateOneof::Node(node(1, "127.0.0.1:2"))));
        let pubkey = vec![2; 32];
        let removed = SubscribeUpdateContactInfoRemoved { pubkey };
        assert!(table.apply(UpdateOneof::Removed(removed.clone())));
        assert!(!table.apply(UpdateOneof::Removed(removed)));
        let nodes = table.nodes();
        assert_eq!(nodes.len(), 1);
        assert_eq!(nodes[0].tpu_quic, "127.0.0.1:2".parse().ok());
        assert_eq!(nodes[0].version.as_deref(), Some("4.0.0"));
        assert_eq!(nodes[0].client_id.as_deref(), Some("Firedancer"));
        assert_eq!(nodes[0].shred_version, Some(7));
    }

    #[test]
    fn what_is_no_node_is_left_out_and_the_table_is_bounded() {
        let mut table = NodeTable::default();
        let short = SubscribeUpdateContactInfoNode { pubkey: vec![1; 31], ..node(1, "") };
        assert!(!table.apply(UpdateOneof::Node(short)));
        for n in 0..NODES_MAX as u64 + 5 {
            let mut pubkey = vec![0; 32];
            pubkey[..8].copy_from_slice(&n.to_le_bytes());
            let node = SubscribeUpdateContactInfoNode { pubkey, ..node(1, "no address") };
            assert_eq!(table.apply(UpdateOneof::Node(node)), n < NODES_MAX as u64);
        }
        assert_eq!(table.nodes().len(), NODES_MAX);
        assert!(table.nodes().iter().all(|node| node.tpu_quic.is_none()));
    }

    fn parse_nodes(json: &serde_json::Value) -> Vec<ClusterNode> {
        serde_json::from_value::<ListedNodes>(json.clone()).expect("a list").0
    }

    #[test]
    fn a_node_is_read_from_json_as_agave_writes_it() {
        let identity = Pubkey::new_from_array([3; 32]);
        let node = json!({
            "pubkey": identity.to_string(), "gossip": "10.0.0.1:8001", "tpuQuic": "10.0.0.1:8009", "extra": [{}],
            "tvu": null, "version": "4.2.2", "clientId": "Agave", "featureSet": 9, "shredVersion": 70_000,
        });
        let parsed = parse_nodes(&json!([{"pubkey": "x"}, node]));
        assert_eq!(parsed.len(), 1, "x is no identity");
        assert_eq!((parsed[0].identity, parsed[0].feature_set), (identity, Some(9)));
        assert_eq!((parsed[0].tvu, parsed[0].shred_version), (None, None));
        assert_eq!(parsed[0].tpu_quic, "10.0.0.1:8009".parse().ok());
        let many = vec![node; NODES_MAX + 5];
        assert_eq!(parse_nodes(&many.into()).len(), NODES_MAX);
    }

    #[test]
    fn a_node_with_a_field_of_another_type_is_left_out_and_the_others_are_not() {
        let node = |n: u8| json!({ "pubkey": Pubkey::new_from_array([n; 32]).to_string() });
        let mut list = vec![node(1), json!(null), json!([]), json!("x"), json!(7)];
        for (field, value) in [
            ("pubkey", json!(7)),
            ("gossip", json!({ "port": 8001 })),
            ("version", json!([4, 2])),
            ("featureSet", json!("9")),
            ("shredVersion", json!(-1)),
        ] {
            let mut other = node(2);
            other[field] = value;
            list.push(other);
        }
        list.push(node(3));
        let identities: Vec<_> = parse_nodes(&list.into()).iter().map(|it| it.identity).collect();
        assert_eq!(identities, [1, 3].map(|n| Pubkey::new_from_array([n; 32])));
    }

    #[test]
    fn a_list_that_is_too_long_is_refused_without_reading_it() {
        // It never ends, and has a length in one case.
        for head in ["Content-Length: 1610612736", "Transfer-Encoding: chunked"] {
            let upstream = http_client::testing::serve(move |_, socket| {
                let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
                let chunk = [b"100000\r\n", &[b'['; 1 << 20][..], b"\r\n"].concat();
                let mut all = std::iter::once(head.into_bytes()).chain(std::iter::repeat(chunk));
                all.all(|part| std::io::Write::write_all(socket, &part).is_ok())
            });
            let err = request_nodes(&upstream.into()).expect_err("it is too long");
            assert_eq!(describe_error(&err), "the response has more than 16777216 bytes");
        }
    }
}
