//! This program in place of the compiler: cargo starts it for each crate of ours, as its `RUSTC_WORKSPACE_WRAPPER`.
//!
//! In: the path of `rustc` and its arguments. Out: what the compiler would have written, its messages, its exit code.
//! Dependencies are compiled by `rustc` itself, so every build shares them.
//! Not here: the tasks that need it (`fuzz`, `ci/one_pass`).

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::ci::one_pass;
use crate::fuzz;
use crate::shell::Cmd;

/// Set while this program stands in for the compiler: the name of a [`Purpose`].
const PURPOSE: &str = "HYDRANT_COMPILER";

/// How each crate of ours is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is compiled with the counters that libFuzzer needs.
    Coverage,
    /// It is compiled, linted and documented.
    OnePass,
}

/// One start of the compiler.
pub(crate) struct Compilation<'a> {
    pub(crate) rustc: &'a Path,
    pub(crate) args: &'a [String],
}

impl Purpose {
    const ALL: [Self; 2] = [Self::Coverage, Self::OnePass];

    fn name(self) -> &'static str {
        match self {
            Self::Coverage => "coverage",
            Self::OnePass => "one-pass",
        }
    }

    /// Makes `cargo` compile our crates with `program`, which is this program or a copy of it.
    pub(crate) fn wrap(self, cargo: Cmd, program: impl AsRef<OsStr>) -> Cmd {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", program).env(PURPOSE, self.name())
    }
}

impl Compilation<'_> {
    /// The value of an option that stands in an argument of its own.
    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        let at = self.args.iter().position(|arg| arg == option)?;
        self.args.get(at + 1).map(String::as_str)
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.args.iter().any(|arg| arg == option)
    }

    /// Cargo also asks what the compiler is and can, with a crate of the name `___`. That stays as it is.
    fn is_of_a_crate(&self) -> bool {
        self.value("--crate-name").is_some_and(|name| name != "___")
    }
}

/// Compiles a crate of ours if that is what this program was started for. Returns the compiler's exit code then.
pub(crate) fn run(args: &[String]) -> Option<Result<u8>> {
    let name = std::env::var(PURPOSE).ok()?;
    let purpose = Purpose::ALL.into_iter().find(|purpose| purpose.name() == name)?;
    let (rustc, rest) = args.split_first()?;
    let compilation = Compilation { rustc: Path::new(rustc), args: rest };
    if !compilation.is_of_a_crate() {
        return Some(exit_code(Command::new(rustc).args(rest)));
    }
    Some(match purpose {
        Purpose::Coverage => exit_code(Command::new(rustc).args(rest).args(fuzz::COVERAGE)),
        Purpose::OnePass => one_pass::compile(&compilation),
    })
}

/// Runs a program to its end.
pub(crate) fn exit_code(command: &mut Command) -> Result<u8> {
    let program = command.get_program().to_owned();
    // The programs that it starts are no stand-ins.
    let status = command.env_remove(PURPOSE).status();
    let status = status.with_context(|| format!("start {}", program.to_string_lossy()))?;
    Ok(status.code().map_or(1, |code| code as u8))
}
