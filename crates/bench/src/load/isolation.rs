//! Light reads while scans run, with the pool's slices and without; and over IO and CPU threads.

use std::net::SocketAddr;

use ::load::{Outcome, Report, Run, Stream};
use anyhow::Result;

use super::server::{Server, Settings};
use super::targets::Targets;
use super::{Size, bar};
use crate::median;

/// Clients that scan at once.
const SCANS: [usize; 3] = [1, 4, 8];

/// Connections of the light reads: enough for any that wait.
const LIGHT_CONNECTIONS: usize = 64;

/// "At most 3 on two cores", "all 500 served", "at least as many a second as Agave's".
const RATIO_MAX: f64 = 3.0;
const SERVED_MIN: f64 = 1.0;
const AGAVE_SCANS_PER_SECOND: f64 = 2.29;

pub(crate) fn run(server: &mut Server, targets: &Targets, size: &Size) -> Result<()> {
    for slice_us in [Settings::of_binary().slice_us, 0] {
        let settings = Settings { slice_us, ..Settings::of_binary() };
        let rpc = server.serve(settings)?.rpc;
        beside_scans(server, rpc, targets, size, slice_us > 0)?;
    }
    Ok(())
}

fn beside_scans(
    server: &Server,
    rpc: SocketAddr,
    targets: &Targets,
    size: &Size,
    has_slices: bool,
) -> Result<()> {
    let how = if has_slices { "with slices and turns" } else { "without slices and turns" };
    let name = format!("getAccountInfo {:.0}/s", size.light_rate);
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); SCANS.len() + 1];
    for _ in 0..size.runs {
        for (runs, scans) in runs.iter_mut().zip([0].into_iter().chain(SCANS)) {
            let streams = streams(&name, rpc, targets, size, scans);
            runs.push(size.once(rpc, streams, size.span(), Some(server.process()))?);
        }
    }
    let mut report = Report::new("isolation", Vec::new());
    for runs in &runs {
        report.add(&[], runs);
    }
    println!("\nisolation, {how}: alone, then beside 1, 4 and 8 clients that scan");
    print!("{}", report.table());
    for (nth, scans) in (1..).zip(SCANS) {
        let p99 = |run: &Run| run.outcomes[0].ms(0.99);
        let pairs = runs[nth].iter().zip(&runs[0]);
        let ratio = median(pairs.map(|(beside, alone)| p99(beside) / p99(alone)).collect());
        let served = median(runs[nth].iter().map(|run| served(&run.outcomes[0])).collect());
        let rate = median(runs[nth].iter().map(|run| run.outcomes[1].rate()).collect());
        println!("{scans} scans: p99 {ratio:.2} times, {served:.3} served, {rate:.2} scans/s");
        if has_slices {
            bar(&format!("load_isolation_{scans}_scans"), ratio, "x", true, RATIO_MAX);
            bar(&format!("load_isolation_{scans}_served"), served, "x", false, SERVED_MIN);
            let name = format!("load_isolation_{scans}_scans_per_second");
            bar(&name, rate, "1/s", false, AGAVE_SCANS_PER_SECOND);
        }
    }
    Ok(())
}

fn streams(
    name: &str,
    rpc: SocketAddr,
    targets: &Targets,
    size: &Size,
    scans: usize,
) -> Vec<Stream> {
    let requests = targets.requests(rpc, "getAccountInfo");
    let mut streams = vec![Stream::open(name, requests, size.light_rate, LIGHT_CONNECTIONS)];
    if scans > 0 {
        let name = format!("  beside {scans} scanning");
        streams.push(Stream::closed(&name, vec![targets.scans.request(rpc)], scans));
    }
    streams
}

fn served(light: &Outcome) -> f64 {
    light.counts.right as f64 / light.counts.all() as f64
}

/// What threads for sockets and for work do to either.
pub(crate) fn sweep(server: &mut Server, targets: &Targets, size: &Size) -> Result<()> {
    let cores = Settings::of_binary().cpu_threads;
    println!(
        "\nIO and CPU threads: getAccountInfo as fast as it goes; and at its rate beside 4 scans"
    );
    println!("  IO  CPU  light/s alone   p99 ms alone   light p99 ms beside  served  scans/s");
    for io_threads in [1, cores] {
        for cpu_threads in [1, cores, 2 * cores] {
            let settings = Settings { io_threads, cpu_threads, ..Settings::of_binary() };
            let rpc = server.serve(settings)?.rpc;
            let requests = targets.requests(rpc, "getAccountInfo");
            let alone = size.runs(rpc, &[Stream::closed("alone", requests, 32)], None)?;
            let beside = size.runs(rpc, &streams("light", rpc, targets, size, 4), None)?;
            let of = |runs: &[Run], figure: &dyn Fn(&Run) -> f64| {
                median(runs.iter().map(figure).collect())
            };
            println!(
                "{io_threads:>4} {cpu_threads:>4} {:>14.0} {:>14.3} {:>21.3} {:>7.3} {:>8.2}",
                of(&alone, &|run| run.outcomes[0].rate()),
                of(&alone, &|run| run.outcomes[0].ms(0.99)),
                of(&beside, &|run| run.outcomes[0].ms(0.99)),
                of(&beside, &|run| served(&run.outcomes[0])),
                of(&beside, &|run| run.outcomes[1].rate()),
            );
        }
    }
    Ok(())
}
