//! Hydrant: a read node for ledgers. This is the binary: flags, wiring, the life of the process.

mod accounts_file;
mod banner;
mod bench;
mod cli;
mod descriptors;
mod dev;
mod indices;
mod inspect;
mod options;
mod queue_metrics;
mod snapshot_file;
mod status_line;
mod tpu;
mod tpu_figures;
mod usage;
mod validator_log;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

// Many short-lived answers on many threads: the system's allocator is the first to suffer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(clippy::print_stderr, reason = "the last word of a process that could not go on")]
fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Dev(flags) => dev::run(*flags),
        Command::Inspect(flags) => inspect::run(&flags),
        Command::Bench(flags) => bench::run(&flags),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("hydrant: {err:#}");
            ExitCode::FAILURE
        }
    }
}
