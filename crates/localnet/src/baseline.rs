//! The accounts with which a ledger started, for the way back to them: those of genesis, or of its directory.
//!
//! Bounds: [`crate::Config::baseline_bytes_max`]. Nothing is retained of a ledger with more.

use std::collections::HashMap;
use std::sync::Arc;

use chain_solana::View;
use foldhash::quality::RandomState;
use solana::Account;
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;

/// Bytes of an account without its data: its fields, its address, and its share of the map.
const ENTRY_BYTES: u64 = 200;

/// Accounts by address.
pub(crate) struct Baseline {
    accounts: HashMap<Pubkey, Arc<Account>, RandomState>,
    bytes: u64,
}

impl Baseline {
    /// All accounts of a view; `None` if they have more than `bytes_max`.
    pub(crate) fn from_view(view: &View, bytes_max: u64) -> Option<Self> {
        let mut baseline = Self { accounts: HashMap::default(), bytes: 0 };
        for (address, account) in view.all() {
            baseline.bytes += ENTRY_BYTES + account.0.data().len() as u64;
            if baseline.bytes > bytes_max {
                return None;
            }
            // Every address of the ledger is a pubkey.
            let Ok(pubkey) = Pubkey::try_from(address.as_bytes()) else { continue };
            baseline.accounts.insert(pubkey, account);
        }
        Some(baseline)
    }

    /// Estimated bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The account that an address had.
    pub(crate) fn account(&self, key: &Pubkey) -> Option<&Arc<Account>> {
        self.accounts.get(key)
    }

    pub(crate) fn accounts(&self) -> impl Iterator<Item = (&Pubkey, &Arc<Account>)> {
        self.accounts.iter()
    }
}
