//! Transactions in over QUIC, beside three rivals: `quic [--toy] [--only PART]...`.
//!
//! Shape: a server process that counts its allocations, a generator process that sends, and this one
//! that asks both. Rivals: quinn today, and in workspaces of their own below `rivals/`, quinn before its free
//! list (0.11.5 on proto 0.11.8) and Agave's solana-streamer 4.2.2. Rounds take the servers in turn, so that what disturbs the machine
//! disturbs all; a ratio is taken within its round, and the median of the rounds is told.
//! Parts: `allocations`, `rates`, `windows`, `memory`, `manners`, `ledger`.
//! Not here: the generator (`quic/load.rs`), the servers (`bin/quic_server.rs`).

pub(crate) mod load;
mod process;

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use process::{Figures, Generator, Server};
use serde_json::json;

use crate::client::Client;
use crate::node::{Node, nap};
use crate::{median, transfers};

/// How much is measured.
struct Size {
    rounds: usize,
    warm_up: u64,
    streams: u64,
    /// Streams of the soak, and of its first tenth.
    soak: u64,
    many: usize,
    burst: usize,
    seconds: f64,
    transfers: usize,
    settle: Duration,
}

const FULL: Size = Size {
    rounds: 3,
    warm_up: 50_000,
    streams: 300_000,
    soak: 10_000_000,
    many: 2_000,
    burst: 2_000,
    seconds: 4.0,
    transfers: 60_000,
    settle: Duration::from_secs(10),
};

const TOY: Size = Size {
    rounds: 1,
    warm_up: 1_000,
    streams: 2_000,
    soak: 10_000,
    many: 20,
    burst: 20,
    seconds: 0.1,
    transfers: 200,
    settle: Duration::from_millis(300),
};

const PARTS: [&str; 6] = ["allocations", "rates", "windows", "memory", "manners", "ledger"];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let size = if is_toy { TOY } else { FULL };
    let only = crate::value_of(args, "--only")?;
    ensure!(only.is_none_or(|part| PARTS.contains(&part)), "parts: {}", PARTS.join(", "));
    let wants = |part: &str| only.is_none_or(|only| only == part);
    // Building the others takes minutes, and a toy run is to prove that nothing has rotted here.
    let rivals =
        if is_toy { vec!["ours", "quinn"] } else { vec!["ours", "quinn", "quinn-old", "streamer"] };
    if !is_toy {
        process::build_rivals()?;
    }
    if wants("allocations") {
        allocations(&size, &rivals)?;
    }
    if wants("rates") {
        rates(&size, &rivals)?;
    }
    if wants("windows") {
        windows(&size)?;
    }
    if wants("memory") {
        memory(&size)?;
    }
    if wants("manners") {
        manners(&size)?;
    }
    if wants("ledger") {
        ledger(&size)?;
    }
    Ok(())
}

/// What a run cost a server.
struct Cost {
    seconds: f64,
    /// Streams that the server received whole.
    streams: f64,
    cpu_us: f64,
    allocations: f64,
    allocated: f64,
    after: Figures,
}

impl Cost {
    fn per_stream(&self, of: f64) -> f64 {
        of / self.streams
    }

    fn rate(&self) -> f64 {
        self.streams / self.seconds
    }

    /// Streams a second of CPU time.
    fn efficiency(&self) -> f64 {
        self.streams / self.cpu_us * 1e6
    }
}

/// One run: warm up, measure.
fn measure(server: &mut Server, load: &[String]) -> Result<Cost> {
    let mut generator = Generator::start(server.port, load)?;
    generator.ready()?;
    let before = server.figures()?;
    let outcome = generator.go()?;
    let after = server.figures()?;
    generator.end()?;
    let delta = |key: &str| after.get(key) - before.get(key);
    Ok(Cost {
        seconds: outcome.seconds,
        streams: delta("streams"),
        cpu_us: delta("cpu_us"),
        allocations: delta("allocations"),
        allocated: delta("allocated"),
        after,
    })
}

