//! One start of the compiler, if cargo starts this program as its wrapper, and the purpose of the wrapper.
//!
//! Not here: the compilation itself (`compiler`).

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::Cmd;

/// Set while this program wraps the compiler: the name of a [`Purpose`].
const PURPOSE: &str = "HYDRANT_COMPILER";

/// The way in which each crate of ours is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is compiled with the counters that libFuzzer needs.
    Coverage,
    /// It is compiled, linted and documented.
    OnePass,
}

/// Arguments of one start of the compiler.
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

    /// Returns the purpose of this process if it wraps the compiler.
    pub(crate) fn from_environment() -> Option<Self> {
        let name = std::env::var(PURPOSE).ok()?;
        Self::ALL.into_iter().find(|purpose| purpose.name() == name)
    }

    /// Makes `cargo` compile our crates with `program`, which is this program or a copy of it.
    pub(crate) fn wrap(self, cargo: Cmd, program: impl AsRef<OsStr>) -> Cmd {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", program).env(PURPOSE, self.name())
    }
}

impl Compilation<'_> {
    /// Returns the value of an option if it is the argument after the option.
    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        let at = self.args.iter().position(|arg| arg == option)?;
        self.args.get(at + 1).map(String::as_str)
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.args.iter().any(|arg| arg == option)
    }

    /// Whether it compiles a crate. Cargo also queries the compiler's version and features, with a crate named `___`.
    pub(crate) fn has_crate(&self) -> bool {
        self.value("--crate-name").is_some_and(|name| name != "___")
    }
}

/// Runs a program and returns its exit code.
pub(crate) fn exit_code(command: &mut Command) -> Result<u8> {
    let program = command.get_program().to_owned();
    // The programs that it starts do not wrap the compiler.
    let status = command.env_remove(PURPOSE).status();
    let status = status.with_context(|| format!("start {}", program.to_string_lossy()))?;
    Ok(status.code().map_or(1, |code| code as u8))
}
