//! What a command prints, and the time.

use std::io::Write;
use std::time::Instant;

/// Prints a line on standard output.
#[expect(clippy::print_stdout, reason = "what a command prints")]
pub(crate) fn print_line(text: &str) {
    println!("{text}");
}

/// Prints a line on standard error. A closed standard error is ignored.
pub(crate) fn print_stderr(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The time.
#[expect(clippy::disallowed_methods, reason = "the binary is where time begins")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
