//! Light reads during scans: as the binary serves them, and without their protection; and over IO and CPU threads.
//!
//! Light reads have two protections. getAccountInfo runs where its socket is polled, so it never waits for the pool.
//! A light task of the pool, such as a list of one account, gets its time slice by its class, before scans continue.
//! Both are measured, at three settings: as in the binary; with a pool that runs each task to its end in the order of
//! arrival; and with getAccountInfo in that queue too, on threads of normal priority, as in Agave. Responses are
//! streamed in all three, and no list comes from the cache.
//! Not here: the comparison with Agave itself, in one run (`agave::isolation`).

use std::net::SocketAddr;

use ::loadgen::{Report, Run, Stream, StreamStats};
use anyhow::Result;
use http_client::Endpoint;

use super::server::{Server, cores};
use super::size::{SCAN_NICE, Size};
use super::targets::Targets;
use crate::ledger_process::protocol::Settings;
use crate::median::median;
use crate::threshold;

/// Clients that scan at once.
const SCANS: [usize; 3] = [1, 4, 8];

/// Connections of the light reads: enough for any that wait.
const LIGHT_CONNECTIONS: usize = 64;

/// Light reads that run on the pool, for each of the others.
const LISTS_SHARE: f64 = 0.2;

/// "At most 3 on two cores", "all 500 served".
const RATIO_MAX: f64 = 3.0;
const SERVED_MIN: f64 = 1.0;

pub(crate) fn run(server: &mut Server, targets: &Targets, size: &Size) -> Result<()> {
    let rpc = server.serve(Settings::like_binary())?.uncached;
    let alone = run_with_thresholds(server, rpc, targets, size)?;
    println!("\nthe same, and a list of one account, which runs on the pool");
    let settings = [
        ("as it is", Settings::like_binary()),
        ("no slices, no classes", Settings::like_fifo()),
        ("nor inline calls, nice 0", Settings::like_agave()),
    ];
    let mut report = Report::new("isolation", Vec::new());
    let mut lines = Vec::new();
    for (how, settings) in settings {
        let rpc = server.serve(settings)?.uncached;
        let runs = measured(server, rpc, targets, size, true)?;
        for runs in &runs {
            report.add(&[], runs);
        }
        for (nth, scans) in (1..).zip(SCANS) {
            let [info, list] = [0, 1].map(|stream| ratio(&runs[nth], &runs[0], stream));
            let [infos, lists] = [0, 1].map(|stream| served(&runs[nth], stream));
            let scanned = rate(&runs[nth], 2);
            lines.push(format!(
                "{how:<28} {scans:>5} {info:>13.1} {infos:>8.3} {list:>13.1} {lists:>8.3} {scanned:>8.2}"
            ));
        }
    }
    print!("{}", report.table());
    println!("                                   getAccountInfo         list of 1");
    println!(
        "pool                         scans   p99 by scans  served  p99 by scans  served  scans/s"
    );
    for line in lines {
        println!("{line}");
    }
    println!("p99 of getAccountInfo without scans: {alone:.3} ms");
    Ok(())
}

/// The runs that have a bar. Returns the p99 without scans.
fn run_with_thresholds(
    server: &Server,
    rpc: SocketAddr,
    targets: &Targets,
    size: &Size,
) -> Result<f64> {
    let runs = measured(server, rpc, targets, size, false)?;
    let mut report = Report::new("isolation", Vec::new());
    for runs in &runs {
        report.add(&[], runs);
    }
    println!("\nisolation: alone, then with 1, 4 and 8 clients that scan");
    print!("{}", report.table());
    for (nth, scans) in (1..).zip(SCANS) {
        let ratio = ratio(&runs[nth], &runs[0], 0);
        let served = served(&runs[nth], 0);
        let rate = rate(&runs[nth], 1);
        println!("{scans} scans: p99 {ratio:.2} times, {served:.3} served, {rate:.2} scans/s");
        threshold::at_most(&format!("load_isolation_{scans}_scans"), ratio, "x", RATIO_MAX);
        threshold::at_least(&format!("load_isolation_{scans}_served"), served, "x", SERVED_MIN);
    }
    Ok(median(runs[0].iter().map(|run| run.stats[0].ms(0.99)).collect()))
}

