//! One client that subscribes to a million addresses alongside clients with small requests: the server's CPU time for
//! it, and the delay of the others; with messages of 2,000 addresses, and with the longest.
//!
//! The large client's own threads have the lowest priority, so that the others wait only for the server. Between
//! machines the two would share no core.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use http_client::{Connection, Endpoint};
use parking_lot::Mutex;
use serde_json::json;
use testkit::clock::now;
use testkit::node::Node;
use testkit::scenario::Client;

use super::addresses::address_of;
use super::size::Size;
use crate::median::median;
use crate::node;

/// Interval of the small requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(2);
/// Number of subscriptions to a million addresses.
const ROUNDS: usize = 5;
/// Time for which the others are measured alone.
const BASELINE_DURATION: Duration = Duration::from_secs(4);
/// Addresses in a message of 64 KB, and in one of a mebibyte.
const ADDRESSES_PER_MESSAGE: [(&str, usize); 2] = [("", 2_000), ("_long", 32_767)];
/// The nice value of the large client.
const CLIENT_NICE: i32 = 19;

pub(super) fn run(size: &Size) -> Result<()> {
    let (alone, rounds) =
        if size.is_toy { (BASELINE_DURATION / 10, 1) } else { (BASELINE_DURATION, ROUNDS) };
    for (name, at_once) in ADDRESSES_PER_MESSAGE {
        run_with(size.million, alone, rounds, name, at_once)?;
    }
    Ok(())
}

fn run_with(
    count: u32,
    alone: Duration,
    rounds: usize,
    name: &'static str,
    at_once: usize,
) -> Result<()> {
    let node = node::dev(&[])?.start()?;
    let light_client = LightClient::start(node.rpc)?;
    // On a thread of its own: a thread cannot raise its priority again.
    let measured = std::thread::spawn(move || -> Result<()> {
        rustix::process::setpriority_process(None, CLIENT_NICE)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let workload =
            SetWorkload { count, addresses_per_message: at_once, baseline: alone, rounds, name };
        runtime.block_on(measure(&node, &light_client, &workload))?;
        light_client.stop()
    });
    measured.join().map_err(|_| anyhow!("the measurement panicked"))?
}

/// The large client's settings.
struct SetWorkload {
    /// Addresses of its set.
    count: u32,
    /// Addresses in a message.
    addresses_per_message: usize,
    /// Time for which the others are measured alone.
    baseline: Duration,
    rounds: usize,
    /// The infix of its names in the output.
    name: &'static str,
}

async fn measure(node: &Node, light_client: &LightClient, workload: &SetWorkload) -> Result<()> {
    let SetWorkload { count, addresses_per_message: at_once, baseline: alone, rounds, name } =
        *workload;
    let mut client = Client::connect(node.ws).await?;
    client.addresses_per_message = at_once;
    // Computed before the measurement: the client's CPU time is not the server's.
    let addresses: Vec<[u8; 32]> = (0..count).map(address_of).collect();
    light_client.take_times();
    let cpu = node.cpu_time()?;
    let started = now();
    tokio::time::sleep(alone).await;
    let idle = (node.cpu_time()? - cpu).as_secs_f64() / started.elapsed().as_secs_f64();
    let mut quiet = light_client.take_times();
    let mut busy = Vec::new();
    let mut took = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let cpu = node.cpu_time()?;
        let started = now();
        let (subscription, _) =
            client.subscribe_set("confirmed", addresses.iter().copied()).await?;
        took.0.push(spent(node, cpu, started, idle)?);
        let cpu = node.cpu_time()?;
        let started = now();
        let ended = client.call("addressesUnsubscribe", json!([subscription])).await?;
        ensure!(ended == true, "{ended}");
        took.1.push(spent(node, cpu, started, idle)?);
        busy.extend(light_client.take_times());
        // Runs alone for the same duration, so that both measurements have the same seconds.
        tokio::time::sleep(started.elapsed().max(alone / 10)).await;
        quiet.extend(light_client.take_times());
    }
    let middle = |times: &[(f64, f64)]| {
        let of = |pick: fn(&(f64, f64)) -> f64| median(times.iter().map(pick).collect());
        (of(|time| time.0), of(|time| time.1))
    };
    let subscribe = middle(&took.0);
    let unsubscribe = middle(&took.1);
    println!(
        "{count} addresses of one client, {at_once} a message, of {rounds} rounds the middle one:"
    );
    println!("  subscribed in {:.2} s, {:.2} s of server CPU", subscribe.1, subscribe.0);
    println!("  unsubscribed in {:.2} s, {:.2} s of server CPU", unsubscribe.1, unsubscribe.0);
    let [p50, p99] = [0.5, 0.99].map(|part| (at(&mut busy, part), at(&mut quiet, part)));
    println!(
        "  others wait meanwhile {:.2} ms, p99 {:.2} ms; else {:.2}, p99 {:.2} ms ({} and {} requests)",
        p50.0,
        p99.0,
        p50.1,
        p99.1,
        busy.len(),
        quiet.len()
    );
    println!("bar subs_million{name}_cpu_s {:.2} s <= 0.5", subscribe.0);
    println!("bar subs_million{name}_others_p99 {:.2} x <= 2", p99.0 / p99.1);
    Ok(())
}

/// CPU and wall time since `started`, in seconds, without the cost of the others.
fn spent(node: &Node, cpu: Duration, started: Instant, idle: f64) -> Result<(f64, f64)> {
    let wall = started.elapsed().as_secs_f64();
    Ok(((node.cpu_time()? - cpu).as_secs_f64() - idle * wall, wall))
}

/// A client that requests an account all the time, on a thread of its own, and its waiting times.
struct LightClient {
    times_ms: Arc<Mutex<Vec<f64>>>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl LightClient {
    fn start(rpc: SocketAddr) -> Result<Self> {
        let (times_ms, over) = (Arc::default(), Arc::<AtomicBool>::default());
        let into = Arc::clone(&times_ms);
        let is_over = Arc::clone(&over);
        let requests = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(request_loop(rpc, &into, &is_over))
        };
        let thread = std::thread::Builder::new().name("light-client".to_owned()).spawn(requests)?;
        Ok(Self { times_ms, over, thread })
    }

    /// Its waiting times since the last call, in milliseconds.
    fn take_times(&self) -> Vec<f64> {
        std::mem::take(&mut *self.times_ms.lock())
    }

    fn stop(self) -> Result<()> {
        self.over.store(true, Ordering::Release);
        self.thread.join().map_err(|_| anyhow!("the light client panicked"))?
    }
}

async fn request_loop(
    rpc: SocketAddr,
    times_ms: &Mutex<Vec<f64>>,
    over: &AtomicBool,
) -> Result<()> {
    let mut connection = Connection::open(rpc).await.context("connect")?;
    let params = json!(["11111111111111111111111111111111"]);
    let request = Endpoint::from(rpc).call("getAccountInfo", &params);
    let mut due = tokio::time::interval(REQUEST_INTERVAL);
    while !over.load(Ordering::Acquire) {
        due.tick().await;
        let started = now();
        connection.exchange(&request).await?;
        times_ms.lock().push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}

fn at(times_ms: &mut [f64], part: f64) -> f64 {
    times_ms.sort_by(f64::total_cmp);
    let index = (times_ms.len() as f64 * part) as usize;
    times_ms.get(index).copied().unwrap_or(f64::NAN)
}
