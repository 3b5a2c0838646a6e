//! Accounts and programs of genesis, from files as the Solana CLI writes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use localnet::{GenesisAccount, GenesisLoader, GenesisProgram, read_keypair};
use serde::Deserialize;
use solana_account_decoder_client_types::UiAccount;
use solana_pubkey::Pubkey;
use solana_signer::Signer;

/// What `solana account --output json` writes.
#[derive(Deserialize)]
struct AccountFile {
    pubkey: String,
    account: UiAccount,
}

/// An address, or the address of a keypair file.
pub(crate) fn address_or_keypair(text: &str) -> Result<Pubkey> {
    if let Ok(address) = Pubkey::from_str(text) {
        return Ok(address);
    }
    let path = Path::new(text);
    ensure!(path.exists(), "{text:?} is neither an address nor a keypair file");
    Ok(read_keypair(path)?.pubkey())
}

/// One account; `given` is its address, or "-" for the one in the file.
pub(crate) fn account(given: &str, path: &Path) -> Result<GenesisAccount> {
    let text = fs::read(path).with_context(|| format!("--account {}", path.display()))?;
    let file: AccountFile = serde_json::from_slice(&text).with_context(|| {
        format!("{}: not as `solana account --output json` writes it", path.display())
    })?;
    let address = match given {
        "-" => Pubkey::from_str(&file.pubkey)
            .with_context(|| format!("{}: pubkey {:?}", path.display(), file.pubkey))?,
        given => address_or_keypair(given)?,
    };
    let Some(account) = file.account.to_account_shared_data() else {
        bail!("{}: the account's data does not decode", path.display());
    };
    Ok(GenesisAccount { address, account })
}

/// Every account of a directory, in the order of the files' names.
pub(crate) fn account_dir(dir: &Path) -> Result<Vec<GenesisAccount>> {
    let entries = fs::read_dir(dir).with_context(|| format!("--account-dir {}", dir.display()))?;
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("--account-dir {}", dir.display()))?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            files.push(path);
        }
    }
    files.sort();
    files.iter().map(|path| account("-", path)).collect()
}

/// A program; `authority` is given for one that can be upgraded.
pub(crate) fn program(id: &str, path: &Path, authority: Option<&str>) -> Result<GenesisProgram> {
    let elf = fs::read(path).with_context(|| format!("program {}", path.display()))?;
    let loader = match authority {
        None | Some("none") => GenesisLoader::Final,
        Some(authority) => GenesisLoader::Upgradeable(address_or_keypair(authority)?),
    };
    Ok(GenesisProgram { program_id: address_or_keypair(id)?, elf, loader })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"pubkey":"SysvarC1ock11111111111111111111111111111111","account":
        {"lamports":7,"data":["AQID","base64"],"owner":"11111111111111111111111111111111",
         "executable":false,"rentEpoch":18446744073709551615,"space":3}}"#;

    fn check(text: &str, address: &str) -> Result<GenesisAccount> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("account.json");
        fs::write(&path, text)?;
        account(address, &path)
    }

    #[test]
    fn an_account_file_is_read_as_the_cli_writes_it() {
        use solana_account::ReadableAccount;
        let read = check(FILE, "-").expect("a good file");
        assert_eq!(read.address.to_string(), "SysvarC1ock11111111111111111111111111111111");
        assert_eq!(read.account.data(), [1, 2, 3]);
        let given = "Vote111111111111111111111111111111111111111";
        assert_eq!(check(FILE, given).expect("a good file").address.to_string(), given);
    }

    #[test]
    fn a_bad_account_file_is_refused_by_name() {
        let err = |text: &str| format!("{:#}", check(text, "-").expect_err("a bad file"));
        assert!(err("{}").contains("account.json: not as `solana account --output json`"));
        assert!(err(&FILE.replace("AQID", "***")).contains("account.json: the account's data"));
        assert!(err(&FILE.replace("SysvarC1ock", "0OIl")).contains("account.json: pubkey"));
    }
}
