//! `cluster`: a replicated log with its ingesters and replicas on this machine, under load, compared and broken.
//!
//! Input: options (`options`). Output: a table of the run, one of the requests and, with faults, one of the rounds.
//! Logs and the first differences remain in the run's directory.
//! Shape: three nats-servers, or a directory or bucket, are the log. A `hydrant dev` makes the chain and appends it; a
//! `hydrant ingest` follows it and appends the same blocks when the first one does not. Three `hydrant replica` serve,
//! behind HAProxy. This program writes accounts, makes forks, and asks all replicas the same (`comparison`).
//! A soak also samples memory, positions and lag (`soak`).
//! Bounds: blocks and minutes, whichever is reached first. All processes end with this program's run.
//! Not here: the model of the log with thousands of seeds (tests of `replicated_log`, `ingest` and `replica`), CI.

mod balancer;
mod bars;
mod calls;
mod chaos;
pub(crate) mod comparison;
mod failover;
mod faults;
mod gaps;
mod links;
mod load;
mod log_check;
mod log_servers;
mod nats_client;
mod node;
mod node_response;
mod object_store;
mod options;
mod processes;
mod programs;
mod progress;
mod proxies;
mod reads;
mod report;
mod soak;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cluster::comparison::Comparison;
use crate::cluster::failover::measure_failover;
use crate::cluster::gaps::{Gaps, measure_gaps};
use crate::cluster::load::Load;
use crate::cluster::log_check::LogDamages;
use crate::cluster::options::{CHAOS, Mode, Options, SOAK, USAGE};
use crate::cluster::processes::{CLUSTER, Cluster, MEASURED};
use crate::cluster::programs::Programs;
use crate::cluster::progress::{format_progress, time_left};
use crate::cluster::reads::{ReadCost, measure_reads};
use crate::cluster::report::{ProcessFacts, Report, RunEnd};
use crate::cluster::soak::Soak;
use crate::rig::clock::{now, pause};
use crate::rig::nodes::final_slot;

/// The name of this task, and of the benchmark that measures the other bars.
pub(crate) const NAME: &str = "cluster";

/// Time between two rounds of comparisons.
const ROUND_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two reports of the state.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);
/// The part of the bars without faults.
const COMPARE: &str = "compare";
/// The parts of the bars that [`measure_part`] runs.
pub(crate) const PARTS: [&str; 3] = [COMPARE, CHAOS, SOAK];
/// The run with faults of the bars. Its 50 rounds take about 25 minutes. SIGSTOP lasts 30 s. Other outages are shorter,
/// but longer than the goals for the failovers of the ingester (6 s) and of the log (15 s).
const CHAOS_ARGS: [&str; 5] = [CHAOS, "--minutes", "240", "--outage", "20"];
/// Kinds of damages of records that are about sums.
const SUMS: [&str; 3] = ["sum", "bank_hash", "state_sum"];

/// A finished run.
struct Run {
    report: Report,
    /// The tables, without that of the requests.
    text: String,
    reads: Option<ReadCost>,
    gaps: Gaps,
}

/// Runs the task with the arguments after its name.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if args.iter().any(|arg| arg == "--help") {
        println!("{USAGE}");
        return Ok(());
    }
    run_with(&parse(args)?)?.report.check()
}

/// Runs one of [`PARTS`]. Returns its command, its tables, and the lines of its bars. Errors: a process has ended that
/// should run.
pub(crate) fn measure_part(part: &str) -> Result<Vec<String>> {
    let args: &[&str] = match part {
        COMPARE => &[],
        CHAOS => &CHAOS_ARGS,
        SOAK => &[SOAK],
        other => bail!("no part `{other}`; there are {}", PARTS.join(", ")),
    };
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let Run { report, text, reads, gaps } = run_with(&parse(&args)?)?;
    if let RunEnd::Broken(reason) = &report.end {
        bail!("{part}: {reason}");
    }
    let bars = match part {
        CHAOS => bars::chaos_lines(&report),
        SOAK => bars::soak_lines(&report),
        _ => bars::compared_lines(&report, reads, gaps),
    };
    bars.iter().for_each(|line| println!("{line}"));
    let command = format!("$ cargo xtask {NAME} {}", args.join(" ")).trim_end().to_owned();
    let tables = text.lines().map(str::to_owned);
    Ok(std::iter::once(command).chain(tables).chain(bars).collect())
}

fn parse(args: &[String]) -> Result<Options> {
    let home = std::env::var("HOME").context("HOME is not set: name --dir")?;
    let mut options = Options::parse(args, PathBuf::from(home))?;
    fs::create_dir_all(&options.dir)?;
    options.dir = options.dir.canonicalize()?;
    Ok(options)
}

