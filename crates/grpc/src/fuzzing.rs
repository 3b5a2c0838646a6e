//! Requests of `Subscribe` against updates, without a server: for fuzzing.
//!
//! Shape: bytes are decoded, their filters are compiled, and updates are matched in both ways that the server has: with
//! the filters that the index finds, and with all filters, as a replay does.

use std::collections::HashSet;
use std::sync::Arc;

use chain_solana::{AccountUpdate, Block, ExecutedTransaction};
use prost::Message;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeRequest, SubscribeUpdate};

use crate::config::Config;
use crate::encode::Encoder;
use crate::filter::{FilterId, FilterSet, IndexKey, TransactionKeys, check_lists};
use crate::ids::SetId;
use crate::index::Index;
use crate::update::{FrozenBlock, SlotUpdate, Update, UpdateKind};

/// Updates of each kind, to match requests against.
pub struct Updates(Vec<Update>);

impl Updates {
    /// Makes updates of a block, its accounts and its transactions.
    pub fn new(
        block: &Arc<Block>,
        accounts: &[AccountUpdate],
        transactions: &[Arc<ExecutedTransaction>],
    ) -> Self {
        let statuses = [
            SlotStatus::SlotCreatedBank,
            SlotStatus::SlotProcessed,
            SlotStatus::SlotConfirmed,
            SlotStatus::SlotDead,
        ];
        let slots = statuses.map(|status| {
            UpdateKind::Slot(SlotUpdate { parent: Some(1), status, dead_error: None })
        });
        let frozen =
            Arc::new(FrozenBlock { block: Arc::clone(block), accounts: accounts.to_vec() });
        let entries = (0..).zip(block.entries.iter().copied());
        let kinds = slots
            .into_iter()
            .chain(accounts.iter().cloned().map(UpdateKind::Account))
            .chain(transactions.iter().cloned().map(UpdateKind::Transaction))
            .chain(entries.map(|(index, entry)| UpdateKind::Entry { index, entry }))
            .chain([UpdateKind::Block(Arc::clone(&frozen)), UpdateKind::BlockMeta(frozen)]);
        let slot = block.id.slot;
        Self(kinds.map(|kind| Update { slot, bank_id: 1, created_ms: 0, kind }).collect())
    }
}

/// Handles a request and matches the updates. Returns the number of messages; `None` if the request is refused.
///
/// Panics if the index misses a filter that matches or finds one that does not, if a message cannot be decoded or names
/// a filter that the request has not, or if more is stored than was counted.
pub fn subscribe_request(bytes: &[u8], updates: &Updates) -> Option<usize> {
    let config = Config::default();
    let are_lists_valid = check_lists(bytes, &config).is_ok();
    let request = SubscribeRequest::decode(bytes).ok()?;
    let filters = FilterSet::new(&request, &config).ok().filter(|_| are_lists_valid)?;
    let names = names(&request);
    let keys = filters.index_keys();
    assert!(keys.len() <= bytes.len() + names.len(), "{} postings", keys.len());
    assert!(
        filters.bytes() >= keys.len() * size_of::<(IndexKey, FilterId)>(),
        "{} postings in {} bytes",
        keys.len(),
        filters.bytes()
    );
    let set = SetId(1);
    let mut index = Index::new();
    index.start_set(&filters);
    index.insert(set, &keys);
    let mut count = 0;
    for update in &updates.0 {
        let all = filters.all_messages(update);
        let found: Vec<FilterId> =
            index.candidates(update, 0).into_iter().map(|(_, id)| id).collect();
        let transaction = TransactionKeys::from_update(update);
        let indexed = filters.messages(update, transaction.as_ref(), &found);
        assert!(all == indexed, "the index finds other filters: {all:?}, {indexed:?}");
        let mut encoder = Encoder::new(update);
        for spec in all {
            let message = SubscribeUpdate::decode(encoder.message(spec)).expect("a message");
            assert!(!message.filters.is_empty(), "a message without a filter");
            assert!(message.filters.iter().all(|name| names.contains(name.as_str())));
            count += 1;
        }
    }
    index.remove(set, &keys);
    index.end_set(&filters);
    assert!(index.is_empty(), "the index holds what was removed");
    Some(count)
}

/// The names of a request's filters.
fn names(request: &SubscribeRequest) -> HashSet<&str> {
    let SubscribeRequest {
        accounts,
        slots,
        transactions,
        transactions_status,
        blocks,
        blocks_meta,
        entry,
        block_footer,
        commitment: _,
        accounts_data_slice: _,
        ping: _,
        from_slot: _,
    } = request;
    let all = accounts.keys().chain(slots.keys()).chain(transactions.keys());
    let all = all.chain(transactions_status.keys()).chain(blocks.keys());
    let all = all.chain(blocks_meta.keys()).chain(entry.keys()).chain(block_footer.keys());
    all.map(String::as_str).collect()
}
