//! One client that subscribes to a million addresses beside others that ask for little: the server's
//! CPU for it, and what the others feel.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use serde_json::json;
use testkit::scenario::{Client, Node};

use super::{Size, address_of, runtime};
use crate::http::{self, Connection};
use crate::node::program;
use crate::now;

/// Requests a second of the client that asks for little.
const ASK_EVERY: Duration = Duration::from_millis(4);
/// How often a million is subscribed to.
const ROUNDS: usize = 5;

pub(super) fn run(size: &Size) -> Result<()> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let node = Node::start(&program()?, &[]).await?;
        let quiet = latencies(&node, Duration::from_secs(3), async || Ok(())).await?;
        let idle_cpu = {
            let before = node.cpu_time()?;
            latencies(&node, Duration::from_secs(3), async || Ok(())).await?;
            (node.cpu_time()? - before).as_secs_f64() / 3.0
        };
        let mut client = Client::connect(node.ws).await?;
        // Made beforehand: what the client needs for it is not the server's.
        let addresses: Vec<[u8; 32]> = (0..size.million).map(address_of).collect();
        let mut took = (Vec::new(), Vec::new());
        let mut busy = Vec::new();
        for _ in 0..ROUNDS {
            let mut times = [(0.0, 0.0); 2];
            let (cpu, started) = (node.cpu_time()?, now());
            let subscribed =
                async || Ok(client.track("confirmed", addresses.iter().copied()).await?.0);
            let (latency, subscription) = latencies_while(&node, subscribed).await?;
            busy.extend(latency);
            times[0] = spent(&node, cpu, started, idle_cpu)?;
            let (cpu, started) = (node.cpu_time()?, now());
            let ended = async || client.call("addressesUnsubscribe", json!([subscription])).await;
            let (latency, ended) = latencies_while(&node, ended).await?;
            ensure!(ended == true, "{ended}");
            busy.extend(latency);
            times[1] = spent(&node, cpu, started, idle_cpu)?;
            took.0.push(times[0]);
            took.1.push(times[1]);
        }
        let middle = |times: &[(f64, f64)]| {
            let of = |pick: fn(&(f64, f64)) -> f64| crate::median(times.iter().map(pick).collect());
            (of(|time| time.0), of(|time| time.1))
        };
        let (subscribe, unsubscribe) = (middle(&took.0), middle(&took.1));
        let count = size.million;
        println!("{count} addresses of one client, of {ROUNDS} rounds the middle one:");
        println!("  subscribed in {:.2} s, {:.2} s of server CPU", subscribe.1, subscribe.0);
        println!("  unsubscribed in {:.2} s, {:.2} s of server CPU", unsubscribe.1, unsubscribe.0);
        let (quiet, busy) = (p99(quiet), p99(busy));
        println!("  others' p99 meanwhile {busy:.2} ms, else {quiet:.2} ms");
        println!("bar subs_million_cpu_s {:.2} s <= 0.5", subscribe.0);
        println!("bar subs_million_others_p99 {:.2} x <= 2", busy / quiet);
        Ok(())
    })
}

/// CPU and wall time since, in seconds, without what the others cost.
fn spent(node: &Node, cpu: Duration, started: std::time::Instant, idle: f64) -> Result<(f64, f64)> {
    let wall = started.elapsed().as_secs_f64();
    Ok(((node.cpu_time()? - cpu).as_secs_f64() - idle * wall, wall))
}

async fn latencies(
    node: &Node,
    at_least: Duration,
    work: impl AsyncFnOnce() -> Result<()>,
) -> Result<Vec<f64>> {
    let waited = async || {
        work().await?;
        tokio::time::sleep(at_least).await;
        Ok(())
    };
    Ok(latencies_while(node, waited).await?.0)
}

/// What somebody who asks for an account waits, in milliseconds, while work is done.
async fn latencies_while<T>(
    node: &Node,
    work: impl AsyncFnOnce() -> Result<T>,
) -> Result<(Vec<f64>, T)> {
    let over = Arc::new(AtomicBool::new(false));
    let (rpc, is_over) = (node.rpc, Arc::clone(&over));
    // A thread of its own, so that it does not wait for what else this process does.
    let asking = std::thread::spawn(move || asked(rpc, &is_over));
    let done = work().await;
    over.store(true, Ordering::Release);
    let times = tokio::task::spawn_blocking(move || asking.join()).await?;
    let times = times.map_err(|_| anyhow!("the one who asks panicked"))??;
    Ok((times, done?))
}

fn asked(rpc: SocketAddr, is_over: &AtomicBool) -> Result<Vec<f64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connection = Connection::open(rpc).await?;
        let params = json!(["11111111111111111111111111111111"]);
        let request = http::call(rpc, "getAccountInfo", &params);
        let mut due = tokio::time::interval(ASK_EVERY);
        let mut times = Vec::new();
        while !is_over.load(Ordering::Acquire) {
            due.tick().await;
            let started = now();
            connection.exchange(&request).await?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        Ok(times)
    })
}

fn p99(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() * 99 / 100).copied().unwrap_or(f64::NAN)
}
