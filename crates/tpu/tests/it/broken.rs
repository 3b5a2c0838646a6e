//! Clients that are slow, greedy or broken must not affect the others.

use std::time::Duration;

use quinn_proto::{Dir, Side, StreamId};
use solana_keypair::Keypair;
use tpu::{Config, DropReason};

use crate::client::End;
use crate::world::{Link, World, transactions};

fn world(config: Config) -> World {
    World::new(config, Link::default(), 9)
}

#[test]
fn invalid_transactions_are_counted_by_cause() {
    let mut world = world(Config::default());
    let at = world.connect();
    let client = world.client(at);
    for _ in 0..3 {
        client.to_send.push_back((vec![1; 1_233], End::Finish));
        client.to_send.push_back((vec![0x81; 4_097], End::Finish));
        client.to_send.push_back((Vec::new(), End::Finish));
        client.to_send.push_back((vec![1; 200], End::Reset));
        client.to_send.push_back((vec![2; 200], End::Finish));
    }
    world.run_until(Duration::from_secs(5), |world| {
        let metrics = world.metrics();
        world.sink.len() == 3 && metrics.count_refused(DropReason::TooLong) == 6
    });
    world.run_for(Duration::from_secs(3));
    let metrics = world.metrics();
    let causes: Vec<_> = metrics.drop_reasons().collect();
    // A reset may overtake the stream itself; then the server knows only the reset.
    assert!(causes.contains(&("too_long", 6)) && causes.contains(&("empty", 3)), "{causes:?}");
    assert!(causes.contains(&("reset", 3)), "{causes:?}");
    assert_eq!(world.client(at).lost, None);
}

#[test]
fn a_stalled_stream_holds_up_nothing_else() {
    let mut world = world(Config::default());
    let at = world.connect();
    world.client(at).to_send.push_back((vec![1; 100], End::Nothing));
    world.client(at).send(transactions(0, 2_000, 300));
    world.run_until(Duration::from_secs(2), |world| world.sink.len() == 2_000);
    world.run_until(Duration::from_secs(12), |world| world.client(at).stopped == 1);
    assert_eq!(world.metrics().count_refused(DropReason::Stalled), 1);
    // Its slot is free again: all others still pass.
    world.client(at).send(transactions(10_000, 2_000, 300));
    world.run_until(Duration::from_secs(5), |world| world.sink.len() == 4_000);
}

#[test]
fn a_client_that_opens_its_window_and_never_finishes_is_closed() {
    let config = Config { window_max: 256, broken_streams_max: 100, ..Config::default() };
    let mut world = world(config);
    let greedy = world.connect();
    let honest = world.connect();
    for _ in 0..10_000 {
        world.client(greedy).to_send.push_back((vec![1; 50], End::Nothing));
    }
    world.client(honest).send(transactions(0, 5_000, 300));
    world.run_until(Duration::from_secs(5), |world| world.sink.len() == 5_000);
    world.run_until(Duration::from_secs(15), |world| world.client(greedy).lost.is_some());
    let lost = world.client(greedy).lost.clone().unwrap_or_default();
    assert!(lost.contains("too many broken streams"), "{lost}");
    let metrics = world.metrics();
    assert_eq!((metrics.count_refused(DropReason::Misbehaved), metrics.open), (1, 1));
    assert_eq!(metrics.received + metrics.count_refused(DropReason::Stalled), 5_256);
}

#[test]
fn a_client_that_sends_a_byte_a_second_is_stopped_in_time_and_delays_no_other() {
    const STREAMS: u64 = 64;
    let mut world = world(Config::default());
    let slow = world.connect();
    let honest = world.connect();
    for _ in 0..STREAMS {
        world.client(slow).to_send.push_back((vec![1], End::Nothing));
    }
    for second in 0..12 {
        world.run_for(Duration::from_secs(1));
        let client = world.client(slow);
        for number in 0..STREAMS {
            let id = StreamId::new(Side::Client, Dir::Uni, number);
            // A stopped stream takes no more.
            let _ = client.connection.send_stream(id).write(&[1]);
        }
        let expected = (second + 1) * 500;
        world.client(honest).send(transactions(expected, 500, 300));
        world.run_until(Duration::from_secs(1), |world| world.sink.len() == expected as usize);
    }
    assert_eq!(world.client(slow).stopped as u64, STREAMS);
    assert_eq!(world.metrics().count_refused(DropReason::Stalled), STREAMS);
    assert_eq!(world.client(honest).lost, None);
}

