//! Reads the configuration file of `--config`, for every command that runs a node.

use std::path::Path;

use anyhow::{Context, Result};

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
    parse(&text).with_context(|| format!("--config {}", path.display()))
}
