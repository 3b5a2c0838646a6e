//! Signals to a real node: those that end it cleanly, and those that it ignores.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};
use process_usage::Process;
use solana_commitment_config::CommitmentConfig;
use solana_pubkey::Pubkey;
use solana_rpc_client::rpc_client::RpcClient;
use tempfile::TempDir;
use testkit::child_process::KillOnDrop;
use testkit::node::{Node, NodeCommand};

use crate::node::HYDRANT;
use crate::world::{LAMPORTS_PER_SOL, WAIT_TIMEOUT, wait_until};

/// A node whose process is hydrant's own, so that signals and the exit status are, too.
struct Plain {
    node: Node,
    rpc: RpcClient,
}

impl Plain {
    /// Starts `program`, which is hydrant or runs it, with a ledger in `dir` whose block stays open.
    fn start(program: &[&str], dir: &Path) -> Result<Self> {
        Self::start_with(program, dir, &["--slot-ms", "3600000"])
    }

    fn start_with(program: &[&str], dir: &Path, flags: &[&str]) -> Result<Self> {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]);
        let node = NodeCommand::dev(command)
            .args(flags)
            .args([OsStr::new("--ledger"), dir.join("ledger").as_os_str()])
            .logged()
            .start()?;
        let url = node.rpc_url();
        let rpc = RpcClient::new_with_commitment(url, CommitmentConfig::processed());
        Ok(Self { node, rpc })
    }

    fn signal(&self, name: &str) -> Result<()> {
        let pid = self.node.pid().to_string();
        let kill = Command::new("kill").args(["-s", name, &pid]).status()?;
        ensure!(kill.success(), "kill -s {name}: {kill}");
        Ok(())
    }

    fn end(&mut self) -> Result<ExitStatus> {
        wait_until("the node's end", WAIT_TIMEOUT, || Ok(self.node.process().try_wait()?))
    }
}

#[test]
fn each_signal_that_ends_the_node_completes_the_open_block_first() -> Result<()> {
    let files = TempDir::new()?;
    let recipient = Pubkey::new_from_array([9; 32]);
    let mut sol = 0;
    // The tests may themselves run with SIGHUP ignored, which a child inherits.
    let with_hangup = ["env", "--default-signal=HUP", HYDRANT];
    for name in ["TERM", "INT", "QUIT", "HUP"] {
        let mut node = Plain::start(&with_hangup, files.path())?;
        let before = node.rpc.get_balance(&recipient)?;
        ensure!(before == sol * LAMPORTS_PER_SOL, "{before} lamports before SIG{name}");
        sol += 1;
        node.rpc.request_airdrop(&recipient, LAMPORTS_PER_SOL)?;
        wait_until("the airdrop, processed", WAIT_TIMEOUT, || {
            Ok((node.rpc.get_balance(&recipient)? == sol * LAMPORTS_PER_SOL).then_some(()))
        })?;
        node.signal(name)?;
        let status = node.end()?;
        ensure!(status.code() == Some(0), "SIG{name}: {status}");
    }
    let node = Plain::start(&[HYDRANT], files.path())?;
    ensure!(node.rpc.get_balance(&recipient)? == sol * LAMPORTS_PER_SOL, "the last one is lost");
    Ok(())
}

#[test]
fn a_clean_end_logs_no_warning_and_no_error() -> Result<()> {
    let files = TempDir::new()?;
    // The second run starts with stored blocks.
    for run in 1..=2 {
        let mut node = Plain::start_with(&[HYDRANT], files.path(), &["--log", "--slot-ms", "20"])?;
        let first = node.rpc.get_slot_with_commitment(CommitmentConfig::finalized())?;
        wait_until("a final block", WAIT_TIMEOUT, || {
            let slot = node.rpc.get_slot_with_commitment(CommitmentConfig::finalized())?;
            Ok((slot > first).then_some(()))
        })?;
        node.signal("TERM")?;
        let status = node.end()?;
        ensure!(status.code() == Some(0), "run {run}: {status}");
        let log = node.node.log();
        ensure!(!log.is_empty(), "run {run}: there is no log");
        let is_alarm = |line: &&str| line.contains(" ERROR ") || line.contains(" WARN ");
        let alarms: Vec<&str> = log.lines().filter(is_alarm).collect();
        ensure!(alarms.is_empty(), "run {run}: {alarms:#?}");
    }
    Ok(())
}

