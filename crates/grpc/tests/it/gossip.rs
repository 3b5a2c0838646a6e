//! `SubscribeGossip`: the table, its changes, and clients that do not read.

use std::time::Duration;

use grpc::{Config, ContactInfo};
use metrics::Collector;
use yellowstone_grpc_proto::geyser::subscribe_update_gossip::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SubscribeGossipRequest, SubscribeUpdateGossip};

use crate::client::connect;
use crate::ledger::{ScriptedLedger, key};

const TIMEOUT: Duration = Duration::from_secs(60);

type Stream = tonic::Streaming<SubscribeUpdateGossip>;

fn node(n: u8, wallclock: u64) -> ContactInfo {
    ContactInfo {
        pubkey: key(n).to_bytes().to_vec(),
        wallclock,
        gossip: Some("127.0.0.1:8001".to_owned()),
        ..ContactInfo::default()
    }
}

async fn subscribe(ledger: &ScriptedLedger) -> Stream {
    let mut client = connect(ledger.address()).await;
    let stream = client.subscribe_gossip(SubscribeGossipRequest {}).await;
    stream.expect("a stream").into_inner()
}

/// The next update besides pings, in short: first bytes of keys, and times.
async fn next(stream: &mut Stream) -> (String, u64) {
    loop {
        let message = tokio::time::timeout(TIMEOUT, stream.message()).await.expect("in time");
        let message = message.expect("no error").expect("it goes on");
        let text = match message.update_oneof.expect("an update") {
            UpdateOneof::Snapshot(table) => {
                let mut nodes: Vec<_> =
                    table.nodes.iter().map(|node| (node.pubkey[0], node.wallclock)).collect();
                nodes.sort_unstable();
                // This node has the time of its start.
                nodes.retain(|(n, _)| *n != 50);
                format!("snapshot {nodes:?}")
            }
            UpdateOneof::Node(node) => format!("node {} {}", node.pubkey[0], node.wallclock),
            UpdateOneof::Removed(removed) => format!("removed {}", removed.pubkey[0]),
            UpdateOneof::Ping(_) => continue,
        };
        return (text, message.seq);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_gets_the_table_and_then_every_change() {
    let ledger = ScriptedLedger::start(Config::default());
    let table = ledger.server.gossip();
    table.insert(node(1, 10));
    let mut first = subscribe(&ledger).await;
    assert_eq!(next(&mut first).await, ("snapshot [(1, 10)]".to_owned(), 2));
    table.insert(node(2, 20));
    assert_eq!(next(&mut first).await, ("node 2 20".to_owned(), 3));
    let mut second = subscribe(&ledger).await;
    assert_eq!(next(&mut second).await, ("snapshot [(1, 10), (2, 20)]".to_owned(), 3));
    table.remove(&key(1));
    // An older description changes nothing.
    table.insert(node(2, 19));
    table.insert(node(2, 21));
    for stream in [&mut first, &mut second] {
        assert_eq!(next(stream).await, ("removed 1".to_owned(), 4));
        assert_eq!(next(stream).await, ("node 2 21".to_owned(), 5));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_gets_the_last_change_and_holds_nothing() {
    let ledger = ScriptedLedger::start(Config::default());
    let table = ledger.server.gossip();
    let mut stream = subscribe(&ledger).await;
    assert_eq!(next(&mut stream).await.0, "snapshot []");
    let memory = || {
        let parts = ledger.server.metrics().memory();
        parts.iter().find(|(part, _)| *part == "grpc_gossip").expect("a part").1
    };
    table.insert(node(1, 1));
    let one = memory();
    // More than any buffer of a socket holds.
    (2..200_000).for_each(|time| table.insert(node(1, time)));
    assert_eq!(memory(), one);
    let mut updates = 0;
    loop {
        let (text, seq) = next(&mut stream).await;
        updates += 1;
        if text == "node 1 199999" {
            assert_eq!(seq, 200_000);
            break;
        }
    }
    assert!(updates < 199_999, "it got each of them");
}
