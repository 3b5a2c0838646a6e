//! Code, lints and documentation of our crates in one pass over each crate.
//!
//! `cargo clippy` and `cargo doc` check all dependencies a second time, because a check shares nothing with a build.
//! Here Clippy's driver compiles our crates, and rustdoc reads the metadata of that build, so the dependencies are
//! built once: for lints, documentation and tests together.
//! Input: one start of the compiler. Output: the compiler's own output, and the pages below `target/ci/doc`.
//! Bounds: a warning of Clippy or rustdoc is an error.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::compilation::{Compilation, Purpose, exit_code};
use crate::shell::Cmd;
use crate::workspace::target_dir;

/// The arguments of Clippy, as `cargo clippy -- -D warnings` hands them over.
const CLIPPY_ARGS: &str = "-Dwarnings__CLIPPY_HACKERY__";

/// Makes `cargo` compile, lint and document our crates.
/// `program` is what [`own_copy`] returned.
pub(crate) fn wrap(cargo: Cmd, program: &Path) -> Cmd {
    // Clippy's driver records this variable. Cargo compiles again if it has changed.
    Purpose::OnePass.wrap(cargo, program).env("CLIPPY_ARGS", CLIPPY_ARGS)
}

/// Makes a copy of this program. Cargo replaces the original, because it is a crate of ours too.
pub(crate) fn own_copy() -> Result<PathBuf> {
    let copy = target_dir().join("ci").join("xtask");
    let this = std::env::current_exe()?;
    if this == copy {
        return Ok(copy);
    }
    std::fs::create_dir_all(target_dir().join("ci"))?;
    std::fs::copy(&this, &copy)
        .with_context(|| format!("copy {} to {}", this.display(), copy.display()))?;
    Ok(copy)
}

/// Compiles and documents one crate.
pub(crate) fn compile(compilation: &Compilation<'_>) -> Result<u8> {
    let driver = compilation.rustc.with_file_name("clippy-driver");
    let code = exit_code(Command::new(driver).arg(compilation.rustc).args(compilation.args))?;
    if code != 0 || !is_documented(compilation) {
        return Ok(code);
    }
    let rustdoc = compilation.rustc.with_file_name("rustdoc");
    exit_code(Command::new(rustdoc).args(rustdoc_args(compilation, &pages()?)))
}

/// Returns the folder of the pages: next to the copy of this program that runs.
fn pages() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("doc"))
}

/// Tests and build scripts have no pages.
fn is_documented(compilation: &Compilation<'_>) -> bool {
    let is_build_script =
        compilation.value("--crate-name").is_some_and(|name| name.starts_with("build_script_"));
    !compilation.has("--test") && !is_build_script
}

/// Returns the compiler's arguments as rustdoc takes them.
fn rustdoc_args(compilation: &Compilation<'_>, pages: &Path) -> Vec<String> {
    let is_program = compilation.value("--crate-type") == Some("bin");
    // A library and a program may have one name.
    let folder = if is_program { "programs" } else { "libraries" };
    let mut args = vec!["--out-dir".to_owned(), pages.join(folder).display().to_string()];
    let mut rest = compilation.args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--out-dir" | "--emit" => drop(rest.next()),
            emit if emit.starts_with("--emit=") => {}
            _ => args.push(arg.clone()),
        }
    }
    args.push("-Dwarnings".to_owned());
    if is_program {
        // `cargo doc` passes this for programs.
        args.push("--document-private-items".to_owned());
        args.push("-Arustdoc::private-intra-doc-links".to_owned());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn compilation<'a>(args: &'a [String]) -> Compilation<'a> {
        Compilation { rustc: Path::new("/bin/rustc"), args }
    }

    #[test]
    fn rustdoc_gets_its_arguments_and_a_folder() {
        let args = args(
            "--crate-name pool --edition=2024 src/lib.rs --crate-type lib --emit=dep-info,link -C opt-level=1 \
             --out-dir /t/debug/deps --extern log=/t/liblog.rlib",
        );
        assert_eq!(
            rustdoc_args(&compilation(&args), Path::new("/t/ci/doc")).join(" "),
            "--out-dir /t/ci/doc/libraries --crate-name pool --edition=2024 src/lib.rs --crate-type lib \
             -C opt-level=1 --extern log=/t/liblog.rlib -Dwarnings"
        );
    }

    #[test]
    fn tests_and_build_scripts_have_no_pages() {
        assert!(is_documented(&compilation(&args("--crate-name pool --crate-type lib"))));
        assert!(!is_documented(&compilation(&args("--crate-name pool --test"))));
        assert!(!is_documented(&compilation(&args(
            "--crate-name build_script_build --crate-type bin"
        ))));
    }
}
