//! `hydrant api-key`: creates keys for the file of `--api-keys`.
//!
//! Invariant: a key is printed once, on standard output, and stored nowhere.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};
use api_keys::{KeyFile, KeyHash};
use clap::{Args, Subcommand};

use crate::console::{print_line, print_stderr};

/// Number of random bytes in a key.
const KEY_BYTES: usize = 32;
/// The first characters of a key, by which programs that search for secrets find one.
const KEY_PREFIX: &str = "hyd_";

/// The flags of `hydrant api-key`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ApiKeyFlags {
    #[command(subcommand)]
    command: ApiKeyCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum ApiKeyCommand {
    /// Print a new key, and its entry for the file of --api-keys.
    ///
    /// The first line on standard output is the key. It is shown only once: the entry has its SHA-256. All other lines are
    /// the entry.
    New {
        /// Give the key this name in metrics, reports and the log.
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Give the key the limits of this tier.
        #[arg(long, value_name = "TIER")]
        tier: String,
    },
}

pub(crate) fn run(flags: &ApiKeyFlags) -> Result<()> {
    let ApiKeyCommand::New { name, tier } = &flags.command;
    let key = new_key()?;
    let entry = entry(name, tier, &KeyHash::of_key(key.as_bytes()))?;
    print_stderr("hydrant: the key is on the first line, and is not shown again");
    print_line(&format!("{key}\n\n{entry}"));
    Ok(())
}

/// Returns a random key of visible characters that need no escape in a URL.
fn new_key() -> Result<String> {
    let mut bytes = [0; KEY_BYTES];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.context("read random bytes from /dev/urandom")?;
    Ok(format!("{KEY_PREFIX}{}", bs58::encode(bytes).into_string()))
}

/// The entry of a key. It is checked as the file is.
fn entry(name: &str, tier: &str, hash: &KeyHash) -> Result<String> {
    let entry = format!("[[keys]]\nname = {name:?}\nsha256 = \"{hash}\"\ntier = {tier:?}");
    KeyFile::parse(&format!("[tiers.{tier:?}]\n{entry}")).context("--name or --tier")?;
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_random_and_their_entries_are_valid() {
        let one = new_key().expect("a key");
        let two = new_key().expect("a key");
        assert_ne!(one, two);
        assert!(one.starts_with("hyd_") && one.len() > 40, "{one}");
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{one}");
        let hash = KeyHash::of_key(one.as_bytes());
        let valid = entry("alice", "free", &hash).expect("it is valid");
        assert!(valid.contains(&hash.to_string()) && !valid.contains(&one), "{valid}");
        for (name, tier) in [("", "free"), ("a b", "free"), ("a", ""), ("a", "x\"]\n"), ("\n", "t")]
        {
            assert!(entry(name, tier, &hash).is_err(), "{name:?} {tier:?}");
        }
    }
}
