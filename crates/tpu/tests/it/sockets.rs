//! The whole server on loopback, with several shards.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use solana_keypair::Keypair;
use tpu::{Config, Counters, Server};

use crate::client::{Client, identity};
use crate::collecting_sink::CollectingSink;
use crate::world::transactions;

#[expect(clippy::disallowed_methods, reason = "a socket works in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Runs a client on its own socket until `done` is true.
fn run(
    client: &mut Client,
    socket: &UdpSocket,
    server: SocketAddr,
    done: impl Fn(&Client) -> bool,
) {
    let end = now() + Duration::from_secs(20);
    let mut buffer = [0; 2_048];
    while !done(client) {
        assert!(now() < end, "not done in time; lost: {:?}", client.lost);
        let mut out = Vec::new();
        client.drive(now(), &mut out);
        for datagram in out {
            socket.send_to(&datagram, server).expect("sent");
        }
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            client.datagram(now(), from, &buffer[..len]);
        }
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
    socket
}

fn start(config: Config, sink: &Arc<CollectingSink>) -> Server {
    start_at(SocketAddr::from(([127, 0, 0, 1], 0)), config, sink)
}

pub(crate) fn start_at(address: SocketAddr, config: Config, sink: &Arc<CollectingSink>) -> Server {
    let identity = identity(&Keypair::new());
    let transaction_sink = Arc::clone(sink) as Arc<dyn tpu::TransactionSink>;
    Server::start(
        Arc::new(config),
        address,
        &identity,
        transaction_sink,
        Arc::<Counters>::default(),
    )
    .expect("a server")
}

#[test]
fn several_shards_serve_one_port_and_a_client_that_moves_is_found() {
    let sink = Arc::<CollectingSink>::default();
    let server = start(Config { shards: 3, ..Config::default() }, &sink);
    let mut client = Client::connect(server.address(), &Keypair::new(), now());
    client.send(transactions(0, 500, 300));
    run(&mut client, &socket(), server.address(), |client| client.finished == 500);
    // From five other ports: most of them belong to other shards.
    for round in 0..5u32 {
        client.send(transactions(1_000 * (round + 1), 100, 1_232));
        let expected = 600 + 100 * round as usize;
        run(&mut client, &socket(), server.address(), |client| client.finished == expected);
    }
    sink.wait_for(1_000);
    assert_eq!(sink.len(), 1_000);
    drop(server);
}

#[test]
fn a_server_that_stops_notifies_its_clients() {
    let sink = Arc::<CollectingSink>::default();
    let server = start(Config::default(), &sink);
    let address = server.address();
    let socket = socket();
    let mut client = Client::connect(address, &Keypair::new(), now());
    client.send(transactions(0, 10, 300));
    run(&mut client, &socket, address, |client| client.finished == 10);
    drop(server);
    run(&mut client, &socket, address, |client| client.lost.is_some());
    let lost = client.lost.unwrap_or_default();
    assert!(lost.contains("shutting down"), "{lost}");
}

#[test]
fn received_bytes_stay_unchanged_while_they_are_referenced() {
    let sink = Arc::<CollectingSink>::default();
    let config = Config { buffers_max: 16, ..Config::default() };
    let server = start(config, &sink);
    let mut client = Client::connect(server.address(), &Keypair::new(), now());
    let all = transactions(0, 2_000, 300);
    client.send(all.clone());
    run(&mut client, &socket(), server.address(), |client| client.finished == 2_000);
    sink.wait_for(2_000);
    let mut received: Vec<Vec<u8>> =
        sink.take_all().into_iter().map(|received| received.bytes.to_vec()).collect();
    received.sort();
    let mut all = all;
    all.sort();
    assert!(received == all);
}
