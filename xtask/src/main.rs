//! The tasks of this repository, each one command: [`USAGE`] names them.
//!
//! Shape: one file a task. A task is a plain function; it starts other programs through `shell`.
//! Not here: the benchmarks (`crates/bench`), the checks of tidy (`tidy/`).
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a task talks to whoever started it")]

mod bars;
mod ci;
mod fuzz;
mod readme;
mod shell;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::shell::Cmd;

const USAGE: &str = "\
cargo xtask <task>

  ci                   all that CI does: format, tidy, lints, docs, tests, README, benchmarks, fuzzing
  test [ARGS...]       all tests of the workspace; the arguments go to `cargo test`
  tidy                 the rules that neither rustc nor clippy knows; see ARCHITECTURE.md
  bench NAME [ARGS...] one benchmark, in release; `bench list` names them
  bars [NAME...]       benchmarks at full size, each figure against its bar; fails if one falls short
                       --write: the table goes into BENCHMARKS.md
  fuzz [SECONDS [TARGET...]]   each fuzz target for so long
  readme               runs every command of README.md
  help-text [--write]  compares the help texts in docs/ with what the binary says
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(compiled) = fuzz::compile(&args) {
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
    match task {
        "ci" => ci::run(),
        "test" => ci::test(rest).map(drop),
        "tidy" => tidy::run(),
        "bench" => bars::bench(rest),
        "bars" => bars::run(rest),
        "fuzz" => fuzz::run(rest),
        "readme" => readme::run(),
        "help-text" => ci::help_text(rest.iter().any(|arg| arg == "--write")),
        "help" | "-h" | "--help" => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("no task named `{task}`\n\n{USAGE}"),
    }
}

/// `cargo`, the same that started us.
fn cargo() -> Cmd {
    Cmd::new(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
}
