//! The console's bytes, and what open pages cost their node: `console [--toy] [--seconds N] [--rounds N]`.
//!
//! Shape: each page has the WebSocket subscriptions and sends the requests of `web_console::TRAFFIC`, which a test
//! compares with what a browser sends. The node's CPU time over a fixed stretch with pages is compared with the same
//! stretch without, at two rates of transactions. Rounds go through all views; a difference is taken within its round,
//! and the median of the rounds is reported.
//! Not here: opening a page, which is a few requests and files that browsers store.

mod page;
mod traffic;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::{Connection, Endpoint};
use solana_keypair::Keypair;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::Node;
use testkit::scenario::{Scenario, SendStats, send_at_rate};
use testkit::transfers::{endless_transfers, fund_payers};
use tokio::runtime::Runtime;
use tokio::time::sleep;

use self::page::{ENCODINGS, PageCounts, page};
use self::traffic::{Traffic, View};
use crate::arguments::value_of;
use crate::median::median;
use crate::{node, threshold};

/// The size of the measurements.
struct Size {
    pages: u32,
    rounds: usize,
    warm_up: Duration,
    seconds: f64,
    /// Transactions a second.
    rate: f64,
}

const FULL: Size =
    Size { pages: 20, rounds: 3, warm_up: Duration::from_secs(3), seconds: 10.0, rate: 5_000.0 };
const TOY: Size =
    Size { pages: 2, rounds: 1, warm_up: Duration::from_millis(200), seconds: 1.0, rate: 200.0 };
/// Connections that send transactions.
const SENDERS: u32 = 2;
const PAYERS: usize = 64;
/// The share of the rate that each stretch must have for a comparison.
const EXECUTED_MIN: f64 = 0.95;
/// The bytes of all files, as a browser loads them once. A test of `web_console` has the same bar.
const KIB_MAX: f64 = 60.0;
/// One open page: percent of a core, without and with transactions.
const PERCENT_MAX: [f64; 2] = [0.5, 1.0];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut size = if args.iter().any(|arg| arg == "--toy") { TOY } else { FULL };
    if let Some(seconds) = value_of(args, "--seconds")? {
        size.seconds = seconds.parse().context("--seconds")?;
    }
    if let Some(rounds) = value_of(args, "--rounds")? {
        size.rounds = rounds.parse().context("--rounds")?;
    }
    let traffic = Traffic::read()?;
    let views: Vec<(&str, Arc<View>)> = traffic
        .names()
        .map(|name| Ok((name, Arc::new(traffic.view(name)?))))
        .collect::<Result<_>>()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let node = node::dev(&[])?.start()?;
    let [page_kib, files_kib] = runtime.block_on(weigh(&node))?;
    println!("the page {page_kib:.1} KiB, its files {files_kib:.1} KiB, compressed\n");
    let bench = Bench { payers: payers(&node)?, runtime, node, size };
    println!(
        "{} pages, {} rounds of {} s; CPU of the node in percent of a core",
        bench.size.pages, bench.size.rounds, bench.size.seconds
    );
    println!(
        "transactions/s  view     without   with   of one page  requests/s  KiB/s  notifications/s"
    );
    let mut costs = Vec::new();
    for (rate, percent_max) in [0.0, bench.size.rate].into_iter().zip(PERCENT_MAX) {
        let load = if rate > 0.0 { "loaded" } else { "idle" };
        for (name, percent) in bench.measure(rate, &views)? {
            costs.push((format!("console_{name}_{load}"), percent, percent_max));
        }
    }
    threshold::at_most("console_files", page_kib + files_kib, "KiB", KIB_MAX);
    for (name, percent, percent_max) in costs {
        threshold::at_most(&name, percent, "%", percent_max);
    }
    Ok(())
}

fn payers(node: &Node) -> Result<Vec<Keypair>> {
    fund_payers(&mut JsonRpcClient::open(node.rpc)?, PAYERS)
}

/// The bytes of the page and of all files that it names, compressed, in KiB.
async fn weigh(node: &Node) -> Result<[f64; 2]> {
    let endpoint = Endpoint::from(node.rpc);
    let mut http = Connection::open(node.rpc).await?;
    let html = ("accept", "text/html");
    let plain = endpoint.request_with("GET", "/", &[html], None);
    let text = String::from_utf8(http.exchange(&plain).await?.body.to_vec())?;
    let compressed = endpoint.request_with("GET", "/", &[html, ENCODINGS], None);
    let page_bytes = http.exchange(&compressed).await?.body_bytes;
    let name = |rest: &str| rest.split('"').next().map(|rest| format!("/console/{rest}"));
    let paths: BTreeSet<String> = text.split("\"/console/").skip(1).filter_map(name).collect();
    ensure!(!paths.is_empty(), "the page names no file: {text}");
    let mut bytes = 0;
    for path in paths {
        let request = endpoint.request_with("GET", &path, &[ENCODINGS], None);
        let response = http.exchange(&request).await?;
        ensure!(response.status == 200, "{path}: {}", response.status);
        bytes += response.body_bytes;
    }
    Ok([page_bytes, bytes].map(|bytes| bytes as f64 / 1_024.0))
}

