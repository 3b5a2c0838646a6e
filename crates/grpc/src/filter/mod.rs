//! The filters of one client: checked, compiled, and matched with updates.
//!
//! In: a `SubscribeRequest`. Out: a [`FilterSet`]; for an update, the messages that the client gets. A message lists
//! the names of all its filters of one kind that match; each block filter has a message of its own.
//! Bounds: [`Config`]; a breach is `INVALID_ARGUMENT` with the field, the limit and the setting.
//! Not here: which filters are tried for an update (`index`), encoding (`encode`).

mod account_predicate;
mod accounts;
mod blocks;
mod common;
mod key;
mod lists;
mod shared_predicate;
mod transactions;

use std::collections::HashMap;
use std::sync::Arc;

use ledger::Commitment;
use tonic::Status;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SlotStatus, SubscribeRequest, SubscribeRequestFilterSlots,
};

use crate::config::Config;
use crate::data_slices::DataSlices;
use crate::update::{SlotUpdate, Update, UpdateKind};
use accounts::AccountFilter;
pub(crate) use blocks::BlockFilter;
use common::check_count;
pub(crate) use key::{FilterId, FilterKind, IndexKey};
pub(crate) use lists::check_lists;
pub(crate) use shared_predicate::SharedPredicate;
use transactions::TransactionFilter;
pub(crate) use transactions::{TransactionKeys, token_owners};

/// The cost of a block filter: it has a message of its own.
const BLOCK_COST: usize = 4;

/// The part of an update that a message contains.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Slot,
    Account(Arc<DataSlices>),
    Transaction,
    TransactionStatus,
    Entry,
    Block(Arc<BlockFilter>),
    Footer { with_certificates: bool },
    BlockMeta,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageSpec {
    pub(crate) part: Part,
    /// The names of the filters, encoded as field 1 of the message.
    pub(crate) names: Vec<u8>,
}

/// A filter and its name, encoded as an entry of field 1 of a message.
struct Named<F> {
    name: Vec<u8>,
    filter: F,
}

/// When a client gets a slot's status.
struct SlotFilter {
    by_commitment: bool,
    interslot: bool,
}

pub(crate) struct FilterSet {
    pub(crate) commitment: Commitment,
    slots: Vec<Named<SlotFilter>>,
    accounts: Vec<Named<AccountFilter>>,
    transactions: Vec<Named<TransactionFilter>>,
    statuses: Vec<Named<TransactionFilter>>,
    entries: Vec<Named<()>>,
    blocks: Vec<Named<Arc<BlockFilter>>>,
    footers: Vec<Named<()>>,
    /// Whether a filter of footers includes certificates: they come in one message for all filters.
    with_certificates: bool,
    blocks_meta: Vec<Named<()>>,
    data_slices: Arc<DataSlices>,
}

impl FilterSet {
    /// Checks and compiles the filters of a request.
    pub(crate) fn new(request: &SubscribeRequest, config: &Config) -> Result<Self, Status> {
        let commitment = commitment(request.commitment)?;
        let data_slices = DataSlices::new(&request.accounts_data_slice, config.data_slices_max)?;
        Ok(Self {
            commitment,
            slots: compile_named(&request.slots, "slots", config, |filter| {
                Ok(SlotFilter::new(filter))
            })?,
            accounts: compile_named(&request.accounts, "accounts", config, |filter| {
                AccountFilter::new(filter, config)
            })?,
            transactions: compile_named(&request.transactions, "transactions", config, |filter| {
                TransactionFilter::new(filter, config)
            })?,
            statuses: compile_named(
                &request.transactions_status,
                "transactions_status",
                config,
                |filter| TransactionFilter::new(filter, config),
            )?,
            entries: compile_named(&request.entry, "entry", config, |_| Ok(()))?,
            blocks: compile_named(&request.blocks, "blocks", config, |filter| {
                BlockFilter::new(filter, config).map(Arc::new)
            })?,
            footers: compile_named(&request.block_footer, "block_footer", config, |_| Ok(()))?,
            with_certificates: request
                .block_footer
                .values()
                .any(|filter| filter.include_certificates.unwrap_or(false)),
            blocks_meta: compile_named(&request.blocks_meta, "blocks_meta", config, |_| Ok(()))?,
            data_slices: Arc::new(data_slices),
        })
    }

