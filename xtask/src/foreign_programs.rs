//! Foreign programs that tests run, and their files on this machine.
//!
//! Shape: one function over the programs' names, which the reasons of ignored tests name too. `xtask` finds out with it
//! which of these tests can run; the tests of `hydrant` include this file, and find the program itself.
//! Input: the lists of Solana's command-line tools and of Go programs, which `cargo xtask tools` builds into the
//! directory `HYDRANT_TOOLS` or `~/.cache/hydrant-tools`; for the other programs, `PATH`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The tools: package, version and program.
const TOOLS: &str = include_str!("../../clients/tools.txt");
/// The programs of Go modules: module, version and program.
const GO_TOOLS: &str = include_str!("../../clients/go_tools.txt");
/// The environment variable that overrides the directory of the tools.
const TOOLS_DIR: &str = "HYDRANT_TOOLS";
/// The directory of the tools below the user's home.
const TOOLS_CACHE: &str = ".cache/hydrant-tools";
/// The environment variable that overrides the file of the browser.
const BROWSER: &str = "HYDRANT_CHROMIUM";
/// The environment variable that names a kaspad 2.1.0.
const KASPAD: &str = "HYDRANT_KASPAD";
/// The minor version of Go 1 that `clients/go/go.mod` requires: the one of Debian 12.
const GO_MINOR_MIN: u32 = 19;

/// A program of the list, with its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    pub(crate) program: &'static str,
}

impl Tool {
    /// Returns the directory that `cargo install` or `go install` gets.
    pub(crate) fn root(&self, dir: &Path) -> PathBuf {
        // The name of a Go module is a path.
        let name = if self.package.contains('/') { self.program } else { self.package };
        dir.join(format!("{name}-{}", self.version))
    }

    /// Returns the program in the directory of the tools, built or not.
    pub(crate) fn file(&self, dir: &Path) -> PathBuf {
        self.root(dir).join("bin").join(self.program)
    }
}

/// Returns the file of a program, or `None` if this machine does not have it.
///
/// Errors: no test runs a program of this name.
pub(crate) fn find_program(name: &str) -> Result<Option<PathBuf>> {
    match name {
        "chromium" => Ok(find_browser()),
        "go" => find_go(GO_MINOR_MIN),
        "kaspad" => Ok(find_kaspad()),
        program => find_tool(program),
    }
}

/// Reads the list of tools in `clients/tools.txt`.
pub(crate) fn tools() -> Result<Vec<Tool>> {
    parse_tools(TOOLS).context("clients/tools.txt")
}

/// Reads the list of programs of Go modules in `clients/go_tools.txt`.
pub(crate) fn go_tools() -> Result<Vec<Tool>> {
    parse_tools(GO_TOOLS).context("clients/go_tools.txt")
}

/// Parses a list of programs: package, version and program on a line.
pub(crate) fn parse_tools(list: &'static str) -> Result<Vec<Tool>> {
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let parse = |line: &'static str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [package, version, program] = words[..] else {
            bail!("no package, version and program: {line}");
        };
        Ok(Tool { package, version, program })
    };
    lines.map(parse).collect()
}

/// Returns the directory of the tools.
pub(crate) fn tools_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os(TOOLS_DIR) {
        return Ok(PathBuf::from(dir));
    }
    let home =
        std::env::var_os("HOME").with_context(|| format!("HOME is not set: set {TOOLS_DIR}"))?;
    Ok(PathBuf::from(home).join(TOOLS_CACHE))
}

fn find_tool(program: &str) -> Result<Option<PathBuf>> {
    let tools = [tools()?, go_tools()?].concat();
    let tool = tools.iter().find(|tool| tool.program == program);
    let tool = tool.with_context(|| format!("no test runs a program {program}"))?;
    let file = tool.file(&tools_dir()?);
    Ok(file.is_file().then_some(file))
}

/// Returns the program in `HYDRANT_CHROMIUM`, or Debian's on the path.
fn find_browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("chromium"));
    let named = std::env::var_os(BROWSER).map(PathBuf::from);
    named.into_iter().chain(on_path).find(|file| file.is_file())
}

/// Returns the kaspad that is named. Others may have any version.
fn find_kaspad() -> Option<PathBuf> {
    std::env::var_os(KASPAD).map(PathBuf::from).filter(|file| file.is_file())
}

/// Returns the command of a Go 1 with at least this minor version.
pub(crate) fn find_go(minor_min: u32) -> Result<Option<PathBuf>> {
    for go in ["go", "/usr/local/go/bin/go"] {
        let output = match Command::new(go).arg("version").output() {
            Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
            output => output.with_context(|| format!("{go} version"))?,
        };
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        if parse_go_minor(&version).is_some_and(|minor| minor >= minor_min) {
            return Ok(Some(PathBuf::from(go)));
        }
    }
    Ok(None)
}

/// Parses the minor version in a line such as `go version go1.19.8 linux/amd64`.
fn parse_go_minor(version: &str) -> Option<u32> {
    let (_, minor) = version.split_once("go1.")?;
    minor.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_go_version_is_read() {
        assert_eq!(parse_go_minor("go version go1.19.8 linux/amd64"), Some(19));
        assert_eq!(parse_go_minor("go version go1.26rc1 linux/arm64"), Some(26));
        assert_eq!(parse_go_minor("gccgo (Debian 12.2.0-14) 12.2.0"), None);
    }

    #[test]
    fn the_list_has_a_program_for_each_package() {
        let tools = tools().expect("a list");
        let programs: Vec<&str> = tools.iter().map(|tool| tool.program).collect();
        assert_eq!(programs, ["solana", "spl-token", "anchor"]);
        let solana = tools[0];
        assert_eq!(
            solana.file(Path::new("/t")),
            Path::new(&format!("/t/solana-cli-{}/bin/solana", solana.version))
        );
    }

    #[test]
    fn a_go_program_has_a_directory_of_its_name() {
        let tools = go_tools().expect("a list");
        let nats = tools.iter().find(|tool| tool.program == "nats-server").expect("nats-server");
        assert_eq!(
            nats.file(Path::new("/t")),
            Path::new(&format!("/t/nats-server-{}/bin/nats-server", nats.version))
        );
    }

    #[test]
    fn a_program_that_no_test_runs_is_an_error() {
        assert!(find_program("solana").is_ok());
        assert!(find_program("nats-server").is_ok());
        assert!(find_program("solano").is_err());
    }
}
