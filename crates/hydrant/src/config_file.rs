//! Reads the configuration file of `--config`, for every command that runs a node.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use http_client::redact_urls;

use crate::fixed_limits;

/// Bytes of a configuration file: some ten thousand lines.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The flag of the file.
pub(crate) const FLAG: &str = "--config";

/// Reads the settings of the file of `flag`.
pub(crate) fn read_toml<T>(
    flag: &'static str,
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, toml::de::Error>,
) -> Result<T> {
    let text = input_file::read(path, CONFIG_BYTES_MAX).context(flag)?;
    let text = String::from_utf8(text).with_context(|| format!("{flag} {}", path.display()))?;
    parse_toml(&text, parse).with_context(|| format!("{flag} {}", path.display()))
}

/// Parses the text of a file. The error of a key that is a constant now names its value.
pub(crate) fn parse_toml<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, toml::de::Error>,
) -> Result<T> {
    parse(text).map_err(|err| {
        let is_unknown_key = err.message().starts_with("unknown field");
        let limit = is_unknown_key.then(|| fixed_limits::find_key(text)).flatten();
        // It quotes a line, which may have a URL with a secret.
        let err = anyhow!("{}", redact_urls(&err.to_string()));
        match limit {
            Some(limit) => err.context(limit),
            None => err,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::flags::FollowFlags;

    #[test]
    fn an_error_quotes_no_secret_of_a_url() {
        for text in [
            "[follow]\nsource = \"https://u:KEY@h/KEY?k=KEY\"",
            "[follow]\nupstream = \"https://h/KEY\" x",
            "[follow]\nverify-source = [\"https://h/KEY\", 1]",
        ] {
            let err = parse_toml(text, FollowFlags::from_toml).expect_err("it is refused");
            let err = format!("{err:#}");
            assert!(err.contains("line 2") && err.contains("\"https://h\""), "{err}");
            assert!(!err.contains("KEY"), "{err}");
        }
    }
}
