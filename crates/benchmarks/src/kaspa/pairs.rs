//! The memory of subscriptions in the shape of Kaspa's PR 427: clients subscribe to sets of addresses and leave, again
//! and again.
//!
//! Input: the set of each client, the number of cycles, and a function that reads the memory of the process. Output:
//! the memory with all clients connected, and with all of them subscribed: in the first cycle, in the first quarter of
//! the cycles and in the last one. Resident memory varies by some percent from cycle to cycle, so quarters are compared.
//! Not here: the bars (`kaspa.rs`). Heap bytes are measured by `bench kaspa`, resident bytes by `kaspa-ledger`.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use chain_kaspa::Chain;
use rpc_kaspa::Publisher;
use tokio::runtime::Builder;

use super::served_chain::{Client, empty_chain, serve_chain};

/// Bytes that the socket of a client holds.
const BUFFER_BYTES: usize = 16 * 1024;
/// Publications after which the ids of released addresses can be used again.
const PUBLICATIONS: usize = 3;

/// Memory of a process in bytes.
pub(crate) struct PairMemory {
    /// Pairs of a client and an address.
    pub(crate) pairs: u64,
    /// With all clients connected, and without subscriptions.
    pub(crate) connected: u64,
    /// With all clients subscribed, in the first cycle.
    pub(crate) first: u64,
    /// With all clients subscribed, the mean of the first quarter of the cycles.
    pub(crate) early: u64,
    /// With all clients subscribed, the mean of the last quarter of the cycles.
    pub(crate) late: u64,
}

impl PairMemory {
    /// Returns the bytes that a pair adds to a process with connected clients.
    pub(crate) fn pair_bytes(&self) -> f64 {
        self.first.saturating_sub(self.connected) as f64 / self.pairs as f64
    }
}

/// Runs the cycles. `memory` reads the memory of this process.
pub(crate) fn measure_pairs(
    sets: &[Range<u32>],
    cycles: u32,
    memory: impl Fn() -> Result<u64>,
) -> Result<PairMemory> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let addresses = sets.iter().map(|set| set.end).max().unwrap_or(0);
    let pairs = sets.iter().map(|set| set.len() as u64).sum();
    let mut chain = empty_chain(2 * addresses + 1_000)?;
    let server = serve_chain(chain.reader())?;
    let _publisher = Publisher::new(Arc::clone(&server));
    runtime.block_on(async {
        let mut clients = Vec::with_capacity(sets.len());
        for (number, set) in (0..).zip(sets) {
            let mut client = Client::connect(&server, number, BUFFER_BYTES).await;
            client.warm_up(set.clone()).await?;
            clients.push(client);
        }
        recycle_addresses(&mut chain)?;
        let connected = memory()?;
        let mut subscribed = Vec::new();
        for _ in 0..cycles {
            for (client, set) in clients.iter_mut().zip(sets) {
                client.subscribe(set.clone()).await?;
            }
            let tracked = server.stats().tracked_pairs as u64;
            ensure!(tracked == pairs, "{tracked} of {pairs} pairs are tracked");
            subscribed.push(memory()?);
            for client in &mut clients {
                client.unsubscribe().await?;
            }
            recycle_addresses(&mut chain)?;
            let tracked = server.stats().tracked_pairs;
            ensure!(tracked == 0, "{tracked} pairs are left");
        }
        let first = *subscribed.first().context("a cycle")?;
        let quarter = subscribed.len().div_ceil(4);
        let early = mean(&subscribed[..quarter]);
        let late = mean(&subscribed[subscribed.len() - quarter..]);
        Ok(PairMemory { pairs, connected, first, early, late })
    })
}

/// Returns the mean of a list that is not empty.
fn mean(bytes: &[u64]) -> u64 {
    bytes.iter().sum::<u64>() / bytes.len() as u64
}

/// Publishes as a node does all the time: the ids of released addresses are used again.
fn recycle_addresses(chain: &mut Chain) -> Result<()> {
    for _ in 0..PUBLICATIONS {
        drop(chain.publish()?);
        chain.reclaim();
    }
    Ok(())
}
