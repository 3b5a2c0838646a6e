//! Notifications of sets: the JSON of a step, a snapshot or conflated messages.
//!
//! Shape: `{context, block, kind, value}`; `more` says that the next message has the rest of the same.
//! `kind` is `update`, `rollback` (the block has left the chain: sent only to the subscriptions that got the block),
//! `snapshot`, or `conflated`. Accounts have the same shape as everywhere else.
//! If a block removes an account from an address, the followers of that address get the account with `left`: closed,
//! or as it is under its new key.
//! Bounds: past [`MESSAGE_BYTES`] the next message starts.

use std::sync::Arc;

use chain_solana::{Block, ExecutedTransaction, View};
use ledger::{Address, KeyKind, Record, Slot, StoredRecord};
use serde::Serialize;
use solana::{Account, Encoding};
use solana_account_decoder_client_types::UiAccount;
use solana_pubkey::Pubkey;
use subscriptions::{BlockStep, Direction, QueueMemory};
use websocket::{SharedBytes, SplitPayload};

use super::block_items::{BlockItems, ConflatedState, Items, LatestWrite, Write};
use super::solana_subscriptions::SolanaPubSub;
use super::{key_kind, notification};

/// Bytes of items in a message after which the next one starts.
const MESSAGE_BYTES: usize = 256 * 1024;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NotificationKind {
    Update,
    Rollback,
    Snapshot,
    Conflated,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountNotification {
    pubkey: String,
    /// The slot that last wrote it, if the message is of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<Slot>,
    #[serde(skip_serializing_if = "is_false")]
    rolled_back: bool,
    /// Whether it is no longer found under the followed address.
    #[serde(skip_serializing_if = "is_false")]
    left: bool,
    /// Absent in a rollback; null if the account was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<Option<UiAccount>>,
}

/// One item of a block: an index in its writes or in its transactions, as the one number that the subscription index
/// takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemRef(u32);

impl ItemRef {
    /// Set if the account is no longer found under the key.
    const LEFT: u32 = 1 << 31;

    /// The index in its list.
    pub(super) fn index(self) -> usize {
        (self.0 & !Self::LEFT) as usize
    }

    fn is_left(self) -> bool {
        self.0 & Self::LEFT != 0
    }

    /// From the numbers that the subscription index returned. An account that left one address of a set and is found
    /// under another has not left.
    pub(super) fn merge_refs(found: impl IntoIterator<Item = u32>) -> Vec<Self> {
        let mut refs: Vec<Self> = Vec::new();
        for item in found.into_iter().map(Self) {
            match refs.last_mut().filter(|last| last.index() == item.index()) {
                Some(last) if last.is_left() => *last = item,
                Some(_) => {}
                None => refs.push(item),
            }
        }
        refs
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TransactionUpdate {
    signature: String,
    slot: Slot,
    #[serde(skip_serializing_if = "is_false")]
    rolled_back: bool,
    err: Option<solana_transaction_error::TransactionError>,
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// Builds messages from items. A new message starts when one is long enough.
pub(super) struct MessageBuilder {
    kind: NotificationKind,
    slot: Slot,
    block: String,
    items: String,
    finished: Vec<SharedBytes>,
    /// The account that the texts are charged to.
    memory: Arc<QueueMemory>,
}

impl MessageBuilder {
    pub(super) fn new(
        pubsub: &SolanaPubSub,
        kind: NotificationKind,
        slot: Slot,
        block: String,
    ) -> Self {
        let memory = Arc::clone(pubsub.subscriptions.queue_memory());
        Self { kind, slot, block, items: String::new(), finished: Vec::new(), memory }
    }

    fn add(&mut self, item: &impl Serialize) {
        if self.items.len() >= MESSAGE_BYTES {
            self.finish_message(true);
        }
        match serde_json::to_string(item) {
            Ok(text) => {
                self.items.push(if self.items.is_empty() { '[' } else { ',' });
                self.items.push_str(&text);
            }
            Err(err) => tracing::error!(%err, "a notification could not be written as JSON"),
        }
    }

    fn finish_message(&mut self, has_more: bool) {
        let items = match std::mem::take(&mut self.items) {
            items if items.is_empty() => "[".to_owned(),
            items => items,
        };
        let kind = match self.kind {
            NotificationKind::Update => "update",
            NotificationKind::Rollback => "rollback",
            NotificationKind::Snapshot => "snapshot",
            NotificationKind::Conflated => "conflated",
        };
        let more = if has_more { r#","more":true"# } else { "" };
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"addressesNotification","params":{{"result":{{"context":{{"slot":{}}},"block":"{}","kind":"{kind}"{more},"value":{items}]}}"#,
            self.slot, self.block,
        );
        self.finished.push(SharedBytes::new(text, &self.memory));
    }

    /// Bytes of all messages and items so far.
    pub(super) fn bytes(&self) -> usize {
        self.items.len() + self.finished.iter().map(|text| text.len()).sum::<usize>()
    }

    /// The messages. `has_more`: the last one says that more of the same follows.
    pub(super) fn finish(mut self, has_more: bool) -> Vec<SharedBytes> {
        self.finish_message(has_more);
        self.finished
    }

    /// Adds an account of a snapshot.
    pub(super) fn add_account(
        &mut self,
        address: &Address,
        account: &Account,
        encoding: Encoding,
        view: &View,
    ) {
        let Some(pubkey) = address.to_array().map(Pubkey::new_from_array) else { return };
        let account = notification::account(&pubkey, Some(account), encoding, view);
        let pubkey = pubkey.to_string();
        let account = Some(Some(account));
        self.add(&AccountNotification {
            pubkey,
            slot: None,
            rolled_back: false,
            left: false,
            account,
        });
    }

    fn add_write(
        &mut self,
        write: &Write,
        direction: Direction,
        slot: Option<Slot>,
        encoding: Encoding,
        view: &View,
    ) {
        let encoded = |account: &StoredRecord<Account>| {
            notification::account(&write.pubkey, Some(&account.record()), encoding, view)
        };
        let is_applied = direction == Direction::Applied;
        self.add(&AccountNotification {
            pubkey: write.pubkey.to_string(),
            slot,
            rolled_back: slot.is_some() && !is_applied,
            left: is_applied && write.left,
            account: is_applied.then(|| write.account.as_ref().map(encoded)),
        });
    }

    fn add_transaction(&mut self, executed: &ExecutedTransaction, rolled_back: bool) {
        self.add(&TransactionUpdate {
            signature: executed.signature().to_string(),
            slot: executed.slot,
            rolled_back,
            err: executed.meta.status.clone().err(),
        });
    }
}

/// The notification of some items of a step, encoded once for all listeners of a subscription.
pub(super) fn encode_step(
    pubsub: &SolanaPubSub,
    step: &BlockStep<Block>,
    key_kind: KeyKind,
    encoding: Encoding,
    refs: Vec<ItemRef>,
) -> Vec<SplitPayload<BlockItems>> {
    let block = &step.body;
    let kind = if step.direction == Direction::Applied {
        NotificationKind::Update
    } else {
        NotificationKind::Rollback
    };
    let view = pubsub.api.reader.view(step.commitment);
    let mut messages =
        MessageBuilder::new(pubsub, kind, block.id.slot, block.blockhash.to_string());
    let items = select_items(block, key_kind, &refs);
    match &items {
        Items::Transactions(transactions) => {
            transactions.iter().for_each(|executed| messages.add_transaction(executed, false));
        }
        Items::Writes(writes) => {
            for write in writes {
                messages.add_write(write, step.direction, None, encoding, &view);
            }
        }
    }
    let texts = messages.finish(false);
    // The last message of a step carries the items for conflation.
    let last = texts.len() - 1; // there is at least one
    let at_block = (block.id.slot, block.blockhash);
    let memory = pubsub.subscriptions.queue_memory();
    let block_items = |items| Arc::new(BlockItems::new(step.direction, at_block, items, memory));
    let mut items = Some(items);
    let payload = |(index, prefix)| {
        let items = items.take_if(|_| index == last).unwrap_or(Items::Writes(Vec::new()));
        SplitPayload { prefix, items: Some(block_items(items)) }
    };
    texts.into_iter().enumerate().map(payload).collect()
}

fn select_items(block: &Block, key_kind: KeyKind, refs: &[ItemRef]) -> Items {
    if key_kind == key_kind::MENTIONED {
        let executed = |item: &ItemRef| Arc::clone(&block.transactions[item.index()]);
        return Items::Transactions(refs.iter().map(executed).collect());
    }
    let write = |item: &ItemRef| {
        let write = &block.writes[item.index()];
        Write { pubkey: write.pubkey, account: write.account.clone(), left: item.is_left() }
    };
    Items::Writes(refs.iter().map(write).collect())
}

/// Encodes the conflated notifications of a slow client.
pub(super) struct ConflatedEncoder {
    newest: (Slot, String),
    writes: std::collections::hash_map::IntoIter<Pubkey, LatestWrite>,
    transactions: std::vec::IntoIter<(Arc<ExecutedTransaction>, Direction)>,
}

impl ConflatedEncoder {
    /// `None` if nothing was conflated.
    pub(super) fn new(state: ConflatedState) -> Option<Self> {
        let (slot, blockhash) = state.newest?;
        Some(Self {
            newest: (slot, blockhash.to_string()),
            writes: state.writes.into_iter(),
            transactions: state.transactions.into_iter(),
        })
    }

    /// The next messages, of about `bytes` bytes, and the encoder for the rest.
    pub(super) fn step(
        mut self,
        pubsub: &SolanaPubSub,
        encoding: Encoding,
        view: &View,
        bytes: usize,
    ) -> (Vec<SharedBytes>, Option<Self>) {
        let (slot, block) = self.newest.clone();
        let mut messages = MessageBuilder::new(pubsub, NotificationKind::Conflated, slot, block);
        while messages.bytes() < bytes {
            if let Some((_, LatestWrite { slot, write, direction })) = self.writes.next() {
                messages.add_write(&write, direction, Some(slot), encoding, view);
            } else if let Some((executed, direction)) = self.transactions.next() {
                messages.add_transaction(&executed, direction == Direction::Reverted);
            } else {
                return (messages.finish(false), None);
            }
        }
        let has_more = self.writes.len() + self.transactions.len() > 0;
        (messages.finish(has_more), has_more.then_some(self))
    }
}

/// The items of a block that a set may have under a key kind: the id of the address, and the number of the item for
/// [`ItemRef::merge_refs`].
pub(super) fn block_items(
    pubsub: &SolanaPubSub,
    block: &Block,
    key_kind: KeyKind,
) -> Vec<(u32, u32)> {
    let id = |address: &Address| pubsub.api.reader.addresses().lookup(address);
    let mut items = Vec::new();
    if key_kind == key_kind::MENTIONED {
        for (index, executed) in block.transactions.iter().enumerate() {
            let ids =
                executed.account_keys.iter().filter_map(|key| id(&Address::from(key.to_bytes())));
            items.extend(ids.map(|id| (id.0, index as u32)));
        }
        return items;
    }
    for (index, write) in block.writes.iter().enumerate() {
        let index = index as u32;
        if key_kind == key_kind::ITSELF {
            // Not by the write's own id: this may run long after the block.
            items.extend(id(&Address::from(write.pubkey.to_bytes())).map(|id| (id.0, index)));
            continue;
        }
        let left = write.removed_keys.iter().filter(|(kind, _)| *kind == key_kind);
        items.extend(left.filter_map(|(_, key)| Some((id(key)?.0, index | ItemRef::LEFT))));
        if let Some(account) = write.after() {
            account.keys(&mut |kind, key| {
                if kind == key_kind {
                    items.extend(id(&key).map(|id| (id.0, index)));
                }
            });
        }
    }
    items
}
