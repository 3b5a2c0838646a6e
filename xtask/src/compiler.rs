//! This program as wrapper of the compiler: cargo starts it for each crate of ours, as its `RUSTC_WORKSPACE_WRAPPER`.
//!
//! Input: the path of `rustc` and its arguments. Output: the compiler's files, messages and exit code.
//! Dependencies are compiled by `rustc` itself, so every build shares them.
//! Not here: the tasks that need it (`fuzz`, `ci/one_pass`).

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::ci::one_pass;
use crate::compilation::{Compilation, Purpose, exit_code};
use crate::fuzz;

/// Compiles a crate of ours if that is what this program was started for. Returns the compiler's exit code then.
pub(crate) fn run(args: &[String]) -> Option<Result<u8>> {
    let purpose = Purpose::from_environment()?;
    let (rustc, rest) = args.split_first()?;
    let compilation = Compilation { rustc: Path::new(rustc), args: rest };
    if !compilation.has_crate() {
        return Some(exit_code(Command::new(rustc).args(rest)));
    }
    Some(match purpose {
        Purpose::Coverage => exit_code(Command::new(rustc).args(rest).args(fuzz::COVERAGE)),
        Purpose::OnePass => one_pass::compile(&compilation),
    })
}
