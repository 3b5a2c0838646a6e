//! The program under the name of `solana-test-validator`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use solana_keypair::{Keypair, write_keypair_file};
use solana_signer::Signer;
use tempfile::TempDir;
use testkit::node::{Node, NodeCommand};

use crate::node::HYDRANT;
use crate::world::{WAIT_TIMEOUT, World, wait_until};

/// A link of that name in `dir`.
fn link(dir: &TempDir) -> Result<PathBuf> {
    let path = dir.path().join("solana-test-validator");
    symlink(HYDRANT, &path)?;
    Ok(path)
}

#[test]
fn a_link_of_that_name_runs_with_the_flags_and_output_of_test_validator() -> Result<()> {
    let dir = TempDir::new()?;
    let wallet = Keypair::new();
    let keypair = dir.path().join("wallet.json");
    write_keypair_file(&wallet, &keypair).map_err(|err| anyhow::anyhow!("{err}"))?;
    let config = dir.path().join("config.yml");
    fs::write(&config, format!("---\nkeypair_path: {}\n", keypair.display()))?;
    let ledger = dir.path().join("anchor/test-ledger");
    fs::create_dir_all(&ledger)?;
    // Anchor's log is in the ledger directory before the start.
    fs::write(ledger.join("test-ledger-log.txt"), "")?;
    let command = NodeCommand::new(Command::new(link(&dir)?)).args([
        "-C".as_ref(),
        config.as_os_str(),
        "--ledger".as_ref(),
        ledger.as_os_str(),
        "--reset".as_ref(),
        "--rpc-port".as_ref(),
        "0".as_ref(),
        "--gossip-port".as_ref(),
        "23000".as_ref(),
        "--faucet-per-request-sol-cap".as_ref(),
        "--bind-address".as_ref(),
        "localhost".as_ref(),
    ]);
    let node = command.logged().watched().start()?;
    let world = World::new(&node);
    let log = node.log();
    let genesis = world.rpc.get_genesis_hash()?;
    let lines = [
        format!("Ledger location: {}", ledger.display()),
        format!("Log: {}", ledger.join("validator.log").display()),
        format!("Identity: {}", world.rpc.get_identity()?),
        format!("Genesis Hash: {genesis}"),
        format!("Version: {}", world.rpc.get_version()?.solana_core),
        format!("JSON RPC URL: http://{}", node.rpc),
        format!("WebSocket PubSub URL: ws://{}", node.ws),
        "hydrant: --gossip-port is ignored: this ledger has one node and no gossip".to_owned(),
    ];
    for line in &lines {
        ensure!(log.lines().any(|found| found == line), "{line} is not in {log}");
    }
    ensure!(fs::read_to_string(ledger.join("validator.log"))?.contains(&genesis.to_string()));
    ensure!(ledger.join("test-ledger-log.txt").exists(), "a file of others");
    ensure!(world.rpc.get_balance(&wallet.pubkey())? > 0, "the wallet of the CLI is the mint");
    Ok(())
}

/// kit's script starts the validator with `&`, so that an interrupt of the script leaves it to others that use it.
#[test]
fn in_the_background_of_a_script_an_interrupt_does_not_end_it() -> Result<()> {
    let dir = TempDir::new()?;
    let mut command = Command::new("env");
    command.args(["--ignore-signal=INT", "--ignore-signal=QUIT"]).arg(link(&dir)?);
    let ledger = dir.path().join("test-ledger");
    let flags = ["--quiet", "--rpc-port", "0", "--ledger"];
    let mut node = NodeCommand::new(command).args(flags).args([ledger]).logged().start()?;
    let signal = |node: &Node, name: &str| {
        let kill = Command::new("kill").args(["-s", name, &node.pid().to_string()]).status()?;
        ensure!(kill.success(), "kill -s {name}: {kill}");
        Ok(())
    };
    for name in ["INT", "QUIT"] {
        // The system drops an ignored signal at once.
        signal(&node, name)?;
        World::new(&node).rpc.get_slot().with_context(|| format!("after SIG{name}"))?;
    }
    signal(&node, "TERM")?;
    let status = wait_until("its end", WAIT_TIMEOUT, || Ok(node.process().try_wait()?))?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[test]
fn its_version_and_help_are_those_of_the_name() -> Result<()> {
    let dir = TempDir::new()?;
    let link = link(&dir)?;
    let text = |flag: &str| -> Result<String> {
        Ok(String::from_utf8(Command::new(&link).arg(flag).output()?.stdout)?)
    };
    let version = text("--version")?;
    ensure!(version.starts_with("solana-test-validator 4.2."), "{version}");
    ensure!(version.contains("client:Hydrant"), "{version}");
    let help = text("--help")?;
    ensure!(help.contains("--hydrant-config") && help.contains("--clone"), "{help}");
    Ok(())
}

#[test]
fn surfpool_has_a_version_and_a_background_that_must_be_reachable() -> Result<()> {
    let dir = TempDir::new()?;
    let path = dir.path().join("surfpool");
    symlink(HYDRANT, &path)?;
    let version = Command::new(&path).arg("--version").output()?;
    let version = String::from_utf8(version.stdout)?;
    ensure!(version.starts_with("surfpool 1.7.0 (hydrant-"), "{version}");
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port().to_string();
    for (port, expected) in [("0", "a --port that is not 0"), (&port, "another program listens")] {
        let run = Command::new(&path).args(["start", "--daemon", "--port", port]).output()?;
        let text = String::from_utf8_lossy(&run.stderr);
        ensure!(run.status.code() == Some(1) && text.contains(expected), "{text}");
    }
    Ok(())
}

#[test]
fn a_link_named_surfpool_runs_with_the_flags_of_anchor() -> Result<()> {
    let dir = TempDir::new()?;
    let path = dir.path().join("surfpool");
    symlink(HYDRANT, &path)?;
    let wallet = Keypair::new().pubkey();
    let mut command = Command::new(path);
    command.args(["start", "--airdrop", &wallet.to_string()]);
    command.args(["--host", "127.0.0.1", "--port", "0", "--offline", "--no-tui", "--no-studio"]);
    command.args(["--block-production-mode", "transaction", "--log-level", "none"]);
    command.args(["--disable-instruction-profiling", "--max-profiles", "1", "--no-deploy"]);
    let node = NodeCommand::new(command).logged().watched().start()?;
    let world = World::new(&node);
    ensure!(world.rpc.get_balance(&wallet)? == 10_000_000_000_000);
    let log = node.log();
    ensure!(log.contains("--max-profiles is ignored: "), "{log}");
    Ok(())
}
