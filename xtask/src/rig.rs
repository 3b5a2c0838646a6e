//! `rig`: a real validator or a cluster of three, with our plugin, under load, followed by `hydrant follow`, and
//! compared with it. With replicas, `hydrant ingest` follows, and they serve the blocks of its log.
//!
//! Input: options (`options`). Output: a table for each follower, ingester and replica: banks with equal hash
//! components, false alarms, and different responses by method. The logs and the differences remain in the rig's
//! directory.
//! Shape: the validators' packages are built by cargo (`build`), once, outside of the repository. Then the validators,
//! the load (`clients/js-web3/load.js`) and the followers run as processes, and this program compares: the lines "bank
//! frozen" of their logs or the banks of a replica (`frozen_banks`), the responses of the RPC ports
//! (`response_comparison`), and those of the replicas with each other (`replica_comparison`).
//! Bounds: slots and minutes, whichever is reached first. All processes end with this program's run.
//! Not here: CI, which replays a recorded run: a build of the validator takes long.

mod bank_parts;
pub(crate) mod build;
pub(crate) mod calls;
pub(crate) mod child_process;
pub(crate) mod clock;
mod cluster;
mod counters;
pub(crate) mod cuts;
mod faults;
mod followers;
mod fork_slots;
mod frozen_banks;
pub(crate) mod http_client;
pub(crate) mod json_rpc;
mod known_slots;
pub(crate) mod metrics_page;
pub(crate) mod nodes;
mod options;
pub(crate) mod ports;
mod processes;
pub(crate) mod random;
mod reasons;
mod recording;
mod repeats;
mod replica_banks;
mod replica_comparison;
pub(crate) mod replica_differences;
pub(crate) mod response_comparison;
mod system_libraries;
mod validator;
mod validators;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::rig::clock::{now, pause};
use crate::rig::counters::Counters;
use crate::rig::faults::{Fault, Faults};
use crate::rig::followers::Follower;
use crate::rig::frozen_banks::{FollowerBanks, FrozenBanks};
use crate::rig::nodes::{FollowerKind, final_slot};
use crate::rig::options::Options;
pub(crate) use crate::rig::options::USAGE;
use crate::rig::processes::Rig;
use crate::rig::recording::Recording;
use crate::rig::replica_banks::BankLevels;
use crate::rig::replica_comparison::ReplicaComparison;
use crate::rig::response_comparison::ResponseComparison;

/// Time between two reads of the logs.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time between two reports of the state.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// The comparison of a follower with the validators.
struct Comparison {
    follower: String,
    banks: FrozenBanks,
    responses: ResponseComparison,
}

/// Builds missing programs, runs all processes, and compares them.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args)?;
    let programs = build::programs(&options)?;
    let recorder = match (&options.recorder, options.recorded_slots) {
        (Some(recorder), _) => Some(recorder.clone()),
        (None, Some(_)) => Some(recording::build(&options.dir)?),
        (None, None) => None,
    };
    let mut rig = Rig::start(&options, &programs)?;
    let recording = match (recorder, options.recorded_slots) {
        (Some(recorder), Some(slots)) => Some(Recording::start(recorder, &rig, slots)?),
        _ => None,
    };
    let mut comparisons = comparisons(&rig, recording.is_some());
    let mut replicas = ReplicaComparison::new(rig.followers(), rig.addresses_file());
    let end = compare(&options, &mut rig, &mut comparisons, replicas.as_mut(), recording)?;
    let counters = rig.follower_counters();
    let rooted = rooted_slots(&rig);
    rig.stop();
    for (comparison, counters) in comparisons.iter_mut().zip(&counters) {
        comparison.banks.read()?;
        println!("{}", comparison.table(&end, counters, &rooted, options.slots_per_epoch));
        let file = format!("{}-differences.json", comparison.follower);
        std::fs::write(rig.dir().join(file), comparison.responses.differences())
            .context("write the differences")?;
    }
    if let Some(replicas) = &replicas {
        println!("{}", replicas.table());
        std::fs::write(rig.dir().join("replicas-differences.json"), replicas.differences())
            .context("write the differences of the replicas")?;
    }
    println!("logs and differences: {}", rig.dir().display());
    comparisons.iter().zip(&counters).try_for_each(|(it, counters)| it.check(counters))?;
    replicas.map_or(Ok(()), |replicas| replicas.check())
}

/// Returns a comparison for each follower. That of the first one stores the responses of a recorded run.
fn comparisons(rig: &Rig, is_recorded: bool) -> Vec<Comparison> {
    let logs = rig.validators().logs();
    let of = |(at, follower): (usize, &Follower)| {
        let nodes = rig.nodes(follower);
        let is_recorded = is_recorded && at == 0;
        let banks = match follower.kind {
            FollowerKind::Follow | FollowerKind::Ingest => FollowerBanks::from_log(&follower.log()),
            FollowerKind::Replica => FollowerBanks::from_replica(follower.rpc),
        };
        Comparison {
            follower: follower.name.clone(),
            banks: FrozenBanks::new(&logs, banks),
            responses: ResponseComparison::new(nodes, rig.addresses_file(), is_recorded),
        }
    };
    rig.followers().iter().enumerate().map(of).collect()
}

