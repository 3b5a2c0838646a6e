//! Links that lose, reorder and duplicate: everything arrives once, and memory is released.

use std::sync::Arc;
use std::time::Duration;

use api_keys::{ApiKeys, KeyFile, KeyHash};
use solana_keypair::Keypair;
use solana_signer::Signer;
use tpu::{Config, DropReason};

use crate::world::{Link, World, transactions};

fn sort_all(mut all: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    all.sort();
    all
}

fn everything_arrives_once(link: Link, bytes: usize, seed: u64) {
    let mut world = World::new(Config::default(), link, seed);
    let mut sent = Vec::new();
    for number in 0..4 {
        let at = world.connect();
        let some = transactions(number * 1_000_000, 1_000, bytes);
        world.client(at).send(some.clone());
        sent.extend(some);
    }
    world.run_until(Duration::from_secs(120), |world| world.sink.len() >= 4_000);
    world.run_for(Duration::from_secs(3));
    assert!(sort_all(world.sink.all()) == sort_all(sent), "seed {seed}: not what was sent");
    let metrics = world.metrics();
    assert_eq!((metrics.received, metrics.open), (4_000, 4), "seed {seed}");
}

#[test]
fn a_clean_link() {
    everything_arrives_once(Link::default(), 300, 1);
    everything_arrives_once(Link::default(), 1_232, 2);
}

#[test]
fn loss_reordering_and_repetition() {
    for seed in 0..4 {
        let jitter = Duration::from_millis(5);
        let link = Link { loss: 0.03, repeat: 0.03, jitter, ..Link::default() };
        everything_arrives_once(link, [200, 800, 1_232, 1_000][seed as usize], seed);
    }
}

#[test]
fn version_1_has_4096_bytes() {
    let mut world = World::new(Config::default(), Link::default(), 3);
    let at = world.connect();
    let mut all = transactions(0, 100, 4_096);
    all.iter_mut().for_each(|transaction| transaction[0] = 0x81);
    world.client(at).send(all.clone());
    world.run_until(Duration::from_secs(10), |world| world.sink.len() == 100);
    assert!(sort_all(world.sink.all()) == sort_all(all));
}

#[test]
fn a_client_that_changes_its_address_stays_connected() {
    let mut world = World::new(Config::default(), Link::default(), 4);
    let at = world.connect();
    world.client(at).send(transactions(0, 100, 300));
    world.run_until(Duration::from_secs(10), |world| world.sink.len() == 100);
    // Another port, as behind a router that lost its mapping.
    world.addresses[at].set_port(6_000);
    world.client(at).send(transactions(100, 500, 300));
    world.run_until(Duration::from_secs(20), |world| world.sink.len() == 600);
    assert_eq!(world.metrics().connections, 1);
    assert_eq!(world.client(at).lost, None);
}

#[test]
fn an_unknown_connection_is_reset_without_state() {
    let mut world = World::new(Config::default(), Link::default(), 5);
    let at = world.connect();
    world.client(at).send(transactions(0, 10, 300));
    world.run_until(Duration::from_secs(10), |world| world.sink.len() == 10);
    // The server drops all connections but not its keys, as after a restart.
    world.server.forget_connections();
    world.client(at).send(transactions(10, 10, 300));
    world.run_until(Duration::from_secs(30), |world| world.client(at).lost.is_some());
    assert_eq!(world.client(at).lost.as_deref(), Some("reset by peer"));
}

#[test]
fn a_server_with_too_many_handshakes_requires_a_retry_token() {
    let config = Config { retry_above: 0, ..Config::default() };
    let mut world = World::new(config, Link::default(), 6);
    let at = world.connect();
    world.client(at).send(transactions(0, 10, 300));
    world.run_until(Duration::from_secs(10), |world| world.sink.len() == 10);
    assert_eq!(world.metrics().retries, 1);
}

#[test]
fn two_thousand_connections_come_and_vanish() {
    let mut world = World::new(Config::default(), Link::default(), 7);
    for round in 0..4 {
        let clients: Vec<usize> = (0..500).map(|_| world.connect()).collect();
        for at in &clients {
            let some = transactions((round * 10_000 + at * 20) as u32, 10, 300);
            world.client(*at).send(some);
        }
        let expected = (round + 1) * 5_000;
        world.run_until(Duration::from_secs(60), |world| world.sink.len() >= expected);
        for (n, at) in clients.into_iter().enumerate() {
            // Half of them close the connection.
            if n % 2 == 0 {
                let now = world.now;
                world.client(at).close(now);
                world.run_for(Duration::from_micros(100));
            }
            world.vanish(at);
        }
    }
    assert_eq!(world.metrics().connections, 2_000);
    world.run_until(Duration::from_secs(120), |world| world.server.connections() == 0);
    assert_eq!((world.admission.connections(), world.metrics().open), (0, 0));
    // It works as before.
    let at = world.connect();
    world.client(at).send(transactions(1_000_000, 10, 300));
    world.run_until(Duration::from_secs(10), |world| world.sink.len() == 20_010);
}

#[test]
fn a_connection_cut_off_in_the_middle_is_counted() {
    let mut world = World::new(Config::default(), Link::default(), 8);
    let at = world.connect();
    let client = world.client(at);
    for _ in 0..10 {
        client.to_send.push_back((vec![1; 100], crate::client::End::Nothing));
    }
    world.run_for(Duration::from_millis(500));
    let now = world.now;
    world.client(at).close(now);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.metrics().count_refused(DropReason::CutOff), 10);
}

#[test]
fn a_connection_ends_with_its_api_key_and_others_stay() {
    let keypairs = [Keypair::new(), Keypair::new()];
    let file = |keypairs: &[Keypair]| {
        let mut text = "[tiers.t]\n".to_owned();
        for keypair in keypairs {
            let identity = keypair.pubkey().to_string();
            let hash = KeyHash::of_key(identity.as_bytes());
            text += &format!(
                "[[keys]]\nname = \"{identity}\"\ntier = \"t\"\nsha256 = \"{hash}\"\nidentities = [\"{identity}\"]\n"
            );
        }
        KeyFile::parse(&text).expect("it is valid")
    };
    let keys = Arc::new(ApiKeys::new(file(&keypairs), 0));
    let mut world =
        World::with_keys(Config::default(), Link::default(), 1, Some(Arc::clone(&keys)));
    let clients = [0, 1].map(|at: usize| world.connect_as(&keypairs[at]));
    world.run_until(Duration::from_secs(5), |world| {
        clients.iter().all(|at| world.client(*at).is_connected)
    });
    keys.reload(file(&keypairs[1..]));
    world.run_until(Duration::from_secs(2), |world| world.client(clients[0]).lost.is_some());
    let reason = world.client(clients[0]).lost.clone().expect("it is lost");
    assert!(reason.contains("the API key was removed"), "{reason}");
    world.client(clients[1]).send([vec![7; 100]]);
    world.run_until(Duration::from_secs(5), |world| world.client(clients[1]).finished == 1);
    assert_eq!(world.admission.connections(), 1);
}
