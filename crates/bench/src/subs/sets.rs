//! A node with hundreds of clients whose sets overlap, in five set-ups: A connected only, B subscribed
//! once, C, D and E in cycles of three lengths, two thirds of each subscribed. Memory from outside, and
//! every client's notifications against what was in the blocks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use testkit::scenario::{Client, Memory, Node, Scenario, Sent, Stop, Task, send_at, task};
use tokio::time::{Instant, sleep_until, timeout};

use super::transfers::Transfers;
use super::{Size, address_of, number_of, runtime, set_of};
use crate::client::Client as Caller;
use crate::node::program;
use crate::transfers::fund_payers;

/// The part of a run that counts; what is before it is warm-up.
const COUNTED: f64 = 0.67;
/// How long the last notifications may take.
const DRAIN: Duration = Duration::from_secs(20);
/// Payers: no two transfers in a row are of the same.
const PAYERS: usize = 16;

/// What clients do.
#[derive(Clone, Copy)]
enum Habit {
    Nothing,
    Once,
    /// So many cycles in the whole run.
    Cycles(u32),
}

/// One stretch of a subscription, as its client saw it.
struct Stretch {
    set: Range<u32>,
    /// The slot after which it was told of.
    after: u64,
    told: Vec<(u64, Vec<u32>)>,
}

struct Outcome {
    name: char,
    bytes: f64,
    samples: Vec<u64>,
    cycles: usize,
    expected: usize,
    received: usize,
    cpu: Duration,
}

pub(super) fn run(size: &Size, which: &str, csv: Option<&str>) -> Result<()> {
    let pairs: u64 = (0..size.clients).map(|client| set_of(size, client).len() as u64).sum();
    println!(
        "{} clients, {pairs} (client, address) pairs of {} addresses, {} transactions a second:",
        size.clients, size.addresses, size.rate
    );
    let seconds = size.seconds as u32;
    let habits = [
        ('a', Habit::Nothing),
        ('b', Habit::Once),
        ('c', Habit::Cycles((seconds / 40).max(2))),
        ('d', Habit::Cycles((seconds / 10).max(2))),
        ('e', Habit::Cycles((seconds / 3).max(2))),
    ];
    let mut outcomes = Vec::new();
    for (name, habit) in habits.into_iter().filter(|(name, _)| which.contains(*name)) {
        let outcome = set_up(size, name, habit).with_context(|| format!("set-up {name}"))?;
        println!(
            "  {}: {:>7.1} MiB, {:>3} cycles, {} notifications expected, {} received, {:.1} s CPU",
            outcome.name.to_ascii_uppercase(),
            outcome.bytes / f64::from(1 << 20),
            outcome.cycles,
            outcome.expected,
            outcome.received,
            outcome.cpu.as_secs_f64(),
        );
        println!(
            "bar subs_{name}_missing {} notifications <= 0",
            outcome.expected - outcome.received
        );
        outcomes.push(outcome);
    }
    let of = |name: char| outcomes.iter().find(|outcome| outcome.name == name);
    if let (Some(a), Some(b)) = (of('a'), of('b')) {
        println!("bar subs_bytes_a_pair {:.1} B/pair <= 16", (b.bytes - a.bytes) / pairs as f64);
    }
    if let (Some(b), Some(e)) = (of('b'), of('e')) {
        println!("bar subs_cycles_memory {:.2} x <= 1.1", e.bytes / b.bytes);
    }
    if let Some(csv) = csv {
        write(Path::new(csv), &outcomes)?;
    }
    Ok(())
}

