//! Tests of the ledger on disk: round trips, damage, and a writer that is killed.
#![expect(clippy::print_stdout, reason = "a failure shows its seed; a child reports to its parent")]

mod batches;
mod crash;
mod damage;
mod round_trip;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use chain_solana::Block;
use chain_solana::testing::RandomLedger;
use solana::Account;
use solana_pubkey::Pubkey;

use super::{LedgerStore, Restored};

/// The expected contents of a ledger on disk.
struct Model {
    blocks: Vec<Block>,
    accounts: BTreeMap<Pubkey, Arc<Account>>,
}

impl Model {
    /// Creates the model of a ledger with `first` as its first block.
    fn new(accounts: BTreeMap<Pubkey, Arc<Account>>, first: Block) -> Self {
        let mut model = Self { blocks: Vec::new(), accounts };
        model.append(first);
        model
    }

    fn append(&mut self, mut block: Block) {
        for write in std::mem::take(&mut block.writes) {
            match write.after() {
                Some(account) => self.accounts.insert(write.pubkey, account),
                None => self.accounts.remove(&write.pubkey),
            };
        }
        self.blocks.push(block);
    }

    /// Compares everything, down to each field of each transaction.
    fn check(&self, restored: &Restored) {
        assert_eq!(restored.genesis, b"the genesis");
        assert_eq!(restored.blocks.len(), self.blocks.len());
        for (restored, expected) in restored.blocks.iter().zip(&self.blocks) {
            assert_eq!(format!("{restored:?}"), format!("{expected:?}"));
        }
        let expected = self.accounts.iter().map(|(pubkey, account)| (*pubkey, Arc::clone(account)));
        assert!(restored.accounts == expected.collect::<Vec<_>>(), "accounts differ");
    }
}

/// Returns a new ledger on disk and its model.
fn create(dir: &Path, random: &mut RandomLedger) -> (LedgerStore, Model) {
    let accounts = random.genesis_accounts();
    let first = random.block();
    let stored = accounts.iter().map(|(pubkey, account)| (*pubkey, Arc::clone(account)));
    let store = LedgerStore::create(dir, b"the genesis", stored, &first).expect("a new ledger");
    (store, Model::new(accounts, first))
}

/// Opens the ledger in `dir`, which must exist and be undamaged.
fn open(dir: &Path) -> (LedgerStore, Restored) {
    LedgerStore::open_whole(dir).expect("an undamaged ledger").expect("a ledger")
}

/// Returns the error of opening the ledger in `dir`.
fn refusal(dir: &Path) -> String {
    match LedgerStore::<store::Fjall>::open_whole(dir) {
        Ok(_) => panic!("{} opens", dir.display()),
        Err(err) => err.to_string().replace(&dir.display().to_string(), "DIR"),
    }
}
