//! Hydrant: a read node for ledgers. This is the binary: flags, wiring, start and end of the process.

mod accounts_file;
mod admin;
mod api_key;
mod api_key_file;
mod banner;
mod bench;
mod bounds;
mod clone;
mod command_line;
mod config;
mod console;
mod dev;
mod dev_flags;
mod draining;
mod follow;
mod follow_flags;
mod fork_metrics;
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
mod signals;
mod snapshot_file;
mod solana_cli_config;
mod status_line;
mod test_validator;
mod tls_files;
mod tls_setup;
mod tpu;
mod tpu_metrics;
mod validator_log;

use std::process::ExitCode;

use crate::banner::OutputStyle;
use crate::command_line::Command;

// Many short-lived responses on many threads are slow with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(clippy::print_stderr, reason = "the error that ends the process")]
fn main() -> ExitCode {
    let result = command_line::parse().and_then(|command| match command {
        Command::Dev(flags) => dev::run(*flags, OutputStyle::Hydrant),
        Command::TestValidator(flags) => dev::run(*flags, OutputStyle::TestValidator),
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
