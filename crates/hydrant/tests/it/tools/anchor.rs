//! `anchor test` in a workspace: by default with `surfpool`, and with `--validator legacy`. Both are links to Hydrant.
//!
//! Shape: the workspace has a program that is built already (`clients/js-anchor/workspace.js`), and the test that its
//! users would write (`clients/js-anchor/workspace.test.js`). Anchor starts the ledger with the program, waits for it,
//! runs the test, and ends the ledger.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::clients::{clients, install_node_js, program};
use crate::free_ports::free_ports;
use crate::node::HYDRANT;
use crate::tools::write_keypair;

/// Seconds until `anchor test` is ended.
const SECONDS: &str = "180";
/// Another program may take a port before Anchor uses it.
const PORT_TRIES: usize = 3;

#[test]
#[ignore = "needs anchor"]
fn anchor_test_runs_on_surfpool() -> Result<()> {
    let workspace = Workspace::create()?;
    let output = workspace.test(&[])?;
    // Hydrant was started: these are its lines about Anchor's flags for surfpool.
    ensure!(output.contains("hydrant: --max-profiles is ignored"), "{output}");
    Ok(())
}

#[test]
#[ignore = "needs anchor"]
fn anchor_test_runs_on_the_validator_of_before() -> Result<()> {
    let workspace = Workspace::create()?;
    workspace.test(&["--validator", "legacy"])?;
    let program = &workspace.program;
    let log = workspace.path(&format!(".anchor/program-logs/{program}.counter.log"));
    let log = fs::read_to_string(&log).with_context(|| log.display().to_string())?;
    ensure!(log.contains(&format!("Program {program} invoke [1]")), "{log}");
    let ledger = workspace.path(".anchor/test-ledger");
    ensure!(fs::read_to_string(ledger.join("validator.log"))?.contains("genesis hash: "));
    Ok(())
}

struct Workspace {
    anchor: PathBuf,
    /// The address of the workspace's program.
    program: String,
    /// The user's home, with the workspace and the programs.
    home: TempDir,
}

impl Workspace {
    fn create() -> Result<Self> {
        let anchor = program("anchor")?;
        let folder = clients().join("js-anchor").canonicalize()?;
        install_node_js(&folder)?;
        let home = TempDir::new()?;
        let workspace = home.path().join("workspace");
        write_keypair(&home.path().join(".config/solana/id.json"))?;
        let keypair = workspace.join("target/deploy/counter-keypair.json");
        let program = write_keypair(&keypair)?.to_string();
        fs::create_dir(home.path().join("bin"))?;
        for name in ["surfpool", "solana-test-validator"] {
            symlink(HYDRANT, home.path().join("bin").join(name))?;
        }
        let mut generate = Command::new("node");
        generate.arg(folder.join("workspace.js")).arg(&workspace).arg(&program);
        ensure!(generate.status()?.success(), "workspace.js failed");
        Ok(Self { anchor, program, home })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join("workspace").join(name)
    }

    /// All output of `anchor test`.
    fn test(&self, args: &[&str]) -> Result<String> {
        for _ in 1..PORT_TRIES {
            match self.test_once(args) {
                Err(err) if format!("{err:#}").contains("is already in use") => {}
                result => return result,
            }
        }
        self.test_once(args)
    }

    fn test_once(&self, args: &[&str]) -> Result<String> {
        fs::write(self.path("Anchor.toml"), self.settings(free_ports(4)?)?)?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::iter::once(self.home.path().join("bin")).chain(std::env::split_paths(&path));
        let mut command = Command::new("timeout");
        command.arg(SECONDS).arg(&self.anchor).args(["test", "--skip-build"]).args(args);
        command.current_dir(self.path("")).env("PATH", std::env::join_paths(path)?);
        // Anchor runs cargo, which finds its toolchain in the home of the user who runs this test.
        let home = PathBuf::from(std::env::var_os("HOME").context("HOME")?);
        for (key, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            command.env(key, std::env::var_os(key).unwrap_or_else(|| home.join(folder).into()));
        }
        command.env("HOME", self.home.path()).env_remove("CARGO_TARGET_DIR");
        let output = command.stdin(Stdio::null()).output().context("start anchor")?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        ensure!(output.status.success(), "anchor test ended with {}\n{text}", output.status);
        ensure!(text.contains("a program of the workspace"), "its test has not run: {text}");
        Ok(text)
    }

    /// `Anchor.toml` with these ports, and those after them, for both validators.
    fn settings(&self, port: u16) -> Result<String> {
        let test = clients().join("js-anchor/workspace.test.js").canonicalize()?;
        let script = script(&test);
        Ok(format!(
            "[programs.localnet]\ncounter = \"{}\"\n\n\
             [provider]\ncluster = \"localnet\"\nwallet = \"~/.config/solana/id.json\"\n\n\
             [scripts]\ntest = \"{script}\"\n\n\
             [surfpool]\nrpc_port = {port}\nws_port = {}\n\n\
             [test.validator]\nrpc_port = {port}\nfaucet_port = {}\n",
            self.program,
            port + 1,
            port + 3
        ))
    }
}

/// The shell's command for the test.
fn script(test: &Path) -> String {
    format!("node --test --test-reporter=spec '{}'", test.display())
}
