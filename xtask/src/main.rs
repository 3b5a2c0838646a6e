//! The tasks of this repository, each one command: [`USAGE`] names them.
//!
//! Shape: one file a task. A task is a plain function; it starts other programs through `shell`.
//! Not here: the benchmarks (`crates/benchmarks`), the checks of tidy (`tidy/`).
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a task reports to its caller")]

mod ci;
mod cluster;
mod compare;
mod compilation;
mod compiler;
mod directories;
mod dist;
mod foreign_programs;
mod fuzz;
mod kaspa_rig;
mod percentiles;
mod readme;
mod rig;
mod rivals;
mod shell;
mod thresholds;
mod tidy;
mod tools;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};

use crate::shell::cargo;
use crate::workspace::target_dir;

const USAGE: &str = "\
cargo xtask <task>

  ci                   all that CI does, within 80 minutes: format, tidy, lints, tests, help text, README,
                       benchmarks, packages, profile, default features; HYDRANT_CI_BUDGET_S sets another
                       limit
  test [ARGS...]       all tests of the workspace; the arguments go to `cargo test`. Without arguments, tests that
                       need Go, Chromium, the Solana CLI, spl-token or Anchor run too if these are there
  tidy                 the rules that neither rustc nor clippy knows; see ARCHITECTURE.md
                       --wording CRATE: the lines of a crate whose wording is still to be rewritten
                       --update-budgets: lowers the numbers of such lines in xtask/wording_budgets.txt
  lints                builds our crates and tests with Clippy and rustdoc, without a warning
  bench NAME [ARGS...] one benchmark, in release; `bench list` names them
  bench rivals [OPTIONS]   Hydrant, solana-test-validator and surfpool in one run; `bench rivals --help`
                       --write: writes the table of README.md
  bars [NAME...] [-- ARGS...]   benchmarks at full size, each value against its bar; fails if one falls short
                       --write: each result goes into its page of docs/benchmarks and into BENCHMARKS.md
                       ARGS are those of each benchmark: `bars --write agave -- --keep`
                       `bars cluster -- --only PART` stores one part, and `bars --write cluster` measures the others
                       --summary: runs nothing, writes BENCHMARKS.md from docs/benchmarks
  toys                 every benchmark at toy size: none has rotted
  profile [--built]    instructions of each kind of response, compared with the recorded ones
                       --built: of the programs that `toys` has built
  fuzz [SECONDS [TARGET...]]   each fuzz target for that time
  rig [OPTIONS]        a real validator with our plugin, followed and compared; `rig --help`
  rig kaspa [OPTIONS]  a real kaspad, followed and compared; `rig kaspa --help`
  cluster [OPTIONS]    three NATS servers, two ingesters and three replicas, compared; `cluster --help`
  cluster chaos [OPTIONS]   and killed, stopped, cut off, truncated and damaged, one after the other
  cluster soak [OPTIONS]    and compared for an hour at twice the rate, with samples of memory, positions and lag
  compare [OPTIONS]    a real validator and ours, side by side; fails if a response is wrong; `compare --help`
  tools                the command-line tools that tests run, built once: ~/.cache/hydrant-tools or HYDRANT_TOOLS
                       --rivals: the programs that `bench rivals` measures, at full optimization; an hour.
                       `bench agave` measures one of them
  dist [OPTIONS]       all packages of a release build, from the tarball to the wheel; `dist --help`
  readme               runs every command of README.md
  help-text [--write]  compares the help texts in docs/ with those of the binary
                       --built: both of these with the binary that the tests have built
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(compiled) = compiler::run(&args) {
        return compiled.map_or(ExitCode::FAILURE, ExitCode::from);
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            println!("error: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let (task, rest) = match args.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("help", args),
    };
    let wants_help = rest.iter().any(|arg| arg == "--help");
    match task {
        // Before it builds anything. Other tasks have a help of their own, or give their arguments to another program.
        "ci" | "tidy" | "bars" | "lints" | "toys" | "profile" | "fuzz" | "tools" | "readme"
        | "help-text"
            if wants_help =>
        {
            println!("{USAGE}");
            Ok(())
        }
        "ci" => ci::run(),
        "test" => ci::test(rest),
        "tidy" => tidy::run(rest),
        "bench" if rest.first().is_some_and(|name| name == rivals::NAME) => rivals::run(&rest[1..]),
        "bench" => thresholds::bench(rest),
        "bars" => thresholds::run(rest),
        "lints" => ci::lints(&ci::one_pass::own_copy()?),
        "toys" => thresholds::run_toys(),
        "profile" => thresholds::profile(rest),
        "fuzz" => fuzz::run(rest),
        "rig" if rest.first().is_some_and(|chain| chain == kaspa_rig::NAME) => {
            kaspa_rig::run(&rest[1..])
        }
        "rig" if wants_help => {
            println!("{}", rig::USAGE);
            Ok(())
        }
        "rig" => rig::run(rest),
        cluster::NAME => cluster::run(rest),
        "compare" if wants_help => {
            println!("{}", compare::USAGE);
            Ok(())
        }
        "compare" => compare::run(rest),
        "tools" => tools::run(rest),
        "dist" if wants_help => {
            println!("{}", dist::USAGE);
            Ok(())
        }
        "dist" => dist::run(rest),
        dist::MOUNTED => dist::run_mounted(rest),
        "readme" => readme::run(&hydrant(rest)?),
        "help-text" => ci::help_text(&hydrant(rest)?, rest.iter().any(|arg| arg == "--write")),
        "help" | "-h" | "--help" => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("no task named `{task}`\n\n{USAGE}"),
    }
}

/// Returns the program `hydrant`. With `--built` it is the one that the tests have built, otherwise a release build
/// with the default features, which README.md's commands use. The help texts are the same with all features.
fn hydrant(args: &[String]) -> Result<PathBuf> {
    if args.iter().any(|arg| arg == "--built") {
        let built = target_dir().join("debug/hydrant");
        ensure!(built.exists(), "{} is not there; `cargo xtask test` builds it", built.display());
        return Ok(built);
    }
    cargo().args(["build", "--release", "--quiet"]).run()?;
    Ok(target_dir().join("release/hydrant"))
}