/// Compares until a bound of the options is reached. Returns the reason for the end.
fn compare(
    options: &Options,
    rig: &mut Rig,
    comparisons: &mut [Comparison],
    mut replicas: Option<&mut ReplicaComparison>,
    mut recording: Option<Recording>,
) -> Result<String> {
    let started = now();
    let mut last_report = started;
    let mut last_fault = started;
    let mut faults = Faults::new(options.is_cluster, options.replicas);
    while started.elapsed() < options.time {
        pause(POLL_INTERVAL);
        for comparison in &mut *comparisons {
            comparison.banks.read()?;
        }
        if let Err(err) = rig.check() {
            println!("{err:#}");
            return Ok("a process ended".to_owned());
        }
        let has_all = |it: &Comparison| it.banks.equal() + it.banks.different() >= options.slots;
        if recording.is_none() && comparisons.iter().all(has_all) {
            return Ok("the slots are done".to_owned());
        }
        for (comparison, follower) in comparisons.iter_mut().zip(rig.followers()) {
            if comparison.banks.equal() > 0 {
                comparison.responses.round(follower);
            }
        }
        if let Some(replicas) = &mut replicas {
            replicas.compare();
        }
        if recording.as_mut().is_some_and(|it| it.is_finished().unwrap_or(true)) {
            // The comparisons of this round are recorded too.
            let Comparison { banks, responses, .. } = &mut comparisons[0];
            responses.round(&rig.followers()[0]);
            let forks = banks.forks(&rooted_slots(rig));
            println!("recorded {} banks on forks, {} of them in a row", forks.banks, forks.longest);
            let needs_forks = options.is_cluster && options.faults.is_some();
            ensure!(!needs_forks || forks.banks > 0, "the recording has no bank on a fork");
            recording.take().map(|it| it.finish(rig, responses)).transpose()?;
            last_fault = now();
        }
        if options.faults.is_some_and(|interval| last_fault.elapsed() > interval)
            && let Some(fault) = faults.next(recording.is_some())
        {
            if let Some(description) = rig.make_fault(fault)? {
                println!("{description}");
                if recording.is_some() {
                    faults.count_recorded_fork();
                }
            }
            if fault == Fault::Restart(rig.validators().compared_at()) {
                let slot = final_slot(rig.compared_rpc())?;
                for comparison in &mut *comparisons {
                    comparison.responses.restart_validator(slot);
                }
            }
            last_fault = now();
        }
        if last_report.elapsed() > REPORT_INTERVAL {
            last_report = now();
            for comparison in &mut *comparisons {
                println!("{}", comparison.line());
            }
            if let Some(replicas) = &replicas {
                println!("{}", replicas.line());
            }
        }
    }
    Ok("the time is over".to_owned())
}

/// Returns the rooted slots that the compared validator stores; empty if it does not respond.
fn rooted_slots(rig: &Rig) -> Vec<u64> {
    let first = json_rpc::call(rig.compared_rpc(), "getFirstAvailableBlock", &json!([]));
    let first = first.ok().and_then(|it| it["result"].as_u64()).unwrap_or_default();
    let params = json!([first, null, {"commitment": "finalized"}]);
    let Ok(response) = json_rpc::call(rig.compared_rpc(), "getBlocks", &params) else {
        return Vec::new();
    };
    response["result"].as_array().into_iter().flatten().filter_map(|it| it.as_u64()).collect()
}

impl Comparison {
    fn line(&self) -> String {
        format!("{}: {}; {}", self.follower, self.banks.line(), self.responses.line())
    }

    fn table(
        &self,
        end: &str,
        counters: &Counters,
        rooted: &[u64],
        slots_per_epoch: u64,
    ) -> String {
        let mut text = format!("\n{}. The run ended: {end}.\n", self.follower);
        text.push_str(&table(&self.banks, rooted, slots_per_epoch));
        text.push_str(&counters.rows());
        text.push_str(&self.responses.table());
        text.push_str(&self.banks.examples());
        text
    }

    /// Returns an error if the follower differs from the validators, or has counted a fault.
    fn check(&self, counters: &Counters) -> Result<()> {
        let name = &self.follower;
        ensure!(self.banks.equal() > 0, "{name}: no bank was compared");
        ensure!(self.banks.different() == 0, "{name}: {} banks differ", self.banks.different());
        let other_levels = self.banks.levels().map_or(0, |levels| levels.other);
        ensure!(
            other_levels == 0,
            "{name}: {other_levels} final banks do not have the level of the ingester"
        );
        counters.check().with_context(|| name.clone())?;
        let unexplained = self.responses.list_unexplained();
        ensure!(
            unexplained.is_empty(),
            "{name}: responses differ without a reason: {}",
            unexplained.join(" ")
        );
        Ok(())
    }
}

/// Formats the rows about the banks. Those of the counters follow.
fn table(banks: &FrozenBanks, rooted: &[u64], slots_per_epoch: u64) -> String {
    let forks = banks.forks(rooted);
    let mut text = format!(
        "\n| what | number |\n|---|---|\n\
         | banks whose components all equal a validator's | {} |\n\
         | banks that differ | {} |\n\
         | banks of the follower that the validators' logs lack | {} |\n\
         | slots of the compared validator between the first and the last, without a bank of the follower | {} |\n\
         | banks of the follower on forks that were not rooted | {} |\n\
         | most neighbouring ones of them | {} |\n\
         | epochs begun | {} |\n",
        banks.equal(),
        banks.different(),
        banks.unknown(),
        banks.count_missed(),
        forks.banks,
        forks.longest,
        banks.epochs(slots_per_epoch),
    );
    if let Some(BankLevels { required, other }) = banks.levels() {
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "| final banks with the level that the ingester requires | {required} |\n\
             | final banks with another level, or without one | {other} |\n",
        );
    }
    text
}
