//! Streams of clients that behave.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use grpc_kaspa::StartingGrpcServer;
use grpc_server::{Config, Security};
use kaspa::{Hash, KaspaAddress, ScriptPublicKey, UtxoEntry};
use testkit::kaspa_chain::{address, pay};
use tonic::Code;
use tonic::codec::CompressionEncoding;

use crate::client::{Client, check_health, connect};
use crate::world::{UPSTREAM_CALLS, World, golden};

/// notifyUtxosChangedRequest of some addresses.
fn notify_utxos(id: u8, addresses: &[KaspaAddress]) -> Vec<u8> {
    let mut list = Vec::new();
    for address in addresses {
        let text = address.to_string();
        list.extend_from_slice(&[0x0a, u8::try_from(text.len()).expect("short")]);
        list.extend_from_slice(text.as_bytes());
    }
    let mut message = vec![0xa8, 0x06, id, 0xca, 0x41];
    let mut len = list.len();
    while len > 0x7f {
        message.push(len as u8 & 0x7f | 0x80);
        len >>= 7;
    }
    message.push(len as u8);
    message.extend_from_slice(&list);
    message
}

/// `count` addresses that nothing pays to.
fn unused_addresses(count: u32) -> Vec<KaspaAddress> {
    let numbered = |number: u32| {
        let mut key = [9; 32];
        key[..4].copy_from_slice(&number.to_le_bytes());
        KaspaAddress { payload: kaspa::AddressPayload::PublicKey(key), ..address(1) }
    };
    (0..count).map(numbered).collect()
}

/// pingRequest.
fn ping(id: u8) -> Vec<u8> {
    vec![0xa8, 0x06, id, 0x82, 0x44, 0]
}

