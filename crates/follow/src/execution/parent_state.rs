//! The accounts before a bank: a view of a later state, without the writes of the banks up to it.
//!
//! Bounds: an entry for each account that these banks wrote, with the version that the ledger had. A view retains the
//! state that it shows.

use std::collections::HashMap;
use std::sync::Arc;

use chain_solana::{Block, BlockInfo, View};
use foldhash::quality::RandomState;
use ledger::StoredRecord;
use query::Ledger;
use solana::Account;
use solana_pubkey::Pubkey;
use svm::AccountSource;

/// Bytes of an entry without the record.
const ENTRY_BYTES: usize = 80;

/// The states of the accounts that a bank wrote, in its parent.
pub(crate) struct StatesBefore {
    states: HashMap<Pubkey, Option<StoredRecord<Account>>, RandomState>,
    bytes: usize,
}

impl StatesBefore {
    /// Reads the states from the ledger, which must have the parent.
    ///
    /// Cost: a lookup for each account that the block wrote.
    pub(crate) fn read(ledger: &Ledger<Account, BlockInfo>, block: &Block) -> Self {
        let ids: Vec<_> = block.writes.iter().map(|write| write.id).collect();
        let stored = ledger.stored_at(block.parent, &ids);
        let pubkeys = block.writes.iter().map(|write| write.pubkey);
        Self::new(pubkeys.zip(stored).collect())
    }

    pub(super) fn new(states: HashMap<Pubkey, Option<StoredRecord<Account>>, RandomState>) -> Self {
        let weights = states.values().flatten().map(StoredRecord::weight);
        let bytes = weights.sum::<usize>() + states.len() * ENTRY_BYTES;
        Self { states, bytes }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the bank wrote an account.
    pub(super) fn contains(&self, key: &Pubkey) -> bool {
        self.states.contains_key(key)
    }

    /// Returns the state before of an account that the bank wrote. `None` for any other account.
    pub(super) fn get(&self, key: &Pubkey) -> Option<Option<Arc<Account>>> {
        self.states.get(key).map(|state| state.as_ref().map(StoredRecord::record))
    }
}

/// The accounts in the parent of a bank.
pub(super) struct ParentState<'a> {
    /// Of the bank, then of the banks after it up to that of the view.
    pub(super) before: &'a [Arc<StatesBefore>],
    pub(super) view: &'a View,
}

impl AccountSource for ParentState<'_> {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        // The first bank that wrote the account replaced the state of the parent.
        let replaced = self.before.iter().find_map(|states| states.get(key));
        replaced.unwrap_or_else(|| self.view.account(key))
    }
}
