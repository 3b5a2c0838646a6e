//! A large archive, as a validator would write it, in two passes over the same seeded accounts: the
//! first computes the bank's fields, which precede all accounts, the second writes.
//!
//! Everything of the sample but its token accounts is in it, at the sample's slot; then token accounts,
//! a hundredth of them in the file of each slot. One in 20 has an older version in an older file, one in
//! 50 was closed since. The files are in any order.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngCore, SeedableRng};
use solana_sha256_hasher::hashv;

use super::{Accounts, PlainLtHash, StorageFile, Stored, append, bank_fields, files, put};

const TOKEN_BYTES: usize = 165;
const RENT: u64 = 2_039_280;
const ZSTD_LEVEL: i32 = 1;
/// An account of one SOL without data, of the system program.
const WALLET: Stored<'_> = Stored {
    lamports: 1_000_000_000,
    owner: [0; 32],
    executable: false,
    rent_epoch: u64::MAX,
    data: &[],
};

/// The contents of an archive.
#[derive(Debug, PartialEq, Eq)]
pub struct Contents {
    /// Accounts that are open.
    pub accounts: u64,
    /// Lamports of all accounts.
    pub lamports: u64,
    /// The hash over all of them.
    pub hash: String,
    /// Accounts as they are written, older versions and closed ones included.
    pub written: u64,
    /// The bytes of those.
    pub bytes: u64,
}

/// An archive that Agave wrote, as [`Accounts`] reads it.
pub struct Sample {
    slot: u64,
    accounts: Accounts,
}

impl Sample {
    /// Reads an archive.
    pub fn read(path: &Path) -> Result<Self> {
        let files = files(path)?;
        let bank = files.keys().find_map(|name| name.strip_prefix("snapshots/")?.split_once('/'));
        let slot = bank.context("no bank in it")?.0.parse().context("the slot of the bank")?;
        let mut accounts = Accounts::default();
        accounts.add(&files).context("a storage file is cut off")?;
        Ok(Self { slot, accounts })
    }

    /// The contents of the archive.
    pub fn contents(&self) -> Contents {
        Contents {
            accounts: self.accounts.open().count() as u64,
            lamports: self.accounts.lamports(),
            hash: self.accounts.lt_hash().checksum().to_string(),
            written: self.accounts.written,
            bytes: self.accounts.bytes,
        }
    }
}

/// Writes an archive with token accounts into `dir`. Returns its path and its contents.
pub fn write(dir: &Path, sample: &Sample, accounts: u64, seed: u64) -> Result<(PathBuf, Contents)> {
    let forge = Forge { sample, accounts, seed };
    write_archive(dir, sample.slot, seed, |slot, see| forge.each(slot, see))
}

/// Writes an archive with all accounts of the sample and `accounts` wallets with one SOL each into `dir`. `address`
/// gives the address of each. Returns its path and its contents.
pub fn write_wallets(
    dir: &Path,
    sample: &Sample,
    accounts: u64,
    address: impl Fn(u64) -> [u8; 32],
) -> Result<(PathBuf, Contents)> {
    let last = sample.slot;
    write_archive(dir, last, 0, |slot, see| {
        if slot == last {
            let of_sample = sample.accounts.open();
            of_sample.for_each(|(key, placed)| see(&key.to_bytes(), &placed.stored(), true));
        }
        for n in numbers_in_slot(slot, last, accounts) {
            see(&address(n), &WALLET, true);
        }
    })
}

