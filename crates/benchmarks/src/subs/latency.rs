//! Latency of notifications: from the confirmation of a block to its clients' sockets, at several shares of the
//! node's highest rate of transactions.
//!
//! Shape: wallets of 800 addresses, one for each connection; transfers that each hit one of them. The node truncates
//! the times of confirmation to whole milliseconds, so latencies are up to 1 ms too large (`observations`).
//! Capacity is the rate that the node executes when four connections send as fast as they get responses.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use ::loadgen::svg::{Axis, Document, Line, Plot, Point, Scale};
use anyhow::{Context, Result, ensure};
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::Node;
use testkit::scenario::{Scenario, SendStats, send_at_rate};
use testkit::transfers::fund_payers;

use super::observations::{ListenerThread, Observations};
use super::runtime::runtime;
use super::size::Size;
use super::transfers::Transfers;
use crate::node;

/// Milliseconds of a slot.
const SLOT_MS: &str = "200";
/// Connections that send.
const SENDERS: usize = 4;
/// Signed transfers for the capacity measurement: more than any node executes meanwhile.
const SIGNED_MAX: f64 = 15_000.0;
/// Addresses of a wallet: all together are more than a block writes, so that each transfer is notified.
const WALLET: u32 = 800;
/// Percent of capacity.
const LOADS: [u32; 5] = [1, 10, 50, 90, 100];

struct Row {
    load: u32,
    offered: f64,
    delivered: f64,
    messages: usize,
    p50_ms: f64,
    p99_ms: f64,
    cores: f64,
}

pub(super) fn run(size: &Size, csv: Option<&str>) -> Result<()> {
    // More addresses than transfers in a few blocks: two writes of an address in a block are one notification.
    let (clients, seconds) = if size.is_toy { (20, 1.0) } else { (100, 6.0) };
    let loads = if size.is_toy { &LOADS[4..] } else { &LOADS[..] };
    let runtime = runtime()?;
    let node = node::dev(&["--slot-ms", SLOT_MS])?.start()?;
    let mut caller = JsonRpcClient::open(node.rpc)?;
    let transfers = Transfers::new(fund_payers(&mut caller, 64)?, caller.latest_blockhash()?);
    let heard = Observations::default();
    let wallets = (0..clients as u32).map(|number| number * WALLET..(number + 1) * WALLET);
    let listening = ListenerThread::start(node.ws, wallets.collect(), &heard)?;
    let addresses = clients as u32 * WALLET;
    let mut next = 0;
    let mut numbers = move |count: f64| {
        let first = next;
        next += count as u32;
        // A prime step: each address once in as many transfers, and each wallet is hit soon.
        let scattered = |n| (u64::from(n) * 7_919 % u64::from(addresses)) as u32;
        (first..next).map(scattered).collect::<Vec<_>>()
    };
    let mut measured = |load: u32, rate: f64, count: f64| -> Result<Row> {
        let bodies: Vec<String> = transfers.requests(numbers(count).into_iter()).collect();
        let offered_load = OfferedLoad { load, rate, seconds };
        runtime.block_on(step(&node, &transfers, &heard, bodies, offered_load))
    };
    let most = measured(0, f64::INFINITY, SIGNED_MAX * seconds)?;
    let capacity = most.delivered;
    println!(
        "{clients} wallets of {WALLET} addresses, slots of {SLOT_MS} ms; capacity {capacity:.0} \
         transactions a second ({:.2} cores of the node):",
        most.cores
    );
    println!("  load   offered/s delivered/s  messages   p50 ms   p99 ms   cores");
    let mut rows = Vec::new();
    for load in loads {
        let rate = capacity * f64::from(*load) / 100.0;
        let row = measured(*load, rate, (rate * seconds).max(1.0))?;
        println!(
            "  {:>3} % {:>11.0} {:>11.0} {:>9} {:>8.1} {:>8.1} {:>7.2}",
            row.load, row.offered, row.delivered, row.messages, row.p50_ms, row.p99_ms, row.cores
        );
        rows.push(row);
    }
    drop(listening);
    match csv {
        Some(csv) => write(Path::new(csv), &rows),
        None => Ok(()),
    }
}

