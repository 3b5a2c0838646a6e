//! Notifications of sets: what a step, a snapshot or conflated messages come to as JSON.
//!
//! Shape: `{context, block, kind, value}`; `more` says that the next message has the rest of the same.
//! `kind` is `update`, `rollback` (the block is not on the chain any more: only who is concerned is
//! told), `snapshot`, or `conflated`. Accounts have the shape that they have everywhere else.
//! An account that a block took from under an address is told to those who follow that address, with
//! `left`: closed, or with what it is found by now.
//! Bounds: a message is begun anew past [`MESSAGE_BYTES`].

use std::sync::Arc;

use chain_solana::{Block, ExecutedTransaction, View};
use ledger::{Address, KeyKind, Record, Slot};
use serde::Serialize;
use solana::{Account, Encoding};
use solana_account_decoder_client_types::UiAccount;
use solana_pubkey::Pubkey;
use subscriptions::{BlockStep, Direction, QueueMemory};

use super::PubSub;
use super::notification;
use super::payload::{BlockItems, ConflatedState, Items, LatestWrite, SplitPayload, Write};
use super::shared_text::SharedText;
use super::subscription::key_kind;

/// What a message has before the next one is begun.
const MESSAGE_BYTES: usize = 256 * 1024;

/// What a message is.
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
struct AccountUpdate {
    pubkey: String,
    /// Which block left it so, where the message is of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<Slot>,
    #[serde(skip_serializing_if = "is_false")]
    rolled_back: bool,
    /// Whether it is not found by what is followed any more.
    #[serde(skip_serializing_if = "is_false")]
    left: bool,
    /// Left out of what was rolled back; null if the account was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<Option<UiAccount>>,
}

/// One of a block's things: a place in its writes, or in its transactions; as one number, as the engine
/// takes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemRef(u32);

impl ItemRef {
    /// Set if the account is not found by the key any more.
    const LEFT: u32 = 1 << 31;

    /// Where it stands in its list.
    pub(super) fn index(self) -> usize {
        (self.0 & !Self::LEFT) as usize
    }

    fn is_left(self) -> bool {
        self.0 & Self::LEFT != 0
    }

