//! The accounts that each node preloads, as files of `--account-dir`: token accounts of one mint, and keys with SOL.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::compare::genesis::{Account, LAMPORTS, MINT, PAYER_LAMPORTS, mint, token};
use crate::compare::keys::{SYSTEM, TOKEN, address, base58, plain_address};
use crate::directories::remove_directory;

/// Number of keys that pay for transfers, and number of keys that receive them. No two transfers of a block need to
/// write the same account until each key has one.
pub(super) const PAYERS: u8 = 32;

/// State of a token account that is initialized.
const INITIALIZED: u8 = 1;

/// The files of the preloaded accounts.
pub(super) struct Dataset {
    pub(super) dir: PathBuf,
    /// A directory without accounts.
    pub(super) empty_dir: PathBuf,
    /// One of the token accounts.
    pub(super) token_account: String,
    /// The mint of all token accounts.
    pub(super) mint: String,
    /// The owner of some of the token accounts.
    pub(super) owner: String,
}

impl Dataset {
    /// Writes the files below `dir`.
    pub(super) fn write(dir: &Path, token_accounts: u32) -> Result<Self> {
        let empty_dir = dir.join("no-accounts");
        fs::create_dir_all(&empty_dir).with_context(|| empty_dir.display().to_string())?;
        let dir = dir.join("accounts");
        remove_directory(&dir)?;
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        for key in 0..2 * PAYERS {
            let lamports = PAYER_LAMPORTS;
            Account { address: address(key), owner: SYSTEM, lamports, data: Vec::new() }
                .write(&dir)?;
        }
        let mint_account = plain_address(MINT);
        let account = |address, data| Account { address, owner: TOKEN, lamports: LAMPORTS, data };
        account(mint_account.clone(), mint()).write(&dir)?;
        let balances: Vec<Vec<u8>> =
            (0..PAYERS).map(|owner| token(MINT, owner, INITIALIZED)).collect();
        for (number, data) in (0..token_accounts).zip(balances.iter().cycle()) {
            account(token_address(number), data.clone()).write(&dir)?;
        }
        let token_account = token_address(0);
        Ok(Self { dir, empty_dir, token_account, mint: mint_account, owner: address(0) })
    }
}

/// Returns the address of a token account by its number.
fn token_address(number: u32) -> String {
    let mut bytes = [201; 32];
    // The first bytes, as those of real keys differ.
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    base58(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_account_has_a_file() {
        let dir = std::env::temp_dir().join(format!("hydrant-dataset-{}", std::process::id()));
        let dataset = Dataset::write(&dir, 40).unwrap();
        let files = fs::read_dir(&dataset.dir).unwrap().count();
        assert_eq!(files, 40 + 1 + 2 * usize::from(PAYERS));
        let file = dataset.dir.join(format!("{}.json", dataset.token_account));
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains(TOKEN) && text.contains("\"space\":165"), "{text}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
