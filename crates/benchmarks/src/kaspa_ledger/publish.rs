//! Publishing a block to a hundred listeners and to ten thousand, with equal matches.
//!
//! Shape: each listener is a connection that is subscribed to 800 addresses of its own. A chain block pays to a hundred
//! addresses, each of another listener, and `rpc_kaspa`'s publisher gets its events. The listeners are chosen at
//! random, so that none of ten thousand is in the caches from the last block. Blocks of both sizes alternate.
//!
//! The CPU time is that of the whole process while the publisher runs, because the pool encodes a part. No connection
//! runs meanwhile: they are tasks of a runtime that this thread drives between blocks. Each listener gets its
//! notification before the next block.

use std::sync::Arc;

use anyhow::{Result, ensure};
use chain_kaspa::Chain;
use cpu_time::ProcessTime;
use kaspa::BorshServerMessage;
use muhash::MuHash;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rpc_kaspa::Publisher;
use testkit::kaspa_chain::{BlockBuilder, UtxoPool};
use tokio::runtime::{Builder, Runtime};

use crate::median::median;
use crate::metric::print_metric;
use crate::served_chain::{Client, empty_chain, serve_chain};
use crate::size::Size;

/// Matches of a block, each of another listener.
const MATCHES: usize = 100;
/// Bytes of a listener's socket: enough for a notification.
const BUFFER_BYTES: usize = 4 * 1024;

/// A served chain and its listeners.
struct World {
    chain: Chain,
    builder: BlockBuilder,
    /// The maker of rewards.
    pool: UtxoPool,
    publisher: Publisher,
    clients: Vec<Client>,
    addresses: u32,
    micros: Vec<f64>,
}

pub(crate) fn run(size: &Size) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut worlds = Vec::new();
    for listeners in size.listeners {
        worlds.push(World::new(&runtime, listeners, size.listener_addresses)?);
    }
    let mut rng = StdRng::seed_from_u64(3);
    for _ in 0..size.published_blocks {
        for world in &mut worlds {
            world.publish_block(&runtime, &mut rng)?;
        }
    }
    let addresses = size.listener_addresses;
    println!("a block of {MATCHES} matches, by listeners of {addresses} addresses, in CPU time:");
    let mut micros = Vec::new();
    for world in worlds {
        let median_us = median(world.micros);
        println!("  {:>6} listeners: {median_us:.1} us", world.clients.len());
        micros.push(median_us);
    }
    print_metric("by_listeners", micros[1] / micros[0]);
    Ok(())
}

impl World {
    fn new(runtime: &Runtime, listeners: u32, addresses: u32) -> Result<Self> {
        let chain = empty_chain(listeners * addresses + 1_000_000)?;
        let server = serve_chain(chain.reader())?;
        let publisher = Publisher::new(Arc::clone(&server));
        let clients = runtime.block_on(async {
            let mut clients = Vec::with_capacity(listeners as usize);
            for number in 0..listeners {
                let mut client = Client::connect(&server, number, BUFFER_BYTES).await;
                client.subscribe(number * addresses..(number + 1) * addresses).await?;
                clients.push(client);
            }
            anyhow::Ok(clients)
        })?;
        Ok(Self {
            chain,
            builder: BlockBuilder::new(MuHash::EMPTY),
            pool: UtxoPool::new(1, 0),
            publisher,
            clients,
            addresses,
            micros: Vec::new(),
        })
    }

    /// Adds a block that pays to some listeners, publishes it, and waits for their notifications.
    fn publish_block(&mut self, runtime: &Runtime, rng: &mut StdRng) -> Result<()> {
        let mut listeners: Vec<u32> = (0..self.clients.len() as u32).collect();
        let (matched, _) = listeners.partial_shuffle(rng, MATCHES);
        ensure!(matched.len() == MATCHES, "{} of {MATCHES} listeners", matched.len());
        let addresses = self.addresses;
        let scripts: Vec<u32> = matched
            .iter()
            .map(|listener| listener * addresses + rng.random_range(0..addresses))
            .collect();
        let block = self.builder.build_block(vec![self.pool.make_reward(&scripts)]);
        let mut step = self.chain.start_step(&[])?;
        step.add_block(block)?;
        step.commit();
        let publication = self.chain.publish()?;
        let started = ProcessTime::now();
        self.publisher.publish_chain(&publication.events);
        self.micros.push(started.elapsed().as_secs_f64() * 1e6);
        drop(publication);
        self.chain.reclaim();
        runtime.block_on(async {
            for listener in &*matched {
                let message = self.clients[*listener as usize].receive().await?;
                let parsed = BorshServerMessage::parse(&message)?;
                let is_notified = matches!(parsed, BorshServerMessage::Notification { .. });
                ensure!(is_notified, "a reply without a request");
            }
            Ok(())
        })
    }
}
