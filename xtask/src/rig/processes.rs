//! The processes of a run: the validators, the load, and the followers, which may be an ingester and its replicas.
//!
//! Invariant: all of them end with [`Rig`].

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::directories::remove_directory;
use crate::rig::build::{Programs, program_dir};
use crate::rig::child_process::ChildProcess;
use crate::rig::clock::{now, pause};
use crate::rig::counters::Counters;
use crate::rig::faults::Fault;
use crate::rig::followers::{Follower, followers};
use crate::rig::fork_slots::ForkSlots;
use crate::rig::json_rpc;
use crate::rig::nodes::{FollowerKind, Nodes, final_slot};
use crate::rig::options::Options;
use crate::rig::validator::Validator;
use crate::rig::validators::Validators;
use crate::shell::Cmd;
use crate::workspace::root;

/// Time limit until a validator serves requests.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit until the validators of a cluster make roots.
const ROOT_TIMEOUT: Duration = Duration::from_secs(240);
/// Time limit for the first archive: 100 slots and the time until they are final.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(300);
/// Time limit for loading the archive into a follower.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit until the log has blocks: the ingester writes a snapshot before the first one.
const LOG_TIMEOUT: Duration = Duration::from_secs(120);
/// Time between two polls of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// For this long the validator that lags is stopped.
const LAG: Duration = Duration::from_secs(12);
/// The name of the load's process.
const LOAD: &str = "load";

/// The processes of a run, and their directory.
pub(crate) struct Rig {
    options: Options,
    programs: Programs,
    dir: PathBuf,
    processes: Vec<ChildProcess>,
    validators: Validators,
    followers: Vec<Follower>,
}

impl Rig {
    /// Starts all, and returns when the followers serve.
    pub(crate) fn start(options: &Options, programs: &Programs) -> Result<Self> {
        let dir = options.dir.join("run");
        remove_directory(&dir)?;
        fs::create_dir_all(&dir)?;
        let validators = Validators::new(options, programs, &dir)?;
        let followers = followers(&validators, options.replicas, &dir)?;
        let mut rig = Self {
            options: options.clone(),
            programs: programs.clone(),
            dir,
            processes: Vec::new(),
            validators,
            followers,
        };
        for at in 0..rig.validators.all().len() {
            rig.start_validator(at, true)?;
        }
        if rig.validators.is_cluster() {
            rig.wait_for("all validators make roots", ROOT_TIMEOUT, |rig| {
                let mut all = rig.validators.all().iter();
                all.all(|it| final_slot(it.rpc).is_ok_and(|slot| slot > 0))
            })?;
        }
        if options.has_load {
            rig.start_load()?;
        }
        rig.wait_for("the first archive is there", ARCHIVE_TIMEOUT, |rig| {
            let newest = json_rpc::call(rig.rpc(), "getHighestSnapshotSlot", &json!([]));
            newest.is_ok_and(|newest| newest["result"]["full"].is_u64())
        })?;
        for at in 0..rig.followers.len() {
            rig.start_follower(at)?;
            // The replicas come after their ingester, and need its snapshot.
            if rig.followers[at].kind == FollowerKind::Ingest {
                rig.wait_for("the log has blocks", LOG_TIMEOUT, |rig| {
                    rig.followers[at].counters().appended_blocks() > Some(0)
                })?;
            }
        }
        Ok(rig)
    }

    /// Makes a fault, such as a cut of the streams or the restart of a process. Returns a description of it, or `None`
    /// if it was to be a fork and none was made.
    pub(crate) fn make_fault(&mut self, fault: Fault) -> Result<Option<String>> {
        let description = match fault {
            Fault::CutStreams => {
                format!("{} connections to plugins were cut", self.validators.cut())
            }
            Fault::KillFollowers => {
                let all = self.positions(|kind| kind != FollowerKind::Replica);
                let names = all.into_iter().map(|at| self.restart_follower(at));
                let names = names.collect::<Result<Vec<String>>>()?.join(", ");
                format!("killed and started again: {names}")
            }
            Fault::KillReplica(number) => {
                let all = self.positions(|kind| kind == FollowerKind::Replica);
                let at = *all.get(number).context("the run does not have this replica")?;
                format!("{} was killed and started again", self.restart_follower(at)?)
            }
            Fault::Restart(at) => self.restart_validator(at)?,
            Fault::Fork(at) => return self.make_fork(at),
            Fault::Lag(at) => self.pause_validator(at, LAG)?,
        };
        Ok(Some(description))
    }