    /// The keys under which the index finds the filters.
    pub(crate) fn index_keys(&self) -> Vec<(IndexKey, FilterId)> {
        let mut keys = Vec::new();
        let mut add = |id: FilterId, of_filter: Vec<IndexKey>| {
            keys.extend(of_filter.into_iter().map(|key| (key, id)));
        };
        for (id, named) in ids(FilterKind::Account, &self.accounts) {
            add(id, named.filter.index_keys());
        }
        for (id, named) in ids(FilterKind::Transaction, &self.transactions)
            .chain(ids(FilterKind::TransactionStatus, &self.statuses))
        {
            add(id, named.filter.index_keys(id.kind));
        }
        let all = |id: FilterId| vec![IndexKey::All(id.kind)];
        ids(FilterKind::Slot, &self.slots).for_each(|(id, _)| add(id, all(id)));
        ids(FilterKind::Entry, &self.entries).for_each(|(id, _)| add(id, all(id)));
        ids(FilterKind::Block, &self.blocks).for_each(|(id, _)| add(id, all(id)));
        ids(FilterKind::BlockFooter, &self.footers).for_each(|(id, _)| add(id, all(id)));
        ids(FilterKind::BlockMeta, &self.blocks_meta).for_each(|(id, _)| add(id, all(id)));
        keys
    }

    /// Whether a filter also matches the owners of token balances.
    pub(crate) fn has_token_expansion(&self) -> bool {
        self.transactions.iter().chain(&self.statuses).any(|named| named.filter.is_expanded())
    }

    /// Whether a filter needs accounts or entries, which restored banks do not have.
    pub(crate) fn needs_whole_banks(&self) -> bool {
        let in_blocks = |named: &Named<Arc<BlockFilter>>| {
            named.filter.with_accounts || named.filter.with_entries
        };
        !self.accounts.is_empty() || !self.entries.is_empty() || self.blocks.iter().any(in_blocks)
    }

    /// The estimated cost of the filters that every update of their kind tries, because the index has no address, owner
    /// or signature for them. A unit takes some 20 ns.
    pub(crate) fn unindexed_cost(&self) -> usize {
        let accounts = self.accounts.iter().map(|named| named.filter.unindexed_cost());
        let transactions = self.transactions.iter().chain(&self.statuses);
        let transactions = transactions.map(|named| named.filter.unindexed_cost());
        let others = self.entries.len() + self.blocks.len() * BLOCK_COST;
        accounts.chain(transactions).sum::<usize>() + others
    }

    /// Whether a filter needs accounts.
    pub(crate) fn needs_accounts(&self) -> bool {
        !self.accounts.is_empty() || self.blocks.iter().any(|named| named.filter.with_accounts)
    }

    /// Estimated bytes, including the index.
    pub(crate) fn bytes(&self) -> usize {
        let accounts = self.accounts.iter().map(|named| named.filter.bytes());
        let transactions =
            self.transactions.iter().chain(&self.statuses).map(|named| named.filter.bytes());
        let blocks = self.blocks.iter().map(|named| named.filter.bytes());
        let others = self.slots.len() + self.entries.len() + self.blocks_meta.len();
        let others = (others + self.footers.len()) * common::FILTER_BYTES;
        accounts.chain(transactions).chain(blocks).sum::<usize>() + others
    }

    /// The messages of an update, with all filters tried.
    pub(crate) fn all_messages(&self, update: &Update) -> Vec<MessageSpec> {
        let all: Vec<FilterId> = match &update.kind {
            UpdateKind::Slot(_) => only_ids(FilterKind::Slot, &self.slots),
            UpdateKind::Account(_) => only_ids(FilterKind::Account, &self.accounts),
            UpdateKind::Transaction(_) => {
                let mut all = only_ids(FilterKind::Transaction, &self.transactions);
                all.extend(only_ids(FilterKind::TransactionStatus, &self.statuses));
                all
            }
            UpdateKind::Entry { .. } => only_ids(FilterKind::Entry, &self.entries),
            UpdateKind::Footer(_) => only_ids(FilterKind::BlockFooter, &self.footers),
            UpdateKind::Block(_) => only_ids(FilterKind::Block, &self.blocks),
            UpdateKind::BlockMeta(_) => only_ids(FilterKind::BlockMeta, &self.blocks_meta),
        };
        let keys = TransactionKeys::from_update(update);
        self.messages(update, keys.as_ref(), &all)
    }

    /// The messages of an update, with some filters tried. `ids` is sorted.
    pub(crate) fn messages(
        &self,
        update: &Update,
        keys: Option<&TransactionKeys<'_>>,
        ids: &[FilterId],
    ) -> Vec<MessageSpec> {
        let mut messages: Vec<MessageSpec> = Vec::new();
        let mut last_kind = None;
        for id in ids {
            let Some((name, part)) = self.try_filter(update, keys, *id) else { continue };
            match messages.last_mut() {
                Some(last) if last_kind == Some(id.kind) && id.kind != FilterKind::Block => {
                    last.names.extend_from_slice(name);
                }
                _ => messages.push(MessageSpec { part, names: name.to_vec() }),
            }
            last_kind = Some(id.kind);
        }
        messages
    }

