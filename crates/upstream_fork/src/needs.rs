//! The accounts that a request needs, as far as the fetched accounts name them: the addresses of lookup tables, the code
//! of programs, and the mints of token accounts follow once those accounts have been fetched.
//!
//! Shape: [`Scan`] collects. A request is scanned again after each fetch, until nothing is missing.
//! Bounds: one step for each address. A message has at most 256 of them.

use std::collections::HashSet;
use std::sync::Arc;

use chain_solana::{AccountsRequest, View};
use foldhash::quality::RandomState;
use ledger::Address;
use solana::Account;
use solana_account::ReadableAccount;
use solana_address_lookup_table_interface::state::AddressLookupTable;
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{address_lookup_table, bpf_loader_upgradeable};
use solana_transaction::versioned::VersionedTransaction;

use crate::localize::is_local_only;
use crate::registry::{Knowledge, Registry};

/// What a request needs and the ledger does not have.
pub(crate) struct Scan<'a> {
    registry: &'a Registry,
    view: &'a View,
    seen: HashSet<Pubkey, RandomState>,
    /// To be fetched.
    pub(crate) missing: Vec<Pubkey>,
    /// Another request has fetched some of them, and the ledger has not written them yet.
    pub(crate) is_arriving: bool,
    /// Accounts that the ledger has itself, and that are not recorded.
    pub(crate) local: Vec<Pubkey>,
}

/// Which accounts a found one brings along.
#[derive(Clone, Copy)]
struct Follow {
    mints: bool,
    program_data: bool,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(registry: &'a Registry, view: &'a View) -> Self {
        let missing = Vec::new();
        let local = Vec::new();
        Self { registry, view, seen: HashSet::default(), missing, is_arriving: false, local }
    }

    /// Whether everything is there.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty() && !self.is_arriving
    }

    pub(crate) fn add(&mut self, request: &AccountsRequest) {
        let follow = Follow { mints: request.with_mints, program_data: request.with_program_data };
        // First, because their keys bring more along, and each key is added once.
        request.transactions.iter().for_each(|transaction| self.add_transaction(transaction));
        request.keys.iter().for_each(|key| self.add_key(key, follow));
    }

    pub(crate) fn add_transaction(&mut self, transaction: &VersionedTransaction) {
        let follow = Follow { mints: true, program_data: true };
        let message = &transaction.message;
        message.static_account_keys().iter().for_each(|key| self.add_key(key, follow));
        for lookup in message.address_table_lookups().unwrap_or_default() {
            self.add_key(&lookup.account_key, follow);
            let table = self.account(&lookup.account_key);
            let table = table.as_ref().filter(|table| *table.0.owner() == address_lookup_table::ID);
            let Some(table) = table else { continue };
            let Ok(table) = AddressLookupTable::deserialize(table.0.data()) else { continue };
            let indexes = lookup.writable_indexes.iter().chain(&lookup.readonly_indexes);
            for index in indexes {
                if let Some(key) = table.addresses.get(usize::from(*index)) {
                    self.add_key(key, follow);
                }
            }
        }
    }

    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.view.record(&Address::from(key.to_bytes()))
    }

    fn add_key(&mut self, key: &Pubkey, follow: Follow) {
        if is_local_only(key) || !self.seen.insert(*key) {
            return;
        }
        let knowledge = self.registry.knowledge(key);
        if knowledge == Knowledge::Arriving {
            self.is_arriving = true;
            return;
        }
        let is_unknown = knowledge == Knowledge::Unknown;
        if !is_unknown && !follow.mints && !follow.program_data {
            return;
        }
        let Some(account) = self.account(key) else {
            if is_unknown {
                self.missing.push(*key);
            }
            return;
        };
        if is_unknown {
            self.local.push(*key);
        }
        if follow.program_data
            && let Some(data_key) = program_data_key(&account)
        {
            self.add_key(&data_key, Follow { mints: false, program_data: false });
        }
        if follow.mints
            && let Some((mint, _)) = solana::holding(&account.0)
            && !solana::is_native_mint(&mint)
        {
            self.add_key(&mint, Follow { mints: false, program_data: false });
        }
    }
}

/// The address of the code of a program of the upgradeable loader.
fn program_data_key(account: &Account) -> Option<Pubkey> {
    if *account.0.owner() != bpf_loader_upgradeable::ID {
        return None;
    }
    match bincode::deserialize(account.0.data()) {
        Ok(UpgradeableLoaderState::Program { programdata_address }) => Some(programdata_address),
        _ => None,
    }
}
