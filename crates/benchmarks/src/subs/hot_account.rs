//! One account with thousands of subscribers, written in every slot: delivery to all, and the CPU time of a
//! notification compared with a plain WebSocket broadcast of the same bytes.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::{Node, NodeCommand};
use testkit::scenario::{Client, Scenario, SendStats, send_at_rate, task};
use testkit::transfers::fund_payers;

use super::addresses::address_of;
use super::runtime::runtime;
use super::size::Size;
use super::transfers::Transfers;
use crate::node;

/// Milliseconds of a slot, and the interval of the plain broadcast.
const SLOT_MS: u64 = 400;
/// Time for which notifications are counted, for all connections.
const COUNT_DURATION: Duration = Duration::from_secs(15);
/// As [`COUNT_DURATION`], for fewer connections.
const COUNT_DURATION_SHORT: Duration = Duration::from_secs(6);
/// As [`COUNT_DURATION`], at toy size.
const COUNT_DURATION_TOY: Duration = Duration::from_millis(1_000);

pub(super) fn run(size: &Size) -> Result<()> {
    let runtime = runtime()?;
    println!("one account, a write every slot of {SLOT_MS} ms:");
    let mut ratio = f64::NAN;
    let counts = [1, (size.connections / 50).max(1), size.connections];
    for connections in counts.into_iter().skip(if size.is_toy { 2 } else { 0 }) {
        let counted = match connections {
            _ if size.is_toy => COUNT_DURATION_TOY,
            all if all == size.connections => COUNT_DURATION,
            _ => COUNT_DURATION_SHORT,
        };
        let slot = SLOT_MS.to_string();
        let node = node::dev(&["--slot-ms", &slot])?.start()?;
        let mut caller = JsonRpcClient::open(node.rpc)?;
        let transfers = Transfers::new(fund_payers(&mut caller, 2)?, caller.latest_blockhash()?);
        let ours = runtime.block_on(hydrant(&node, transfers, connections, counted))?;
        drop(node);
        let plain = start_broadcast(ours.bytes)?;
        let plain = runtime.block_on(broadcast(&plain, connections, counted))?;
        ratio = ours.micros / plain.micros;
        println!(
            "  {connections:>5} connections: {:.0} notifications/s of {} bytes, {:.2} us of CPU each \
             ({:.0} a second and core); plain {:.2}; {ratio:.2} times",
            ours.rate,
            ours.bytes,
            ours.micros,
            1e6 / ours.micros,
            plain.micros
        );
        println!("bar subs_hot_{connections}_unserved {} notifications <= 0", ours.undelivered);
    }
    // CPU is counted in hundredths of a second: at toy size there is none.
    if ratio.is_finite() {
        println!("bar subs_hot_cpu {ratio:.2} x <= 1.5");
    }
    Ok(())
}

struct DeliveryStats {
    rate: f64,
    /// CPU time of a notification, without the node's idle load.
    micros: f64,
    bytes: usize,
    undelivered: u64,
}

async fn hydrant(
    node: &Node,
    transfers: Transfers,
    connections: usize,
    counted: Duration,
) -> Result<DeliveryStats> {
    let mut scenario = Scenario::default();
    scenario.add(transfers.refresh(node.rpc));
    // Two in every slot at least, so that each writes the account.
    let rate = 2_500.0 / SLOT_MS as f64;
    let requests = transfers.requests(std::iter::repeat(0));
    scenario.add(send_at_rate(node.rpc, rate, &SendStats::default(), requests));
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Client::connect(node.ws).await?);
    }
    let idle = {
        let before = node.cpu_time()?;
        let mut alone = Scenario::default();
        alone.add(transfers.refresh(node.rpc));
        let requests = transfers.requests(std::iter::repeat(0));
        alone.add(send_at_rate(node.rpc, rate, &SendStats::default(), requests));
        alone.run(tokio::time::sleep(counted / 2)).await?;
        (node.cpu_time()? - before).as_secs_f64() / (counted / 2).as_secs_f64()
    };
    // At once: the node holds a first notification back for some milliseconds, and closes clients that answer no pings.
    let subscribing: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            tokio::spawn(async move {
                client.subscribe_set("confirmed", std::iter::once(address_of(0))).await?;
                anyhow::Ok(client)
            })
        })
        .collect();
    let mut subscribed = Vec::new();
    for client in subscribing {
        subscribed.push(client.await.context("subscribe")??);
    }
    let mut served = count_notifications(node, scenario, subscribed, counted, idle).await?;
    let text = served.1.take().context("no notification was delivered")?;
    served.0.bytes = text;
    Ok(served.0)
}

fn start_broadcast(bytes: usize) -> Result<Node> {
    let program = Command::new(std::env::current_exe()?);
    let size = bytes.to_string();
    let interval = SLOT_MS.to_string();
    NodeCommand::new(program).args(["subs", "bare", &size, &interval]).start()
}

async fn broadcast(node: &Node, connections: usize, counted: Duration) -> Result<DeliveryStats> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Client::connect(node.ws).await?);
    }
    Ok(count_notifications(node, Scenario::default(), clients, counted, 0.0).await?.0)
}

/// Counts the notifications of all clients for `counted`.
async fn count_notifications(
    node: &Node,
    mut scenario: Scenario,
    clients: Vec<Client>,
    counted: Duration,
    idle: f64,
) -> Result<(DeliveryStats, Option<usize>)> {
    let total = Arc::new(AtomicU64::new(0));
    let bytes = Arc::new(AtomicU64::new(0));
    let each: Arc<Vec<AtomicU64>> =
        Arc::new((0..clients.len()).map(|_| AtomicU64::new(0)).collect());
    for (at, mut client) in clients.into_iter().enumerate() {
        let total = Arc::clone(&total);
        let bytes = Arc::clone(&bytes);
        let each = Arc::clone(&each);
        scenario.add(task(async move |mut stop| {
            loop {
                let text = tokio::select! {
                    () = stop.stopped() => return Ok(()),
                    text = client.notification() => text?,
                };
                bytes.store(text.len() as u64, Ordering::Relaxed);
                total.fetch_add(1, Ordering::Relaxed);
                each[at].fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let mut counts_and_cpu = None;
    let until = async {
        // Notifications that were queued while others subscribed are not counted.
        tokio::time::sleep(Duration::from_millis(2 * SLOT_MS)).await;
        let before = total.load(Ordering::Relaxed);
        let cpu = node.cpu_time();
        tokio::time::sleep(counted).await;
        counts_and_cpu = Some((before, cpu, total.load(Ordering::Relaxed), node.cpu_time()));
        // The last slot reaches all.
        tokio::time::sleep(Duration::from_millis(2 * SLOT_MS)).await;
    };
    scenario.run(until).await?;
    let (before, cpu_before, after, cpu_after) = counts_and_cpu.context("it ended early")?;
    let delivered = (after - before) as f64;
    ensure!(delivered > 0.0, "no notification was delivered");
    let cpu = (cpu_after? - cpu_before?).as_secs_f64() - idle * counted.as_secs_f64();
    let counts: Vec<u64> = each.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    let slots = counted.as_millis() as u64 / SLOT_MS;
    // Each slot writes, so each client gets about one notification a slot; one may be on its way.
    let unserved = counts.iter().map(|count| (slots - 1).saturating_sub(*count)).sum();
    let served = DeliveryStats {
        rate: delivered / counted.as_secs_f64(),
        micros: cpu / delivered * 1e6,
        bytes: 0,
        undelivered: unserved,
    };
    let bytes = bytes.load(Ordering::Relaxed) as usize;
    Ok((served, (bytes > 0).then_some(bytes)))
}
