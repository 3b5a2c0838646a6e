//! The keypair that the Solana CLI's configuration names.
//!
//! In: the file that `solana config set` writes, in YAML. Out: `keypair_path`, or the keypair's address.
//! Bounds: [`BYTES_MAX`]. Other keys are not read, as `solana-test-validator` does not read them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use solana_pubkey::Pubkey;

use crate::accounts_file;

/// Path of the file below the user's home.
const FILE: &str = ".config/solana/cli/config.yml";
/// Default path of the keypair below the user's home.
const KEYPAIR_FILE: &str = ".config/solana/id.json";
/// Bytes of the file: it has five lines.
const BYTES_MAX: u64 = 64 << 10;

/// The part of the file that is read.
#[derive(Deserialize)]
struct CliConfig {
    #[serde(default)]
    keypair_path: Option<String>,
}

/// Returns the address of the wallet: of the keypair that `file` names, or else the file in the home directory. `None`
/// without such a keypair, which is not an error, as in `solana-test-validator`.
pub(crate) fn wallet(file: Option<&Path>, home: Option<&Path>) -> Option<Pubkey> {
    let default_file = home.map(|home| home.join(FILE));
    let named = file.or(default_file.as_deref()).and_then(|file| keypair_path(file).ok().flatten());
    let keypair = named.or_else(|| home.map(|home| home.join(KEYPAIR_FILE)))?;
    accounts_file::keypair_address(&keypair).ok()
}

/// Reads the path of the keypair; `None` if the file does not name one.
pub(crate) fn keypair_path(path: &Path) -> Result<Option<PathBuf>> {
    let text = input_file::read(path, BYTES_MAX)?;
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    let config: CliConfig =
        serde_yaml_ng::from_slice(&text).with_context(|| path.display().to_string())?;
    Ok(config.keypair_path.filter(|path| !path.is_empty()).map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use solana_keypair::{Keypair, write_keypair_file};
    use solana_signer::Signer;

    use super::*;

    fn parse_text(text: &str) -> Result<Option<PathBuf>> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.yml");
        std::fs::write(&path, text).expect("it is written");
        keypair_path(&path)
    }

    #[test]
    fn the_keypair_of_the_cli_is_found() {
        let written = "---\njson_rpc_url: \"http://localhost:8899\"\nwebsocket_url: \"\"\n\
                       keypair_path: /home/a/my key.json\naddress_labels:\n  \"1111\": System Program\n\
                       commitment: confirmed\n";
        let some = |text: &str| parse_text(text).expect("valid YAML").expect("it names one");
        assert_eq!(some(written), Path::new("/home/a/my key.json"));
        for same in [
            "keypair_path: \"/k.json\"",
            "keypair_path:   '/k.json'  ",
            "keypair_path: /k.json # mine",
            "keypair_path: >-\n  /k.json\n",
            "{keypair_path: /k.json}",
            "a: &key /k.json\r\nkeypair_path: *key\r\n",
            "\"keypair_path\": \"\\x2fk.json\"",
        ] {
            assert_eq!(some(same), Path::new("/k.json"), "{same}");
        }
        let none = [
            "",
            "\n",
            "keypair_path:",
            "keypair_path: ~",
            "keypair_path: ''",
            "other: 1",
            "a:\n  keypair_path: k",
        ];
        for none in none {
            assert_eq!(parse_text(none).expect("valid YAML"), None, "{none}");
        }
        for invalid in ["keypair_path: [", "\t- a", "keypair_path: {a: 1}", "text"] {
            assert!(parse_text(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_wallet_that_cannot_be_read_is_none() {
        let home = tempfile::tempdir().expect("a directory");
        let home = home.path();
        let config = home.join("config.yml");
        let named = home.join("named.json");
        let wallet_of = |text: &str| {
            std::fs::write(&config, text).expect("it is written");
            wallet(Some(&config), Some(home))
        };
        let name = format!("keypair_path: {} # mine", named.display());
        for text in ["keypair_path: usb://ledger", &name, "keypair_path: /", "keypair_path: ["] {
            assert_eq!(wallet_of(text), None, "{text}");
        }
        assert_eq!(wallet(None, None), None);
        let keys = [Keypair::new(), Keypair::new()];
        std::fs::create_dir_all(home.join(".config/solana")).expect("a directory");
        write_keypair_file(&keys[0], home.join(KEYPAIR_FILE)).expect("it is written");
        write_keypair_file(&keys[1], &named).expect("it is written");
        assert_eq!(wallet_of(&name), Some(keys[1].pubkey()));
        assert_eq!(wallet_of("keypair_path: usb://ledger"), None, "it names another wallet");
        // A file that names none, or is none, leaves the default.
        assert_eq!(wallet_of("keypair_path: ["), Some(keys[0].pubkey()));
        assert_eq!(wallet(Some(Path::new("/nowhere")), Some(home)), Some(keys[0].pubkey()));
        assert_eq!(wallet(None, Some(home)), Some(keys[0].pubkey()));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_with_its_name() {
        let err = keypair_path(Path::new("/nowhere/config.yml")).expect_err("no such file");
        assert!(err.to_string().contains("/nowhere/config.yml"), "{err}");
    }
}
