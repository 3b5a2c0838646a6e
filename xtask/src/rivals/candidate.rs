//! The programs that are compared: Hydrant first, then the rivals of `clients/rivals.txt`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::compare::keys::{MINTED, address};
use crate::foreign_programs::Tool;
use crate::rivals::build;
use crate::rivals::options::Options;
use crate::shell::{Cmd, cargo};
use crate::workspace::{root, target_dir};

/// A program that is compared.
pub(super) struct Candidate {
    pub(super) kind: Kind,
    /// Name and version.
    pub(super) heading: String,
    /// The program, or the reason for which this machine does not have it.
    pub(super) program: Result<PathBuf, String>,
    /// The build of the program.
    pub(super) build: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Hydrant,
    Validator,
    Surfpool,
}

/// The ports of a node. The port above `rpc` is free too.
pub(super) struct Ports {
    pub(super) rpc: u16,
    pub(super) faucet: u16,
    pub(super) gossip: u16,
}

/// Returns all candidates, after building those that are not installed.
pub(super) fn all(options: &Options) -> Result<Vec<Candidate>> {
    let mut candidates = vec![hydrant(options)?];
    for rival in build::rivals()? {
        candidates.push(Candidate::from_rival(&rival, options)?);
    }
    Ok(candidates)
}

/// Builds Hydrant with its default features, as the readers of README.md do.
fn hydrant(options: &Options) -> Result<Candidate> {
    let build = describe_build(options.hydrant.is_some(), "`cargo build --release`");
    let program = match &options.hydrant {
        Some(program) => existing(program)?,
        None => {
            cargo().args(["build", "--release", "--bin", "hydrant"]).dir(&root()).run()?;
            let program = target_dir().join("release/hydrant");
            check_refusal(&program)?;
            program
        }
    };
    let version = Cmd::new(&program.to_string_lossy()).args(["--version"]).output()?;
    let version = version.split_whitespace().nth(1).context("hydrant has no version")?.to_owned();
    let heading = format!("Hydrant {version}");
    Ok(Candidate { kind: Kind::Hydrant, heading, program: Ok(program), build })
}

/// Runs a command that a build with the default features refuses. No test has such a program.
fn check_refusal(hydrant: &Path) -> Result<()> {
    let refusal =
        Cmd::new(&hydrant.to_string_lossy()).args(["snapshots", "file:///none"]).failure()?;
    ensure!(refusal.contains("cargo build --release --features cluster"), "{refusal}");
    Ok(())
}

impl Candidate {
    fn from_rival(rival: &Tool, options: &Options) -> Result<Self> {
        let (kind, file, name, build) = match rival.program {
            "solana-test-validator" => (
                Kind::Validator,
                &options.validator,
                rival.program,
                "agave-validator's package, optimization level 3 for the crates that serve and 2 for the others, no LTO",
            ),
            "surfpool-node" => (
                Kind::Surfpool,
                &options.surfpool,
                "surfpool",
                "surfpool-core's package started by `clients/surfpool`, offline, optimization level 3, no LTO",
            ),
            program => bail!("clients/rivals.txt: no way to start the program {program}"),
        };
        let program = match file {
            Some(program) => Ok(existing(program)?),
            None => build::install(rival).map_err(|err| format!("{err:#}")),
        };
        let heading = format!("{name} {}", rival.version);
        Ok(Self { kind, heading, program, build: describe_build(file.is_some(), build) })
    }

    /// Returns the command that starts a node on free ports, with the preloaded accounts.
    pub(super) fn command(&self, dir: &Path, accounts: &Path, ports: &Ports) -> Result<Command> {
        let Ok(program) = &self.program else { bail!("{} is not installed", self.heading) };
        let mut command = Command::new(program);
        let rpc = ports.rpc.to_string();
        match self.kind {
            Kind::Hydrant => {
                command.args(["dev", "--rpc-port", &rpc, "--account-dir"]).arg(accounts);
            }
            Kind::Validator => {
                command.args(["--reset", "--quiet", "--bind-address", "127.0.0.1"]);
                command.args(["--rpc-port", &rpc, "--mint", &address(MINTED)]);
                command.args(["--faucet-port", &ports.faucet.to_string()]);
                command.args(["--gossip-port", &ports.gossip.to_string()]);
                command.arg("--ledger").arg(dir.join("ledger")).arg("--account-dir").arg(accounts);
            }
            Kind::Surfpool => {
                command.args([&rpc, &(ports.rpc + 1).to_string()]).arg(accounts);
            }
        }
        Ok(command)
    }
}

/// Describes the build of a program. Nothing is known about one that the caller names.
fn describe_build(is_named: bool, build: &str) -> String {
    if is_named {
        "a program that was named on the command line".to_owned()
    } else {
        build.to_owned()
    }
}

fn existing(program: &Path) -> Result<PathBuf> {
    ensure!(program.is_file(), "{}: no such file", program.display());
    program.canonicalize().with_context(|| program.display().to_string())
}