#[test]
fn a_flood_from_addresses_that_never_answer_leaves_no_state_and_lets_others_in() {
    const FLOOD: usize = 1_000;
    let config = Config { retry_above: 8, ..Config::default() };
    let mut world = world(config);
    for _ in 0..FLOOD {
        let at = world.connect();
        world.vanish(at);
    }
    world.run_for(Duration::from_millis(100));
    // A client that cannot send the token for its address costs nothing.
    assert_eq!((world.admission.connections(), world.server.connections()), (8, 8));
    assert_eq!(world.metrics().retries, FLOOD as u64 - 8);
    let honest = world.connect();
    world.client(honest).send(transactions(0, 100, 300));
    world.run_until(Duration::from_secs(1), |world| world.sink.len() == 100);
    assert_eq!(world.metrics().retries, FLOOD as u64 - 7);
}

#[test]
fn connections_that_close_release_their_memory_at_once() {
    let mut world = world(Config::default());
    let clients: Vec<usize> = (0..200).map(|_| world.connect()).collect();
    for at in &clients {
        let some = transactions(*at as u32 * 100, 50, 300);
        world.client(*at).send(some);
    }
    world.run_until(Duration::from_secs(20), |world| world.sink.len() == 10_000);
    let now = world.now;
    clients.iter().for_each(|at| world.client(*at).close(now));
    // The network delay is 10 ms; no state is retained for late packets.
    world.run_for(Duration::from_millis(25));
    assert_eq!((world.server.connections(), world.admission.connections()), (0, 0));
}

#[test]
fn unfinished_transactions_have_a_bound() {
    let config = Config { unfinished_bytes_max: 100_000, ..Config::default() };
    let mut world = world(config);
    let at = world.connect();
    for _ in 0..200 {
        world.client(at).to_send.push_back((vec![1; 50], End::Nothing));
    }
    world.run_for(Duration::from_secs(1));
    let refused = world.metrics().count_refused(DropReason::UnfinishedFull);
    assert!((150..200).contains(&refused), "{refused}");
    // That was one client. Others are not affected.
    let at = world.connect();
    world.client(at).send(transactions(0, 100, 300));
    world.run_until(Duration::from_secs(5), |world| world.sink.len() == 100);
}

#[test]
fn address_and_identity_limits_are_reported() {
    let config = Config { connections_per_identity_max: 2, ..Config::default() };
    let mut world = world(config);
    let keypair = Keypair::new();
    let clients: Vec<usize> = (0..3).map(|_| world.connect_as(&keypair)).collect();
    world.run_for(Duration::from_secs(1));
    let lost: Vec<_> = clients.iter().filter_map(|at| world.client(*at).lost.clone()).collect();
    assert_eq!(lost.len(), 1);
    assert!(lost[0].contains("too many connections of this identity"), "{}", lost[0]);
    assert_eq!(world.metrics().count_refused(DropReason::IdentityFull), 1);
}

#[test]
fn an_idle_connection_is_notified_and_closed() {
    let config = Config { idle_timeout_ms: 5_000, ..Config::default() };
    let mut world = world(config);
    let at = world.connect();
    world.client(at).send(transactions(0, 1, 300));
    world.run_for(Duration::from_secs(20));
    // It pings once a second.
    assert_eq!(world.metrics().open, 1);
    world.vanish(at);
    world.run_for(Duration::from_secs(6));
    assert_eq!(world.metrics().open, 0);
}

#[test]
fn a_stalled_handshake_times_out() {
    let mut world = world(Config::default());
    for _ in 0..100 {
        let at = world.connect();
        world.vanish(at);
    }
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.admission.connections(), 100);
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.admission.connections(), 0);
    assert_eq!(world.metrics().count_refused(DropReason::HandshakeFailed), 100);
}

#[test]
fn garbage_from_the_network_changes_nothing() {
    let mut world = world(Config::default());
    let at = world.connect();
    world.client(at).send(transactions(0, 100, 300));
    world.run_until(Duration::from_secs(5), |world| world.sink.len() == 100);
    for n in 0..2_000usize {
        let garbage: Vec<u8> = (0..n % 1_500).map(|at| (at * 31 + n * 17) as u8).collect();
        world.inject(at, &garbage);
    }
    world.client(at).send(transactions(100, 100, 300));
    world.run_until(Duration::from_secs(5), |world| world.sink.len() == 200);
    assert_eq!(world.client(at).lost, None);
}
