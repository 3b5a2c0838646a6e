//! From a frame of the upstream to the last client's frame: 700 changed UTXOs, 500 clients, a million addresses.
//!
//! Shape: the chain has a million scripts and a hundred blocks above its root. Every 100 ms comes a message about the
//! virtual block with 350 UTXOs created and 350 spent, of scripts chosen at random. The time starts before the message
//! is decoded, on the thread that also applies it and publishes the state, as the follower's writer does. It ends when
//! the last client has read its notification. `rpc_kaspa`'s publisher has its thread, and connections and clients are
//! tasks of one runtime, on sockets in memory. A chain block that accepts the same transactions follows before the next
//! message. It changes no UTXO that clients see.
//!
//! Two kinds of sets are measured: clients with equal sets, where nearly every client gets a notification of a few
//! entries, and those of Kaspa's PR 427, where five monitors get hundreds of entries each. The figure is the greater
//! p99. The entries that each client gets are counted and compared.
//! Not here: the upstream's socket, the queue of the follower's writer, TLS.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use chain_kaspa::{Chain, HistoryLimits, VirtualMode};
use hdrhistogram::Histogram;
use kaspa::{AddressPayload, Notification, UtxoChanges};
use muhash::MuHash;
use parking_lot::Mutex;
use rpc_kaspa::{PublisherInput, start_publisher};
use testkit::clock::{now, sleep_for};
use testkit::kaspa_chain::{BlockBuilder, UtxoPool, numbered_payload};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::client_sets::ClientSets;
use crate::depth::join_virtual;
use crate::loaded_chain::{hash_pool, load_pool};
use crate::metric::print_metric;
use crate::served_chain::{Client, serve_chain};
use crate::size::Size;
use crate::virtual_block::{VirtualBlock, decode_utxos_changed};

/// Time between two frames: ten come in a second.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// Clients that watch an address, if all sets are equal in size. With four of them nearly all clients are notified.
const WATCHERS: u32 = 4;
/// Bytes that the socket of a client holds.
const BUFFER_BYTES: usize = 64 * 1024;
/// Publications that may wait for the publisher.
const INPUTS_MAX: usize = 1_024;
/// Time limit of all notifications of a frame.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// The numbered addresses that a client watches.
type WatchedRanges = Vec<Range<u32>>;

pub(crate) fn run(size: &Size) -> Result<()> {
    let sets = size.fanout_sets;
    let product = hash_pool(sets.addresses);
    println!(
        "{} clients, {} addresses, {} entries a frame, from the frame to the last notification:",
        sets.clients,
        sets.addresses,
        4 * size.fanout_transactions
    );
    let original = sets.ranges().map(|range| vec![range]).collect();
    let mut p99_ms: f64 = 0.0;
    for (name, ranges) in [("equal sets", equal_sets(&sets)), ("sets of PR 427", original)] {
        let mut world = World::new(size, &product, ranges)?;
        let times_ns = world.measure(size)?;
        let ms = |quantile: f64| times_ns.value_at_quantile(quantile) as f64 / 1e6;
        let frames = f64::from(size.fanout_frames);
        println!(
            "  {name}: p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms; {:.0} clients notified, of {:.0} entries",
            ms(0.5),
            ms(0.99),
            ms(1.0),
            world.notifications as f64 / frames,
            world.entries as f64 / frames
        );
        p99_ms = p99_ms.max(ms(0.99));
    }
    print_metric("p99_ms", p99_ms);
    Ok(())
}

/// Returns sets of equal size that overlap: each address is in [`WATCHERS`] of them.
fn equal_sets(sets: &ClientSets) -> Vec<WatchedRanges> {
    let clients = sets.clients as u32;
    let new_addresses = sets.addresses / clients;
    let watched = |client: u32| {
        let start = client * new_addresses;
        let end = start + WATCHERS * new_addresses;
        vec![start..end.min(sets.addresses), 0..end.saturating_sub(sets.addresses)]
    };
    (0..clients).map(watched).collect()
}

/// A served chain, and the clients that watch its addresses.
struct World {
    runtime: Runtime,
    chain: Chain,
    virtual_block: VirtualBlock,
    publisher: PublisherInput,
    watched: WatchedSets,
    inbox: Arc<Inbox>,
    /// Notifications of the measured frames, and the entries in them.
    notifications: usize,
    entries: usize,
}

/// The addresses that each client watches.
struct WatchedSets {
    sets: Vec<WatchedRanges>,
    numbers: HashMap<AddressPayload, u32>,
}

/// The notifications that clients have read.
struct Inbox {
    received: Mutex<Vec<ReceivedNotification>>,
    /// A permit for each of them.
    count: Semaphore,
}

/// A notification that a client has read.
struct ReceivedNotification {
    client: usize,
    at: Instant,
    message: Bytes,
}

