//! The command-line tools of Solana's users against a node: unmodified, as crates.io has them.
//!
//! Shape: `clients/tools.txt` has their versions, and `cargo xtask tools` builds them into the directory
//! `HYDRANT_TOOLS` or `~/.cache/hydrant-tools`. The flows are ignored by default; `cargo xtask test` and CI run those
//! whose tools are there, and name the others. Each flow runs against both names of the local ledger: `hydrant dev` and
//! `hydrant test-validator`.
//! Bounds: 2 minutes for a command.

mod anchor;
mod solana;
mod spl_token;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use solana_keypair::{Keypair, write_keypair_file};
use solana_pubkey::Pubkey;
use solana_rpc_client::rpc_client::RpcClient;
use solana_signer::Signer;
use tempfile::TempDir;
use testkit::node::{Node, NodeCommand};

use crate::clients::program;
use crate::free_ports::free_ports;
use crate::node::HYDRANT;
use crate::world::CONFIRMED;

/// Seconds after which a command is ended.
const COMMAND_SECONDS: &str = "120";
/// Settings of the ledger that the flows need: an epoch that does not end, with a schedule that is not long, and the feature off
/// that refuses programs of version 0, which the flows deploy.
const LEDGER_FLAGS: &[&str] = &[
    "--slots-per-epoch",
    "8192",
    "--deactivate-feature",
    "B8JJXCy5amZyWG9r7EnUYLwzXSXTxG7GZ1qZ1qggo83g",
];

/// The name under which the ledger is started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LedgerName {
    Dev,
    TestValidator,
}

/// A tool with its files, and the node that it uses.
pub(crate) struct ToolWorld {
    pub(crate) node: Node,
    pub(crate) rpc: RpcClient,
    /// The address of the keypair that the Solana CLI's configuration names.
    pub(crate) wallet: Pubkey,
    solana: PathBuf,
    /// The home of the tools, and the directory in which they run.
    dir: TempDir,
}

/// Runs a flow with the Solana CLI and other tools.
pub(crate) fn with_tools(
    name: LedgerName,
    programs: &[&str],
    flow: impl FnOnce(&ToolWorld, &[PathBuf]) -> Result<()>,
) -> Result<()> {
    let files = programs.iter().map(|name| program(name)).collect::<Result<Vec<_>>>()?;
    let world = ToolWorld::start(name, program("solana")?)?;
    flow(&world, &files).with_context(|| format!("the node's log ends\n{}", world.node.log_end()))
}

impl ToolWorld {
    fn start(name: LedgerName, solana: PathBuf) -> Result<Self> {
        let dir = TempDir::new()?;
        let mut command = Command::new(HYDRANT);
        match name {
            LedgerName::Dev => command.args(["dev", "--slot-ms", "100"]),
            LedgerName::TestValidator => command
                .args(["test-validator", "--ticks-per-slot", "16", "--faucet-port"])
                .arg(free_ports(1)?.to_string())
                .arg("--ledger")
                .arg(dir.path().join("test-ledger")),
        };
        command.args(["--rpc-port", "0", "--quiet", "--log"]).args(LEDGER_FLAGS);
        let node = NodeCommand::new(command).logged().watched().start()?;
        let rpc = RpcClient::new_with_commitment(node.rpc_url(), CONFIRMED);
        let wallet = write_keypair(&dir.path().join(".config/solana/id.json"))?;
        let world = Self { node, rpc, wallet, solana, dir };
        world.solana(&["config", "set", "--url", &world.node.rpc_url()])?;
        let settings = world.solana(&["config", "get"])?;
        let socket = format!("WebSocket URL: {}", world.node.ws_url());
        ensure!(settings.contains(&socket), "{socket} is not in {settings}");
        world.solana(&["airdrop", "500"])?;
        Ok(world)
    }

    /// A new keypair in the file `name`. Returns its address.
    pub(crate) fn keypair(&self, name: &str) -> Result<String> {
        Ok(write_keypair(&self.dir.path().join(name))?.to_string())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Standard output of the Solana CLI.
    pub(crate) fn solana(&self, args: &[&str]) -> Result<String> {
        self.run(&self.solana, args)
    }

    /// Runs the Solana CLI, and returns its JSON output.
    pub(crate) fn solana_json(&self, args: &[&str]) -> Result<Value> {
        self.json(&self.solana, args)
    }

    /// Runs a tool, and returns its JSON output.
    pub(crate) fn json(&self, program: &Path, args: &[&str]) -> Result<Value> {
        let text = self.run(program, &[args, &["--output", "json-compact"]].concat())?;
        // Some commands print a line before it.
        let json = text.find(['{', '[']).map(|at| &text[at..]).unwrap_or_default();
        serde_json::from_str(json).with_context(|| format!("{args:?}: {text}"))
    }

    /// Standard output of a tool. If it fails, the error has all of its output.
    pub(crate) fn run(&self, program: &Path, args: &[&str]) -> Result<String> {
        let mut command = self.command(Path::new("timeout"));
        let output = command.arg(COMMAND_SECONDS).arg(program).args(args).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let out = text(&output.stdout);
        let err = text(&output.stderr);
        ensure!(output.status.success(), "{args:?} ended with {}\n{out}\n{err}", output.status);
        Ok(out)
    }

    /// The Solana CLI, with its output in a file.
    pub(crate) fn spawn_solana(&self, args: &[&str], output: std::fs::File) -> Result<Child> {
        let mut command = self.command(Path::new(&self.solana));
        Ok(command.args(args).stdout(output.try_clone()?).stderr(output).spawn()?)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).env("HOME", self.dir.path()).stdin(Stdio::null());
        command
    }
}

/// Writes a new keypair, and returns its address.
pub(crate) fn write_keypair(path: &Path) -> Result<Pubkey> {
    let keypair = Keypair::new();
    std::fs::create_dir_all(path.parent().context("a directory")?)?;
    write_keypair_file(&keypair, path).map_err(|err| anyhow::anyhow!("{err}"))?;
    Ok(keypair.pubkey())
}
