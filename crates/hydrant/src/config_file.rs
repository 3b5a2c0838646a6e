//! Reads the configuration file of `--config`, for every command that runs a node.

use std::path::Path;

use anyhow::{Context, Result};

use crate::fixed_limits;
use crate::input_file;

/// Bytes of a configuration file: some ten thousand lines.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Reads the settings of the `--config` file.
pub(crate) fn read_toml<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, toml::de::Error>,
) -> Result<T> {
    let text = input_file::read(path, CONFIG_BYTES_MAX).context("--config")?;
    let text = String::from_utf8(text).with_context(|| format!("--config {}", path.display()))?;
    parse_toml(&text, parse).with_context(|| format!("--config {}", path.display()))
}

/// Parses the text of a file. The error of a key that is a constant now names its value.
pub(crate) fn parse_toml<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, toml::de::Error>,
) -> Result<T> {
    parse(text).map_err(|err| {
        let is_unknown_key = err.message().starts_with("unknown field");
        let limit = is_unknown_key.then(|| fixed_limits::find_key(text)).flatten();
        match limit {
            Some(limit) => anyhow::Error::new(err).context(limit),
            None => anyhow::Error::new(err),
        }
    })
}