#[test]
fn signals_that_are_ignored_leave_the_node_running() -> Result<()> {
    let files = TempDir::new()?;
    let mut node = Plain::start(&["nohup", HYDRANT], files.path())?;
    // The masks show how the system handles a signal before the node could notice it.
    let process = Process::with_id(node.node.pid());
    let ignored = process.signal_mask("SigIgn")?;
    let caught = process.signal_mask("SigCgt")?;
    let hangup = 1;
    let user2 = 1 << 11;
    ensure!(ignored & hangup != 0, "SIGHUP is not ignored: {ignored:x}");
    ensure!(caught & hangup == 0, "SIGHUP has a handler: {caught:x}");
    ensure!(caught & user2 != 0, "SIGUSR2 ends the process: {caught:x}");
    for name in ["USR2", "HUP"] {
        node.signal(name)?;
        node.rpc.get_slot().with_context(|| format!("after SIG{name}"))?;
    }
    node.signal("TERM")?;
    let status = node.end()?;
    ensure!(status.code() == Some(0), "{status}");
    Ok(())
}

/// A listener on a free port that accepts connections and never responds.
fn silent_server() -> Result<TcpListener> {
    Ok(TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?)
}

#[test]
fn a_signal_ends_a_node_that_has_not_started_yet() -> Result<()> {
    let server = silent_server()?;
    let url = format!("http://{}", server.local_addr()?);
    let address = Pubkey::new_from_array([9; 32]).to_string();
    let clone = ["dev", "--rpc-port", "0", "--url", &url, "--clone", &address];
    let fork = ["dev", "--rpc-port", "0", "--fork-url", &url];
    let follow = ["follow", "--rpc-port", "0", "--source", &url, "--snapshot", &url];
    for args in [&clone[..], &fork, &follow] {
        for name in ["TERM", "INT"] {
            // As a script starts it with `&`. A node that serves ends all the same.
            let mut command = Command::new("env");
            command.args(["--ignore-signal=INT", HYDRANT]).args(args);
            let mut process = KillOnDrop::spawn(&mut command)?;
            let (connection, _) = server.accept()?;
            let pid = process.0.id();
            let kill = Command::new("kill").args(["-s", name, &pid.to_string()]).status()?;
            ensure!(kill.success(), "kill -s {name}: {kill}");
            let status =
                wait_until("the node's end", WAIT_TIMEOUT, || Ok(process.0.try_wait()?))?;
            ensure!(status.code() == Some(0), "SIG{name}: {args:?}: {status}");
            drop(connection);
        }
    }
    Ok(())
}

#[test]
fn a_start_names_the_server_that_it_waits_for() -> Result<()> {
    let server = silent_server()?;
    let url = format!("http://{}", server.local_addr()?);
    let address = Pubkey::new_from_array([9; 32]).to_string();
    let clone = ["dev", "--rpc-port", "0", "--url", &url, "--clone", &address];
    let follow = ["follow", "--rpc-port", "0", "--source", &url, "--snapshot", &url];
    for args in [&clone[..], &follow] {
        let mut command = Command::new(HYDRANT);
        let mut process = KillOnDrop::spawn(command.args(args).stderr(Stdio::piped()))?;
        let stderr = process.0.stderr.take().context("no standard error")?;
        let notice = format!("hydrant: still waiting for {url}");
        let mut lines = BufReader::new(stderr).lines();
        let found = lines.find(|line| line.as_ref().map_or(true, |line| *line == notice));
        found.with_context(|| format!("{args:?} ended without a notice"))??;
        ensure!(process.0.try_wait()?.is_none(), "{args:?} ended");
    }
    Ok(())
}
