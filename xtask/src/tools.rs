//! `tools`: the command-line tools of Solana's users, built once for the tests that run them.
//!
//! In: `clients/tools.txt`: package, version, program. Out: each program in `<package>-<version>/bin` of the directory
//! `HYDRANT_TOOLS`, or of `~/.cache/hydrant-tools`. So a new version is built beside the one before, and no checkout of the
//! repository builds it again.
//! Not here: the flows, which are tests of `hydrant` (`tests/it/tools.rs`). CI builds none of them: it runs the flows
//! of those that are there, and names the others.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::shell::Cmd;

/// The tools.
const LIST: &str = include_str!("../../clients/tools.txt");
/// Overrides where the tools are.
const DIR: &str = "HYDRANT_TOOLS";
/// Where they are, below the user's home.
const CACHE: &str = ".cache/hydrant-tools";
/// They wait for a node most of the time: a build with little optimization takes half the time.
const PROFILE: [(&str, &str); 5] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_BUILD_OVERRIDE_OPT_LEVEL", "0"),
];

/// A tool of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tool<'a> {
    package: &'a str,
    version: &'a str,
    program: &'a str,
}

impl Tool<'_> {
    /// The directory that `cargo install` gets.
    fn root(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{}-{}", self.package, self.version))
    }

    fn file(&self, dir: &Path) -> PathBuf {
        self.root(dir).join("bin").join(self.program)
    }
}

/// Builds those that are not there.
pub(crate) fn build() -> Result<()> {
    let dir = dir()?;
    for tool in list()? {
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

/// Which tools are not there, and how they get there. `None`: all are.
pub(crate) fn missing() -> Result<Option<String>> {
    let dir = dir()?;
    let tools = list()?;
    let missing = tools.iter().filter(|tool| !tool.file(&dir).exists());
    let missing: Vec<&str> = missing.map(|tool| tool.program).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let there = tools.len() - missing.len();
    Ok(Some(format!(
        "{} not in {}, so {there} of {} ran with the tests; `cargo xtask tools` builds them",
        missing.join(", "),
        dir.display(),
        tools.len()
    )))
}

fn install(tool: &Tool<'_>, dir: &Path) -> Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let package = format!("{}@{}", tool.package, tool.version);
    let mut cmd = Cmd::new("nice").args(["-n", "19", &cargo, "install", "--locked", &package]);
    // Some name a newer compiler than they need. If they need it, they do not compile.
    cmd = cmd.args(["--ignore-rust-version"]);
    cmd = cmd.args(["--root", &tool.root(dir).to_string_lossy(), "--bin", tool.program]);
    for (key, value) in PROFILE {
        cmd = cmd.env(key, value);
    }
    // Outside of the repository, whose configuration of cargo is not for them.
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    cmd.env("CARGO_TARGET_DIR", dir.join("target")).dir(dir).run()
}

fn list() -> Result<Vec<Tool<'static>>> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let parse = |line: &'static str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [package, version, program] = words[..] else {
            anyhow::bail!("clients/tools.txt: no package, version and program: {line}");
        };
        Ok(Tool { package, version, program })
    };
    lines.map(parse).collect()
}

fn dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os(DIR) {
        return Ok(PathBuf::from(dir));
    }
    let home = std::env::var_os("HOME").with_context(|| format!("HOME is not set: set {DIR}"))?;
    Ok(PathBuf::from(home).join(CACHE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_a_program_for_each_package() {
        let list = list().expect("a list");
        let programs: Vec<&str> = list.iter().map(|tool| tool.program).collect();
        assert_eq!(programs, ["solana", "spl-token", "anchor"]);
        let solana = list[0];
        assert_eq!(
            solana.file(Path::new("/t")),
            Path::new(&format!("/t/solana-cli-{}/bin/solana", solana.version))
        );
    }
}
