//! The program `hydrant`: its allocator, its command, its exit code.

use std::process::ExitCode;

use http_client::shorten_middle;

/// Bytes of the error that ends the process. It may quote a file or a server's response.
const ERROR_BYTES_MAX: usize = 8 << 10;

// Many short-lived responses on many threads are slow with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(clippy::print_stderr, reason = "the error that ends the process")]
fn main() -> ExitCode {
    match hydrant::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("hydrant: {}", shorten_middle(&format!("{err:#}"), ERROR_BYTES_MAX));
            ExitCode::FAILURE
        }
    }
}
