//! A node with hundreds of clients whose sets overlap, in five set-ups: A connected only, B subscribed
//! once, C, D and E in cycles of three lengths, two thirds of each subscribed. Memory from outside, and
//! every client's notifications against what was in the blocks.
//!
//! Exactness: before a client leaves, and at the end, it subscribes to slots and waits for the next one. It has then
//! received all notifications up to that slot's parent, because one thread sends both. Up to there it must have one
//! notification of every transfer to one of its addresses, block by block; of each later block until the end of its
//! subscription, none or all.
//! Duration: the same for B and E, so that the ledger has grown as much. A is compared with the same part of B.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::loadgen::svg::{Axis, Document, Line, Plot, Point, Scale};
use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::json_rpc_client::JsonRpcClient;
use testkit::scenario::{Client, MemorySampler, Scenario, SendStats, Stop, send_at_rate, task};
use testkit::transfers::fund_payers;
use tokio::time::{Instant, sleep_until, timeout};

use super::addresses::{address_of, number_of};
use super::registry;
use super::runtime::runtime;
use super::size::Size;
use super::transfers::Transfers;
use crate::node;

/// The method of notifications about slots.
const SLOT_NOTIFICATION: &str = "slotNotification";
/// Seconds of A: a part of those of B.
const PART_OF_A: f64 = 0.4;
/// The part of a set-up that is warm-up.
const WARM_UP: f64 = 0.33;
/// How often memory is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);
const CYCLES_MAX: u32 = 41;
/// How long the last notifications may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of payers: no two transfers in a row have the same.
const PAYERS: usize = 16;

/// The behaviour of the clients.
#[derive(Clone, Copy)]
enum ClientBehavior {
    Nothing,
    Once,
    /// This number of cycles in the whole run.
    Cycles(u32),
}

/// One period of a subscription, as its client saw it.
struct Stretch {
    set: Range<u32>,
    /// The slot after which its notifications start.
    after: u64,
    /// The slot up to which its notifications are complete.
    through: u64,
    notifications: Vec<(u64, Vec<u32>)>,
    sequence: u64,
}

/// All observations of a client.
struct Life {
    stretches: Vec<Stretch>,
    /// The part of the time in which it was subscribed.
    subscribed: f64,
}

impl Stretch {
    fn record(&mut self, text: &str) -> Result<()> {
        let received = Client::parse_notification(text)?;
        ensure!(received.sequence == self.sequence, "{} for {}", received.sequence, self.sequence);
        self.sequence += 1;
        let numbers = received.pubkeys.iter().map(|pubkey| number_of(pubkey));
        self.notifications.push((received.slot, numbers.collect::<Result<_>>()?));
        Ok(())
    }
}

struct SetupResult {
    name: char,
    samples: Vec<u64>,
    /// The fewest cycles of any client.
    cycles: usize,
    /// The part of the time in which clients were subscribed, their mean.
    subscribed: f64,
    /// Transfers a second to addresses with a subscription.
    hits: f64,
    expected: usize,
    received: usize,
    cpu: Duration,
}

