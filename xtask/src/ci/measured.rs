//! The programs that CI measures: `hydrant` and the benchmarks, compiled as in release.
//!
//! A release build compiles all 550 dependencies again. This one compiles only our own crates: the dependencies
//! are those of the tests, which the profile `dev` compiles as in release too. The exceptions are in `tidy/profiles`.
//! Cargo unites the features of all that it builds in one command. The example makes it count the features that
//! only tests name, so that they are the same as in the tests. One of them is the feature `cluster` of `hydrant`,
//! which the packages have.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::shell::{Cmd, cargo};
use crate::workspace::target_dir;

/// An example of the workspace, so that the dependencies of tests count.
pub(crate) const EXAMPLE: &[&str] = &["--example", "embedded_ledger"];

/// The settings of `[profile.release]` that `[profile.dev]` lacks.
const AS_IN_RELEASE: &[(&str, &str)] = &[
    ("CARGO_PROFILE_DEV_OPT_LEVEL", "3"),
    ("CARGO_PROFILE_DEV_DEBUG", "false"),
    ("CARGO_PROFILE_DEV_DEBUG_ASSERTIONS", "false"),
    ("CARGO_PROFILE_DEV_OVERFLOW_CHECKS", "false"),
    ("CARGO_PROFILE_DEV_CODEGEN_UNITS", "16"),
    ("CARGO_INCREMENTAL", "0"),
];

/// The programs: `hydrant`, the benchmarks, and the processes that they start.
const PROGRAMS: [&str; 7] = [
    "hydrant",
    "benchmarks",
    "quic_server",
    "state-ledger",
    "followed-chain",
    "kaspa-ledger",
    "replicated-chain",
];

/// Builds the programs, and returns the folder that they are in.
pub(crate) fn build() -> Result<PathBuf> {
    let dir = target_dir().join("measured");
    // Not this program: it is running.
    let build =
        cargo().args(["build", "--workspace", "--exclude", "xtask", "--bins"]).args(EXAMPLE);
    AS_IN_RELEASE.iter().fold(build, |build, (key, value)| build.env(key, value)).run()?;
    std::fs::create_dir_all(&dir)?;
    // The next build for tests writes its own programs to the same paths.
    for program in PROGRAMS {
        std::fs::copy(target_dir().join("debug").join(program), dir.join(program))?;
    }
    Ok(dir)
}

/// Returns the folder of the programs, which an earlier step has built.
pub(crate) fn built() -> Result<PathBuf> {
    let dir = target_dir().join("measured");
    ensure!(
        dir.join("benchmarks").exists(),
        "{} is empty; `cargo xtask toys` fills it",
        dir.display()
    );
    Ok(dir)
}

/// Builds the programs, and returns the one with the benchmarks.
pub(crate) fn bench() -> Result<Cmd> {
    Ok(bench_in(&build()?))
}

/// Returns the command of the benchmarks' program in the folder that [`build`] returned.
pub(crate) fn bench_in(dir: &Path) -> Cmd {
    Cmd::new(&dir.join("benchmarks").to_string_lossy()).env("HYDRANT", dir.join("hydrant"))
}
