//! The relay against our own server: everything arrives, over one connection while there is one.

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
    Forwarder::start(to, &identity(&Keypair::new()), 10_000, is_valid).expect("a relay")
}

fn forward_all(relay: &Forwarder, transactions: &[Vec<u8>]) {
    transactions.iter().for_each(|bytes| relay.forward(bytes, Hash::default(), now()));
}

/// Waits for a count of the only destination.
fn wait_for(relay: &Forwarder, wanted: u64, count: fn(&DestinationStats) -> &AtomicU64) {
    let end = now() + Duration::from_secs(20);
    loop {
        let (_, counts) = relay.destinations().pop().expect("a destination");
        if count(&counts).load(Ordering::Relaxed) >= wanted {
            return;
        }
        assert!(now() < end, "not in time: {counts:?}");
        std::thread::yield_now();
    }
}

fn server_at(address: SocketAddr, kept: &Arc<CollectingSink>) -> Server {
    start_at(address, Config::default(), kept)
}

#[test]
fn what_is_forwarded_arrives_over_one_connection() {
    let kept = Arc::<CollectingSink>::default();
    let server = server_at(SocketAddr::from(([127, 0, 0, 1], 0)), &kept);
    let relay = forwarder(&[server.address()], &Arc::new(AtomicBool::new(true)));
    let all = transactions(0, 3_000, 300);
    forward_all(&relay, &all);
    wait_for(&relay, 3_000, |counts| &counts.delivered);
    kept.wait_for(3_000);
    let mut arrived = kept.all();
    arrived.sort();
    let mut all = all;
    all.sort();
    assert!(arrived == all);
    assert_eq!(server.counters().snapshot().connections, 1);
}

#[test]
fn what_was_in_flight_is_sent_again_after_a_restart() {
    let kept = Arc::<CollectingSink>::default();
    let server = server_at(SocketAddr::from(([127, 0, 0, 1], 0)), &kept);
    let address = server.address();
    let relay = forwarder(&[address], &Arc::new(AtomicBool::new(true)));
    forward_all(&relay, &transactions(0, 100, 300));
    wait_for(&relay, 100, |counts| &counts.delivered);
    drop(server);
    forward_all(&relay, &transactions(100, 100, 300));
    wait_for(&relay, 1, |counts| &counts.broken);
    let server = server_at(address, &kept);
    wait_for(&relay, 200, |counts| &counts.delivered);
    // Gone, it has handed on all that it acknowledged.
    drop(server);
    let mut arrived = kept.all();
    arrived.sort();
    arrived.dedup();
    assert_eq!(arrived.len(), 200);
}

#[test]
fn what_cannot_be_delivered_expires_with_its_blockhash_and_is_bounded_before() {
    let is_valid = Arc::new(AtomicBool::new(true));
    // A port that is bound and answers nobody.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let relay = forwarder(&[silent.local_addr().expect("bound")], &is_valid);
    forward_all(&relay, &transactions(0, 5_000, 300));
    forward_all(&relay, &transactions(5_000, 5_001, 300));
    wait_for(&relay, 1, |counts| &counts.queue_full);
    is_valid.store(false, Ordering::Relaxed);
    wait_for(&relay, 10_000, |counts| &counts.expired);
}

#[test]
fn the_destinations_can_change() {
    let [first, second] = [Arc::<CollectingSink>::default(), Arc::<CollectingSink>::default()];
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let [to_first, to_second] = [server_at(any, &first), server_at(any, &second)];
    let relay = forwarder(&[to_first.address()], &Arc::new(AtomicBool::new(true)));
    forward_all(&relay, &transactions(0, 10, 300));
    wait_for(&relay, 10, |counts| &counts.delivered);
    first.wait_for(10);
    relay.set_destinations(&[to_second.address()]);
    // The relay takes the new aim before what is offered after it.
    forward_all(&relay, &transactions(10, 10, 300));
    second.wait_for(10);
    assert_eq!((first.len(), second.len()), (10, 10));
}