fn load(
    connections: usize,
    bytes: usize,
    warm_up: u64,
    streams: u64,
    offload: bool,
) -> Vec<String> {
    vec![
        format!("connections={connections}"),
        format!("bytes={bytes}"),
        format!("warm-up={warm_up}"),
        format!("streams={streams}"),
        format!("offload={}", u8::from(offload)),
        // Its stake is what lets one of the rivals take more than 200 a second.
        "one-identity=1".to_owned(),
    ]
}

fn row(name: &str, what: &str, cost: &Cost) {
    println!(
        "{name:10} {what:34} {:8.0} streams/s {:7.2} us/stream {:8.4} allocations {:7.1} bytes a \
         stream, {:4} MB resident",
        cost.rate(),
        cost.per_stream(cost.cpu_us),
        cost.per_stream(cost.allocations),
        cost.per_stream(cost.allocated),
        cost.after.get("resident") as u64 >> 20,
    );
}

fn bar(name: &str, value: f64, unit: &str, relation: &str, bar: f64) {
    println!("bar {name} {value:.4} {unit} {relation} {bar}");
}

/// Show 1: allocations a stream at steady state.
fn allocations(size: &Size, rivals: &[&str]) -> Result<()> {
    for bytes in [300, 1_232] {
        for offload in [false, true] {
            for name in rivals {
                let mut server = Server::start(name, &[])?;
                let load = load(4, bytes, size.warm_up, size.streams, offload);
                let cost = measure(&mut server, &load)?;
                let with = if offload { "with" } else { "without" };
                row(name, &format!("{bytes} bytes, {with} offload"), &cost);
                if *name == "ours" && !offload {
                    let most = if bytes == 300 { 0.03 } else { 0.05 };
                    let value = cost.per_stream(cost.allocations);
                    bar(&format!("quic_allocations_{bytes}"), value, "a_stream", "<=", most);
                }
            }
        }
    }
    Ok(())
}

/// Show 2: streams a second of the server's CPU time, against each rival in the same round.
fn rates(size: &Size, rivals: &[&str]) -> Result<()> {
    for connections in [1, 100, size.many] {
        let warm_up = size.warm_up.max(connections as u64 * 20);
        // 0 bytes: the real mix.
        for bytes in [0, 200, 1_232, 4_096] {
            let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); rivals.len()];
            for _ in 0..size.rounds {
                let mut ours = 0.0;
                for (at, name) in rivals.iter().enumerate() {
                    // Rivals give a stream as much as a transaction has, as Agave does.
                    let mut server = Server::start(name, &["--bytes", &bytes.to_string()])?;
                    let load = load(connections, bytes, warm_up, size.streams, false);
                    let cost = measure(&mut server, &load)?;
                    row(name, &format!("{connections} connections, {}", size_name(bytes)), &cost);
                    if at == 0 {
                        ours = cost.efficiency();
                    }
                    ratios[at].push(ours / cost.efficiency());
                }
            }
            for (name, ratios) in rivals.iter().zip(ratios).skip(1) {
                let name = format!("quic_{connections}_{}_over_{name}", size_name(bytes));
                bar(&name, median(ratios), "ratio", ">=", 1.0);
            }
        }
    }
    Ok(())
}

fn size_name(bytes: usize) -> String {
    if bytes == 0 { "mix".to_owned() } else { format!("{bytes}_bytes") }
}

/// What the stream window does.
fn windows(size: &Size) -> Result<()> {
    for window in ["64", "512", "4096"] {
        let mut server = Server::start("ours", &["--window", window])?;
        let cost = measure(&mut server, &load(4, 0, size.warm_up, size.streams, false))?;
        row("ours", &format!("window {window}, mix"), &cost);
    }
    Ok(())
}

