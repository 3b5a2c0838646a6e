//! The measurement of one start of a node.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::rig::clock::pause;
use crate::rivals::candidate::{Candidate, Kind};
use crate::rivals::dataset::Dataset;
use crate::rivals::load::{LoadGenerator, LoadResult};
use crate::rivals::methods::{self, Features};
use crate::rivals::node::RunningNode;
use crate::rivals::options::Options;
use crate::rivals::transfers;

/// Time between the start of the scans and the measured load.
const SCAN_LEAD: Duration = Duration::from_secs(1);
/// Seconds of a load that are not counted.
const WARM_UP_S: u64 = 1;
/// Pause before the resident memory is read, in which a node finishes its start.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// The values of one start.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    /// Seconds until a node without preloaded accounts is ready.
    pub(super) ready_s: f64,
    pub(super) ready_preloaded_s: f64,
    pub(super) resident_at_start: f64,
    pub(super) resident_after_load: f64,
    pub(super) alone: LoadResult,
    pub(super) alongside_scans: LoadResult,
    pub(super) scans: LoadResult,
    /// Confirmed transfers a second.
    pub(super) transfers: f64,
    /// Share of the transfers that were not confirmed within a minute.
    pub(super) lost_share: f64,
    /// Each method of the reference, and whether the node answers it.
    pub(super) methods: BTreeMap<String, bool>,
    pub(super) features: Features,
}

/// Measures candidates, each with the same inputs.
pub(super) struct Bench<'a> {
    options: &'a Options,
    dataset: &'a Dataset,
    generator: LoadGenerator,
    inputs: PathBuf,
}

impl<'a> Bench<'a> {
    /// Discovers the inputs of all requests at a node of Hydrant.
    pub(super) fn new(
        options: &'a Options,
        candidates: &[Candidate],
        dataset: &'a Dataset,
    ) -> Result<Self> {
        let hydrant =
            candidates.iter().find(|it| it.kind == Kind::Hydrant).context("no Hydrant")?;
        let program = hydrant.program.clone().map_err(anyhow::Error::msg)?;
        let dir = options.dir.join("results");
        fs::create_dir_all(&dir)?;
        let inputs = options.dir.join("inputs.json");
        let generator = LoadGenerator { hydrant: program, dir };
        let node = RunningNode::start(hydrant, &options.dir, &dataset.dir)?;
        let file = inputs.to_string_lossy();
        let discovery = ["--suite", "account-info", "--duration", "0.1", "--inputs-out", &file];
        generator.run("inputs", node.rpc, &discovery)?;
        Ok(Self { options, dataset, generator, inputs })
    }

    /// Starts a node twice, without and with the preloaded accounts. Measures the second one under load.
    pub(super) fn measure(&self, candidate: &Candidate) -> Result<Measurement> {
        let empty = RunningNode::start(candidate, &self.options.dir, &self.dataset.empty_dir)?;
        let ready_s = empty.ready_after.as_secs_f64();
        drop(empty);
        let node = RunningNode::start(candidate, &self.options.dir, &self.dataset.dir)?;
        pause(SETTLE_TIME);
        let resident_at_start = node.resident_bytes()? as f64;
        let alone = self.run_load(&node, "alone")?;
        let seconds = SCAN_LEAD.as_secs() + WARM_UP_S + self.options.time.as_secs();
        let scanners = self.options.scanners.to_string();
        let scans = ["--suite", "scans", "--warm-up", "0", "--timeout", "30"];
        let length = ["--duration", &seconds.to_string(), "--connections", &scanners];
        let scans = self.generator.start("scans", node.rpc, &[&scans[..], &length].concat())?;
        pause(SCAN_LEAD);
        let alongside_scans = self.run_load(&node, "alongside-scans")?;
        let scans = scans.wait()?;
        let transfers = transfers::measure(&node, &self.generator, self.options.transfers)?;
        let resident_after_load = node.resident_bytes()? as f64;
        // Last, because one of the calls resets a node.
        let methods = methods::probe(&node, self.dataset, &transfers.signature)?;
        let features = Features::probe(&node)?;
        let measurement = Measurement {
            ready_s,
            ready_preloaded_s: node.ready_after.as_secs_f64(),
            resident_at_start,
            resident_after_load,
            alone,
            alongside_scans,
            scans,
            transfers: transfers.rate,
            lost_share: transfers.lost_share,
            methods,
            features,
        };
        println!("{measurement:?}");
        Ok(measurement)
    }

    fn run_load(&self, node: &RunningNode, name: &str) -> Result<LoadResult> {
        let rate = self.options.rate.to_string();
        let seconds = self.options.time.as_secs().to_string();
        let warm_up = WARM_UP_S.to_string();
        let inputs = self.inputs.to_string_lossy();
        let load = ["--suite", "account-info", "--inputs", &inputs, "--rate", &rate];
        let length = ["--duration", &seconds, "--warm-up", &warm_up];
        self.generator.run(name, node.rpc, &[&load[..], &length].concat())
    }
}