/// pingResponse.
fn pong(id: u8) -> Vec<u8> {
    vec![0xa8, 0x06, id, 0x8a, 0x44, 0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_gets_what_kaspad_answers_in_each_compression() {
    let world = World::start();
    for compression in [None, Some(CompressionEncoding::Gzip), Some(CompressionEncoding::Zstd)] {
        let channel = connect(world.address()).await;
        let mut client = Client::open(channel, compression).await.expect("a stream");
        // kaspa-grpc-client sends getInfo first.
        for name in
            ["getInfo", "getBlockDagInfo", "getFeeEstimate", "getMempoolEntries", "getBlock"]
        {
            let reply = client.exchange(golden(name, "request")).await;
            assert!(reply == golden(name, "response"), "{name}");
        }
        // kaspad does not implement it, and the reply has its error.
        let reply = client.exchange(golden("getHeaders", "request")).await;
        assert!(reply == golden("getHeaders", "response"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_utxos_of_a_set_are_notified_until_the_end() {
    let mut world = World::start();
    let mut client = Client::start(world.address()).await;
    let acknowledged = client.exchange(notify_utxos(1, &[address(1)])).await;
    assert_eq!(acknowledged, [0xa8, 0x06, 1, 0xd2, 0x41, 0]);
    // A larger set than the polling thread reads.
    let acknowledged = client.exchange(notify_utxos(2, &unused_addresses(5_000))).await;
    assert_eq!(acknowledged, [0xa8, 0x06, 2, 0xd2, 0x41, 0]);
    world.chain.add_block(&[], &[pay(1, 5), pay(2, 6)]);
    world.publish();
    let notification = client.next().await.expect("no error").expect("a notification");
    assert_eq!(notification[..2], [0xda, 0x41]);
    let text = String::from_utf8_lossy(&notification);
    assert!(text.contains(&address(1).to_string()), "{text}");
    assert!(!text.contains(&address(2).to_string()), "{text}");
    client.end_requests();
    assert_eq!(client.end().await.code(), Code::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_is_one_message() {
    const UTXOS: u32 = 5_000;
    let script = ScriptPublicKey::from_payload(&address(1).payload);
    let entry = UtxoEntry {
        amount: 300,
        script_public_key: script,
        block_daa_score: 7,
        is_coinbase: false,
        covenant_id: None,
    };
    let outpoint = |number: u32| {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&number.to_be_bytes());
        kaspa::Outpoint { transaction_id: Hash(id), index: 0 }
    };
    let utxos = (0..UTXOS).map(|number| (outpoint(number), entry.clone())).collect();
    let world = World::new(utxos, |_| ());
    let mut client = Client::start(world.address()).await;
    let text = address(1).to_string();
    // getUtxosByAddressesRequest.
    let mut request = vec![0xa8, 0x06, 1, 0xe2, 0x41];
    request.push(u8::try_from(text.len() + 2).expect("short"));
    request.extend_from_slice(&[0x0a, u8::try_from(text.len()).expect("short")]);
    request.extend_from_slice(text.as_bytes());
    let reply = client.exchange(request).await;
    let address_bytes = text.as_bytes();
    let entries = reply.windows(address_bytes.len()).filter(|window| *window == address_bytes);
    assert_eq!(entries.count(), UTXOS as usize);
    assert_eq!(client.exchange(ping(2)).await, pong(2), "the stream continues");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_connection_are_sessions_of_their_own() {
    let mut world = World::start();
    let channel = connect(world.address()).await;
    let compression = Some(CompressionEncoding::Gzip);
    let mut one = Client::open(channel.clone(), compression).await.expect("a stream");
    let mut two = Client::open(channel, compression).await.expect("a stream");
    one.exchange(notify_utxos(1, &[])).await;
    world.chain.add_block(&[], &[pay(1, 5)]);
    world.publish();
    assert!(one.next().await.expect("no error").is_some());
    assert_eq!(two.exchange(ping(1)).await, pong(1));
    assert_eq!(world.rpc.stats().connections, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_serve_yet_says_so() {
    /// The field of a health status.
    const STATUS: u8 = 0x08;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let copy = listener.try_clone().expect("a copy");
    let starting =
        StartingGrpcServer::start(Config::default(), "an import", copy, Security::default());
    let starting = starting.expect("it starts");
    let channel = connect(address).await;
    assert_eq!(check_health(channel.clone()).await, [STATUS, 2]);
    let refused = Client::open(channel, None).await.err().expect("it does not serve");
    assert_eq!((refused.code(), refused.message()), (Code::Unavailable, "an import"));
    tokio::task::spawn_blocking(move || starting.shut_down()).await.expect("it ends");

    // The port stayed open for the server that follows.
    let world = World::serve(listener);
    assert_eq!(check_health(connect(address).await).await, [STATUS, 1]);
    let mut client = Client::start(world.address()).await;
    assert_eq!(client.exchange(ping(1)).await, pong(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_server_is_the_status_of_its_streams() {
    let world = World::start();
    let mut client = Client::start(world.address()).await;
    assert_eq!(client.exchange(ping(1)).await, pong(1));
    world.rpc.shut_down();
    assert_eq!(client.end().await.code(), Code::Unavailable);
    let World { server, .. } = world;
    tokio::task::spawn_blocking(move || server.shut_down()).await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_call_is_answered_before_the_server_ends() {
    let world = World::start();
    let permits = Arc::clone(&world.upstream.permits);
    let held = permits.acquire_many_owned(UPSTREAM_CALLS).await.expect("it is open");
    let mut client = Client::start(world.address()).await;
    client.send(golden("submitTransaction", "request")).await;
    world.upstream.received.acquire().await.expect("it is open").forget();
    world.rpc.shut_down();
    let World { server, .. } = world;
    let stopping = tokio::task::spawn_blocking(move || server.shut_down());
    // Longer than the calls of other servers have.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(!stopping.is_finished(), "it waits for the upstream");
    drop(held);
    let reply = client.next().await.expect("no error").expect("a reply");
    assert!(reply == golden("submitTransaction", "response"));
    assert_eq!(client.end().await.code(), Code::Unavailable);
    stopping.await.expect("it ends");
}
