//! The server grants as many streams as a client uses, without slowing it.

use std::time::Duration;

use quinn_proto::{Dir, Side, StreamId};
use tpu::Config;

use crate::world::{Link, World, transactions};

/// Streams that a connection may be granted without having been notified of them: an eighth of the window.
const UNANNOUNCED_MAX: usize = 512 / 8;

fn near() -> Link {
    Link { delay: Duration::from_millis(1), ..Link::default() }
}

fn far() -> Link {
    Link { delay: Duration::from_millis(100), ..Link::default() }
}

/// Sends 2,000 small transactions at once. Returns the time until the server has all of them.
fn measure_burst(world: &mut World, client: usize, from: u32) -> Duration {
    let began = world.now;
    let expected = world.sink.len() + 2_000;
    world.client(client).send(transactions(from, 2_000, 215));
    world.run_until(Duration::from_secs(60), |world| world.sink.len() == expected);
    world.now - began
}

#[test]
fn idle_connections_are_granted_few_streams() {
    let mut world = World::new(Config::default(), Link::default(), 11);
    let clients: Vec<usize> = (0..50).map(|_| world.connect()).collect();
    world.run_for(Duration::from_secs(5));
    for at in clients {
        assert_eq!(world.client(at).open_all(), 64);
    }
}

#[test]
fn a_far_client_is_as_fast_as_with_its_whole_share_and_keeps_it() {
    let all_at_once = Config { window_initial: 512, ..Config::default() };
    let [grown, granted] = [Config::default(), all_at_once].map(|config| {
        let mut world = World::new(config, far(), 12);
        let at = world.connect();
        world.run_for(Duration::from_secs(1));
        let first = measure_burst(&mut world, at, 0);
        world.run_for(Duration::from_secs(60));
        let second = measure_burst(&mut world, at, 10_000);
        world.run_for(Duration::from_secs(1));
        let open = world.client(at).open_all();
        assert!((512 - UNANNOUNCED_MAX..=512).contains(&open), "{open}");
        [first, second]
    });
    // The congestion control of a new connection is the limit. Half a round trip is for different packets.
    for (grown, granted) in grown.iter().zip(granted) {
        let excess = grown.saturating_sub(granted);
        assert!(excess <= far().delay, "{grown:?}, with the whole share {granted:?}");
    }
}

#[test]
fn a_near_client_with_much_to_send_gets_its_whole_share() {
    let mut world = World::new(Config::default(), near(), 13);
    let at = world.connect();
    world.client(at).send(transactions(0, 20_000, 215));
    world.run_until(Duration::from_secs(20), |world| world.sink.len() == 20_000);
    world.run_for(Duration::from_secs(1));
    let open = world.client(at).open_all();
    assert!((512 - UNANNOUNCED_MAX..=512).contains(&open), "{open}");
}

#[test]
fn states_of_streams_are_counted_and_released() {
    let mut world = World::new(Config::default(), near(), 17);
    let [busy, quiet] = [0, 1].map(|_| world.connect());
    world.client(busy).send(transactions(0, 20_000, 215));
    world.client(quiet).send(transactions(100_000, 10, 215));
    world.run_until(Duration::from_secs(20), |world| world.sink.len() == 20_010);
    let states = world.metrics().stream_states;
    assert!((256 + 10..=512 + 10).contains(&states), "{states}");
    for client in [busy, quiet] {
        let now = world.now;
        world.client(client).close(now);
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.metrics().stream_states, 0);
}

#[test]
fn a_near_client_that_sends_little_keeps_a_small_window() {
    let mut world = World::new(Config::default(), near(), 14);
    let at = world.connect();
    for round in 0..100 {
        world.client(at).send(transactions(round * 20, 20, 215));
        world.run_for(Duration::from_millis(20));
    }
    assert_eq!(world.sink.len(), 2_000);
    let open = world.client(at).open_all();
    assert!((56..=64).contains(&open), "{open}");
}

#[test]
fn a_client_that_implies_streams_is_closed_and_delays_no_other() {
    let mut world = World::new(Config::default(), far(), 16);
    let hostile = world.connect();
    let honest = world.connect();
    world.run_for(Duration::from_secs(1));
    let mut opened = 0;
    // Windows of 64, 128, 256 and 512 streams.
    for _ in 0..4 {
        let client = world.client(hostile);
        opened += client.open_all() as u64;
        let last = StreamId::new(Side::Client, Dir::Uni, opened - 1);
        client.connection.send_stream(last).write(&[1]).expect("a new stream takes a byte");
        world.run_for(4 * far().delay);
    }
    assert_eq!(opened, 512);
    world.client(honest).send(transactions(0, 2_000, 215));
    world.run_until(Duration::from_secs(5), |world| world.sink.len() == 2_000);
    world.run_until(Duration::from_secs(15), |world| world.client(hostile).lost.is_some());
    let lost = world.client(hostile).lost.clone().unwrap_or_default();
    assert!(lost.contains("too many broken streams"), "{lost}");
    assert_eq!(world.client(honest).lost, None);
}

#[test]
fn a_client_whose_demand_changes_all_the_time_delays_no_other() {
    const ROUND: Duration = Duration::from_millis(100);
    let time_of_honest = |has_hostile: bool| {
        let mut world = World::new(Config::default(), near(), 15);
        let honest = world.connect();
        let hostile = world.connect();
        world.run_for(Duration::from_secs(1));
        let mut total = Duration::ZERO;
        for round in 0..50u32 {
            if has_hostile {
                // A burst that makes its window grow, then a few streams for which it is too large.
                let count = if round % 5 == 0 { 1_500 } else { 20 };
                let from = 1_000_000 + round * 1_500;
                world.client(hostile).send(transactions(from, count, 215));
            }
            let began = world.now;
            world.client(honest).send(transactions(round * 100, 100, 215));
            let finished = 100 * (round as usize + 1);
            world.run_until(ROUND, |world| world.client(honest).finished == finished);
            total += world.now - began;
            world.run_for(ROUND);
        }
        assert_eq!(world.client(hostile).lost, None);
        total
    };
    let alone = time_of_honest(false);
    let beside = time_of_honest(true);
    assert!(beside <= alone.mul_f64(1.1), "{beside:?}, alone {alone:?}");
}