/// Starts all processes, compares them, and prints the tables.
fn run_with(options: &Options) -> Result<Run> {
    let programs = Programs::find(options)?;
    let mut cluster = Cluster::start(options, &programs)?;
    println!("all processes run in {}", cluster.dir().display());
    let load = Load::start(cluster.producer(), options);
    let mut comparison = match options.mode {
        // Its memory is compared with that of the replicas.
        Mode::Compare => Comparison::with_uncompared_node(cluster.plain.rpc),
        Mode::Chaos | Mode::Soak => Comparison::default(),
    };
    let first_slot = final_slot(cluster.producer())?;
    let mut rounds = Vec::new();
    let mut failover = None;
    let mut reads = None;
    let mut gaps = Gaps::default();
    let mut soak = (options.mode == Mode::Soak).then(Soak::start);
    let end = match options.mode {
        Mode::Soak => {
            compare(&mut cluster, options, &load, &mut comparison, first_slot, soak.as_mut())?
        }
        Mode::Compare => {
            let end = compare(&mut cluster, options, &load, &mut comparison, first_slot, None)?;
            match cluster.check() {
                Ok(()) => {
                    failover = measure_failover(&mut cluster, options.requests)?;
                    cluster.wait_until_healthy()?;
                    reads = Some(measure_reads(&cluster.replicas[MEASURED], &cluster.plain)?);
                    gaps = measure_gaps(&mut cluster)?;
                    end
                }
                // Nothing more can be measured.
                Err(err) => RunEnd::Broken(format!("{err:#}")),
            }
        }
        Mode::Chaos => {
            rounds = chaos::run_rounds(&mut cluster, options, &load, &mut comparison);
            let done = format!("{} of {} rounds are done", rounds.len(), options.rounds);
            RunEnd::Complete(done)
        }
    };
    let soak = soak.map(Soak::finish);
    let facts = facts(&cluster);
    let log = LogDamages::check(
        cluster.hydrant(),
        &cluster.log_url(),
        CLUSTER,
        cluster.store.environment(),
    )?;
    let report = Report {
        end,
        load: load.counters(),
        compared_blocks: comparison.blocks,
        totals: comparison.totals(),
        facts,
        log,
        failover,
        rounds,
        soak,
    };
    drop(load);
    cluster.stop();
    let text = report.tables() + &format_costs(reads, gaps);
    println!("{text}{}", comparison.table());
    let file = cluster.dir().join("differences.json");
    fs::write(&file, comparison.examples()).context("write the differences")?;
    println!("logs and differences: {}", cluster.dir().display());
    Ok(Run { report, text, reads, gaps })
}

/// Formats the results of a run without faults that are not in its table.
fn format_costs(reads: Option<ReadCost>, gaps: Gaps) -> String {
    let reads = reads.map(|ReadCost { replica_us, plain_us, ratios: [first, median, third] }| {
        format!(
            "CPU time of a read: {replica_us:.1} us of a replica, {plain_us:.1} us without a log\n\
             reads of a replica in equal CPU time: {median:.3} x, quartiles {first:.3} and {third:.3}\n"
        )
    });
    let gaps =
        [("ingester", gaps.ingester), ("log", gaps.log)].into_iter().filter_map(|(name, gap)| {
            let gap = gap?.as_secs_f64();
            Some(format!("longest gap after the death of the leading {name}: {gap:.1} s\n"))
        });
    reads.into_iter().chain(gaps).collect()
}

/// Compares until a bound of the options is reached, and samples a soak meanwhile. Returns the reason for the end.
fn compare(
    cluster: &mut Cluster,
    options: &Options,
    load: &Load,
    comparison: &mut Comparison,
    first_slot: u64,
    mut soak: Option<&mut Soak>,
) -> Result<RunEnd> {
    let nodes: Vec<SocketAddr> = cluster.replicas.iter().map(|node| node.rpc).collect();
    let producer = cluster.producer();
    let started = now();
    let mut last_report = started;
    while started.elapsed() < options.time {
        if let Err(err) = cluster.check() {
            return Ok(RunEnd::Broken(format!("{err:#}")));
        }
        if let Some(soak) = &mut soak {
            soak.sample_if_due(cluster);
        }
        comparison.compare(&nodes, Some(producer), &load.addresses(), started + options.time);
        let blocks = final_slot(producer)?.saturating_sub(first_slot);
        if blocks >= options.blocks {
            return Ok(RunEnd::Complete("the blocks are made".to_owned()));
        }
        if last_report.elapsed() > REPORT_INTERVAL {
            last_report = now();
            let totals = comparison.totals();
            let elapsed = started.elapsed();
            let left = time_left(elapsed, blocks, options.blocks, options.time);
            println!(
                "{blocks} slots, {} MiB of the largest replica, {} equal responses, {} different, \
                 {} wrong, {} not at one slot; {}",
                facts(cluster).replica_bytes >> 20,
                totals.equal + totals.equal_later,
                totals.different,
                totals.wrong,
                totals.not_compared,
                format_progress(elapsed, left),
            );
        }
        pause(ROUND_INTERVAL);
    }
    Ok(RunEnd::Complete("the time is over".to_owned()))
}

/// Reads the facts of the processes. A process that has ended has none.
fn facts(cluster: &Cluster) -> ProcessFacts {
    let mut facts = ProcessFacts::default();
    for replica in &cluster.replicas {
        let page = replica.metrics().unwrap_or_default();
        let broken = page.read_labelled("hydrant_log_faults_total", "fault");
        let of_sums = broken.iter().filter(|(name, _)| SUMS.contains(&name.as_str()));
        facts.sum_differences += of_sums.map(|(_, count)| count).sum::<u64>();
        let blocks = page.count("hydrant_replica_events_total{event=\"block\"}");
        facts.checked_blocks += blocks.unwrap_or_default();
        facts.replica_bytes = facts.replica_bytes.max(replica.resident_bytes().unwrap_or_default());
    }
    for ingester in &cluster.ingesters {
        let page = ingester.metrics().unwrap_or_default();
        let what = "hydrant_ingest_disagreements_total{what=\"state\"}";
        facts.disagreements += page.count(what).unwrap_or_default();
    }
    facts.plain_bytes = cluster.plain.resident_bytes().unwrap_or_default();
    facts
}
