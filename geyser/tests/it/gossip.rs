//! The nodes of the cluster, from the validator's gossip.

use std::time::Duration;

use yellowstone_grpc_proto::geyser::subscribe_update_gossip::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SubscribeGossipRequest, SubscribeUpdateContactInfoNode};

use crate::client::connect;
use crate::validator::Validator;

const TIMEOUT: Duration = Duration::from_secs(30);

fn address(node: u8, port: u16) -> Option<String> {
    Some(format!("127.0.0.{node}:{port}"))
}

/// A node as `Validator::contact_info` describes it.
fn expected_node(node: u8, wallclock: u64) -> SubscribeUpdateContactInfoNode {
    SubscribeUpdateContactInfoNode {
        pubkey: vec![node; 32],
        wallclock,
        outset: 77,
        shred_version: 50_000,
        version_major: 4,
        version_minor: 2,
        version_patch: 2,
        version_commit: 9,
        version_feature_set: 8,
        version_client_id: 3,
        gossip: address(node, 8001),
        tpu_quic: address(node, 8009),
        tvu_udp: address(node, 8002),
        alpenglow: address(node, 8010),
        ..SubscribeUpdateContactInfoNode::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_validators_gossip_is_served_as_a_table_and_its_changes() {
    let validator = Validator::load("");
    // What the validator knows when it loads the plugin.
    for node in [1, 2] {
        validator.contact_info(node, 32, 0).expect("taken");
    }
    let mut client = connect(validator.address()).await;
    let stream = client.subscribe_gossip(SubscribeGossipRequest {}).await;
    let mut stream = stream.expect("a stream").into_inner();
    let mut next = async || {
        let message = tokio::time::timeout(TIMEOUT, stream.message()).await.expect("in time");
        let message = message.expect("no error").expect("it goes on");
        (message.seq, message.update_oneof.expect("an update"))
    };
    let (seq, UpdateOneof::Snapshot(mut table)) = next().await else { panic!("a table") };
    table.nodes.sort_unstable_by_key(|node| node.pubkey.clone());
    assert_eq!((seq, table.nodes), (2, vec![expected_node(1, 0), expected_node(2, 0)]));
    validator.contact_info(2, 32, 5).expect("taken");
    assert_eq!(next().await, (3, UpdateOneof::Node(expected_node(2, 5))));
    let err = validator.contact_info(3, 31, 5).expect_err("no key");
    assert!(err.to_string().contains("the identity of a node has 31 bytes, not 32"), "{err}");
    validator.plugin.notify_contact_info_removed(&[1; 32]).expect("taken");
    let (4, UpdateOneof::Removed(removed)) = next().await else { panic!("a node left") };
    assert_eq!(removed.pubkey, vec![1; 32]);
}
