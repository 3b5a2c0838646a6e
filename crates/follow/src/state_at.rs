//! The accounts after a block, from the ledger that is written.

use std::sync::Arc;

use chain_solana::BlockInfo;
use ledger::{Address, BlockId};
use query::Ledger;
use solana::Account;
use solana_pubkey::Pubkey;
use svm::AccountSource;

/// The accounts after a block.
pub struct StateAt<'a> {
    /// The ledger.
    pub ledger: &'a Ledger<Account, BlockInfo>,
    /// The block.
    pub block: BlockId,
}

impl AccountSource for StateAt<'_> {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.ledger.record_at(self.block, &Address::from(key.to_bytes()))
    }
}