/// Receives an account, and whether it is the newest version.
type SeeAccount<'a> = &'a mut dyn FnMut(&[u8; 32], &Stored<'_>, bool);

/// Writes the archive of a slot. `each_account` passes every account in the file of a slot on, twice the same ones.
fn write_archive(
    dir: &Path,
    last: u64,
    seed: u64,
    each_account: impl Fn(u64, SeeAccount<'_>),
) -> Result<(PathBuf, Contents)> {
    ensure!(last > 2, "the sample's slot leaves no room for older files");
    let mut lattice = PlainLtHash::default();
    let mut contents =
        Contents { accounts: 0, lamports: 0, hash: String::new(), written: 0, bytes: 0 };
    let mut storage = Vec::new();
    for slot in 1..=last {
        let mut bytes = 0;
        each_account(slot, &mut |key, stored, is_newest| {
            contents.written += 1;
            bytes += stored.bytes();
            if is_newest && stored.lamports > 0 {
                lattice.add(key, stored);
                contents.accounts += 1;
                contents.lamports += stored.lamports;
            }
        });
        contents.bytes += bytes as u64;
        storage.push(StorageFile { slot, id: slot, bytes: bytes as u64 });
    }
    contents.hash = lattice.checksum().to_string();
    storage.shuffle(&mut StdRng::seed_from_u64(seed));

    let path = dir.join(format!("snapshot-{last}-{}.tar.zst", contents.hash));
    let packed = zstd::stream::write::Encoder::new(File::create(&path)?, ZSTD_LEVEL)?;
    let mut builder = tar::Builder::new(packed);
    let bank = bank_fields(last, &storage, contents.lamports, &lattice);
    append(&mut builder, "version", b"1.2.0")?;
    append(&mut builder, &format!("snapshots/{last}/{last}"), &bank)?;
    for StorageFile { slot, bytes, .. } in storage {
        let mut file = Vec::with_capacity(bytes as usize);
        each_account(slot, &mut |key, stored, _| put(&mut file, key, stored));
        append(&mut builder, &format!("accounts/{slot}.{slot}"), &file)?;
    }
    builder.into_inner()?.finish()?.sync_all()?;
    Ok((path, contents))
}

/// Returns the numbers of the accounts that have their newest version in the file of a slot: each slot but the first has
/// a share of them.
fn numbers_in_slot(slot: u64, last: u64, accounts: u64) -> impl Iterator<Item = u64> {
    let first = if slot < 2 { accounts } else { slot - 2 };
    (first..accounts).step_by(last as usize - 1)
}

struct Forge<'a> {
    sample: &'a Sample,
    accounts: u64,
    seed: u64,
}

impl Forge<'_> {
    /// Every account in the file of `slot`, and whether it is the newest version.
    fn each(&self, slot: u64, see: SeeAccount<'_>) {
        let last = self.sample.slot;
        if slot == last {
            let accounts = self.sample.accounts.open();
            for (key, placed) in accounts.filter(|(_, placed)| placed.data.len() != TOKEN_BYTES) {
                see(&key.to_bytes(), &placed.stored(), true);
            }
        }
        // The account `n` is newest in the slot 2 + n % (last - 1), and older in the one before.
        let mut data = [0; TOKEN_BYTES];
        for n in numbers_in_slot(slot, last, self.accounts) {
            let key = self.token(n, &mut data);
            let lamports = if is_closed(n) { 0 } else { RENT + n % 3 };
            see(&key, &token(lamports, &data), true);
        }
        for n in (slot - 1..self.accounts).step_by(last as usize - 1) {
            if slot < last && (is_closed(n) || n % 20 == 3) {
                let key = self.token(n, &mut data);
                data[64] ^= 1; // it had another amount
                see(&key, &token(RENT, &data), false);
            }
        }
    }

    /// Fills in the data of the token account `n`, and returns its address. Few mints and owners have most accounts.
    fn token(&self, n: u64, data: &mut [u8; TOKEN_BYTES]) -> [u8; 32] {
        let mut random = StdRng::seed_from_u64(self.seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut key = [0; 32];
        random.fill_bytes(&mut key);
        let mut skewed = |most: u64| {
            let part = random.next_u64() as f64 / u64::MAX as f64;
            (part * part * part * most as f64) as u64
        };
        let mint = skewed(2_000);
        let owner = skewed(self.accounts / 4 + 1);
        data.fill(0);
        data[..32].copy_from_slice(&hashv(&[b"mint", &mint.to_le_bytes()]).to_bytes());
        data[32..64].copy_from_slice(&hashv(&[b"owner", &owner.to_le_bytes()]).to_bytes());
        data[64..72].copy_from_slice(&(n * 7).to_le_bytes());
        data[108] = 1; // initialized
        key
    }
}

fn is_closed(n: u64) -> bool {
    n % 50 == 7
}

fn token(lamports: u64, data: &[u8]) -> Stored<'_> {
    let owner = spl_token_interface::ID.to_bytes();
    Stored { lamports, owner, executable: false, rent_epoch: u64::MAX, data }
}
