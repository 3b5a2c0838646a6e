//! Clients that send what no client of kaspad sends, and clients that do not read.

use testkit::kaspa_chain::pay;
use tonic::Code;
use tonic::codec::CompressionEncoding;

use crate::client::{Client, connect};
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_a_known_request_ends_its_stream_only() {
    let world = World::start();
    let channel = connect(world.address()).await;
    let compression = Some(CompressionEncoding::Gzip);
    for message in [&[][..], &[0xa8, 0x06, 1], &[0xf2, 0x46, 0], &[0xca, 0x41, 9], b"{}"] {
        let stream = Client::open(channel.clone(), compression).await;
        let mut client = stream.expect("a stream of the same connection");
        client.send(message.to_vec()).await;
        assert_eq!(client.end().await.code(), Code::InvalidArgument, "{message:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_becomes_too_long_when_it_is_decompressed_is_refused() {
    let world = World::start();
    let mut client = Client::start(world.address()).await;
    // A ping with an unknown field of zeros, which has a short form.
    let zeros = vec![0; 3 << 20];
    let mut message = vec![0x82, 0x44, 0, 0x0a, 0x80, 0x80, 0xc0, 1];
    message.extend_from_slice(&zeros);
    client.send(message).await;
    assert_eq!(client.end().await.code(), Code::OutOfRange);
}

/// Starts a client of all changed UTXOs that reads nothing, and publishes more than the windows of HTTP/2, the sockets
/// and the queue hold.
async fn flood_client(world: &mut World) -> Client {
    let mut client = Client::start(world.address()).await;
    let start = vec![0xa8, 0x06, 1, 0xca, 0x41, 0];
    client.exchange(start).await;
    let payments: Vec<_> = (0..100).map(|amount| pay(1, amount + 1)).collect();
    // Some 30 KB each.
    for _ in 0..300 {
        world.chain.add_block(&[], &payments);
        world.publish();
    }
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_ended_at_the_bound_of_its_queue() {
    let mut world = World::new(Vec::new(), |config| config.limits.queue_bytes_max = 64 << 10);
    let mut client = flood_client(&mut world).await;
    assert_eq!(client.end().await.code(), Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_after_the_end_of_its_session_gets_the_reason() {
    let mut world = World::new(Vec::new(), |config| {
        config.limits.queue_bytes_max = 64 << 10;
        config.close_timeout_ms = 0;
    });
    let mut client = flood_client(&mut world).await;
    while world.rpc.stats().connections > 0 {
        tokio::task::yield_now().await;
    }
    let status = client.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("pubsub.queue_bytes_max"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_method_is_not_served() {
    let world = World::start();
    let channel = connect(world.address()).await;
    let refused = Client::open_path(channel, None, "/protowire.RPC/Other").await.err();
    assert_eq!(refused.map(|status| status.code()), Some(Code::Unimplemented));
}