/// Runs alone, then with each number of scans, round by round. Lists are one run: a table, no bars.
fn measured(
    server: &Server,
    rpc: SocketAddr,
    targets: &Targets,
    size: &Size,
    has_lists: bool,
) -> Result<Vec<Vec<Run>>> {
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); SCANS.len() + 1];
    for _ in 0..if has_lists { 1 } else { size.long_runs } {
        for (runs, scans) in runs.iter_mut().zip([0].into_iter().chain(SCANS)) {
            let streams = streams(rpc, targets, size, scans, has_lists);
            runs.push(size.run_once(
                rpc,
                streams,
                size.long_run_length(),
                Some(server.process()),
            )?);
        }
    }
    Ok(runs)
}

fn streams(
    rpc: SocketAddr,
    targets: &Targets,
    size: &Size,
    scans: usize,
    has_lists: bool,
) -> Vec<Stream> {
    let name = format!("getAccountInfo {:.0}/s", size.light_rate);
    let requests = targets.requests(rpc, "getAccountInfo");
    let mut streams = vec![Stream::open_loop(&name, requests, size.light_rate, LIGHT_CONNECTIONS)];
    if has_lists {
        let rate = size.light_rate * LISTS_SHARE;
        let lists = targets.lists.iter();
        let lists = lists.map(|list| Endpoint::from(rpc).call("getProgramAccounts", list));
        let name = format!("  list of 1 {rate:.0}/s");
        streams.push(Stream::open_loop(&name, lists.collect(), rate, LIGHT_CONNECTIONS));
    }
    if scans > 0 {
        let name = format!("  with {scans} scanning");
        let scans = Stream::closed_loop(&name, vec![targets.scans.request(rpc)], scans);
        streams.push(scans.with_nice(SCAN_NICE));
    }
    streams
}

/// A stream's p99 during scans over that without, run by run.
fn ratio(loaded: &[Run], alone: &[Run], stream: usize) -> f64 {
    let p99 = |run: &Run| run.stats[stream].ms(0.99);
    median(loaded.iter().zip(alone).map(|(loaded, alone)| p99(loaded) / p99(alone)).collect())
}

fn served(runs: &[Run], stream: usize) -> f64 {
    let share = |light: &StreamStats| light.counts.ok as f64 / light.counts.total() as f64;
    median(runs.iter().map(|run| share(&run.stats[stream])).collect())
}

fn rate(runs: &[Run], stream: usize) -> f64 {
    median(runs.iter().map(|run| run.stats[stream].rate()).collect())
}

/// The effect of the numbers of IO and CPU threads.
pub(crate) fn sweep(server: &mut Server, targets: &Targets, size: &Size) -> Result<()> {
    let cores = cores();
    println!(
        "\nIO and CPU threads: getAccountInfo as fast as it goes; and at its rate with 4 scans"
    );
    println!("  IO  CPU  light/s alone   p99 ms alone   light p99 ms loaded  served  scans/s");
    for io_threads in [1, cores] {
        for cpu_threads in [1, cores, 2 * cores] {
            let settings = Settings { io_threads, cpu_threads, ..Settings::like_binary() };
            let rpc = server.serve(settings)?.uncached;
            let requests = targets.requests(rpc, "getAccountInfo");
            let once = |streams| {
                Ok::<_, anyhow::Error>([size.run_once(rpc, streams, size.run_length(), None)?])
            };
            let alone = once(vec![Stream::closed_loop("alone", requests, 32)])?;
            let loaded = once(streams(rpc, targets, size, 4, false))?;
            println!(
                "{io_threads:>4} {cpu_threads:>4} {:>14.0} {:>14.3} {:>21.3} {:>7.3} {:>8.2}",
                rate(&alone, 0),
                alone[0].stats[0].ms(0.99),
                loaded[0].stats[0].ms(0.99),
                served(&loaded, 0),
                rate(&loaded, 1),
            );
        }
    }
    Ok(())
}
