//! Output of commands, and the clock.

use std::io::{IsTerminal, Write};
use std::time::Instant;

/// Prints a line on standard output. A closed standard output is ignored: it must not end a node.
pub(crate) fn print_line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Whether standard output is a terminal.
pub(crate) fn has_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// A text in bold on a terminal, unless `NO_COLOR` is set.
pub(crate) fn bold(text: &str) -> String {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if has_terminal() && !is_plain { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

/// Prints a line on standard error. A closed standard error is ignored.
pub(crate) fn print_stderr(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Returns the time of the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "only the program reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