/// Show 3: memory that stays flat, is bounded under loss, and comes back after a burst.
fn memory(size: &Size) -> Result<()> {
    let mut server = Server::start("ours", &[])?;
    let first = measure(&mut server, &load(4, 300, 0, size.soak / 10, true))?;
    let rest = measure(&mut server, &load(4, 300, 0, size.soak / 10 * 9, true))?;
    row("ours", &format!("{} streams", size.soak), &rest);
    let ratio = rest.after.get("resident") / first.after.get("resident");
    bar("quic_soak_resident", ratio, "ratio", "<=", 1.1);

    let mut server = Server::start("ours", &[])?;
    let mut lossy = load(size.many.min(512), 1_232, 0, size.streams, false);
    lossy.push("loss=20".to_owned());
    let cost = measure(&mut server, &lossy)?;
    row("ours", "512 connections, 2 % loss", &cost);
    bar("quic_lossy_resident", cost.after.get("resident") / 1e6, "MB", "<=", 200.0);

    let mut server = Server::start("ours", &[])?;
    measure(&mut server, &load(4, 300, 0, size.streams, false))?;
    nap(size.settle);
    let before = server.figures()?;
    // Full windows: every connection opens all the streams that it may.
    measure(&mut server, &load(size.burst, 300, 0, size.burst as u64 * 200, false))?;
    let peak = server.figures()?;
    nap(size.settle);
    let after = server.figures()?;
    println!(
        "burst of {} connections: held {:.1} MB before, {:.1} at its end, {:.1} after {:?}; resident \
         {:.1}, {:.1}, {:.1}; {} still open",
        size.burst,
        before.get("held") / 1e6,
        peak.get("held") / 1e6,
        after.get("held") / 1e6,
        size.settle,
        before.get("resident") / 1e6,
        peak.get("resident") / 1e6,
        after.get("resident") / 1e6,
        after.get("open"),
    );
    let ratio = after.get("held") / before.get("held");
    bar("quic_burst_held", ratio, "ratio", "<=", 1.2);
    burst_on_a_node(size)
}

/// The same burst on a whole node with its own allocator: what the system sees of it.
fn burst_on_a_node(size: &Size) -> Result<()> {
    let node = Node::start(&[])?;
    let mut client = Client::open(node.rpc)?;
    let port = tpu_port(&mut client)?;
    let send = |connections: usize, streams: u64| -> Result<()> {
        let mut load = load(connections, 300, 0, streams, false);
        load.push("one-identity=0".to_owned());
        let mut generator = Generator::start(port, &load)?;
        generator.ready()?;
        generator.go()?;
        generator.end()
    };
    send(4, size.streams)?;
    nap(size.settle);
    let before = node.resident_bytes()? as f64;
    send(size.burst, size.burst as u64 * 200)?;
    let peak = node.resident_bytes()? as f64;
    nap(size.settle);
    let after = node.resident_bytes()? as f64;
    println!(
        "the same on a node: resident {:.1} MB before, {:.1} at its end, {:.1} after {:?}",
        before / 1e6,
        peak / 1e6,
        after / 1e6,
        size.settle
    );
    bar("quic_burst_resident", after / before, "ratio", "<=", 1.2);
    Ok(())
}

/// Where a node announces that it takes transactions.
fn tpu_port(client: &mut Client) -> Result<u16> {
    let nodes = client.call("getClusterNodes", json!([]))?;
    let tpu = nodes[0]["tpuQuic"].as_str().context("the node announces no TPU")?;
    Ok(tpu.rsplit(':').next().context("no port")?.parse()?)
}

/// Show 4: what clients of ill manners cost honest ones.
fn manners(size: &Size) -> Result<()> {
    for manner in ["greedy", "broken"] {
        let mut ratios = Vec::new();
        for _ in 0..size.rounds {
            let alone = rate(size, "honest", None)?;
            ratios.push(rate(size, "honest", Some(manner))? / alone);
        }
        bar(&format!("quic_honest_beside_{manner}"), median(ratios), "ratio", ">=", 0.9);
    }
    // One stream of each connection stalls: what of the others?
    let mut ratios = Vec::new();
    for _ in 0..size.rounds {
        let without = rate(size, "honest", None)?;
        ratios.push(rate(size, "stall", None)? / without);
    }
    bar("quic_beside_own_stalled_stream", median(ratios), "ratio", ">=", 0.9);
    Ok(())
}

