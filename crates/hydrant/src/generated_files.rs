//! Files that are generated from the command line: shell completions and manual pages.
//!
//! Out: completions on standard output, manual pages in a directory. `cargo xtask dist` packages them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

use crate::console::print_line;
use crate::{surfpool, test_validator};

/// The program that the completions are for.
const PROGRAM: &str = "hydrant";

/// The flags of `hydrant completions`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionsFlags {
    /// The shell that the completions are for.
    shell: Shell,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ManFlags {
    /// Write the pages to this existing directory.
    dir: PathBuf,
}

/// Prints the completions of `command`, the whole command line, for a shell.
pub(crate) fn print_completions(flags: &CompletionsFlags, mut command: Command) -> Result<()> {
    let mut completions = Vec::new();
    clap_complete::generate(flags.shell, &mut command, PROGRAM, &mut completions);
    print_line(String::from_utf8(completions).context("completions")?.trim_end());
    Ok(())
}

/// Writes a manual page for each command below `command`, each under its own name.
pub(crate) fn write_manual(flags: &ManFlags, command: Command) -> Result<()> {
    let dir = &flags.dir;
    // Those that show themselves under the name of another program.
    let names = [test_validator::COMMAND, surfpool::COMMAND];
    let command = names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |it| it.display_name(format!("{PROGRAM}-{name}")))
    });
    clap_mangen::generate_to(command, dir)
        .with_context(|| format!("write manual pages to {}", dir.display()))
}
