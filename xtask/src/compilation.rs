//! One start of the compiler, and the purpose for which this program stands in for it.
//!
//! Not here: what happens then (`compiler`).

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

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

    /// What this program was started for, if it stands in for the compiler.
    pub(crate) fn of_this_process() -> Option<Self> {
        let name = std::env::var(PURPOSE).ok()?;
        Self::ALL.into_iter().find(|purpose| purpose.name() == name)
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
    pub(crate) fn is_of_a_crate(&self) -> bool {
        self.value("--crate-name").is_some_and(|name| name != "___")
    }
}

/// Runs a program to its end.
pub(crate) fn exit_code(command: &mut Command) -> Result<u8> {
    let program = command.get_program().to_owned();
    // The programs that it starts are no stand-ins.
    let status = command.env_remove(PURPOSE).status();
    let status = status.with_context(|| format!("start {}", program.to_string_lossy()))?;
    Ok(status.code().map_or(1, |code| code as u8))
}
