//! `rig`: a real validator with our plugin, under load, followed by `hydrant follow`, and compared with it.
//!
//! Input: options (`options`). Output: a table: banks with equal hash components, false alarms, and different responses
//! by method. The logs and the differences remain in the rig's directory.
//! Shape: the validator's package is built by cargo (`build`), once, outside of the repository. Then the validator, the
//! load (`clients/js-web3/load.js`) and the follower run as processes, and this program compares: the lines "bank
//! frozen" of both logs (`frozen_banks`), and the responses of both RPC ports (`response_comparison`).
//! Bounds: slots and minutes, whichever is reached first. All processes end with this program's run.
//! Not here: CI, which replays a recorded run: a build of the validator takes long.

pub(crate) mod build;
mod calls;
pub(crate) mod clock;
mod cuts;
mod frozen_banks;
pub(crate) mod json_rpc;
mod nodes;
mod options;
mod processes;
mod reasons;
mod recording;
pub(crate) mod response_comparison;
mod system_libraries;

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::rig::clock::{now, pause};
use crate::rig::frozen_banks::FrozenBanks;
use crate::rig::nodes::Nodes;
use crate::rig::options::Options;
pub(crate) use crate::rig::options::USAGE;
use crate::rig::processes::{Rig, Status};
pub(crate) use crate::rig::processes::{free_ports, program_dir};
use crate::rig::recording::Recording;
use crate::rig::response_comparison::ResponseComparison;

/// Time between two reads of the logs.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time between two reports of the state.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

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
    let mut recording = match (recorder, options.recorded_slots) {
        (Some(recorder), Some(slots)) => Some(Recording::start(recorder, &rig, slots)?),
        _ => None,
    };
    let mut banks = FrozenBanks::new(&rig.validator_log(), &rig.follower_log());
    let nodes = Nodes { validator: rig.rpc(), follower: rig.follower_rpc() };
    let mut comparison = ResponseComparison::new(nodes, rig.addresses_file(), recording.is_some());
    let started = now();
    let mut last_report = started;
    let mut last_fault = started;
    let mut faults = 0;
    let mut end = "the time is over";
    while started.elapsed() < options.time {
        pause(POLL_INTERVAL);
        banks.read()?;
        if let Err(err) = rig.check() {
            println!("{err:#}");
            end = "a process ended";
            break;
        }
        if recording.is_none() && banks.equal() + banks.different() >= options.slots {
            end = "the slots are done";
            break;
        }
        if banks.equal() > 0 {
            comparison.round();
        }
        if recording.as_mut().is_some_and(|it| it.is_finished().unwrap_or(true)) {
            // The comparisons of this round are recorded too.
            comparison.round();
            recording.take().map(|it| it.finish(&rig, &mut comparison)).transpose()?;
        }
        if options.faults.is_some_and(|interval| last_fault.elapsed() > interval) {
            println!("{}", rig.make_fault(faults)?);
            (last_fault, faults) = (now(), faults + 1);
        }
        if last_report.elapsed() > REPORT_INTERVAL {
            last_report = now();
            println!("{}; {}", banks.line(), comparison.line());
        }
    }
    let status = rig.follower_status();
    rig.stop();
    banks.read()?;
    println!("{}", table(end, &banks, &comparison, &status, options.slots_per_epoch));
    let report = options.dir.join("run").join("differences.json");
    std::fs::write(&report, comparison.differences()).context("write the differences")?;
    println!("logs and what differs: {}", options.dir.join("run").display());
    ensure!(banks.equal() > 0, "no bank was compared");
    ensure!(banks.different() == 0, "{} banks differ", banks.different());
    ensure!(status.mismatched == Some(0), "false alarms: {:?}", status.mismatched);
    let unexplained = comparison.list_unexplained();
    ensure!(unexplained.is_empty(), "responses differ without a reason: {}", unexplained.join(" "));
    Ok(())
}

fn table(
    end: &str,
    banks: &FrozenBanks,
    comparison: &ResponseComparison,
    status: &Status,
    slots_per_epoch: u64,
) -> String {
    let number =
        |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), |it| it.to_string());
    let mut text = format!(
        "\nThe run ended: {end}.\n\n\
         | what | number |\n|---|---|\n\
         | banks whose components all equal the validator's | {} |\n\
         | banks that differ | {} |\n\
         | banks of the follower that the validator's log lacks | {} |\n\
         | slots of the validator between the first and the last, without a bank of the follower | {} |\n\
         | epochs begun | {} |\n\
         | banks verified by their children | {} |\n\
         | mismatches reported (false alarms) | {} |\n\
         | gaps | {} |\n\
         | late writes | {} |\n\
         | banks requested again | {} |\n\
         | jumps to a newer archive | {} |\n",
        banks.equal(),
        banks.different(),
        banks.unknown(),
        banks.count_missed(),
        banks.epochs(slots_per_epoch),
        number(status.verified),
        number(status.mismatched),
        number(status.gaps),
        number(status.late_writes),
        number(status.repairs),
        number(status.jumps),
    );
    text.push_str(&comparison.table());
    text.push_str(&banks.examples());
    text
}