impl World {
    fn new(size: &Size, product: &MuHash, sets: Vec<WatchedRanges>) -> Result<Self> {
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let scripts = size.fanout_sets.addresses;
        let builder = BlockBuilder::new(product.clone());
        let history = HistoryLimits::default();
        let mut chain = load_pool(&builder, product, scripts, size.depths[0], history)?;
        let server = serve_chain(chain.reader())?;
        let publisher = start_publisher(Arc::clone(&server), INPUTS_MAX)?;
        join_virtual(&mut chain, &builder)?;
        let received = Mutex::default();
        let inbox = Arc::new(Inbox { received, count: Semaphore::new(0) });
        runtime.block_on(async {
            for (number, set) in sets.iter().enumerate() {
                let mut client = Client::connect(&server, number as u32, BUFFER_BYTES).await;
                for range in set {
                    client.subscribe(range.clone()).await?;
                }
                tokio::spawn(read_notifications(client, number, Arc::clone(&inbox)));
            }
            anyhow::Ok(())
        })?;
        let pairs: usize = sets.iter().flatten().map(|range| range.len()).sum();
        let tracked = server.stats().tracked_pairs;
        ensure!(tracked == pairs, "{tracked} of {pairs} pairs are tracked");
        let numbers = (0..scripts).map(|number| (numbered_payload(number), number)).collect();
        Ok(Self {
            runtime,
            chain,
            virtual_block: VirtualBlock::new(builder, UtxoPool::new(1, scripts)),
            publisher,
            watched: WatchedSets { sets, numbers },
            inbox,
            notifications: 0,
            entries: 0,
        })
    }

    /// Returns the nanoseconds of each frame until its last notification.
    fn measure(&mut self, size: &Size) -> Result<Histogram<u64>> {
        // The chain has its depth before frames are measured.
        for _ in 0..size.depths[0] {
            self.send_frame(size.fanout_transactions, now())?;
            self.add_chain_block()?;
        }
        self.notifications = 0;
        self.entries = 0;
        let mut times_ns = Histogram::<u64>::new(3)?;
        let started = now();
        for nth in 0..size.fanout_frames {
            let due = started + FRAME_INTERVAL * nth;
            let took = self.send_frame(size.fanout_transactions, due)?;
            times_ns.record(took.as_nanos() as u64)?;
            self.add_chain_block()?;
        }
        let status = self.chain.status();
        ensure!(status.virtual_state.mode == VirtualMode::Exact, "{:?}", status.virtual_state);
        ensure!(status.counters.refused == 0, "a block was refused");
        Ok(times_ns)
    }

    /// Makes a frame, and handles it once it is due. Returns the time until its last notification.
    fn send_frame(&mut self, transactions: usize, due: Instant) -> Result<Duration> {
        let changes = self.virtual_block.replace(transactions, |_| false);
        let expected = self.watched.count_entries(&changes)?;
        let notified = expected.iter().filter(|entries| **entries > 0).count();
        let frame = Notification::UtxosChanged(changes).encode_borsh();
        sleep_for(due.saturating_duration_since(now()));

        let started = now();
        let changes = decode_utxos_changed(&frame)?;
        self.chain.apply_utxos_changed(&changes);
        drop(changes);
        self.publish()?;
        let received = self.runtime.block_on(self.inbox.wait_for_notifications(notified))?;
        let last = received.iter().map(|notification| notification.at).max();

        check_entries(&received, &expected)?;
        self.notifications += notified;
        self.entries += expected.iter().sum::<usize>();
        Ok(last.context("a client watches one of the addresses")?.duration_since(started))
    }

    /// Adds a chain block that accepts the transactions of the last frame.
    fn add_chain_block(&mut self) -> Result<()> {
        let block = self.virtual_block.build_chain_block();
        let mut step = self.chain.start_step(&[])?;
        step.add_block(block)?;
        step.commit();
        self.publish()
    }

    /// Publishes the state and its events.
    fn publish(&mut self) -> Result<()> {
        let publication = self.chain.publish()?;
        self.publisher.send_chain(publication.events.clone());
        drop(publication);
        self.chain.reclaim();
        Ok(())
    }
}

impl WatchedSets {
    /// Returns the number of entries that each client gets.
    fn count_entries(&self, changes: &UtxoChanges) -> Result<Vec<usize>> {
        let mut entries = vec![0; self.sets.len()];
        for utxo in changes.added.iter().chain(&changes.removed) {
            let address = utxo.address.context("a script without an address")?;
            let number = self.numbers.get(&address.payload).context("another script")?;
            for (count, set) in entries.iter_mut().zip(&self.sets) {
                *count += usize::from(set.iter().any(|range| range.contains(number)));
            }
        }
        Ok(entries)
    }
}

impl Inbox {
    /// Waits until clients have read `count` notifications. The caller is woken once, by the last one.
    async fn wait_for_notifications(&self, count: usize) -> Result<Vec<ReceivedNotification>> {
        let permits = timeout(DELIVERY_TIMEOUT, self.count.acquire_many(count as u32)).await;
        let permits = permits.with_context(|| {
            format!("not all of {count} notifications came within {DELIVERY_TIMEOUT:?}")
        })?;
        permits?.forget();
        Ok(std::mem::take(&mut *self.received.lock()))
    }
}

/// Reads the notifications of a client until its connection ends.
async fn read_notifications(mut client: Client, number: usize, inbox: Arc<Inbox>) {
    while let Ok(message) = client.receive().await {
        let received = ReceivedNotification { client: number, at: now(), message };
        inbox.received.lock().push(received);
        inbox.count.add_permits(1);
    }
}

/// Checks that each client got all entries of its addresses.
fn check_entries(received: &[ReceivedNotification], expected: &[usize]) -> Result<()> {
    let mut entries = vec![0; expected.len()];
    for ReceivedNotification { client, message, .. } in received {
        let changes = decode_utxos_changed(message)?;
        entries[*client] += changes.added.len() + changes.removed.len();
    }
    ensure!(entries == expected, "a client did not get exactly the entries of its addresses");
    Ok(())
}
