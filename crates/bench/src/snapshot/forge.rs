//! A large archive, as a validator would write it, in two passes over the same seeded accounts: the
//! first computes the bank's fields, which stand before all accounts, the second writes.
//!
//! Everything of the sample but its token accounts is in it, at the sample's slot; then token accounts,
//! a hundredth of them in the file of each slot. One in 20 has an older version in an older file, one in
//! 50 was closed since. The files stand in any order.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngCore, SeedableRng};
use solana_sha256_hasher::hashv;

use super::Expected;
use super::lattice::Lattice;
use super::naive::{Archive, Stored};

const HEAD_BYTES: usize = 136;
const TOKEN_BYTES: usize = 165;
const RENT: u64 = 2_039_280;
const ZSTD_LEVEL: i32 = 1;

/// Writes the archive into `dir`; gives its path and what is in it.
pub(super) fn write(
    dir: &Path,
    sample: &Archive,
    accounts: u64,
    seed: u64,
) -> Result<(PathBuf, Expected)> {
    ensure!(sample.slot > 2, "the sample's slot leaves no room for older files");
    let forge = Forge { sample, accounts, seed };
    let mut lattice = Lattice::new();
    let mut expected =
        Expected { accounts: 0, lamports: 0, hash: String::new(), written: 0, bytes: 0 };
    let mut files = Vec::new();
    for slot in 1..=sample.slot {
        let mut bytes = 0;
        forge.each(slot, |key, stored, is_newest| {
            expected.written += 1;
            bytes += size(stored);
            if is_newest && stored.lamports > 0 {
                lattice.add(key, stored.lamports, stored.data, stored.executable, &stored.owner);
                expected.accounts += 1;
                expected.lamports += stored.lamports;
            }
        });
        expected.bytes += bytes as u64;
        files.push((slot, bytes as u64));
    }
    expected.hash = lattice.checksum().to_string();
    files.shuffle(&mut StdRng::seed_from_u64(seed));

    let path = dir.join(format!("snapshot-{}-{}.tar.zst", sample.slot, expected.hash));
    let packed = zstd::stream::write::Encoder::new(File::create(&path)?, ZSTD_LEVEL)?;
    let mut archive = tar::Builder::new(packed);
    let bank = bank(sample.slot, &files, expected.lamports, &lattice);
    append(&mut archive, "version", b"1.2.0")?;
    append(&mut archive, &format!("snapshots/{0}/{0}", sample.slot), &bank)?;
    for (slot, bytes) in files {
        let mut file = Vec::with_capacity(bytes as usize);
        forge.each(slot, |key, stored, _| put(&mut file, key, stored));
        append(&mut archive, &format!("accounts/{slot}.{slot}"), &file)?;
    }
    archive.into_inner()?.finish()?.sync_all()?;
    Ok((path, expected))
}

/// An account to be written.
struct Account<'a> {
    lamports: u64,
    owner: [u8; 32],
    executable: bool,
    rent_epoch: u64,
    data: &'a [u8],
}

struct Forge<'a> {
    sample: &'a Archive,
    accounts: u64,
    seed: u64,
}