pub(super) fn run(size: &Size, which: &str, csv: Option<&str>) -> Result<()> {
    let pairs: u64 = (0..size.clients).map(|client| size.set_of(client).len() as u64).sum();
    println!(
        "{} clients, {pairs} (client, address) pairs of {} addresses, {} transactions a second:",
        size.clients, size.addresses, size.rate
    );
    let part = |of: f64| (size.seconds as f64 * of) as u64;
    let set_ups = [
        ('a', ClientBehavior::Nothing, part(PART_OF_A)),
        ('b', ClientBehavior::Once, size.seconds),
        ('c', ClientBehavior::Cycles(2), part(0.4)),
        ('d', ClientBehavior::Cycles(8), part(0.5)),
        ('e', ClientBehavior::Cycles(CYCLES_MAX.min(size.seconds as u32)), size.seconds),
    ];
    let mut outcomes = Vec::new();
    for (name, habit, seconds) in set_ups.into_iter().filter(|(name, ..)| which.contains(*name)) {
        let outcome =
            set_up(size, name, habit, seconds).with_context(|| format!("set-up {name}"))?;
        println!(
            "  {}, {seconds} s: {:>7.1} MiB, {:>2} cycles {:.0} % subscribed, {:.0} hits a second, \
             {} notifications expected, {} received, {:.1} s CPU",
            outcome.name.to_ascii_uppercase(),
            outcome.bytes(WARM_UP * seconds as f64, seconds as f64) / f64::from(1 << 20),
            outcome.cycles,
            outcome.subscribed * 100.0,
            outcome.hits,
            outcome.expected,
            outcome.received,
            outcome.cpu.as_secs_f64(),
        );
        let missing = outcome.expected - outcome.received;
        println!("bar subs_{name}_missing {missing} notifications <= 0");
        outcomes.push(outcome);
    }
    let of = |name: char| outcomes.iter().find(|outcome| outcome.name == name);
    if let (Some(a), Some(b)) = (of('a'), of('b')) {
        let to = size.seconds as f64 * PART_OF_A;
        let more = b.bytes(WARM_UP * to, to) - a.bytes(WARM_UP * to, to);
        account(size, more)?;
        println!("bar subs_bytes_a_pair {:.1} B/pair <= 16", more / pairs as f64);
    }
    if let (Some(b), Some(e)) = (of('b'), of('e')) {
        let to = size.seconds as f64;
        let ratio = e.bytes(WARM_UP * to, to) / b.bytes(WARM_UP * to, to);
        println!("bar subs_cycles_memory {ratio:.2} x <= 1.1");
        println!(
            "bar subs_e_cycles {} cycles >= {}",
            e.cycles,
            CYCLES_MAX.min(40).min(size.seconds as u32)
        );
    }
    if let Some(csv) = csv {
        write(Path::new(csv), &outcomes)?;
    }
    Ok(())
}

impl SetupResult {
    /// The mean of resident memory between two seconds.
    fn bytes(&self, from: f64, to: f64) -> f64 {
        let at = |second: f64| (second / SAMPLE_INTERVAL.as_secs_f64()) as usize;
        let end = at(to).clamp(1, self.samples.len().max(1));
        let counted = self.samples.get(at(from).min(end - 1)..end).unwrap_or_default();
        counted.iter().sum::<u64>() as f64 / counted.len() as f64
    }
}

/// The memory of subscriptions by part: the engine and the address table, counted here with the same sets, and the
/// rest.
fn account(size: &Size, more: f64) -> Result<()> {
    let sets: Vec<_> = (0..size.clients).map(|client| size.set_of(client).collect()).collect();
    let parts = registry::account(&sets)?;
    let pairs = sets.iter().map(Vec::len).sum::<usize>() as f64;
    println!("  B over A, {:.1} MB, in bytes a pair:", more / 1e6);
    for (name, bytes) in &parts {
        println!("    {name}: {:.2}", bytes / pairs);
    }
    let rest = more - parts.iter().map(|(_, bytes)| bytes).sum::<f64>();
    println!("    connections, scattered records, the allocator's reserve: {:.2}", rest / pairs);
    Ok(())
}

