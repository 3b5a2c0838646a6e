//! The keypair that the Solana CLI's configuration names.
//!
//! In: the file that `solana config set` writes: a YAML mapping of names to text, one a line. Out: `keypair_path`.
//! Bounds: [`BYTES_MAX`]. Other keys are not read, as `solana-test-validator` does not read them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::input_file;

/// Where the file is, below the user's home.
pub(crate) const FILE: &str = ".config/solana/cli/config.yml";
/// Bytes of the file: it has five lines.
const BYTES_MAX: u64 = 64 << 10;
const KEY: &str = "keypair_path";

/// The path of the keypair; `None` if the file does not name one.
pub(crate) fn keypair_path(path: &Path) -> Result<Option<PathBuf>> {
    let text = String::from_utf8(input_file::read(path, BYTES_MAX)?);
    let text = text.with_context(|| path.display().to_string())?;
    Ok(text.lines().find_map(value).map(PathBuf::from))
}

/// The value of a line that has the key.
fn value(line: &str) -> Option<&str> {
    let value = line.strip_prefix(KEY)?.trim_start().strip_prefix(':')?.trim();
    let quoted = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    (!value.is_empty() && value != "~" && value != "null").then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<PathBuf> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.yml");
        std::fs::write(&path, text).expect("it is written");
        keypair_path(&path).expect("it is read")
    }

    #[test]
    fn the_keypair_of_the_cli_is_found() {
        let written = "---\njson_rpc_url: \"http://localhost:8899\"\nwebsocket_url: \"\"\n\
                       keypair_path: /home/a/my key.json\naddress_labels:\n  \"1111\": System Program\n\
                       commitment: confirmed\n";
        assert_eq!(parsed(written), Some("/home/a/my key.json".into()));
        for quoted in ["keypair_path: \"/k.json\"", "keypair_path:   '/k.json'  "] {
            assert_eq!(parsed(quoted), Some("/k.json".into()), "{quoted}");
        }
        for none in ["", "keypair_path:", "keypair_path: ~", "  keypair_path: /nested", "other: 1"]
        {
            assert_eq!(parsed(none), None, "{none}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_with_its_name() {
        let err = keypair_path(Path::new("/nowhere/config.yml")).expect_err("no such file");
        assert!(err.to_string().contains("/nowhere/config.yml"), "{err}");
    }
}
