//! The genesis of both nodes: accounts of every kind, as files of `--account-dir`, and two programs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::compare::keys::{
    PAYERS, SYSTEM, TOKEN, TOKEN_2022, address, bytes, plain, plain_address,
};
use crate::directories::remove_directory;
use crate::rig::build::program_dir;

/// Lamports of each payer at genesis: 1,000 SOL.
pub(crate) const PAYER_LAMPORTS: u64 = 1_000_000_000_000;
/// Lamports of every other account: enough for its rent.
pub(crate) const LAMPORTS: u64 = 100_000_000;

/// Numbers of the addresses without a key.
pub(crate) const MINT: u8 = 1;
pub(crate) const MINT_2022: u8 = 2;
pub(crate) const FROZEN: u8 = 3;
pub(crate) const MULTISIG: u8 = 4;
pub(crate) const DATA: u8 = 5;
pub(crate) const EMPTY: u8 = 6;
/// The first token account of each payer, in order; then those of Token-2022.
pub(crate) const TOKENS: u8 = 20;
pub(crate) const TOKENS_2022: u8 = 40;
/// The programs of the genesis.
pub(crate) const PROGRAMS: [u8; 2] = [60, 61];
/// An address without an account.
pub(crate) const ABSENT: u8 = 99;

/// The files from which both nodes make their genesis.
pub(crate) struct Genesis {
    pub(crate) accounts: PathBuf,
    /// The address and the file of each program.
    pub(crate) programs: Vec<(String, PathBuf)>,
}

/// An account of a genesis.
pub(crate) struct Account {
    pub(crate) address: String,
    pub(crate) owner: &'static str,
    pub(crate) lamports: u64,
    pub(crate) data: Vec<u8>,
}

impl Account {
    /// Writes the account as a file of `--account-dir`.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let Self { address, owner, lamports, data } = self;
        let text = json!({
            "pubkey": address,
            "account": {
                "lamports": lamports,
                "data": [BASE64_STANDARD.encode(data), "base64"],
                "owner": owner,
                "executable": false,
                "rentEpoch": u64::MAX,
                "space": data.len(),
            },
        });
        let file = dir.join(format!("{address}.json"));
        fs::write(&file, text.to_string()).with_context(|| file.display().to_string())
    }
}

impl Genesis {
    /// Writes the files below a directory.
    pub(crate) fn write(dir: &Path) -> Result<Self> {
        let accounts = dir.join("accounts");
        remove_directory(&accounts)?;
        fs::create_dir_all(&accounts)?;
        all_accounts().iter().try_for_each(|account| account.write(&accounts))?;
        let elves = program_dir()?;
        let files = ["spl_memo-4.0.0.so", "spl_associated_token_account-1.1.1.so"];
        let programs = PROGRAMS.iter().zip(files).map(|(number, file)| {
            let elf = elves.join(file);
            elf.exists().then(|| (plain_address(*number), elf)).context("a program is missing")
        });
        Ok(Self { accounts, programs: programs.collect::<Result<_>>()? })
    }
}

fn all_accounts() -> Vec<Account> {
    let account = |number, owner, data| Account {
        address: plain_address(number),
        owner,
        lamports: LAMPORTS,
        data,
    };
    let mut all = vec![
        account(MINT, TOKEN, mint()),
        account(MINT_2022, TOKEN_2022, mint()),
        account(FROZEN, TOKEN, token(MINT, 0, 2)),
        account(MULTISIG, TOKEN, multisig()),
        account(DATA, SYSTEM, (0..200).collect()),
        account(EMPTY, SYSTEM, Vec::new()),
    ];
    for payer in 0..PAYERS {
        let owner = SYSTEM;
        let lamports = PAYER_LAMPORTS;
        all.push(Account { address: address(payer), owner, lamports, data: Vec::new() });
        all.push(account(TOKENS + payer, TOKEN, token(MINT, payer, 1)));
        all.push(account(TOKENS_2022 + payer, TOKEN_2022, token(MINT_2022, payer, 1)));
    }
    all
}

/// Returns the data of a mint of 6 decimals. The first payer is its authority.
pub(crate) fn mint() -> Vec<u8> {
    let authority = bytes(&address(0));
    let mut data = Vec::new();
    for part in [
        &1_u32.to_le_bytes()[..],
        &authority,
        &9_000_000_u64.to_le_bytes(),
        &[6, 1],
        &1_u32.to_le_bytes(),
        &authority,
    ] {
        data.extend_from_slice(part);
    }
    data
}

/// Returns a token account of a payer with a token, in a state: 1 is initialized, 2 is frozen.
pub(crate) fn token(mint: u8, payer: u8, state: u8) -> Vec<u8> {
    let mut data = Vec::with_capacity(165);
    data.extend_from_slice(&plain(mint));
    data.extend_from_slice(&bytes(&address(payer)));
    data.extend_from_slice(&1_000_000_u64.to_le_bytes());
    data.extend_from_slice(&[0; 36]); // no delegate
    data.push(state);
    data.resize(165, 0);
    data
}

/// Returns the data of a multisig account that needs two of three payers.
fn multisig() -> Vec<u8> {
    let mut data = vec![2, 3, 1];
    (0..3).for_each(|payer| data.extend_from_slice(&bytes(&address(payer))));
    data.resize(355, 0);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_standard_lengths_and_distinct_addresses() {
        let all = all_accounts();
        let of = |number| all.iter().find(|it| it.address == plain_address(number));
        let len = |number| of(number).map(|it| it.data.len());
        assert_eq!([len(MINT), len(FROZEN), len(MULTISIG)], [Some(82), Some(165), Some(355)]);
        let mut addresses: Vec<_> = all.iter().map(|it| &it.address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), all.len());
    }
}
