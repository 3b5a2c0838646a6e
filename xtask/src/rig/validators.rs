//! The validators of a run: one `solana-test-validator`, or a cluster of `agave-validator` (`cluster`).

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use serde_json::json;

use crate::rig::build::{Programs, ValidatorPrograms};
use crate::rig::cluster::Cluster;
use crate::rig::cuts::Wire;
use crate::rig::options::Options;
use crate::rig::ports::local;
use crate::rig::validator::{VERSION_0_REFUSED, Validator};

/// Shreds that a test validator stores.
const SHREDS_MAX: u32 = 1_000_000;
/// Levels of the validators' log.
const LOG: &str = "warn,solana_runtime::bank=info,hydrant_geyser=info,grpc=info";
/// The validator of a cluster that is compared and recorded: no fault kills it. After a restart a validator lacks blocks
/// of before, and their fees.
pub(crate) const COMPARED_IN_CLUSTER: usize = 1;

/// All validators of a run.
pub(crate) struct Validators {
    dir: PathBuf,
    programs: Programs,
    slots_per_epoch: u64,
    ticks: u32,
    all: Vec<Validator>,
    /// `None`: a single test validator.
    cluster: Option<Cluster>,
}

impl Validators {
    /// Chooses ports, and makes the genesis of a cluster.
    pub(crate) fn new(options: &Options, programs: &Programs, dir: &Path) -> Result<Self> {
        let has_faults = options.faults.is_some();
        let (cluster, all) = match &programs.validator {
            ValidatorPrograms::Single(_) => (None, vec![Validator::single(has_faults)?]),
            ValidatorPrograms::Cluster { validator, genesis } => {
                let cluster = Cluster::new(validator, genesis, options, dir)?;
                (Some(cluster), Validator::of_cluster(has_faults)?)
            }
        };
        Ok(Self {
            dir: dir.to_owned(),
            programs: programs.clone(),
            slots_per_epoch: options.slots_per_epoch,
            ticks: options.ticks,
            all,
            cluster,
        })
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// Returns the validator that the load sends to, and whose archives the followers load.
    pub(crate) fn first(&self) -> &Validator {
        &self.all[0]
    }

    /// Returns the number of the validator that is compared and recorded.
    pub(crate) fn compared_at(&self) -> usize {
        if self.is_cluster() { COMPARED_IN_CLUSTER } else { 0 }
    }

    pub(crate) fn compared_validator(&self) -> &Validator {
        &self.all[self.compared_at()]
    }

    pub(crate) fn all(&self) -> &[Validator] {
        &self.all
    }

    /// Returns the addresses that followers connect to.
    pub(crate) fn sources(&self) -> Vec<SocketAddr> {
        self.all.iter().filter_map(Validator::source).collect()
    }

    /// Returns the logs of the validators that are followed, that of the compared one first.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        let compared = self.compared_at();
        let others = self.all.iter().enumerate().filter(|(at, _)| *at != compared);
        let others = others.map(|(_, it)| it).filter(|it| it.plugin.is_some());
        [self.compared_validator()].into_iter().chain(others).map(|it| self.log(it)).collect()
    }

    /// Returns the log of the validator that is compared.
    pub(crate) fn compared_log(&self) -> PathBuf {
        self.log(self.compared_validator())
    }

    fn log(&self, validator: &Validator) -> PathBuf {
        match self.cluster {
            Some(_) => self.dir.join(format!("{}.log", validator.name)),
            None => self.dir.join("ledger/validator.log"),
        }
    }

    /// Returns the key file of the account with the lamports of a cluster.
    pub(crate) fn faucet_key(&self) -> Option<PathBuf> {
        self.cluster.as_ref().map(Cluster::faucet_key)
    }

    /// Returns the cluster; `None` with a single validator.
    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// Ends all connections to the plugins. Returns their number.
    pub(crate) fn cut(&self) -> usize {
        let wires = self.all.iter().filter_map(|it| it.wire());
        wires.map(Wire::cut).sum()
    }

    /// Returns the command that starts a validator. A new test validator removes its ledger.
    pub(crate) fn command(&self, at: usize, is_new: bool) -> Result<Command> {
        let validator = &self.all[at];
        let mut command = match &self.cluster {
            Some(cluster) => cluster.command(at, &self.all)?,
            None => self.single_command(validator, is_new)?,
        };
        if let Some(plugin) = &validator.plugin {
            let config = self.dir.join(format!("{}-geyser.json", validator.name));
            let settings = json!({
                "libpath": self.programs.plugin,
                "address": plugin.grpc,
                "metrics_address": local(plugin.metrics),
            });
            fs::write(&config, settings.to_string())?;
            command.arg("--geyser-plugin-config").arg(&config);
        }
        command.env("RUST_LOG", LOG).current_dir(&self.dir);
        Ok(command)
    }

    fn single_command(&self, validator: &Validator, is_new: bool) -> Result<Command> {
        let ValidatorPrograms::Single(program) = &self.programs.validator else {
            anyhow::bail!("a cluster has no test validator");
        };
        let mut command = Command::new(program);
        if is_new {
            command.arg("--reset");
        }
        command
            .args(["--quiet", "--bind-address", "127.0.0.1"])
            .args(["--slots-per-epoch", &self.slots_per_epoch.to_string()])
            .args(["--inflation-fixed", "0.05"])
            .args(["--ticks-per-slot", &self.ticks.to_string()])
            .args(["--deactivate-feature", VERSION_0_REFUSED])
            // By default it removes blocks after some 300 slots.
            .args(["--limit-ledger-size", &SHREDS_MAX.to_string()])
            .args(["--rpc-port", &validator.rpc.port().to_string()])
            .args(["--faucet-port", &validator.faucet.to_string()])
            .args(["--gossip-port", &validator.gossip.to_string()])
            .arg("--ledger")
            .arg(self.dir.join("ledger"));
        Ok(command)
    }
}
