//! Hydrant: a read node for ledgers. This is the binary: flags, wiring, start and end of the process.

mod accounts_file;
mod admin;
mod api_key;
mod api_key_file;
mod api_key_usage;
mod banner;
mod bench;
mod bounds;
mod clone;
mod command_line;
mod config;
mod config_text;
mod console;
mod daemon;
mod dev;
mod dev_flags;
mod draining;
mod faucet_server;
mod follow;
mod follow_flags;
mod fork_metrics;
mod fork_setup;
mod generated_files;
mod grpc_setup;
mod index_flags;
mod input_file;
mod inspect;
mod log_filter;
mod log_format;
mod memory_report;
mod otlp;
mod process_setup;
mod queue_metrics;
mod rlimit;
mod service_manager;
mod serving_options;
mod shared_flags;
mod signals;
mod snapshot_file;
mod solana_cli_config;
mod status_line;
mod surfpool;
mod surfpool_flags;
mod test_validator;
mod tls_files;
mod tls_setup;
mod tpu;
mod tpu_metrics;
mod validator_log;

use std::path::Path;
use std::process::ExitCode;

use crate::banner::OutputStyle;
use crate::command_line::Command;
use crate::console::print_stderr;
use crate::surfpool::{SurfpoolArgs, SurfpoolSetup};

// Many short-lived responses on many threads are slow with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs `hydrant dev` with the meaning of surfpool's flags.
fn run_surfpool(args: SurfpoolArgs) -> anyhow::Result<()> {
    let setup = surfpool::setup(args, Path::new("."))?;
    let SurfpoolSetup { flags, accounts, lines, is_daemon } = setup;
    for line in lines {
        print_stderr(&format!("hydrant: {line}"));
    }
    if is_daemon {
        return daemon::start(flags.listen.bind_address, flags.rpc_port);
    }
    dev::run(flags, OutputStyle::Hydrant, accounts)
}

#[expect(clippy::print_stderr, reason = "the error that ends the process")]
fn main() -> ExitCode {
    let result = command_line::parse().and_then(|command| match command {
        Command::Dev(flags) => dev::run(*flags, OutputStyle::Hydrant, Vec::new()),
        Command::TestValidator(flags) => dev::run(*flags, OutputStyle::TestValidator, Vec::new()),
        Command::Surfpool(args) => run_surfpool(args),
        Command::Follow(flags) => follow::run(&flags),
        Command::Inspect(flags) => inspect::run(&flags),
        Command::Bench(flags) => bench::run(&flags),
        Command::Completions(flags) => {
            generated_files::print_completions(&flags, command_line::command())
        }
        Command::Man(flags) => generated_files::write_manual(&flags, command_line::command()),
        Command::Admin(flags) => admin::run_client(&flags),
        Command::ApiKey(flags) => api_key::run(&flags),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("hydrant: {err:#}");
            ExitCode::FAILURE
        }
    }
}
