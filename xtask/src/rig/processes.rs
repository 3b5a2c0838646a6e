//! The processes of a run: the validator, the load, the follower.
//!
//! Invariant: all of them end with [`Rig`].

use std::fs::{self, OpenOptions};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::directories::remove_directory;
use crate::rig::build::Programs;
use crate::rig::clock::{now, pause};
use crate::rig::cuts::Wire;
use crate::rig::json_rpc;
use crate::rig::options::Options;
use crate::shell::Cmd;
use crate::workspace::root;

/// Time limit until the validator serves requests.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for its first archive: 100 slots and the time until they are final.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(300);
/// Time limit for loading the archive into the follower.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(120);
/// The range of the system's own ports is above it.
const LAST_PORT: u16 = 32_000;
/// Shreds that the validator stores.
const SHREDS_MAX: u32 = 1_000_000;
/// Time between two polls of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The feature that refuses programs of version 0: the load deploys published ones.
const VERSION_0_REFUSED: &str = "B8JJXCy5amZyWG9r7EnUYLwzXSXTxG7GZ1qZ1qggo83g";

/// The processes of a run, and their directory.
pub(crate) struct Rig {
    options: Options,
    programs: Programs,
    dir: PathBuf,
    processes: Vec<(&'static str, Child)>,
    rpc: SocketAddr,
    grpc: SocketAddr,
    follower_rpc: SocketAddr,
    /// Of the validator: metrics, faucet, gossip.
    ports: [u16; 3],
    follower_grpc: u16,
    /// Between the validator and the follower, if there are faults.
    wire: Option<Wire>,
    /// Sum of the counters of followers that were killed.
    past: Status,
}

/// Counters of the follower.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    pub(crate) verified: Option<u64>,
    pub(crate) mismatched: Option<u64>,
    pub(crate) gaps: Option<u64>,
    pub(crate) late_writes: Option<u64>,
    pub(crate) repairs: Option<u64>,
    pub(crate) jumps: Option<u64>,
}

impl Rig {
    /// Starts all, and returns when the follower serves.
    pub(crate) fn start(options: &Options, programs: &Programs) -> Result<Self> {
        let dir = options.dir.join("run");
        remove_directory(&dir)?;
        fs::create_dir_all(dir.join("snapshot"))?;
        let [rpc, grpc, follower, metrics, faucet, gossip, follower_grpc] = free_ports()?;
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let mut rig = Self {
            options: options.clone(),
            programs: programs.clone(),
            dir,
            processes: Vec::new(),
            rpc: local(rpc),
            grpc: local(grpc),
            follower_rpc: local(follower),
            ports: [metrics, faucet, gossip],
            follower_grpc,
            wire: None,
            past: Status::default(),
        };
        if options.faults.is_some() {
            rig.wire = Some(Wire::start(rig.grpc)?);
        }
        rig.start_validator(true)?;
        println!(
            "the validator serves at http://{}, its plugin at http://{} and http://127.0.0.1:{metrics}/metrics",
            rig.rpc, rig.grpc
        );
        if options.has_load {
            rig.start_load(options.tps)?;
        }
        rig.wait_for_archive()?;
        rig.start_follower()?;
        println!("the follower serves at http://{}", rig.follower_rpc);
        Ok(rig)
    }

    /// Cuts the stream, or kills and restarts a process: the fault with number `fault`. Returns a description of it.
    pub(crate) fn make_fault(&mut self, fault: usize) -> Result<String> {
        match fault % 3 {
            0 => {
                let cut = self.wire.as_ref().map_or(0, Wire::cut);
                Ok(format!("{cut} connections to the plugin were cut"))
            }
            1 => {
                self.past = self.follower_status();
                self.kill("follower")?;
                self.start_follower()?;
                Ok("the follower was killed and started again".to_owned())
            }
            _ => {
                // A client of web3.js ends when its node does.
                if self.options.has_load {
                    self.kill("load")?;
                }
                self.kill("validator")?;
                self.start_validator(false)?;
                if self.options.has_load {
                    self.start_load(self.options.tps)?;
                }
                Ok("the validator was killed and started again".to_owned())
            }
        }
    }