    /// The name of a filter and the part of the update, if it matches.
    fn try_filter(
        &self,
        update: &Update,
        keys: Option<&TransactionKeys<'_>>,
        id: FilterId,
    ) -> Option<(&[u8], Part)> {
        let number = id.number as usize;
        match (&update.kind, id.kind) {
            (UpdateKind::Slot(slot), FilterKind::Slot) => {
                let named = self.slots.get(number)?;
                let is_match = named.filter.matches(slot, self.commitment);
                is_match.then_some((&named.name[..], Part::Slot))
            }
            (UpdateKind::Account(account), FilterKind::Account) => {
                let named = self.accounts.get(number)?;
                let part = || (&named.name[..], Part::Account(Arc::clone(&self.data_slices)));
                named.filter.matches(account).then(part)
            }
            (UpdateKind::Transaction(_), FilterKind::Transaction) => {
                let named = self.transactions.get(number)?;
                named.filter.matches(keys?).then_some((&named.name[..], Part::Transaction))
            }
            (UpdateKind::Transaction(_), FilterKind::TransactionStatus) => {
                let named = self.statuses.get(number)?;
                named.filter.matches(keys?).then_some((&named.name[..], Part::TransactionStatus))
            }
            (UpdateKind::Entry { .. }, FilterKind::Entry) => {
                Some((&self.entries.get(number)?.name[..], Part::Entry))
            }
            (UpdateKind::Block(_), FilterKind::Block) => {
                let named = self.blocks.get(number)?;
                Some((&named.name[..], Part::Block(Arc::clone(&named.filter))))
            }
            (UpdateKind::Footer(_), FilterKind::BlockFooter) => {
                let part = Part::Footer { with_certificates: self.with_certificates };
                Some((&self.footers.get(number)?.name[..], part))
            }
            (UpdateKind::BlockMeta(_), FilterKind::BlockMeta) => {
                Some((&self.blocks_meta.get(number)?.name[..], Part::BlockMeta))
            }
            _ => None,
        }
    }
}

impl SlotFilter {
    fn new(filter: &SubscribeRequestFilterSlots) -> Self {
        Self {
            by_commitment: filter.filter_by_commitment.unwrap_or(false),
            interslot: filter.interslot_updates.unwrap_or(false),
        }
    }

    fn matches(&self, slot: &SlotUpdate, commitment: Commitment) -> bool {
        let of_status = match slot.status {
            SlotStatus::SlotProcessed => Some(Commitment::Processed),
            SlotStatus::SlotConfirmed => Some(Commitment::Confirmed),
            SlotStatus::SlotFinalized => Some(Commitment::Finalized),
            SlotStatus::SlotFirstShredReceived
            | SlotStatus::SlotCompleted
            | SlotStatus::SlotCreatedBank
            | SlotStatus::SlotDead => None,
        };
        match of_status {
            Some(of_status) => !self.by_commitment || of_status == commitment,
            None => self.interslot && !self.by_commitment,
        }
    }
}

/// The commitment of a request or a call. Default: processed.
pub(crate) fn commitment(level: Option<i32>) -> Result<Commitment, Status> {
    let level = level.unwrap_or_default();
    match CommitmentLevel::try_from(level) {
        Ok(CommitmentLevel::Processed) => Ok(Commitment::Processed),
        Ok(CommitmentLevel::Confirmed) => Ok(Commitment::Confirmed),
        Ok(CommitmentLevel::Finalized) => Ok(Commitment::Finalized),
        Err(_) => Err(Status::invalid_argument(format!("commitment {level} is unknown"))),
    }
}

/// The compiled filters of one kind, sorted by name.
fn compile_named<F, C>(
    filters: &HashMap<String, F>,
    field: &str,
    config: &Config,
    compile: impl Fn(&F) -> Result<C, Status>,
) -> Result<Vec<Named<C>>, Status> {
    check_count(field, filters.len(), config.filters_max, Some("grpc.filters_max"))?;
    let mut sorted: Vec<_> = filters.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    let compiled = sorted.into_iter().map(|(name, filter)| {
        if name.len() > config.name_bytes_max {
            return Err(Status::invalid_argument(format!(
                "{field}: a filter's name has {} bytes, at most {} are allowed",
                name.len(),
                config.name_bytes_max
            )));
        }
        let filter = compile(filter).map_err(|status| {
            Status::new(status.code(), format!("{field}[{name:?}]: {}", status.message()))
        })?;
        Ok(Named { name: encoded_name(name), filter })
    });
    compiled.collect()
}

/// An entry of field 1 (`filters`) of `SubscribeUpdate`.
fn encoded_name(name: &str) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(name.len() + 4);
    prost::encoding::string::encode(1, &name.to_owned(), &mut encoded);
    encoded
}

fn ids<F>(kind: FilterKind, filters: &[Named<F>]) -> impl Iterator<Item = (FilterId, &Named<F>)> {
    (0..).zip(filters).map(move |(number, named)| (FilterId { kind, number }, named))
}

fn only_ids<F>(kind: FilterKind, filters: &[Named<F>]) -> Vec<FilterId> {
    ids(kind, filters).map(|(id, _)| id).collect()
}
