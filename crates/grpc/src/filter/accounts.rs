//! Filters of accounts: by address and owner.
//! Not here: conditions on data, lamports and signature (`account_predicate`).

use std::sync::Arc;

use chain_solana::AccountUpdate;
use foldhash::HashSet;
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use tonic::Status;
use yellowstone_grpc_proto::geyser::SubscribeRequestFilterAccounts;

use super::account_predicate::AccountPredicate;
use super::common::{ADDRESS_BYTES, AddressFilter, CUCKOO_COST, FILTER_BYTES, addresses};
use super::key::{FilterKind, IndexKey};
use super::shared_predicate::SharedPredicate;
use crate::config::Config;

/// One filter: its fields must all match, the values of a list are alternatives.
#[derive(Debug)]
pub(super) struct AccountFilter {
    accounts: AddressFilter,
    owners: HashSet<Pubkey>,
    content: Arc<AccountPredicate>,
}

impl AccountFilter {
    pub(super) fn new(
        filter: &SubscribeRequestFilterAccounts,
        config: &Config,
    ) -> Result<Self, Status> {
        let cuckoo = filter.cuckoo_accounts_filter.as_ref();
        Ok(Self {
            accounts: AddressFilter::new("account", &filter.account, cuckoo, config)?,
            owners: addresses("owner", &filter.owner, config)?,
            content: Arc::new(AccountPredicate::new(filter, config)?),
        })
    }

    pub(super) fn matches(&self, update: &AccountUpdate) -> bool {
        self.accounts.matches(&update.pubkey)
            && (self.owners.is_empty() || self.owners.contains(update.account.0.owner()))
            && self.content.matches(update)
    }

    pub(super) fn index_keys(&self) -> Vec<IndexKey> {
        if self.accounts.is_exact() {
            self.accounts.list.iter().map(|key| IndexKey::Account(*key)).collect()
        } else if !self.owners.is_empty() {
            self.owners.iter().map(|key| IndexKey::Owner(*key)).collect()
        } else if self.accounts.is_any() {
            vec![IndexKey::Shared(SharedPredicate::Account(Arc::clone(&self.content)))]
        } else {
            vec![IndexKey::All(FilterKind::Account)]
        }
    }

    /// 0 if the index has keys for it.
    pub(super) fn unindexed_cost(&self) -> usize {
        if self.accounts.is_exact() || !self.owners.is_empty() {
            return 0;
        }
        self.content.cost() + usize::from(!self.accounts.is_any()) * CUCKOO_COST
    }

    pub(super) fn bytes(&self) -> usize {
        let owners = self.owners.len() * ADDRESS_BYTES;
        FILTER_BYTES + self.accounts.bytes() + owners + self.content.bytes()
    }
}
