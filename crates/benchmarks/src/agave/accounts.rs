//! The accounts that both programs preload, as files of `--account-dir`, and the inputs of requests for them.
//!
//! Input: the token accounts of a snapshot archive, or a number of accounts to be made in the shape of the sample that
//! Agave wrote: 50 mints, and one owner for twelve accounts, of whom a few own most. Delegated accounts are added
//! to either. Output: a file for each account, and up to [`INPUTS_MAX`] addresses of each kind, in random order.
//! Not here: blocks and signatures (`history`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use loadgen_solana::Inputs;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use solana_pubkey::Pubkey;
use testkit::archive;
use testkit::sample_ledger;
use testkit::zipf::Zipf;

use crate::node::write_account_file;

/// The seed of all addresses and of their order.
const SEED: u64 = 3_242;
/// Addresses of each kind that requests name.
const INPUTS_MAX: usize = 1_000;

const MINTS: u64 = 50;
const ACCOUNTS_PER_OWNER: u64 = 12;
const MINT_DECIMALS: u8 = 6;
const MINT_SUPPLY: u64 = 1_000_000_000_000_000;
/// Lamports with which the accounts are rent-exempt.
const TOKEN_LAMPORTS: u64 = 2_039_280;
const MINT_LAMPORTS: u64 = 1_461_600;

/// Delegates, and accounts that are delegated to each.
const DELEGATES: usize = 100;
const ACCOUNTS_PER_DELEGATE: usize = 10;

/// Lengths of a mint and of a token account in bytes.
const MINT_BYTES: usize = 82;
const TOKEN_BYTES: usize = 165;

/// The source of the token accounts.
pub(super) enum AccountSource {
    Archive(PathBuf),
    /// Made from the seed, this many.
    Made(u64),
}

/// The files of the preloaded accounts.
pub(super) struct Accounts {
    pub(super) dir: PathBuf,
    /// The addresses that requests name.
    pub(super) inputs: Inputs,
    /// A description of the accounts: if it is the same, they are the same.
    pub(super) description: String,
}

#[derive(Serialize, Deserialize)]
struct Written {
    source: String,
    description: String,
    inputs: Inputs,
}

/// A mint or a token account.
struct TokenRecord {
    address: Pubkey,
    lamports: u64,
    data: Vec<u8>,
}

impl AccountSource {
    fn name(&self) -> String {
        match self {
            Self::Archive(path) => format!("sample {}", path.display()),
            Self::Made(count) => format!("{count} made"),
        }
    }

    /// Returns the mints and token accounts, in the order of their addresses.
    fn records(&self) -> Result<Vec<TokenRecord>> {
        match self {
            Self::Archive(path) => read_archive(path),
            Self::Made(count) => Ok(generate_records(*count)),
        }
    }
}

impl Accounts {
    /// Writes the files below `dir`, unless an earlier run has.
    pub(super) fn write(dir: &Path, source: &AccountSource) -> Result<Self> {
        let summary = dir.join("accounts.json");
        let accounts_dir = dir.join("accounts");
        let earlier = fs::read(&summary).ok();
        let earlier = earlier.and_then(|text| serde_json::from_slice::<Written>(&text).ok());
        if let Some(Written { description, inputs, .. }) =
            earlier.filter(|written| written.source == source.name())
        {
            return Ok(Self { dir: accounts_dir, inputs, description });
        }
        if accounts_dir.exists() {
            fs::remove_dir_all(&accounts_dir)?;
        }
        fs::create_dir_all(&accounts_dir)?;
        let mut records = source.records()?;
        let count = records.len();
        records.extend(generate_delegated(&records)?);
        records.iter().try_for_each(|record| record.write(&accounts_dir))?;
        let kind = match source {
            AccountSource::Archive(_) => "of the sample",
            AccountSource::Made(_) => "made in the shape of the sample",
        };
        let description = format!(
            "{count} mints and token accounts {kind}, and {} delegated ones",
            records.len() - count
        );
        let inputs = inputs(&records);
        let source = source.name();
        let written = Written { source, description, inputs };
        fs::write(&summary, serde_json::to_vec(&written)?)?;
        let Written { description, inputs, .. } = written;
        Ok(Self { dir: accounts_dir, inputs, description })
    }
}

impl TokenRecord {
    fn write(&self, dir: &Path) -> Result<()> {
        let Self { address, lamports, data } = self;
        write_account_file(dir, address, &spl_token_interface::id(), *lamports, data)
    }
}

/// Reads the mints and token accounts of an archive.
fn read_archive(path: &Path) -> Result<Vec<TokenRecord>> {
    let mut accounts = archive::Accounts::default();
    let files = archive::files(path).with_context(|| path.display().to_string())?;
    accounts.add(&files).with_context(|| format!("{}: a file is cut off", path.display()))?;
    let program = spl_token_interface::id().to_bytes();
    let records = accounts.newest.into_iter().filter(|(_, account)| {
        account.owner == program
            && account.lamports > 0
            && [MINT_BYTES, TOKEN_BYTES].contains(&account.data.len())
    });
    let records: Vec<TokenRecord> = records
        .map(|(address, account)| TokenRecord {
            address,
            lamports: account.lamports,
            data: account.data,
        })
        .collect();
    ensure!(!records.is_empty(), "{} has no token account", path.display());
    Ok(records)
}

