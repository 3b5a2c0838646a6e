//! Arguments of the benchmarks: flags with values.

use anyhow::{Result, bail};

/// The value that follows `flag`, if present.
pub(crate) fn value_of<'a>(args: &'a [String], flag: &str) -> Result<Option<&'a str>> {
    let Some(at) = args.iter().position(|arg| arg == flag) else { return Ok(None) };
    match args.get(at + 1) {
        Some(value) => Ok(Some(value)),
        None => bail!("{flag} needs a value"),
    }
}
