//! Filters of transactions: by signature, accounts, result, and owners of token balances.

use std::cell::OnceCell;

use chain_solana::ExecutedTransaction;
use foldhash::{HashSet, HashSetExt};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction_status::TransactionTokenBalance;
use tonic::Status;
use yellowstone_grpc_proto::geyser::{
    SubscribeRequestFilterTransactions, TokenAccountExpansionControlFlag,
};

use super::common::{ADDRESS_BYTES, AddressFilter, CUCKOO_COST, FILTER_BYTES, addresses};
use super::key::{FilterKind, IndexKey};
use super::shared_predicate::{OutcomePredicate, SharedPredicate};
use crate::config::Config;
use crate::update::{Update, UpdateKind};

/// The cost of looking up each account of a transaction in one list.
const ACCOUNTS_COST: usize = 8;

/// One filter: its fields must all match.
#[derive(Debug)]
pub(super) struct TransactionFilter {
    outcome: OutcomePredicate,
    signature: Option<Signature>,
    /// The transaction must mention at least one of them.
    include: AddressFilter,
    /// The transaction must mention none of them.
    exclude: HashSet<Pubkey>,
    /// The transaction must mention all of them.
    required: HashSet<Pubkey>,
    /// Which owners of token balances count as accounts.
    expansion: Option<TokenAccountExpansionControlFlag>,
}

/// A transaction with the keys by which filters find it. The owners are computed when a filter needs them.
pub(crate) struct TransactionKeys<'a> {
    executed: &'a ExecutedTransaction,
    owners: OnceCell<HashSet<Pubkey>>,
    changed_owners: OnceCell<HashSet<Pubkey>>,
}

impl<'a> TransactionKeys<'a> {
    /// Those of a transaction's update.
    pub(crate) fn from_update(update: &'a Update) -> Option<Self> {
        let UpdateKind::Transaction(executed) = &update.kind else { return None };
        Some(Self { executed, owners: OnceCell::new(), changed_owners: OnceCell::new() })
    }

    fn owners(&self, expansion: TokenAccountExpansionControlFlag) -> &HashSet<Pubkey> {
        match expansion {
            TokenAccountExpansionControlFlag::All => {
                self.owners.get_or_init(|| token_owners(self.executed))
            }
            TokenAccountExpansionControlFlag::BalanceChanged => {
                self.changed_owners.get_or_init(|| changed_token_owners(self.executed))
            }
        }
    }
}

impl TransactionFilter {
    pub(super) fn new(
        filter: &SubscribeRequestFilterTransactions,
        config: &Config,
    ) -> Result<Self, Status> {
        let signature = filter.signature.as_deref().map(|text| {
            text.parse::<Signature>()
                .map_err(|_| Status::invalid_argument("signature is no signature"))
        });
        let expansion = filter.token_accounts.map(|flag| {
            TokenAccountExpansionControlFlag::try_from(flag)
                .map_err(|_| Status::invalid_argument(format!("token_accounts {flag} is unknown")))
        });
        let cuckoo = filter.cuckoo_account_include.as_ref();
        let include = &filter.account_include;
        Ok(Self {
            outcome: OutcomePredicate::new(filter),
            signature: signature.transpose()?,
            include: AddressFilter::new("account_include", include, cuckoo, config)?,
            exclude: addresses("account_exclude", &filter.account_exclude, config)?,
            required: addresses("account_required", &filter.account_required, config)?,
            expansion: expansion.transpose()?,
        })
    }

    pub(super) fn is_expanded(&self) -> bool {
        self.expansion.is_some()
    }

    pub(super) fn matches(&self, keys: &TransactionKeys<'_>) -> bool {
        let executed = keys.executed;
        if !self.outcome.matches(executed)
            || self.signature.is_some_and(|signature| signature != executed.signature())
        {
            return false;
        }
        let owners = self.expansion.map(|expansion| keys.owners(expansion));
        let mut all = executed.account_keys.iter().chain(owners.into_iter().flatten());
        let has = |key: &Pubkey| {
            executed.account_keys.contains(key) || owners.is_some_and(|owners| owners.contains(key))
        };
        (self.include.is_any() || all.clone().any(|key| self.include.matches(key)))
            && (self.exclude.is_empty() || !all.any(|key| self.exclude.contains(key)))
            && self.required.iter().all(has)
    }

    pub(super) fn index_keys(&self, kind: FilterKind) -> Vec<IndexKey> {
        if let Some(signature) = self.signature {
            vec![IndexKey::Signature(signature)]
        } else if let Some(key) = self.required.iter().min() {
            vec![IndexKey::TransactionAccount(*key)]
        } else if self.include.is_exact() {
            self.include.list.iter().map(|key| IndexKey::TransactionAccount(*key)).collect()
        } else if self.include.is_any() && self.exclude.is_empty() {
            vec![IndexKey::Shared(SharedPredicate::Transaction(self.outcome))]
        } else {
            vec![IndexKey::All(kind)]
        }
    }

    /// 0 if the index has keys for it.
    pub(super) fn unindexed_cost(&self) -> usize {
        let is_indexed =
            self.signature.is_some() || !self.required.is_empty() || self.include.is_exact();
        if is_indexed {
            return 0;
        }
        let lookups = usize::from(!self.exclude.is_empty()) + usize::from(self.is_expanded());
        let cuckoo = usize::from(!self.include.is_any()) * CUCKOO_COST;
        1 + (lookups + cuckoo) * ACCOUNTS_COST
    }

    pub(super) fn bytes(&self) -> usize {
        let lists = (self.exclude.len() + self.required.len()) * ADDRESS_BYTES;
        FILTER_BYTES + self.include.bytes() + lists
    }
}

/// The owners of a transaction's token balances, before and after.
pub(crate) fn token_owners(executed: &ExecutedTransaction) -> HashSet<Pubkey> {
    let (before, after) = balances(executed);
    before.iter().chain(after).filter_map(owner).collect()
}

/// Accounts with a changed balance, and opened or closed token accounts.
fn changed_token_owners(executed: &ExecutedTransaction) -> HashSet<Pubkey> {
    let (before, after) = balances(executed);
    let mut changed = HashSet::new();
    let amount_in = |all: &[TransactionTokenBalance], index: u8| {
        all.iter()
            .find(|balance| balance.account_index == index)
            .map(|balance| balance.ui_token_amount.amount.clone())
    };
    for (of, other) in [(before, after), (after, before)] {
        for balance in of {
            let amount = amount_in(other, balance.account_index);
            if amount.as_deref() != Some(&balance.ui_token_amount.amount[..]) {
                changed.extend(owner(balance));
            }
        }
    }
    changed
}

fn balances(
    executed: &ExecutedTransaction,
) -> (&[TransactionTokenBalance], &[TransactionTokenBalance]) {
    let meta = &executed.meta;
    (
        meta.pre_token_balances.as_deref().unwrap_or_default(),
        meta.post_token_balances.as_deref().unwrap_or_default(),
    )
}

fn owner(balance: &TransactionTokenBalance) -> Option<Pubkey> {
    balance.owner.parse().ok()
}