    /// Returns the positions of the followers of some kinds.
    fn positions(&self, is_included: impl Fn(FollowerKind) -> bool) -> Vec<usize> {
        let all = self.followers.iter().enumerate();
        all.filter(|(_, follower)| is_included(follower.kind)).map(|(at, _)| at).collect()
    }

    /// Kills a follower and starts it again. Returns its name.
    fn restart_follower(&mut self, at: usize) -> Result<String> {
        self.followers[at].record_restart();
        let name = self.followers[at].name.clone();
        self.kill(&name)?;
        self.start_follower(at)?;
        Ok(name)
    }

    /// Kills a validator and starts it again, and the load if it sends to this one.
    fn restart_validator(&mut self, at: usize) -> Result<String> {
        let name = self.validators.all()[at].name.clone();
        // A client of web3.js ends when its node does.
        let has_load = self.options.has_load && at == 0;
        if has_load {
            self.kill(LOAD)?;
        }
        self.kill(&name)?;
        self.start_validator(at, false)?;
        if has_load {
            self.start_load()?;
        }
        Ok(format!("{name} was killed and started again"))
    }

    /// Lets a validator make its next blocks on an old one: it receives nothing for some slots before. Returns `None`
    /// if it has made none.
    fn make_fork(&self, at: usize) -> Result<Option<String>> {
        let cluster = self.validators.cluster().context("a single validator makes no fork")?;
        let Validator { name, rpc, .. } = &self.validators.all()[at];
        let other = self.compared_rpc();
        let Some(slots) = ForkSlots::find(other, cluster.identity(at))? else {
            println!("{name} has no slots for a fork among the next ones");
            return Ok(None);
        };
        let ForkSlots { first, last } = slots;
        if !slots.wait_for_start(other)? {
            println!("{name} made no fork: the slots before {first} took long");
            return Ok(None);
        }
        let deaf_file = cluster.deaf_file(at);
        fs::write(&deaf_file, "")?;
        let has_blocks = slots.wait_for_blocks(*rpc, other);
        fs::remove_file(&deaf_file)?;
        if !has_blocks? {
            println!("{name} made no fork: it has no block in its slots from {first} to {last}");
            return Ok(None);
        }
        Ok(Some(format!("{name} made a fork in its slots from {first} to {last}")))
    }

    fn pause_validator(&mut self, at: usize, time: Duration) -> Result<String> {
        let name = self.validators.all()[at].name.clone();
        self.signal(&name, "STOP")?;
        pause(time);
        self.signal(&name, "CONT")?;
        Ok(format!("{name} was stopped for {:.1} s", time.as_secs_f64()))
    }

    fn signal(&self, name: &str, signal: &str) -> Result<()> {
        let process = self.processes.iter().find(|process| process.name() == name);
        let process = process.with_context(|| format!("{name} does not run"))?;
        Cmd::new("kill").args([&format!("-{signal}"), &process.id().to_string()]).output()?;
        Ok(())
    }

    /// Kills a process, as `kill -9` does.
    fn kill(&mut self, name: &str) -> Result<()> {
        let at = self.processes.iter().position(|process| process.name() == name);
        let at = at.with_context(|| format!("{name} does not run"))?;
        self.processes.remove(at).kill()
    }

