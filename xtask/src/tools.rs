//! `tools`: the command-line tools of Solana's users, built once for the tests that run them.
//!
//! Input: `clients/tools.txt`: package, version, program. Output: each program in `<package>-<version>/bin` of the
//! directory `HYDRANT_TOOLS`, or of `~/.cache/hydrant-tools`. So a new version is built next to the one before, and no
//! checkout of the repository builds it again.
//! With `--rivals` the programs of `clients/rivals.txt` instead, which benchmarks compare with ours (`rivals::build`).
//! Not here: the flows, which are tests of `hydrant` (`tests/it/tools.rs`). CI builds none of them: it runs the flows
//! of the existing programs, and names the others.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::foreign_programs::{Tool, tools, tools_dir};
use crate::rivals;
use crate::shell::Cmd;

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

/// Builds those that are not there.
fn build() -> Result<()> {
    let dir = tools_dir()?;
    for tool in tools()? {
        let file = tool.file(&dir);
        if file.exists() {
            println!("{} is there", file.display());
            continue;
        }
        println!(
            "{} {} is built now: minutes, or a quarter of an hour",
            tool.package, tool.version
        );
        install(&tool, &dir)?;
        ensure!(file.exists(), "{} has no program {}", tool.package, tool.program);
    }
    Ok(())
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
    // Outside of the repository: its configuration of cargo does not apply to them.
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    cmd.env("CARGO_TARGET_DIR", dir.join("target")).dir(dir).run()
}