fn set_up(size: &Size, name: char, habit: Habit) -> Result<Outcome> {
    let runtime = runtime()?;
    let node = runtime.block_on(Node::start(&program()?, &["--slot-ms", "200"]))?;
    let mut caller = Caller::open(node.rpc)?;
    let transfers = Transfers::new(fund_payers(&mut caller, PAYERS)?, caller.latest_blockhash()?);
    let memory = Memory::of(&node, Duration::from_millis(500));
    let stretches: Arc<Mutex<Vec<Stretch>>> = Arc::default();
    let outcome = async {
        let mut scenario = Scenario::default();
        scenario.add(memory.task());
        scenario.add(transfers.refresh(node.rpc));
        scenario.add(transfers.observe(node.ws).await?);
        for number in 0..size.clients {
            let client = Client::connect(node.ws).await?;
            let set = set_of(size, number);
            let every = match habit {
                Habit::Nothing => None,
                Habit::Once => Some(Duration::MAX),
                Habit::Cycles(count) => Some(Duration::from_secs(size.seconds) / count),
            };
            let Some(every) = every else {
                scenario.add(task(async move |mut stop| {
                    stop.stopped().await;
                    drop(client);
                    Ok(())
                }));
                continue;
            };
            scenario.add(listener(client, set, every, Arc::clone(&stretches)));
        }
        let count = (size.rate * size.seconds as f64) as u32;
        let all = u64::from(size.addresses);
        let numbers = (0..count).map(move |n| (u64::from(n) * 7_919 % all) as u32);
        scenario.add(send_at(node.rpc, size.rate, &Sent::default(), transfers.requests(numbers)));
        let over = Instant::now() + Duration::from_secs(size.seconds);
        let until = async {
            sleep_until(over).await;
            let all_told = async {
                while transfers.told_len() < count as usize {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                // One more slot for the clients.
                tokio::time::sleep(Duration::from_secs(1)).await;
            };
            let _ = timeout(DRAIN, all_told).await;
        };
        scenario.run(until).await
    };
    runtime.block_on(outcome)?;
    let truth = transfers.told();
    ensure!(!truth.is_empty(), "no transaction was in any block");
    let stretches = std::mem::take(&mut *stretches.lock());
    let whole = matches!(habit, Habit::Once);
    let (mut expected, mut received) = (0, 0);
    for stretch in &stretches {
        let (all, got) = compared(stretch, &truth, whole)?;
        expected += all;
        received += got;
    }
    let cycles = stretches.len() / size.clients.max(1);
    Ok(Outcome {
        name,
        bytes: memory.mean_of_last(COUNTED),
        samples: memory.samples(),
        cycles,
        expected,
        received,
        cpu: node.cpu_time()?,
    })
}

/// A client that subscribes for two thirds of each cycle.
fn listener(
    mut client: Client,
    set: Range<u32>,
    every: Duration,
    stretches: Arc<Mutex<Vec<Stretch>>>,
) -> Task {
    task(async move |mut stop: Stop| {
        let mut next = Instant::now();
        while !stop.is_stopped() {
            let addresses = set.clone().map(address_of);
            let (subscription, after) = client.track("confirmed", addresses).await?;
            let mut stretch = Stretch { set: set.clone(), after, told: Vec::new() };
            let rest = every.checked_mul(2).map(|twice| twice / 3);
            let until = rest.and_then(|rest| next.checked_add(rest));
            let mut sequence = 0;
            loop {
                let over = async {
                    match until {
                        Some(until) => sleep_until(until).await,
                        None => std::future::pending().await,
                    }
                };
                let text = tokio::select! {
                    () = stop.stopped() => break,
                    () = over => break,
                    text = client.notification() => text?,
                };
                let told = Client::told(&text)?;
                ensure!(told.sequence == sequence, "{} for {sequence}", told.sequence);
                sequence += 1;
                let numbers = told.pubkeys.iter().map(|pubkey| number_of(pubkey));
                stretch.told.push((told.slot, numbers.collect::<Result<_>>()?));
            }
            stretches.lock().push(stretch);
            if every == Duration::MAX || stop.is_stopped() {
                break;
            }
            let params = serde_json::json!([subscription]);
            client.call("addressesUnsubscribe", params).await?;
            client.forget_early();
            next += every;
            tokio::select! {
                () = stop.stopped() => break,
                () = sleep_until(next) => {}
            }
        }
        stop.stopped().await;
        Ok(())
    })
}

/// How many accounts a client was to be told of, and how many it was: each once, block by block.
/// Where it left before the end, what it was told last is where the comparison ends.
fn compared(stretch: &Stretch, truth: &[(u64, u32)], whole: bool) -> Result<(usize, usize)> {
    let mut expected: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (slot, number) in truth {
        if *slot > stretch.after && stretch.set.contains(number) {
            expected.entry(*slot).or_default().push(*number);
        }
    }
    ensure!(stretch.told.is_sorted_by_key(|(slot, _)| *slot), "blocks are out of order");
    let last = stretch.told.last().map_or(0, |(slot, _)| *slot);
    let mut told: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    // A large set comes in several messages, each from a block of its own; `after` is the last one's.
    for (slot, numbers) in stretch.told.iter().filter(|(slot, _)| *slot > stretch.after) {
        told.entry(*slot).or_default().extend(numbers);
    }
    let (mut all, mut got) = (0, 0);
    for (slot, mut numbers) in expected {
        if !whole && slot > last {
            break;
        }
        numbers.sort_unstable();
        numbers.dedup();
        all += numbers.len();
        let mut these = told.remove(&slot).unwrap_or_default();
        these.sort_unstable();
        ensure!(these.is_sorted_by(|a, b| a < b), "told twice in slot {slot}");
        got += these.iter().filter(|number| numbers.contains(number)).count();
    }
    ensure!(told.is_empty(), "told of what was not expected: {told:?}");
    Ok((all, got))
}

/// Memory over time, as numbers and as a drawing.
fn write(path: &Path, outcomes: &[Outcome]) -> Result<()> {
    let mut text = String::from("set_up,sample,bytes\n");
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 660 420\" font-family=\"sans-serif\" font-size=\"12\">\n",
    );
    let most = outcomes.iter().flat_map(|outcome| &outcome.samples).max().copied().unwrap_or(1);
    let colours = ["#888888", "#1f77b4", "#2ca02c", "#ff7f0e", "#d62728"];
    for (outcome, colour) in outcomes.iter().zip(colours) {
        let mut points = String::new();
        let last = outcome.samples.len().max(2) - 1;
        for (at, bytes) in outcome.samples.iter().enumerate() {
            writeln!(text, "{},{at},{bytes}", outcome.name)?;
            let x = 20.0 + 560.0 * at as f64 / last as f64;
            let y = 400.0 - 380.0 * *bytes as f64 / most as f64;
            write!(points, "{x:.1},{y:.1} ")?;
        }
        writeln!(svg, "<polyline fill=\"none\" stroke=\"{colour}\" points=\"{points}\"/>")?;
        let end = outcome.samples.last().copied().unwrap_or_default();
        let y = 404.0 - 380.0 * end as f64 / most as f64;
        writeln!(
            svg,
            "<text x=\"585\" y=\"{y:.1}\" fill=\"{colour}\">{} {} MiB</text>",
            outcome.name.to_ascii_uppercase(),
            end >> 20
        )?;
    }
    svg.push_str("</svg>\n");
    std::fs::write(path, text)?;
    std::fs::write(path.with_extension("svg"), svg)?;
    println!("written: {} and {}", path.display(), path.with_extension("svg").display());
    Ok(())
}
