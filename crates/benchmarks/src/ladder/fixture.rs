//! The accounts of the measured nodes, as files of `--account-dir`.
//!
//! Shape: as many owners as mints. Each owner has `list` token accounts, each of another mint, so that each mint has
//! `list` holders. Payers and recipients of transfers have SOL. Addresses and keys are those of a seed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use tempfile::TempDir;

const SEED: u64 = 20_260_729;

/// Keys that pay for transfers.
const PAYERS: usize = 64;
/// Keys that receive transfers.
const RECIPIENTS: usize = 16;

const PAYER_LAMPORTS: u64 = 1_000_000_000_000;
const RECIPIENT_LAMPORTS: u64 = 1_000_000_000;
/// Lamports of mints and token accounts: rent-exempt, and fewer than any that a benchmark sets.
pub(super) const ACCOUNT_LAMPORTS: u64 = 2_039_280;

const SYSTEM_PROGRAM: Pubkey = Pubkey::new_from_array([0; 32]);

pub(super) struct Fixture {
    dir: TempDir,
    pub(super) owners: Vec<Pubkey>,
    pub(super) mints: Vec<Pubkey>,
    /// Token accounts, those of the first owner first.
    pub(super) tokens: Vec<Pubkey>,
    /// Token accounts of each owner, and of each mint.
    pub(super) list: usize,
    pub(super) payers: Vec<Keypair>,
    pub(super) recipients: Vec<Pubkey>,
}

impl Fixture {
    /// Writes the files. `owners` must be at least `list`.
    pub(super) fn write(owners: usize, list: usize) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(SEED);
        let mut addresses = |count: usize| -> Vec<Pubkey> {
            (0..count).map(|_| Pubkey::new_from_array(random.random())).collect()
        };
        let mut fixture = Self {
            dir: tempfile::tempdir()?,
            owners: addresses(owners),
            mints: addresses(owners),
            tokens: addresses(owners * list),
            list,
            payers: Vec::new(),
            recipients: addresses(RECIPIENTS),
        };
        fixture.payers = (0..PAYERS).map(|_| Keypair::new_from_array(random.random())).collect();
        fixture.write_files()?;
        Ok(fixture)
    }

    /// Returns the directory of the files.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn write_files(&self) -> Result<()> {
        for payer in &self.payers {
            self.write_account(&payer.pubkey(), &SYSTEM_PROGRAM, PAYER_LAMPORTS, &[])?;
        }
        for recipient in &self.recipients {
            self.write_account(recipient, &SYSTEM_PROGRAM, RECIPIENT_LAMPORTS, &[])?;
        }
        let program = spl_token_interface::id();
        for mint in &self.mints {
            self.write_account(mint, &program, ACCOUNT_LAMPORTS, &mint_data(1_000_000))?;
        }
        for (nth, token) in self.tokens.iter().enumerate() {
            let owner = nth / self.list;
            let mint = (owner + nth % self.list) % self.mints.len();
            let data = token_data(&self.mints[mint], &self.owners[owner], nth as u64 + 1);
            self.write_account(token, &program, ACCOUNT_LAMPORTS, &data)?;
        }
        Ok(())
    }

    fn write_account(
        &self,
        address: &Pubkey,
        owner: &Pubkey,
        lamports: u64,
        data: &[u8],
    ) -> Result<()> {
        let address = address.to_string();
        let path = self.dir.path().join(format!("{address}.json"));
        let account = json!({
            "pubkey": address,
            "account": {
                "lamports": lamports,
                "data": [BASE64_STANDARD.encode(data), "base64"],
                "owner": owner.to_string(),
                "executable": false,
                "rentEpoch": u64::MAX,
                "space": data.len(),
            },
        });
        fs::write(&path, account.to_string()).with_context(|| format!("write {}", path.display()))
    }
}

/// The data of a mint of the token program, with six decimals and without authorities.
pub(super) fn mint_data(supply: u64) -> Vec<u8> {
    let mut data = vec![0; 82];
    data[36..44].copy_from_slice(&supply.to_le_bytes());
    data[44] = 6;
    data[45] = 1;
    data
}

/// The data of an initialized token account without a delegate.
fn token_data(mint: &Pubkey, owner: &Pubkey, amount: u64) -> Vec<u8> {
    let mut data = vec![0; 165];
    data[..32].copy_from_slice(mint.as_array());
    data[32..64].copy_from_slice(owner.as_array());
    data[64..72].copy_from_slice(&amount.to_le_bytes());
    data[108] = 1;
    data
}