fn generate_records(count: u64) -> Vec<TokenRecord> {
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut address = || Pubkey::new_from_array(rng.random());
    let mints: Vec<Pubkey> = (0..MINTS).map(|_| address()).collect();
    let owners: Vec<Pubkey> = (0..(count / ACCOUNTS_PER_OWNER).max(1)).map(|_| address()).collect();
    let mut records: Vec<TokenRecord> = mints
        .iter()
        .map(|mint| TokenRecord {
            address: *mint,
            lamports: MINT_LAMPORTS,
            data: sample_ledger::mint(MINT_DECIMALS, MINT_SUPPLY),
        })
        .collect();
    let by_mint = Zipf::new(count, mints.len() as u64);
    let by_owner = Zipf::new(count, owners.len() as u64);
    for number in 0..count {
        let mint = mints[by_mint.rank(number) as usize];
        let owner = owners[by_owner.rank_at(rng.random()) as usize];
        records.push(TokenRecord {
            address: Pubkey::new_from_array(rng.random()),
            lamports: TOKEN_LAMPORTS,
            data: sample_ledger::token(mint, owner, 1 + number, None),
        });
    }
    records
}

/// Generates delegated accounts of an existing mint.
fn generate_delegated(records: &[TokenRecord]) -> Result<Vec<TokenRecord>> {
    let mut rng = StdRng::seed_from_u64(SEED + 1);
    let mint = records.iter().find(|record| record.data.len() == MINT_BYTES);
    let mint = mint.context("no mint")?.address;
    let mut delegated = Vec::new();
    for _ in 0..DELEGATES {
        let delegate = Pubkey::new_from_array(rng.random());
        for amount in 0..ACCOUNTS_PER_DELEGATE {
            let owner = Pubkey::new_from_array(rng.random());
            delegated.push(TokenRecord {
                address: Pubkey::new_from_array(rng.random()),
                lamports: TOKEN_LAMPORTS,
                data: sample_ledger::token(mint, owner, 100 + amount as u64, Some(delegate)),
            });
        }
    }
    Ok(delegated)
}

/// Chooses the addresses that requests name.
fn inputs(records: &[TokenRecord]) -> Inputs {
    let is_token = |record: &&TokenRecord| record.data.len() == TOKEN_BYTES;
    let tokens = || records.iter().filter(is_token);
    let addresses = tokens().map(|record| record.address).collect();
    let owners = tokens().filter_map(|record| field(&record.data, 32)).collect();
    let mints = records.iter().filter(|record| !is_token(record));
    let mints = mints.map(|record| record.address).collect();
    // A delegate follows four bytes that say that there is one.
    let has_delegate = |record: &&TokenRecord| record.data.get(72) == Some(&1);
    let delegates = tokens().filter(has_delegate);
    let delegates = delegates.filter_map(|record| field(&record.data, 76)).collect();
    let mut inputs = Inputs::default();
    inputs.accounts = shuffle(addresses);
    inputs.owners = shuffle(owners);
    inputs.mints = shuffle(mints);
    inputs.delegates = shuffle(delegates);
    inputs
}

/// Returns the address at an offset of an account's data.
fn field(data: &[u8], first: usize) -> Option<Pubkey> {
    Pubkey::try_from(data.get(first..first + 32)?).ok()
}

/// Returns up to [`INPUTS_MAX`] of the addresses, in random order.
fn shuffle(addresses: BTreeSet<Pubkey>) -> Vec<String> {
    let mut addresses: Vec<Pubkey> = addresses.into_iter().collect();
    addresses.shuffle(&mut StdRng::seed_from_u64(SEED + 2));
    addresses.iter().take(INPUTS_MAX).map(Pubkey::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_accounts_are_written_once_and_have_inputs_of_each_kind() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let accounts = Accounts::write(dir.path(), &AccountSource::Made(120))?;
        let written = fs::read_dir(&accounts.dir)?.count();
        assert_eq!(written, 120 + MINTS as usize + DELEGATES * ACCOUNTS_PER_DELEGATE);
        let Inputs { accounts: tokens, owners, mints, delegates, .. } = &accounts.inputs;
        assert_eq!((tokens.len(), mints.len(), delegates.len()), (INPUTS_MAX, 50, DELEGATES));
        assert_eq!(owners.len(), INPUTS_MAX);
        let file = accounts.dir.join(format!("{}.json", tokens[0]));
        let text = fs::read_to_string(&file)?;
        assert!(text.contains("\"space\":165"), "{text}");
        fs::remove_file(&file)?;
        let again = Accounts::write(dir.path(), &AccountSource::Made(120))?;
        assert_eq!(again.inputs, accounts.inputs);
        assert!(!file.exists(), "they were not written again");
        let other = Accounts::write(dir.path(), &AccountSource::Made(60))?;
        assert_ne!(other.description, accounts.description);
        Ok(())
    }
}