    fn start_validator(&mut self, at: usize, is_new: bool) -> Result<()> {
        let command = self.validators.command(at, is_new)?;
        let validator = &self.validators.all()[at];
        let name = validator.name.clone();
        let rpc = validator.rpc;
        println!("{name} serves at http://{rpc}");
        self.spawn(&name, command)?;
        // The first validator of a new cluster is not healthy without the others.
        let method = if is_new && self.validators.is_cluster() { "getSlot" } else { "getHealth" };
        self.wait_for(&format!("{name} is ready"), START_TIMEOUT, |_| {
            json_rpc::call(rpc, method, &json!([])).is_ok_and(|it| it["error"].is_null())
        })
    }

    fn start_load(&mut self) -> Result<()> {
        let client = root().join("clients/js-web3");
        if !client.join("node_modules").exists() {
            Cmd::new("npm").args(["ci", "--ignore-scripts"]).dir(&client).run()?;
        }
        let [program, upgrade] = ["spl_associated_token_account-1.1.1.so", "spl_memo-4.0.0.so"];
        let elves = program_dir()?;
        let mut command = Command::new("node");
        command
            .arg("load.js")
            .current_dir(client)
            .env("HYDRANT_RPC_URL", format!("http://{}", self.rpc()))
            .env("HYDRANT_PROGRAM_ELF", elves.join(program))
            .env("HYDRANT_UPGRADE_ELF", elves.join(upgrade))
            .env("RIG_ADDRESSES", self.addresses_file())
            .env("RIG_TPS", self.options.tps.to_string());
        if let Some(key) = self.validators.faucet_key() {
            command.env("RIG_FAUCET", key);
        }
        self.spawn(LOAD, command)
    }

    fn start_follower(&mut self, at: usize) -> Result<()> {
        let follower = &self.followers[at];
        let has_faults = self.options.faults.is_some();
        let command = follower.command(&self.programs.hydrant, &self.validators, has_faults);
        let name = follower.name.clone();
        let rpc = follower.rpc;
        self.spawn(&name, command)?;
        println!("{name} serves at http://{rpc}");
        self.wait_for(&format!("{name} is ready"), FOLLOW_TIMEOUT, |_| {
            json_rpc::get(rpc, "/ready").is_ok()
        })
    }

    /// Starts a program. Its output goes to a file with its name.
    fn spawn(&mut self, name: &str, command: Command) -> Result<()> {
        self.processes.push(ChildProcess::start(&self.dir, name, command)?);
        Ok(())
    }

    fn wait_for(
        &mut self,
        what: &str,
        limit: Duration,
        is_reached: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        let started = now();
        while !is_reached(self) {
            self.check()?;
            ensure!(started.elapsed() < limit, "after {limit:?} it is not so that {what}");
            pause(POLL_INTERVAL);
        }
        println!("{what}, after {:.1} s", started.elapsed().as_secs_f64());
        Ok(())
    }

    /// Returns an error if a process has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(ChildProcess::check)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn validators(&self) -> &Validators {
        &self.validators
    }

    pub(crate) fn followers(&self) -> &[Follower] {
        &self.followers
    }

    pub(crate) fn addresses_file(&self) -> PathBuf {
        self.dir.join("addresses.json")
    }

    /// Returns the validator and a follower that are compared.
    pub(crate) fn nodes(&self, follower: &Follower) -> Nodes {
        Nodes { validator: self.compared_rpc(), follower: follower.rpc, kind: follower.kind }
    }

    /// Returns the RPC address of the first validator, which the load sends to.
    fn rpc(&self) -> SocketAddr {
        self.validators.first().rpc
    }

    /// Returns the RPC address of the validator that is compared.
    pub(crate) fn compared_rpc(&self) -> SocketAddr {
        self.validators.compared_validator().rpc
    }

    /// Returns the counters of each follower.
    pub(crate) fn follower_counters(&self) -> Vec<Counters> {
        self.followers.iter().map(Follower::counters).collect()
    }

    /// Ends all processes, the last one first.
    pub(crate) fn stop(&mut self) {
        self.processes.drain(..).rev().for_each(|mut process| process.stop());
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop();
    }
}
