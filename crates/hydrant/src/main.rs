//! The program `hydrant`: its allocator, its command, its exit code.

use std::process::ExitCode;

// Many short-lived responses on many threads are slow with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(clippy::print_stderr, reason = "the error that ends the process")]
fn main() -> ExitCode {
    match hydrant::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("hydrant: {err:#}");
            ExitCode::FAILURE
        }
    }
}
