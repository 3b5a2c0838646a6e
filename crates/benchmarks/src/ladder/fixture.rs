//! The accounts of the measured nodes, as files of `--account-dir`.
//!
//! Shape: as many owners as mints. Each owner has `list` token accounts, each of another mint, so that each mint has
//! `list` holders. Payers and recipients of transfers have SOL. Addresses and keys are those of a seed.

use std::path::Path;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use tempfile::TempDir;
use testkit::sample_ledger;

use crate::node::write_account_file;

const SEED: u64 = 20_260_729;

/// Keys that pay for transfers.
const PAYERS: usize = 64;
/// Keys that receive transfers.
const RECIPIENTS: usize = 16;

const PAYER_LAMPORTS: u64 = 1_000_000_000_000;
const RECIPIENT_LAMPORTS: u64 = 1_000_000_000;
/// Lamports of mints and token accounts: rent-exempt, and fewer than any that a benchmark sets.
pub(super) const ACCOUNT_LAMPORTS: u64 = 2_039_280;

const MINT_DECIMALS: u8 = 6;

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
        let write = |address: &Pubkey, owner: &Pubkey, lamports: u64, data: &[u8]| {
            write_account_file(self.dir(), address, owner, lamports, data)
        };
        for payer in &self.payers {
            write(&payer.pubkey(), &SYSTEM_PROGRAM, PAYER_LAMPORTS, &[])?;
        }
        for recipient in &self.recipients {
            write(recipient, &SYSTEM_PROGRAM, RECIPIENT_LAMPORTS, &[])?;
        }
        let program = spl_token_interface::id();
        for mint in &self.mints {
            write(mint, &program, ACCOUNT_LAMPORTS, &mint_data(1_000_000))?;
        }
        for (nth, token) in self.tokens.iter().enumerate() {
            let owner = nth / self.list;
            let mint = (owner + nth % self.list) % self.mints.len();
            let amount = nth as u64 + 1;
            let data = sample_ledger::token(self.mints[mint], self.owners[owner], amount, None);
            write(token, &program, ACCOUNT_LAMPORTS, &data)?;
        }
        Ok(())
    }
}

/// Returns the data of a mint without authorities.
pub(super) fn mint_data(supply: u64) -> Vec<u8> {
    sample_ledger::mint(MINT_DECIMALS, supply)
}