fn set_up(size: &Size, name: char, habit: ClientBehavior, seconds: u64) -> Result<SetupResult> {
    let runtime = runtime()?;
    let node = node::dev(&["--slot-ms", "200"])?.start()?;
    let mut caller = JsonRpcClient::open(node.rpc)?;
    let transfers = Transfers::new(fund_payers(&mut caller, PAYERS)?, caller.latest_blockhash()?);
    let memory = MemorySampler::new(&node, SAMPLE_INTERVAL);
    let lives: Arc<Mutex<Vec<Life>>> = Arc::default();
    let outcome = async {
        let mut scenario = Scenario::default();
        scenario.add(memory.task());
        scenario.add(transfers.refresh(node.rpc));
        scenario.add(transfers.observe(node.ws).await?);
        for number in 0..size.clients {
            let client = Client::connect(node.ws).await?;
            let every = match habit {
                ClientBehavior::Nothing => {
                    scenario.add(task(async move |mut stop| {
                        stop.stopped().await;
                        drop(client);
                        Ok(())
                    }));
                    continue;
                }
                ClientBehavior::Once => None,
                ClientBehavior::Cycles(count) => Some(Duration::from_secs(seconds) / count),
            };
            let transfers = transfers.clone();
            let lives = Arc::clone(&lives);
            let set = size.set_of(number);
            scenario.add(task(async move |stop| {
                let life = live(client, set, every, transfers, stop).await?;
                lives.lock().push(life);
                Ok(())
            }));
        }
        let count = (size.rate * seconds as f64) as u32;
        let all = u64::from(size.addresses);
        let numbers = (0..count).map(move |n| (u64::from(n) * 7_919 % all) as u32);
        scenario.add(send_at_rate(
            node.rpc,
            size.rate,
            &SendStats::default(),
            transfers.requests(numbers),
        ));
        let over = Instant::now() + Duration::from_secs(seconds);
        let until = async {
            sleep_until(over).await;
            let all_delivered = async {
                while transfers.included_len() < count as usize {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            let _ = timeout(DRAIN_TIMEOUT, all_delivered).await;
        };
        scenario.run(until).await
    };
    runtime.block_on(outcome)?;
    let truth = transfers.included();
    ensure!(!truth.is_empty(), "no transaction was in any block");
    let lives = std::mem::take(&mut *lives.lock());
    let mut expected = 0;
    let mut received = 0;
    for stretch in lives.iter().flat_map(|life| &life.stretches) {
        let (all, got) = compared(stretch, &truth)?;
        expected += all;
        received += got;
    }
    let watched =
        |number: &u32| (0..size.clients).any(|client| size.set_of(client).contains(number));
    let hits = truth.iter().filter(|(_, number)| watched(number)).count();
    Ok(SetupResult {
        name,
        samples: memory.samples(),
        cycles: lives.iter().map(|life| life.stretches.len()).min().unwrap_or_default(),
        subscribed: lives.iter().map(|life| life.subscribed).fold(0.0, |sum, part| sum + part)
            / lives.len().max(1) as f64,
        hits: hits as f64 / seconds as f64,
        expected,
        received,
        cpu: node.cpu_time()?,
    })
}

/// The life of a client: subscribed once, or for two thirds of each cycle.
async fn live(
    mut client: Client,
    set: Range<u32>,
    every: Option<Duration>,
    transfers: Transfers,
    mut stop: Stop,
) -> Result<Life> {
    let mut stretches = Vec::new();
    let born = Instant::now();
    let mut began = born;
    let mut subscribed = Duration::ZERO;
    while !stop.is_stopped() {
        let (subscription, after) =
            client.subscribe_set("confirmed", set.clone().map(address_of)).await?;
        let tracked = Instant::now();
        let set = set.clone();
        let mut stretch =
            Stretch { set, after, through: after, notifications: Vec::new(), sequence: 0 };
        let until = every.map(|every| began + every * 2 / 3);
        let leave = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let mut leave = std::pin::pin!(leave);
        loop {
            let text = tokio::select! {
                () = stop.stopped() => break,
                () = &mut leave => break,
                text = client.notification() => text?,
            };
            stretch.record(&text)?;
        }
        // All transfers in blocks when it was stopped; otherwise all up to some block.
        let least = if stop.is_stopped() { transfers.last_slot() } else { 0 };
        let slots = client.call("slotSubscribe", json!([])).await?;
        while stretch.through < least.max(after) || stretch.through == after {
            let text = client.notification().await?;
            if Client::parse_method(&text)? == SLOT_NOTIFICATION {
                let received: Value = serde_json::from_str(&text)?;
                let parent =
                    received["params"]["result"]["parent"].as_u64().context("no parent")?;
                stretch.through = parent.max(stretch.through);
            } else {
                stretch.record(&text)?;
            }
        }
        client.call("slotUnsubscribe", json!([slots])).await?;
        let ended = client.call("addressesUnsubscribe", json!([subscription])).await?;
        ensure!(ended == true, "{ended}");
        for text in client.take_early() {
            if Client::parse_method(&text)? != SLOT_NOTIFICATION {
                stretch.record(&text)?;
            }
        }
        stretches.push(stretch);
        subscribed += tracked.elapsed();
        let Some(every) = every else { break };
        // A cycle that took too long delays those after it.
        began = (began + every).max(Instant::now());
        tokio::select! {
            () = stop.stopped() => break,
            () = sleep_until(began) => {}
        }
    }
    let subscribed = subscribed.as_secs_f64() / born.elapsed().as_secs_f64();
    stop.stopped().await;
    Ok(Life { stretches, subscribed })
}

/// Number of expected and of received account notifications of a client: each once, block by block.
fn compared(stretch: &Stretch, truth: &[(u64, u32)]) -> Result<(usize, usize)> {
    ensure!(stretch.notifications.is_sorted_by_key(|(slot, _)| *slot), "blocks are out of order");
    let mut received: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (slot, numbers) in &stretch.notifications {
        received.entry(*slot).or_default().extend(numbers);
    }
    let through = received.keys().last().copied().unwrap_or_default().max(stretch.through);
    let mut expected: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (slot, number) in truth {
        if *slot <= through && stretch.set.contains(number) {
            expected.entry(*slot).or_default().push(*number);
        }
    }
    let mut all = 0;
    let mut got = 0;
    for (slot, mut numbers) in expected {
        numbers.sort_unstable();
        numbers.dedup();
        let mut these = received.remove(&slot).unwrap_or_default();
        these.sort_unstable();
        ensure!(these.is_sorted_by(|a, b| a < b), "a duplicate notification in slot {slot}");
        ensure!(
            these.iter().all(|number| numbers.binary_search(number).is_ok()),
            "a notification in slot {slot} of a transfer that is not in it"
        );
        // A large set comes in several messages, each from a block of its own; `after` is the last
        // one's. Up to there any part of it may be notified.
        if slot > stretch.after {
            all += numbers.len();
            got += these.len();
        }
    }
    ensure!(received.is_empty(), "unexpected notifications: {received:?}");
    Ok((all, got))
}

/// Memory over time, as numbers and as a drawing.
fn write(path: &Path, outcomes: &[SetupResult]) -> Result<()> {
    let mut text = String::from("set_up,sample,bytes\n");
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let names: Vec<String> = outcomes
        .iter()
        .map(|outcome| {
            let end = outcome.samples.last().copied().unwrap_or_default();
            format!("{} {:.0} MiB", outcome.name.to_ascii_uppercase(), mib(end))
        })
        .collect();
    let mut lines = Vec::new();
    for (outcome, name) in outcomes.iter().zip(&names) {
        let mut points = Vec::new();
        for (at, bytes) in outcome.samples.iter().enumerate() {
            writeln!(text, "{},{at},{bytes}", outcome.name)?;
            points.push(Point { x: at as f64, y: mib(*bytes), label: format!("sample {at}") });
        }
        lines.push(Line { name, points });
    }
    let samples = outcomes.iter().map(|outcome| outcome.samples.len()).max().unwrap_or(0).max(2);
    let x = Axis::linear("samples", 0.0, samples as f64 - 1.0);
    let plot = Plot { x, y_scale: Scale::Linear, unit: "MiB", lines };
    let plots = vec![("Resident memory of the node".to_owned(), plot)];
    let document = Document { title: "Sets of addresses", columns: 1, plots };
    std::fs::write(path, text)?;
    std::fs::write(path.with_extension("svg"), document.svg())?;
    println!("written: {} and {}", path.display(), path.with_extension("svg").display());
    Ok(())
}
