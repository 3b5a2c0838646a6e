//! The forwarder against our own server: everything arrives, over one connection while there is
//! one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use solana_hash::Hash;
use solana_keypair::Keypair;
use tpu::{Config, DestinationStats, Forwarder, Server};

use crate::client::identity;
use crate::collecting_sink::CollectingSink;
use crate::sockets::{now, start_at};
use crate::world::transactions;

fn forwarder(to: &[SocketAddr], is_valid: &Arc<AtomicBool>) -> Forwarder {
    let is_valid = Arc::clone(is_valid);
    let is_valid = Box::new(move |_: &Hash| is_valid.load(Ordering::Relaxed));
    Forwarder::start(to, &identity(&Keypair::new()), 10_000, is_valid).expect("a forwarder")
}

fn forward_all(forwarder: &Forwarder, transactions: &[Vec<u8>]) {
    transactions.iter().for_each(|bytes| forwarder.forward(bytes, Hash::default(), now()));
}

/// Waits for a count of the only destination.
fn wait_for(forwarder: &Forwarder, expected: u64, count: fn(&DestinationStats) -> &AtomicU64) {
    let end = now() + Duration::from_secs(20);
    loop {
        let (_, stats) = forwarder.destinations().pop().expect("a destination");
        if count(&stats).load(Ordering::Relaxed) >= expected {
            return;
        }
        assert!(now() < end, "not in time: {stats:?}");
        std::thread::yield_now();
    }
}

fn server_at(address: SocketAddr, sink: &Arc<CollectingSink>) -> Server {
    start_at(address, Config::default(), sink)
}

#[test]
fn what_is_forwarded_arrives_over_one_connection() {
    let sink = Arc::<CollectingSink>::default();
    let server = server_at(SocketAddr::from(([127, 0, 0, 1], 0)), &sink);
    let forwarder = forwarder(&[server.address()], &Arc::new(AtomicBool::new(true)));
    let all = transactions(0, 3_000, 300);
    forward_all(&forwarder, &all);
    wait_for(&forwarder, 3_000, |stats| &stats.delivered);
    sink.wait_for(3_000);
    let mut arrived = sink.all();
    arrived.sort();
    let mut all = all;
    all.sort();
    assert!(arrived == all);
    assert_eq!(server.counters().snapshot().connections, 1);
}

#[test]
fn what_was_in_flight_is_sent_again_after_a_restart() {
    let sink = Arc::<CollectingSink>::default();
    let server = server_at(SocketAddr::from(([127, 0, 0, 1], 0)), &sink);
    let address = server.address();
    let forwarder = forwarder(&[address], &Arc::new(AtomicBool::new(true)));
    forward_all(&forwarder, &transactions(0, 100, 300));
    wait_for(&forwarder, 100, |stats| &stats.delivered);
    drop(server);
    forward_all(&forwarder, &transactions(100, 100, 300));
    wait_for(&forwarder, 1, |stats| &stats.broken);
    let server = server_at(address, &sink);
    wait_for(&forwarder, 200, |stats| &stats.delivered);
    // A stopped server has sent all that it acknowledged to its sink.
    drop(server);
    let mut arrived = sink.all();
    arrived.sort();
    arrived.dedup();
    assert_eq!(arrived.len(), 200);
}

#[test]
fn what_cannot_be_delivered_expires_with_its_blockhash_and_is_bounded_before() {
    let is_valid = Arc::new(AtomicBool::new(true));
    // A port that is bound and never responds.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let forwarder = forwarder(&[silent.local_addr().expect("bound")], &is_valid);
    forward_all(&forwarder, &transactions(0, 5_000, 300));
    forward_all(&forwarder, &transactions(5_000, 5_001, 300));
    wait_for(&forwarder, 1, |stats| &stats.queue_full);
    is_valid.store(false, Ordering::Relaxed);
    wait_for(&forwarder, 10_000, |stats| &stats.expired);
}

#[test]
fn the_destinations_can_change() {
    let [first, second] = [Arc::<CollectingSink>::default(), Arc::<CollectingSink>::default()];
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let [to_first, to_second] = [server_at(any, &first), server_at(any, &second)];
    let forwarder = forwarder(&[to_first.address()], &Arc::new(AtomicBool::new(true)));
    forward_all(&forwarder, &transactions(0, 10, 300));
    wait_for(&forwarder, 10, |stats| &stats.delivered);
    first.wait_for(10);
    forwarder.set_destinations(&[to_second.address()]);
    // The forwarder applies new destinations before the transactions that follow.
    forward_all(&forwarder, &transactions(10, 10, 300));
    second.wait_for(10);
    assert_eq!((first.len(), second.len()), (10, 10));
}

#[test]
fn bytes_that_wait_are_counted_until_they_are_delivered_or_expire() {
    // A destination that never responds.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("it is bound");
    let is_valid = Arc::new(AtomicBool::new(true));
    let forwarder = forwarder(&[address], &is_valid);
    let all = transactions(0, 10, 300);
    forward_all(&forwarder, &all);
    let bytes: usize = all.iter().map(Vec::len).sum();
    assert_eq!(forwarder.waiting_bytes(), bytes as u64);
    is_valid.store(false, Ordering::Relaxed);
    wait_for(&forwarder, 10, |stats| &stats.expired);
    let end = now() + Duration::from_secs(20);
    while forwarder.waiting_bytes() > 0 {
        assert!(now() < end, "{} bytes are left", forwarder.waiting_bytes());
        std::thread::yield_now();
    }
}