    /// Kills a process, as `kill -9` does.
    fn kill(&mut self, name: &str) -> Result<()> {
        let at = self.processes.iter().position(|(other, _)| *other == name);
        let (_, mut child) = self.processes.remove(at.context("it does not run")?);
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    fn start_validator(&mut self, is_new: bool) -> Result<()> {
        let [metrics, faucet, gossip] = self.ports;
        let config = self.dir.join("geyser.json");
        let settings = json!({
            "libpath": self.programs.plugin,
            "address": self.grpc,
            "metrics_address": format!("127.0.0.1:{metrics}"),
        });
        fs::write(&config, settings.to_string())?;
        let mut command = Command::new(&self.programs.validator);
        if is_new {
            command.arg("--reset");
        }
        command
            .args(["--quiet", "--bind-address", "127.0.0.1"])
            .args([
                "--slots-per-epoch",
                &self.options.slots_per_epoch.to_string(),
                "--inflation-fixed",
                "0.05",
            ])
            .args(["--ticks-per-slot", &self.options.ticks.to_string()])
            .args(["--deactivate-feature", VERSION_0_REFUSED])
            // By default it removes blocks after some 300 slots.
            .args(["--limit-ledger-size", &SHREDS_MAX.to_string()])
            .args(["--rpc-port", &self.rpc.port().to_string()])
            .args(["--faucet-port", &faucet.to_string(), "--gossip-port", &gossip.to_string()])
            .arg("--geyser-plugin-config")
            .arg(&config)
            .arg("--ledger")
            .arg(self.dir.join("ledger"))
            .env("RUST_LOG", "warn,solana_runtime::bank=info,hydrant_geyser=info,grpc=info")
            .current_dir(&self.dir);
        self.spawn("validator", command)?;
        let is_healthy = |rig: &Self| {
            json_rpc::call(rig.rpc, "getHealth", &json!([])).is_ok_and(|it| it["result"] == "ok")
        };
        self.wait_for("the validator is healthy", START_TIMEOUT, is_healthy)
    }

    fn start_load(&mut self, tps: u32) -> Result<()> {
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
            .env("HYDRANT_RPC_URL", format!("http://{}", self.rpc))
            .env("HYDRANT_PROGRAM_ELF", elves.join(program))
            .env("HYDRANT_UPGRADE_ELF", elves.join(upgrade))
            .env("RIG_ADDRESSES", self.addresses_file())
            .env("RIG_TPS", tps.to_string());
        self.spawn("load", command)
    }

    fn wait_for_archive(&mut self) -> Result<()> {
        self.wait_for("the first archive is there", ARCHIVE_TIMEOUT, |rig| {
            let newest = json_rpc::call(rig.rpc, "getHighestSnapshotSlot", &json!([]));
            newest.is_ok_and(|newest| newest["result"]["full"].is_u64())
        })
    }

    fn start_follower(&mut self) -> Result<()> {
        let mut command = Command::new(&self.programs.hydrant);
        let source = self.wire.as_ref().map_or(self.grpc, Wire::address);
        command
            .args(["follow", "--quiet", "--log", "--source", &format!("http://{source}")])
            .args(["--snapshot", &format!("http://{}", self.rpc), "--snapshot-dir"])
            .arg(self.dir.join("snapshot"))
            .args(["--rpc-port", &self.follower_rpc.port().to_string()])
            .args(["--grpc-port", &self.follower_grpc.to_string()])
            .env("RUST_LOG", "info,follow::frozen_banks=debug")
            .current_dir(&self.dir);
        if self.options.faults.is_some() {
            command.arg("--ledger").arg(self.dir.join("followed"));
        }
        self.spawn("follower", command)?;
        let serves = |rig: &Self| json_rpc::call(rig.follower_rpc, "getSlot", &json!([])).is_ok();
        self.wait_for("the follower serves", FOLLOW_TIMEOUT, serves)
    }

    /// Starts a program. Its output goes to a file with its name.
    fn spawn(&mut self, name: &'static str, mut command: Command) -> Result<()> {
        let log = self.dir.join(format!("{name}.log"));
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("start the {name}"))?;
        self.processes.push((name, child));
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
        for (name, child) in &mut self.processes {
            if let Some(status) = child.try_wait()? {
                bail!(
                    "the {name} ended ({status}): {}",
                    self.dir.join(format!("{name}.log")).display()
                );
            }
        }
        Ok(())
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn grpc_url(&self) -> String {
        format!("http://{}", self.grpc)
    }

    pub(crate) fn validator_log(&self) -> PathBuf {
        self.dir.join("ledger/validator.log")
    }

    pub(crate) fn follower_log(&self) -> PathBuf {
        self.dir.join("follower.log")
    }

    pub(crate) fn addresses_file(&self) -> PathBuf {
        self.dir.join("addresses.json")
    }

    pub(crate) fn rpc(&self) -> SocketAddr {
        self.rpc
    }

    pub(crate) fn follower_rpc(&self) -> SocketAddr {
        self.follower_rpc
    }

    /// Returns the counters of all followers so far; unknown if the last one does not serve.
    pub(crate) fn follower_status(&self) -> Status {
        let Ok(text) = json_rpc::get(self.follower_rpc, "/metrics") else {
            return Status::default();
        };
        let value = |event: &str, past: Option<u64>| {
            let name = format!("hydrant_follow_events_total{{event=\"{event}\"}} ");
            let value = text.lines().find_map(|line| line.strip_prefix(&name)?.trim().parse().ok());
            value.map(|value: u64| value + past.unwrap_or(0))
        };
        Status {
            verified: value("verified_bank", self.past.verified),
            mismatched: value("mismatched_bank", self.past.mismatched),
            gaps: value("gap", self.past.gaps),
            late_writes: value("late_write", self.past.late_writes),
            repairs: value("repair", self.past.repairs),
            jumps: value("jump", self.past.jumps),
        }
    }

    /// Ends all processes, the last one first.
    pub(crate) fn stop(&mut self) {
        for (_, mut child) in self.processes.drain(..).rev() {
            // The process may have ended already.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let asked = now();
            while matches!(child.try_wait(), Ok(None)) && asked.elapsed() < Duration::from_secs(10)
            {
                pause(POLL_INTERVAL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Ports that are free now. PubSub has the port after RPC's, for both nodes. They are below those that the system gives
/// to outgoing connections: one of these could take a port before its process listens.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let first = 10_000 + u16::try_from(std::process::id() % 10_000)?;
    let mut candidates = (first..LAST_PORT).step_by(2);
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        *port = loop {
            let free = candidates.next().context("no free port")?;
            let listen = |port: u16| TcpListener::bind(("127.0.0.1", port));
            if let (Ok(one), Ok(two)) = (listen(free), listen(free + 1)) {
                listeners.extend([one, two]);
                break free;
            }
        };
    }
    Ok(ports)
}

/// Returns the directory of the published programs: in the `litesvm` crate that the workspace uses.
pub(crate) fn program_dir() -> Result<PathBuf> {
    let text = crate::shell::cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .dir(&root())
        .output()?;
    let metadata: Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let litesvm = packages.iter().find(|package| package["name"] == "litesvm");
    let manifest = litesvm.and_then(|it| it["manifest_path"].as_str()).context("no litesvm")?;
    Ok(Path::new(manifest).with_file_name("src").join("programs/elf"))
}