/// Streams a second of eight connections, beside as many of another manner that send what they can.
fn rate(size: &Size, manner: &str, beside: Option<&str>) -> Result<f64> {
    let mut server = Server::start("ours", &[])?;
    let mut other = None;
    if let Some(manner) = beside {
        let mut load = load(8, 300, 0, 0, false);
        load.push("one-identity=0".to_owned());
        load.push(format!("manner={manner}"));
        load.push(format!("seconds={}", size.seconds * 100.0));
        let mut generator = Generator::start(server.port, &load)?;
        generator.ready()?;
        generator.go_on()?;
        other = Some(generator);
    }
    let mut honest = load(8, 300, size.warm_up, 0, false);
    honest.push(format!("seconds={}", size.seconds));
    honest.push(format!("manner={manner}"));
    honest.push("one-identity=0".to_owned());
    let mut generator = Generator::start(server.port, &honest)?;
    generator.ready()?;
    let outcome = generator.go()?;
    let figures = server.figures()?;
    println!(
        "8 connections ({manner}) beside {}: {:.0} streams/s; {}",
        beside.unwrap_or("nobody"),
        outcome.streams / outcome.seconds,
        figures.text(),
    );
    generator.end()?;
    // The others go with their process.
    drop(other);
    Ok(outcome.streams / outcome.seconds)
}

/// Show 6: transfers from socket to executed, and where the time goes.
fn ledger(size: &Size) -> Result<()> {
    let node = Node::start(&["--queue-max", "100000"])?;
    let mut client = Client::open(node.rpc)?;
    let payers = transfers::fund_payers(&mut client, 64)?;
    let signed = transfers::signed_transfers(&mut client, &payers, size.transfers)?;
    let mut file = tempfile::NamedTempFile::new()?;
    for transaction in &signed {
        let bytes = bincode::serialize(transaction)?;
        file.write_all(&u32::try_from(bytes.len())?.to_le_bytes())?;
        file.write_all(&bytes)?;
    }
    file.flush()?;
    let port = tpu_port(&mut client)?;

    let mut load = load(4, 300, 0, signed.len() as u64, false);
    load.push(format!("transactions={}", file.path().display()));
    let mut generator = Generator::start(port, &load)?;
    generator.ready()?;
    let before = node.thread_times()?;
    let began = crate::now();
    generator.go()?;
    let last = signed.last().and_then(|transaction| transaction.signatures.first());
    let last = last.context("no transfers")?.to_string();
    let count = |client: &mut Client| -> Result<u64> {
        let count = client.call("getTransactionCount", json!([{"commitment": "processed"}]))?;
        count.as_u64().context("not a count")
    };
    transfers::wait_for_all(&mut client, &[last])?;
    // The last to be sent need not be the last to be executed: the count stands still when all are.
    let mut seen = count(&mut client)?;
    let mut executed_after = began.elapsed();
    loop {
        nap(Duration::from_millis(50));
        let now = count(&mut client)?;
        if now <= seen + 1 {
            break;
        }
        (seen, executed_after) = (now, began.elapsed());
    }
    let rate = signed.len() as f64 / executed_after.as_secs_f64();
    println!("{} transfers over QUIC, executed: {rate:.0} a second", signed.len());
    let after = node.thread_times()?;
    let all: f64 = after.iter().map(|(name, time)| time - before.get(name).unwrap_or(&0.0)).sum();
    for (name, time) in &after {
        let used = time - before.get(name).unwrap_or(&0.0);
        if used > 0.0 {
            let each = used / signed.len() as f64 * 1e6;
            println!("  {name:16} {each:6.1} us a transfer, {:3.0} %", used / all * 100.0);
        }
    }
    generator.end()
}