struct Bench {
    runtime: Runtime,
    node: Node,
    payers: Vec<Keypair>,
    size: Size,
}

/// The measured values of a stretch, a second.
struct Stretch {
    /// Percent of a core.
    percent: f64,
    executed: f64,
    requests: f64,
    kib: f64,
    notifications: f64,
}

impl Bench {
    /// The cost of one page, in percent of a core, by view.
    fn measure<'a>(
        &self,
        rate: f64,
        views: &[(&'a str, Arc<View>)],
    ) -> Result<Vec<(&'a str, f64)>> {
        let pages = f64::from(self.size.pages);
        let mut without = Vec::new();
        let mut with: Vec<Vec<Stretch>> = views.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.size.rounds {
            without.push(self.run(rate, None)?);
            for (stretches, (_, view)) in with.iter_mut().zip(views) {
                stretches.push(self.run(rate, Some(view))?);
            }
        }
        let all = without.iter().chain(with.iter().flatten());
        let slowest = all.map(|it| it.executed).fold(f64::INFINITY, f64::min);
        if slowest < rate * EXECUTED_MIN {
            println!(
                "{slowest:.0} of {rate:.0} transactions a second: too few to compare the rows below"
            );
        }
        let mut costs = Vec::new();
        for ((name, _), stretches) in views.iter().zip(&with) {
            let differences = stretches
                .iter()
                .zip(&without)
                .map(|(with, without)| with.percent - without.percent);
            let cost = median(differences.collect()) / pages;
            let of = |value: fn(&Stretch) -> f64| median(stretches.iter().map(value).collect());
            println!(
                "{:>14.0}  {name:8}{:>8.2} {:>6.2} {cost:>13.3} {:>11.2} {:>6.1} {:>16.1}",
                of(|it| it.executed),
                median(without.iter().map(|it| it.percent).collect()),
                of(|it| it.percent),
                of(|it| it.requests) / pages,
                of(|it| it.kib) / pages,
                of(|it| it.notifications) / pages,
            );
            costs.push((*name, cost));
        }
        Ok(costs)
    }

    /// One stretch, with pages that show a view or with none.
    fn run(&self, rate: f64, view: Option<&Arc<View>>) -> Result<Stretch> {
        let Size { pages, warm_up, seconds, .. } = self.size;
        let (sent, counts) = (SendStats::default(), Arc::<PageCounts>::default());
        let mut scenario = Scenario::default();
        for share in 0..if rate > 0.0 { SENDERS } else { 0 } {
            let own = self.payers.iter().skip(share as usize).step_by(SENDERS as usize);
            let client = JsonRpcClient::open(self.node.rpc)?;
            let bodies = endless_transfers(client, own.map(Keypair::insecure_clone).collect());
            scenario.add(send_at_rate(self.node.rpc, rate / f64::from(SENDERS), &sent, bodies));
        }
        for number in 0..if view.is_some() { pages } else { 0 } {
            let view = Arc::clone(view.context("a view")?);
            // Spread over the shortest interval.
            let delay = view.interval_min() * number / pages;
            scenario.add(page(self.node.rpc, view, delay, Arc::clone(&counts)));
        }
        let read = || {
            let PageCounts { requests, bytes, notifications } = &*counts;
            let counts =
                [requests, bytes, notifications].map(|count| count.load(Ordering::Relaxed));
            Ok::<_, anyhow::Error>((self.node.cpu_time()?, sent.count(), counts))
        };
        let mut measured = None;
        let until = async {
            sleep(warm_up).await;
            let before = read();
            sleep(Duration::from_secs_f64(seconds)).await;
            measured = Some((before, read()));
        };
        self.runtime.block_on(scenario.run(until))?;
        let (before, after) = measured.context("it was not measured")?;
        let ((cpu, sent, counts), (cpu_after, sent_after, counts_after)) = (before?, after?);
        let per_second = |at: usize| (counts_after[at] - counts[at]) as f64 / seconds;
        Ok(Stretch {
            percent: 100.0 * (cpu_after - cpu).as_secs_f64() / seconds,
            executed: (sent_after - sent) as f64 / seconds,
            requests: per_second(0),
            kib: per_second(1) / 1_024.0,
            notifications: per_second(2),
        })
    }
}