    /// From the numbers that the engine gave back. What left one address of a set and is found by
    /// another has not left.
    pub(super) fn merge_refs(found: impl IntoIterator<Item = u32>) -> Vec<Self> {
        let mut places: Vec<Self> = Vec::new();
        for place in found.into_iter().map(Self) {
            match places.last_mut().filter(|last| last.index() == place.index()) {
                Some(last) if last.is_left() => *last = place,
                Some(_) => {}
                None => places.push(place),
            }
        }
        places
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

/// Messages under way: items are added, and cut into messages.
pub(super) struct MessageBuilder {
    kind: NotificationKind,
    slot: Slot,
    block: String,
    items: String,
    finished: Vec<SharedText>,
    /// Where the texts count.
    memory: Arc<QueueMemory>,
}

impl MessageBuilder {
    pub(super) fn new(pubsub: &PubSub, kind: NotificationKind, slot: Slot, block: String) -> Self {
        let memory = Arc::clone(pubsub.subscriptions.queue_memory());
        Self { kind, slot, block, items: String::new(), finished: Vec::new(), memory }
    }

    fn add(&mut self, item: &impl Serialize) {
        if self.items.len() >= MESSAGE_BYTES {
            self.cut(true);
        }
        match serde_json::to_string(item) {
            Ok(text) => {
                self.items.push(if self.items.is_empty() { '[' } else { ',' });
                self.items.push_str(&text);
            }
            Err(err) => tracing::error!(%err, "a notification could not be written as JSON"),
        }
    }

    fn cut(&mut self, more: bool) {
        let items = match std::mem::take(&mut self.items) {
            none if none.is_empty() => "[".to_owned(),
            items => items,
        };
        let kind = match self.kind {
            NotificationKind::Update => "update",
            NotificationKind::Rollback => "rollback",
            NotificationKind::Snapshot => "snapshot",
            NotificationKind::Conflated => "conflated",
        };
        let more = if more { r#","more":true"# } else { "" };
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"addressesNotification","params":{{"result":{{"context":{{"slot":{}}},"block":"{}","kind":"{kind}"{more},"value":{items}]}}"#,
            self.slot, self.block,
        );
        self.finished.push(SharedText::new(text, &self.memory));
    }

    /// How much has been added and not cut off yet.
    pub(super) fn bytes(&self) -> usize {
        self.items.len() + self.finished.iter().map(|text| text.len()).sum::<usize>()
    }

    /// The messages; the last says whether more of the same follows.
    pub(super) fn finish(mut self, more: bool) -> Vec<SharedText> {
        self.cut(more);
        self.finished
    }

    /// An account as it is now, for a snapshot.
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
        self.add(&AccountUpdate { pubkey, slot: None, rolled_back: false, left: false, account });
    }

    fn add_write(
        &mut self,
        write: &Write,
        turn: Direction,
        slot: Option<Slot>,
        encoding: Encoding,
        view: &View,
    ) {
        let encoded = |account: &Arc<Account>| {
            notification::account(&write.pubkey, Some(account), encoding, view)
        };
        let is_applied = turn == Direction::Applied;
        self.add(&AccountUpdate {
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

/// What a step tells of some of its things, once for all who want the same.
pub(super) fn encode_step(
    pubsub: &PubSub,
    step: &BlockStep<Block>,
    facet: KeyKind,
    encoding: Encoding,
    places: Vec<ItemRef>,
) -> Vec<SplitPayload> {
    let block = &step.body;
    let told = if step.direction == Direction::Applied {
        NotificationKind::Update
    } else {
        NotificationKind::Rollback
    };
    let view = pubsub.reader.view(step.commitment);
    let mut messages =
        MessageBuilder::new(pubsub, told, block.id.slot, block.blockhash.to_string());
    let items = select_items(block, facet, &places);
    match &items {
        Items::Transactions(all) => {
            all.iter().for_each(|executed| messages.add_transaction(executed, false));
        }
        Items::Writes(writes) => {
            for write in writes {
                messages.add_write(write, step.direction, None, encoding, &view);
            }
        }
    }
    let texts = messages.finish(false);
    // Whoever conflates the messages of a step gets its things with the last of them.
    let last = texts.len() - 1; // finishing makes one at least
    let at_block = (block.id.slot, block.blockhash);
    let memory = pubsub.subscriptions.queue_memory();
    let mut things = Some(Arc::new(BlockItems::new(step.direction, at_block, items, memory)));
    let nothing =
        || Arc::new(BlockItems::new(step.direction, at_block, Items::Writes(Vec::new()), memory));
    let placed = |(at, beginning)| {
        let things = if at == last { things.take() } else { Some(nothing()) };
        SplitPayload { prefix: beginning, block_items: things }
    };
    texts.into_iter().enumerate().map(placed).collect()
}

fn select_items(block: &Block, facet: KeyKind, places: &[ItemRef]) -> Items {
    if facet == key_kind::MENTIONED {
        let executed = |place: &ItemRef| Arc::clone(&block.transactions[place.index()]);
        return Items::Transactions(places.iter().map(executed).collect());
    }
    let write = |place: &ItemRef| {
        let write = &block.writes[place.index()];
        Write { pubkey: write.pubkey, account: write.account.clone(), left: place.is_left() }
    };
    Items::Writes(places.iter().map(write).collect())
}

/// What is left of messages that a slow client did not take, on its way out in messages.
pub(super) struct ConflatedEncoder {
    newest: (Slot, String),
    writes: std::collections::hash_map::IntoIter<Pubkey, LatestWrite>,
    transactions: std::vec::IntoIter<(Arc<ExecutedTransaction>, Direction)>,
}

impl ConflatedEncoder {
    /// `None` if nothing is left.
    pub(super) fn new(kept: ConflatedState) -> Option<Self> {
        let (slot, blockhash) = kept.newest?;
        Some(Self {
            newest: (slot, blockhash.to_string()),
            writes: kept.writes.into_iter(),
            transactions: kept.transactions.into_iter(),
        })
    }

    /// The next messages, of about `bytes` bytes, and what is left after them.
    pub(super) fn step(
        mut self,
        pubsub: &PubSub,
        encoding: Encoding,
        view: &View,
        bytes: usize,
    ) -> (Vec<SharedText>, Option<Self>) {
        let (slot, block) = self.newest.clone();
        let mut messages = MessageBuilder::new(pubsub, NotificationKind::Conflated, slot, block);
        while messages.bytes() < bytes {
            if let Some((_, LatestWrite { slot, write, direction: turn })) = self.writes.next() {
                messages.add_write(&write, turn, Some(slot), encoding, view);
            } else if let Some((executed, turn)) = self.transactions.next() {
                messages.add_transaction(&executed, turn == Direction::Reverted);
            } else {
                return (messages.finish(false), None);
            }
        }
        let has_more = self.writes.len() + self.transactions.len() > 0;
        (messages.finish(has_more), has_more.then_some(self))
    }
}

/// The things of a block that a set may have under a facet: the number of the address, and the place
/// in the block's writes or transactions, for [`WatchSlot::of_set`].
pub(super) fn block_items(pubsub: &PubSub, block: &Block, facet: KeyKind) -> Vec<(u32, u32)> {
    let id = |address: &Address| pubsub.reader.addresses().lookup(address);
    let mut things = Vec::new();
    if facet == key_kind::MENTIONED {
        for (place, executed) in block.transactions.iter().enumerate() {
            let ids =
                executed.account_keys.iter().filter_map(|key| id(&Address::from(key.to_bytes())));
            things.extend(ids.map(|id| (id.0, place as u32)));
        }
        return things;
    }
    for (place, write) in block.writes.iter().enumerate() {
        let place = place as u32;
        if facet == key_kind::ITSELF {
            // Not by the write's own number: this may be told long after the block.
            things.extend(id(&Address::from(write.pubkey.to_bytes())).map(|id| (id.0, place)));
            continue;
        }
        let left = write.removed_keys.iter().filter(|(of, _)| *of == facet);
        things.extend(left.filter_map(|(_, key)| Some((id(key)?.0, place | ItemRef::LEFT))));
        if let Some(account) = &write.account {
            account.keys(&mut |of, key| {
                if of == facet {
                    things.extend(id(&key).map(|id| (id.0, place)));
                }
            });
        }
    }
    things
}
