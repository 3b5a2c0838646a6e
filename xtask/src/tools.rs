//! `tools`: the command-line tools of Solana's users and programs of Go, built once for the tests that run them.
//!
//! Input: `clients/tools.txt`: package, version, program; `clients/go_tools.txt`: module, version, program. Output:
//! each program in `<package>-<version>/bin` of the directory `HYDRANT_TOOLS`, or of `~/.cache/hydrant-tools`; the
//! programs of Go in `<program>-<version>/bin`. So a new version is built next to the one before, and no checkout of
//! the repository builds it again. Without Go, its programs are named and left out.
//! With `--rivals` the programs of `clients/rivals.txt` instead, which benchmarks compare with ours (`rivals::build`).
//! Not here: the flows, which are tests of `hydrant` (`tests/it/tools.rs`) and `replicated_log` (`tests/nats`). CI builds none of
//! them: it runs the flows of the existing programs, and names the others.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::foreign_programs::{Tool, find_go, go_tools, tools, tools_dir};
use crate::rivals;
use crate::shell::Cmd;

/// The minor version of Go 1 that the programs of `clients/go_tools.txt` require.
const GO_MINOR_MIN: u32 = 25;

/// They wait for a node most of the time: a build with little optimization takes half the time.
const PROFILE: [(&str, &str); 5] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_BUILD_OVERRIDE_OPT_LEVEL", "0"),
];

/// Runs `cargo xtask tools [--rivals]`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    match args {
        [] => build(),
        [option] if option == "--rivals" => rivals::build::build_all(),
        _ => bail!("cargo xtask tools [--rivals]: no option `{}`", args.join(" ")),
    }
}

/// Builds the programs that are not installed: those of Go first, which take less time.
fn build() -> Result<()> {
    let dir = tools_dir()?;
    // Outside of the repository: its configuration of cargo does not apply to them.
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let go = find_go(GO_MINOR_MIN)?;
    for tool in go_tools()? {
        match &go {
            Some(go) => build_missing(&tool, &dir, |tool, dir| install_go(go, tool, dir))?,
            None => println!("{} is left out: no Go 1.{GO_MINOR_MIN}", tool.program),
        }
    }
    for tool in tools()? {
        build_missing(&tool, &dir, install)?;
    }
    Ok(())
}

/// Builds a program if it is not installed.
fn build_missing(
    tool: &Tool,
    dir: &Path,
    install: impl Fn(&Tool, &Path) -> Result<()>,
) -> Result<()> {
    let file = tool.file(dir);
    if file.exists() {
        println!("{} is there", file.display());
        return Ok(());
    }
    println!("{} {} is built now: minutes, or a quarter of an hour", tool.package, tool.version);
    install(tool, dir)?;
    ensure!(file.exists(), "{} has no program {}", tool.package, tool.program);
    Ok(())
}

/// Builds a program of a Go module, with the installed Go and without a C compiler.
fn install_go(go: &Path, tool: &Tool, dir: &Path) -> Result<()> {
    let package = format!("{}@v{}", tool.package, tool.version);
    let cmd = Cmd::new("nice").args(["-n", "19", &go.to_string_lossy(), "install", "-trimpath"]);
    let cmd = cmd.args([package.as_str()]);
    let cmd = cmd.env("GOBIN", tool.root(dir).join("bin"));
    cmd.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local").dir(dir).run()
}

fn install(tool: &Tool, dir: &Path) -> Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let package = format!("{}@{}", tool.package, tool.version);
    let mut cmd = Cmd::new("nice").args(["-n", "19", &cargo, "install", "--locked", &package]);
    // Some name a newer compiler than they need. If they need it, they do not compile.
    cmd = cmd.args(["--ignore-rust-version"]);
    cmd = cmd.args(["--root", &tool.root(dir).to_string_lossy(), "--bin", tool.program]);
    for (key, value) in PROFILE {
        cmd = cmd.env(key, value);
    }
    cmd.env("CARGO_TARGET_DIR", dir.join("target")).dir(dir).run()
}
