//! The snapshot from which the chain is followed: a synthetic ledger, vote accounts, stake accounts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_sdk_ids::sysvar;
use solana_vote_interface::state::{VoteStateV4, VoteStateVersions};
use testkit::archive::{self, Accounts, StorageFile, Stored};
use testkit::synthetic::{Kind, Synthetic};

use super::shape::Shape;

/// The slot of the snapshot.
pub(super) const SLOT: u64 = 1_000;
/// Bytes of a vote account.
const VOTE_BYTES: usize = 3_762;
const LAMPORTS: u64 = 1_000_000_000;

/// The archive.
pub(super) struct SnapshotFile {
    pub(super) path: PathBuf,
    /// Addresses of a ledger that follows the chain, at most.
    pub(super) addresses_max: u32,
}

impl SnapshotFile {
    /// Writes the archive into `dir`.
    pub(super) fn write(dir: &Path, synthetic: &Synthetic, shape: &Shape) -> Result<Self> {
        let mut file = Vec::new();
        let mut put = |address: &[u8; 32], account: &AccountSharedData| {
            let stored = Stored {
                lamports: account.lamports(),
                owner: account.owner().to_bytes(),
                executable: account.executable(),
                rent_epoch: account.rent_epoch(),
                data: account.data(),
            };
            archive::put(&mut file, address, &stored);
        };
        for change in synthetic.changes() {
            let address = change.address.as_bytes().try_into().context("an address")?;
            if let Some(account) = change.record {
                put(&address, &account.0);
            }
        }
        let rent = bincode::serialize(&Rent::default())?;
        for (address, data) in [(sysvar::clock::ID, clock(SLOT)), (sysvar::rent::ID, rent)] {
            put(&address.to_bytes(), &sysvar_account(data).0);
        }
        for n in 0..shape.votes {
            let [identity, vote_account] = voter(n);
            let vote = vote_state(n)?;
            put(&vote_account.to_bytes(), &vote.0);
            put(&identity.to_bytes(), &wallet(LAMPORTS).0);
        }
        for n in 0..shape.rewarded_stakes {
            put(&stake_address(n).to_bytes(), &stake(synthetic, 0)?.0);
        }
        let path = dir.join("snapshot.tar.zst");
        write_archive(&path, file)?;
        let own = 2 * shape.votes + shape.rewarded_stakes + 1_000;
        Ok(Self { path, addresses_max: synthetic.addresses_max() + u32::try_from(own)? })
    }
}

fn write_archive(path: &Path, file: Vec<u8>) -> Result<()> {
    let files = [StorageFile { slot: SLOT, id: 1, bytes: file.len() as u64 }];
    let name = format!("accounts/{SLOT}.1");
    let storage = [(name, file)].into();
    let mut accounts = Accounts::default();
    accounts.add(&storage).context("whole files")?;
    let bank = archive::bank_fields(SLOT, &files, accounts.lamports(), &accounts.lt_hash());
    let packed = zstd::stream::Encoder::new(std::fs::File::create(path)?, 1)?;
    let mut tar = tar::Builder::new(packed);
    let parts = [
        ("version".to_owned(), b"1.2.0".to_vec()),
        ("snapshots/status_cache".to_owned(), vec![0; 8]),
        (format!("snapshots/{SLOT}/{SLOT}"), bank),
    ];
    for (name, bytes) in parts.into_iter().chain(storage) {
        archive::append(&mut tar, &name, &bytes)?;
    }
    tar.into_inner()?.finish()?;
    Ok(())
}

/// The identity and the vote account of a validator.
pub(super) fn voter(n: usize) -> [Pubkey; 2] {
    [named(1, n), named(2, n)]
}

/// A stake account that is paid.
pub(super) fn stake_address(n: usize) -> Pubkey {
    named(3, n)
}

fn named(kind: u8, n: usize) -> Pubkey {
    let mut bytes = [kind; 32];
    bytes[..8].copy_from_slice(&(n as u64).to_le_bytes());
    Pubkey::new_from_array(bytes)
}

/// The Clock sysvar of a slot, in one long epoch.
pub(super) fn clock(slot: u64) -> Vec<u8> {
    let fields = [slot, 1_700_000_000, 0, 1, 1_700_000_000 + slot];
    fields.iter().flat_map(|field| field.to_le_bytes()).collect()
}

pub(super) fn sysvar_account(data: Vec<u8>) -> Account {
    let mut account = AccountSharedData::new(LAMPORTS, 0, &sysvar::ID);
    account.set_data_from_slice(&data);
    Account(account)
}

pub(super) fn wallet(lamports: u64) -> Account {
    Account(AccountSharedData::new(lamports, 0, &Pubkey::default()))
}

/// A vote account without votes.
pub(super) fn vote_state(n: usize) -> Result<Account> {
    let state = VoteStateV4 { node_pubkey: voter(n)[0], ..VoteStateV4::default() };
    let mut data = bincode::serialize(&VoteStateVersions::new_v4(state))?;
    data.resize(VOTE_BYTES, 0);
    let mut account = AccountSharedData::new(LAMPORTS, 0, &solana_sdk_ids::vote::ID);
    account.set_data_from_slice(&data);
    Ok(Account(account))
}

/// A stake account after a number of rewards.
pub(super) fn stake(synthetic: &Synthetic, rewards: u64) -> Result<Account> {
    let counts = synthetic.counts();
    let first = counts.tokens + counts.mints + counts.wallets + counts.programs;
    anyhow::ensure!(matches!(synthetic.kind(first), Kind::Stake(0)), "not a stake account");
    let account = synthetic.change(first).record.context("a stake account")?;
    let mut account = account.0.clone();
    let lamports = account.lamports() + rewards;
    solana_account::WritableAccount::set_lamports(&mut account, lamports);
    Ok(Account(account))
}