impl Forge<'_> {
    /// Every account in the file of `slot`, and whether it is the newest version.
    fn each(&self, slot: u64, mut see: impl FnMut(&[u8; 32], &Account<'_>, bool)) {
        let last = self.sample.slot;
        if slot == last {
            let mut kept: Vec<(&[u8; 32], &Stored)> = self.sample.accounts.iter().collect();
            kept.retain(|(_, stored)| stored.data.len() != TOKEN_BYTES && stored.lamports > 0);
            kept.sort_unstable_by_key(|(key, _)| **key);
            for (key, stored) in kept {
                let Stored { lamports, owner, executable, rent_epoch, ref data, .. } = *stored;
                see(key, &Account { lamports, owner, executable, rent_epoch, data }, true);
            }
        }
        // The account `n` is newest in the slot 2 + n % (last - 1), and older in the one before.
        let mut data = [0; TOKEN_BYTES];
        for n in (slot.saturating_sub(2)..self.accounts).step_by(last as usize - 1) {
            if slot >= 2 {
                let key = self.token(n, &mut data);
                let lamports = if is_closed(n) { 0 } else { RENT + n % 3 };
                see(&key, &token(lamports, &data), true);
            }
        }
        for n in (slot - 1..self.accounts).step_by(last as usize - 1) {
            if slot < last && (is_closed(n) || n % 20 == 3) {
                let key = self.token(n, &mut data);
                data[64] ^= 1; // it held another amount
                see(&key, &token(RENT, &data), false);
            }
        }
    }

    /// Fills in the data of the token account `n`, and gives its address. Few mints and owners have most.
    fn token(&self, n: u64, data: &mut [u8; TOKEN_BYTES]) -> [u8; 32] {
        let mut random = StdRng::seed_from_u64(self.seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut key = [0; 32];
        random.fill_bytes(&mut key);
        let mut skewed = |most: u64| {
            let part = random.next_u64() as f64 / u64::MAX as f64;
            (part * part * part * most as f64) as u64
        };
        let (mint, owner) = (skewed(2_000), skewed(self.accounts / 4 + 1));
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

fn token(lamports: u64, data: &[u8]) -> Account<'_> {
    let owner = spl_token_interface::ID.to_bytes();
    Account { lamports, owner, executable: false, rent_epoch: u64::MAX, data }
}

fn size(account: &Account<'_>) -> usize {
    (HEAD_BYTES + account.data.len()).next_multiple_of(8)
}

/// An account as a storage file has it, padded.
fn put(out: &mut Vec<u8>, key: &[u8; 32], account: &Account<'_>) {
    let end = out.len() + size(account);
    out.extend([0; 8]);
    out.extend((account.data.len() as u64).to_le_bytes());
    out.extend(key);
    out.extend(account.lamports.to_le_bytes());
    out.extend(account.rent_epoch.to_le_bytes());
    out.extend(account.owner);
    out.push(account.executable.into());
    out.extend([0; 7 + 32]);
    out.extend(account.data);
    out.resize(end, 0);
}

fn append<W: Write>(archive: &mut tar::Builder<W>, name: &str, bytes: &[u8]) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    Ok(archive.append_data(&mut header, name, bytes)?)
}

/// The bank's fields as bincode has them; of what nobody reads, as little as there can be.
fn bank(slot: u64, files: &[(u64, u64)], lamports: u64, lattice: &Lattice) -> Vec<u8> {
    let (parent_hash, last) = ([3; 32], [4; 32]);
    let bank_hash = hashv(&[&parent_hash, &1_u64.to_le_bytes(), &last]);
    let bank_hash = hashv(&[bank_hash.as_ref(), &lattice.bytes()]).to_bytes();
    let mut out = Vec::new();
    let mut raw = |bytes: &[u8]| out.extend_from_slice(bytes);
    let n = |number: u64| number.to_le_bytes();
    raw(&n(1)); // blockhash queue: index, last, one hash, kept
    raw(&[1]);
    raw(&last);
    raw(&n(1));
    raw(&last);
    [5_000, 1, 0].into_iter().for_each(|number| raw(&n(number)));
    raw(&n(300));
    raw(&n(0)); // ancestors
    raw(&bank_hash);
    raw(&parent_hash);
    raw(&n(slot - 1));
    raw(&n(0)); // hard forks
    raw(&n(77)); // transactions
    raw(&n(0)); // ticks
    raw(&n(1)); // signatures
    raw(&n(lamports));
    raw(&n(0)); // ticks at most
    raw(&[0]); // hashes per tick
    raw(&n(64));
    raw(&400_000_000_u128.to_le_bytes());
    raw(&n(1_700_000_000));
    raw(&[0; 16]);
    raw(&n(slot));
    raw(&n(0));
    raw(&n(slot)); // height
    raw(&[0; 32 + 16 + 33 + 8]); // leader, fees, rent
    raw(&[0; 8 + 33 + 8 + 17]); // rent collector
    [8_192, 8_192].into_iter().for_each(|number| raw(&n(number)));
    raw(&[0; 17]); // rest of the epoch schedule
    raw(&[0; 48]); // inflation
    raw(&[0; 5 * 8]); // stakes
    raw(&[0; 4 * 8]); // accounts and stakes without use
    raw(&[1]);
    raw(&n(files.len() as u64));
    for (slot, bytes) in files {
        [*slot, 1, *slot, *bytes].into_iter().for_each(|number| raw(&n(number)));
    }
    raw(&n(0));
    raw(&n(slot));
    raw(&[0; 64 + 40 + 16]);
    raw(&n(5_000));
    raw(&[0, 0]);
    raw(&n(0)); // epochs with stakes
    raw(&[1]);
    raw(&lattice.bytes());
    raw(&[0]);
    out
}