struct OfferedLoad {
    /// In percent of the capacity.
    load: u32,
    /// Transactions a second.
    rate: f64,
    seconds: f64,
}

/// Sends for some seconds, waits for all notifications, and returns their latencies.
async fn step(
    node: &Node,
    transfers: &Transfers,
    heard: &Observations,
    bodies: Vec<String>,
    offered_load: OfferedLoad,
) -> Result<Row> {
    let OfferedLoad { load, rate, seconds } = offered_load;
    heard.arrivals.lock().clear();
    let offered = bodies.len() as f64 / seconds;
    let mut shares: Vec<Vec<String>> = vec![Vec::new(); SENDERS];
    for (at, body) in bodies.into_iter().enumerate() {
        shares[at % SENDERS].push(body);
    }
    let sent = SendStats::default();
    let mut scenario = Scenario::default();
    scenario.add(transfers.refresh(node.rpc));
    for share in shares {
        let rate = (rate / SENDERS as f64).min(1e6);
        scenario.add(send_at_rate(node.rpc, rate, &sent, share.into_iter()));
    }
    let cpu = node.cpu_time()?;
    scenario.run(tokio::time::sleep(Duration::from_secs_f64(seconds))).await?;
    let cores = (node.cpu_time()? - cpu).as_secs_f64() / seconds;
    let delivered =
        || heard.arrivals.lock().iter().map(|arrival| arrival.accounts).sum::<usize>() as u64;
    let all_delivered = async {
        while delivered() < sent.count() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let all = tokio::time::timeout(Duration::from_secs(20), all_delivered).await;
    ensure!(all.is_ok(), "{} of {} transfers were notified", delivered(), sent.count());
    let arrivals = std::mem::take(&mut *heard.arrivals.lock());
    let confirmed = heard.confirmed.lock();
    let mut late_ms = Vec::new();
    for arrival in &arrivals {
        let slot = arrival.slot;
        let confirmed_at =
            confirmed.get(&slot).with_context(|| format!("slot {slot} was not confirmed"))?;
        late_ms.push((arrival.at_us as f64 / 1e3) - *confirmed_at as f64);
    }
    late_ms.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let index = ((late_ms.len() as f64 * part) as usize).min(late_ms.len().saturating_sub(1));
        late_ms.get(index).copied().unwrap_or(f64::NAN)
    };
    Ok(Row {
        load,
        offered,
        delivered: sent.count() as f64 / seconds,
        messages: arrivals.len(),
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        cores,
    })
}

/// Latency over load, as numbers and as a drawing next to the one of memory.
fn write(path: &Path, rows: &[Row]) -> Result<()> {
    let stem = path.file_stem().map_or_else(|| "subs".into(), |stem| stem.to_string_lossy());
    let path = path.with_file_name(format!("{stem}-latency.csv"));
    let mut text = String::from("load_percent,offered,delivered,messages,p50_ms,p99_ms,cores\n");
    for row in rows {
        let Row { load, offered, delivered, messages, p50_ms, p99_ms, cores } = row;
        writeln!(
            text,
            "{load},{offered:.1},{delivered:.1},{messages},{p50_ms:.3},{p99_ms:.3},{cores:.3}"
        )?;
    }
    let line = |name, ms: fn(&Row) -> f64| {
        let point = |row: &Row| Point {
            x: f64::from(row.load),
            y: ms(row),
            label: format!("{} %", row.load),
        };
        Line { name, points: rows.iter().map(point).collect() }
    };
    let lines = vec![line("p50", |row| row.p50_ms), line("p99", |row| row.p99_ms)];
    let most = rows.iter().map(|row| row.load).max().unwrap_or(100);
    let x = Axis::linear("load, percent of the capacity", 0.0, f64::from(most));
    let plot = Plot { x, y_scale: Scale::Linear, unit: "ms", lines };
    let plots = vec![("From confirmation to the client".to_owned(), plot)];
    let document = Document { title: "Latency of notifications by load", columns: 1, plots };
    std::fs::write(&path, text)?;
    std::fs::write(path.with_extension("svg"), document.svg())?;
    println!("written: {} and {}", path.display(), path.with_extension("svg").display());
    Ok(())
}
