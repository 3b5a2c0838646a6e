//! From the ledger's events to the listeners' queues.
//!
//! In: events, in order, over a bounded channel from the writer. Out: notifications in the listeners' queues. One
//! thread does it, so that each client sees events in order. Encoding that takes longer than microseconds is shared
//! with the CPU pool (`fork_join`). Whole blocks come after all other notifications of an event, so that none of
//! those waits for them.
//! Bounds: `Config::events_max` queued events. If the channel loses an event, every connection is closed, because the
//! event may have been for any of them.
//! Rules: notifications of accounts, programs, logs and blocks are sent when their block is complete (once at
//! processed, once at confirmed) and when it is finalized, for every block of the final chain; signatures and
//! transactions at processed as soon as they are executed. The registry goes from block to block
//! (`subscriptions::BlockStep`), so no block is skipped. Sets are notified of the blocks of an abandoned fork too.
//! Accounts that only an abandoned fork wrote are sent as they are again.
//! Invariant: a notification is encoded once for each distinct subscription, without any lock. The notifications of a
//! subscription are delivered in the order of events.
//! Invariant: a transaction has a status before anybody is notified of it (`ExecutedTransaction::show_status`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use chain_solana::{
    AccountWrite, Block, EventReceiver, ExecutedTransaction, LedgerEvent, Received, View,
};
use cpu_pool::fork_join;
use foldhash::HashSet;
use ledger::{Address, AddressId, BlockId, Commitment, Key};
use solana::Account;
use solana_account::ReadableAccount;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_pubkey::Pubkey;
use solana_transaction_status::BlockEncodingOptions;
use subscriptions::{
    AfterDelivery, BlockStep, CloseReason, Direction, Match, Position, Publication, SubscriptionId,
};
use websocket::{Payload, SharedBytes};

use super::address_notification::ItemRef;
use super::block_items::BlockItems;
use super::solana_subscriptions::SolanaPubSub;
use super::subscription::{LogsFilter, Subscription, SubscriptionKind};
use super::{address_notification, key_kind, notification, transaction_filter};

/// Notifications that are encoded before they are delivered.
const BATCH_MESSAGES_MAX: usize = 256;
/// As [`BATCH_MESSAGES_MAX`], in bytes.
const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Encoding up to this time, in nanoseconds, is done by the notifier alone: sharing it costs some tens of
/// microseconds.
const ALONE_NS: u64 = 200_000;
/// One part of shared encoding, in nanoseconds.
const PART_NS: u64 = 100_000;
/// Encoding that is shared at once, in nanoseconds. Bounds what is encoded and not delivered: some 64 MB.
const ROUND_NS: u64 = 64_000_000;

/// Starts the notifier. It ends with the sender of `events`.
pub(super) fn start(pubsub: Arc<SolanaPubSub>, events: EventReceiver) -> io::Result<()> {
    let notifier = std::thread::Builder::new().name("notifier".to_owned());
    notifier.spawn(move || run(&pubsub, events))?;
    Ok(())
}

fn run(pubsub: &Arc<SolanaPubSub>, mut events: EventReceiver) {
    while let Some(received) = events.recv() {
        let (number, event) = match received {
            Received::Event { number, event } => (number, event),
            Received::Lost(_) => {
                let limit = pubsub.api.config.events_max;
                tracing::error!(
                    limit,
                    "events were lost (pubsub.events_max): all subscribers are closed"
                );
                pubsub.subscriptions.close_all(CloseReason::EventsLost);
                continue;
            }
        };
        // After a panic the subscribers lack this event, so they are closed. Later events are still served.
        let publish = || publish_event(pubsub, Position(number), &event);
        if catch_unwind(AssertUnwindSafe(publish)).is_err() {
            tracing::error!("the notifier panicked: all subscribers are closed");
            pubsub.subscriptions.close_all(CloseReason::EventsLost);
        }
    }
    pubsub.shut_down();
}

/// Publishes one event to all subscriptions that match it.
fn publish_event(pubsub: &Arc<SolanaPubSub>, position: Position, event: &LedgerEvent) {
    let mut batch = NotificationBatch { pubsub, position, messages: Vec::new(), bytes: 0 };
    match event {
        LedgerEvent::BankCreated { block, parent, root, .. } => {
            let info = notification::slot(block.slot, parent.slot, *root);
            batch.broadcast(SubscriptionKind::Slot, &info);
            publish_slot_updates(&mut batch, event);
        }
        LedgerEvent::Executed(all) => {
            all.iter().for_each(|executed| publish_transaction(&mut batch, executed));
        }
        LedgerEvent::Frozen { block, .. } => {
            publish_slot_updates(&mut batch, event);
            if !add_block(pubsub, block) {
                return handle_missing_parent(pubsub, block.id);
            }
        }
        // Subscribers get what changed between the two blocks, as writes of this one.
        LedgerEvent::Jumped { block, .. } => {
            let slot = block.id.slot;
            let parent = block.parent.slot;
            batch.broadcast(SubscriptionKind::Slot, &notification::slot(slot, parent, parent));
            *pubsub.api.jumped.lock() = Some(block.id);
            if !add_block(pubsub, block) {
                return handle_missing_parent(pubsub, block.id);
            }
        }
        LedgerEvent::TipMoved { block } => advance(&mut batch, *block, Commitment::Processed),
        LedgerEvent::Confirmed { block, .. } => {
            publish_slot_updates(&mut batch, event);
            advance(&mut batch, block.id, Commitment::Confirmed);
        }
        LedgerEvent::Voted(votes) => {
            for vote in votes.iter() {
                batch.broadcast(SubscriptionKind::Vote, &notification::vote(vote));
            }
        }
        LedgerEvent::Rooted { block, .. } => {
            publish_slot_updates(&mut batch, event);
            batch.broadcast(SubscriptionKind::Root, &block.id.slot);
            advance(&mut batch, block.id, Commitment::Finalized);
        }
        // They get accounts when the block is complete, and no footers.
        LedgerEvent::AccountsWritten { .. } | LedgerEvent::BlockFooter { .. } => {}
        // Subscribers get what it takes back with the next move of a commitment.
        LedgerEvent::Reverted { block, .. } => {
            publish_slot_updates(&mut batch, event);
            let bytes = || usize::try_from(block.bytes()).unwrap_or(usize::MAX);
            let subscriptions = &pubsub.subscriptions;
            if subscriptions.restore_block(block.id, block.parent, block, bytes).is_err() {
                return handle_missing_parent(pubsub, block.id);
            }
        }
    }
    batch.flush();
}

/// Adds a block whose writes are known. False if its parent is missing.
fn add_block(pubsub: &SolanaPubSub, block: &Arc<Block>) -> bool {
    pubsub.api.recent_blocks.lock().add(block);
    let bytes = usize::try_from(block.bytes()).unwrap_or(usize::MAX);
    let body = Arc::clone(block);
    pubsub.subscriptions.add_block(block.id, block.parent, body, bytes).is_ok()
}

/// Moves a commitment to a block, and publishes all steps on the way.
fn advance(batch: &mut NotificationBatch<'_>, block: BlockId, commitment: Commitment) {
    let Ok(steps) = batch.pubsub.subscriptions.advance(commitment, block) else {
        return handle_missing_parent(batch.pubsub, block);
    };
    for step in steps.iter() {
        if step.direction == Direction::Applied {
            let items = match_items(batch.pubsub, &step.body, step.commitment);
            publish_items(batch, &step.body, step.commitment, items);
        }
        publish_to_sets(batch, step);
    }
    for level in Commitment::ALL {
        if let Some(restored) = restored_accounts(batch.pubsub, &steps, level, block) {
            let items = match_items(batch.pubsub, &restored, level);
            publish_items(batch, &restored, level, items);
        }
    }
    batch.flush(); // before the steps are dropped: then they count as delivered
    let steps: Vec<BlockStep<Block>> = steps.to_vec();
    // The transactions of a block that the ledger jumped to are not known.
    let jumped = *batch.pubsub.api.jumped.lock();
    let is_whole = |step: &&BlockStep<Block>| {
        step.direction == Direction::Applied && jumped != Some(step.block)
    };
    for step in steps.iter().filter(is_whole) {
        let items = match_block_subscriptions(batch.pubsub, step.commitment);
        publish_items(batch, &step.body, step.commitment, items);
    }
}

/// The accounts that only left blocks wrote, as they are again, like a block that wrote them. As in Agave, subscribers
/// of accounts and programs get them when the tip leaves a fork.
fn restored_accounts(
    pubsub: &SolanaPubSub,
    steps: &[BlockStep<Block>],
    commitment: Commitment,
    to: BlockId,
) -> Option<Arc<Block>> {
    let blocks = |direction| {
        let of_level = steps.iter().filter(move |step| step.commitment == commitment);
        of_level.filter(move |step| step.direction == direction).map(|step| &step.body)
    };
    let left = blocks(Direction::Reverted).next()?;
    let matches = pubsub.subscriptions.matches();
    let kinds = [SubscriptionKind::Account, SubscriptionKind::Program];
    let has_subscriptions = kinds.into_iter().any(|kind| matches.has(kind.at(commitment)));
    drop(matches);
    if !has_subscriptions {
        return None;
    }
    let keys = |direction| blocks(direction).flat_map(|block| &block.writes);
    let mut seen: HashSet<Pubkey> = keys(Direction::Applied).map(|write| write.pubkey).collect();
    // At least as new as the block. A newer write of an account is sent once more, with its own block.
    let view = pubsub.api.reader.view(commitment);
    let writes = keys(Direction::Reverted).filter(|write| seen.insert(write.pubkey));
    let writes = writes.map(|write| AccountWrite {
        account: view.record(&Address::from(write.pubkey.to_bytes())).map(Into::into),
        removed_keys: Vec::new(),
        ..*write
    });
    Some(Arc::new(Block {
        id: to,
        transactions: Vec::new(),
        rewards: Vec::new(),
        entries: Vec::new(),
        writes: writes.collect(),
        ..**left
    }))
}

/// The chain of blocks has a gap. What is between cannot be published, so every subscriber is closed.
fn handle_missing_parent(pubsub: &SolanaPubSub, block: BlockId) {
    tracing::error!(slot = block.slot, "a block without its parent: all subscribers are closed");
    pubsub.subscriptions.close_all(CloseReason::EventsLost);
    pubsub.subscriptions.start_at(|_| block);
}

/// Publishes a step to sets of addresses. Cost: a lookup for each write, and the matches.
fn publish_to_sets(batch: &mut NotificationBatch<'_>, step: &BlockStep<Block>) {
    let pubsub = batch.pubsub;
    let topic = SubscriptionKind::Addresses.at(step.commitment);
    for key_kind in key_kind::ALL {
        if !pubsub.subscriptions.matches().has_key_kind(topic, key_kind) {
            continue;
        }
        let items = address_notification::block_items(pubsub, &step.body, key_kind);
        let found =
            pubsub.subscriptions.matches().matching_sets(topic, key_kind, step.number, items);
        let found: Vec<_> =
            found.into_iter().map(|(matched, refs)| (matched, ItemRef::merge_refs(refs))).collect();
        if !found.is_empty() {
            step.body.show_statuses();
        }
        let cost = |(matched, refs): &(Match<Subscription>, Vec<ItemRef>)| {
            let form = match &*matched.identity {
                Subscription::Addresses { encoding, .. } => encoding.form,
                _ => UiAccountEncoding::Base64,
            };
            let item_ns = |item: &ItemRef| match step.body.writes.get(item.index()) {
                Some(write) if key_kind != key_kind::MENTIONED => {
                    account_ns(write.base_account(), form)
                }
                _ => MESSAGE_NS,
            };
            MESSAGE_NS + refs.iter().map(item_ns).sum::<u64>()
        };
        let pubsub = Arc::clone(pubsub);
        let step = step.clone();
        batch.encode_all(found, cost, move |(matched, refs), out| {
            let Subscription::Addresses { encoding, .. } = &*matched.identity else { return };
            for payload in
                address_notification::encode_step(&pubsub, &step, key_kind, *encoding, refs)
            {
                let body = Payload::Split(payload);
                let position = Position(step.number);
                out.push(new_publication(matched.id, body, position, AfterDelivery::Continue));
            }
        });
    }
}

fn publish_slot_updates(batch: &mut NotificationBatch<'_>, event: &LedgerEvent) {
    for update in notification::slot_updates(event) {
        batch.broadcast(SubscriptionKind::SlotsUpdates, &update);
    }
}

/// Publishes a transaction at processed: the transaction, its signature, and "received" to the subscriptions that
/// requested it.
fn publish_transaction(batch: &mut NotificationBatch<'_>, executed: &Arc<ExecutedTransaction>) {
    let found = match_transaction(batch.pubsub, executed, Commitment::Processed);
    let position = batch.position;
    let pubsub = Arc::clone(batch.pubsub);
    let transaction = Arc::clone(executed);
    batch.encode_all(
        found,
        |_| TRANSACTION_NS,
        move |matched, out| {
            let text = encode_transaction(&pubsub, &matched, &transaction);
            let after_delivery = AfterDelivery::Continue;
            out.extend(text.map(|text| text_publication(&matched, text, position, after_delivery)));
        },
    );
    let topic = SubscriptionKind::Signature.at(Commitment::Processed);
    let matches = batch.pubsub.subscriptions.matches();
    if !matches.has(topic) {
        return;
    }
    let found = matches.matching_exact(topic, executed.signature().as_ref()).into_iter();
    let found: Vec<_> = found.map(|found| (matches.is_on_hold(found.id), found)).collect();
    drop(matches);
    for (is_on_hold, matched) in found {
        let Subscription::Signature { commitment, received, .. } = &*matched.identity else {
            continue;
        };
        // A client on hold is notified later, and the status must not come first.
        let is_last = *commitment == Commitment::Processed && !is_on_hold;
        if *received || is_last {
            executed.show_status();
        }
        if *received {
            batch.send(&matched, &notification::received(executed), AfterDelivery::Continue);
        }
        if is_last {
            batch.send(&matched, &notification::processed(executed), AfterDelivery::End);
        }
    }
}

/// The transaction subscriptions that a transaction matches.
fn match_transaction(
    pubsub: &SolanaPubSub,
    executed: &ExecutedTransaction,
    commitment: Commitment,
) -> Vec<Match<Subscription>> {
    let topic = SubscriptionKind::Transaction.at(commitment);
    let matches = pubsub.subscriptions.matches();
    if !matches.has(topic) {
        return Vec::new();
    }
    let mut found = matches.matching(topic, mentioned_keys(pubsub, executed));
    found.extend(matches.matching_exact(topic, executed.signature().as_ref()));
    found
}

/// The notification of a transaction, if it passes the filter.
fn encode_transaction(
    pubsub: &SolanaPubSub,
    matched: &Match<Subscription>,
    executed: &ExecutedTransaction,
) -> Option<SharedBytes> {
    let Subscription::Transaction { filter, encoding, details, rewards, version_max, .. } =
        &*matched.identity
    else {
        return None;
    };
    if !filter.matches(executed) {
        return None;
    }
    executed.show_status();
    let result = transaction_filter::encode_notification(
        executed,
        *encoding,
        *details,
        *rewards,
        *version_max,
    );
    notification::text(pubsub, &matched.identity, matched.id, result)
}

/// The keys of all addresses that a transaction names.
fn mentioned_keys(
    pubsub: &SolanaPubSub,
    executed: &ExecutedTransaction,
) -> impl Iterator<Item = Key> {
    let ids = executed.account_keys.iter().filter_map(|key| pubsub.api.lookup_address(key));
    ids.map(|id| Key { kind: key_kind::MENTIONED, id })
}

/// What a notification is encoded from: an index in the block's writes or transactions.
#[derive(Clone, Copy)]
enum BlockItem {
    Account(usize),
    Program(usize),
    Logs(usize),
    Signature(usize),
    Transaction(usize),
    Block,
}

type MatchedItem = (Match<Subscription>, BlockItem);

/// The approximate cost of a small message, in nanoseconds.
const MESSAGE_NS: u64 = 1_000;
/// The cost of a transaction, as a message or in a block.
const TRANSACTION_NS: u64 = 15_000;

/// The cost of an account.
fn account_ns(account: Option<&Account>, form: UiAccountEncoding) -> u64 {
    let bytes = account.map_or(0, |account| account.0.data().len() as u64);
    match form {
        UiAccountEncoding::JsonParsed => 10 * MESSAGE_NS + 2 * bytes,
        UiAccountEncoding::Base64Zstd => 20 * MESSAGE_NS + 20 * bytes,
        _ => MESSAGE_NS + 2 * bytes,
    }
}

fn cost_ns(block: &Block, (matched, item): &MatchedItem) -> u64 {
    match (&*matched.identity, item) {
        (
            Subscription::Account { encoding, .. } | Subscription::Program { encoding, .. },
            BlockItem::Account(index) | BlockItem::Program(index),
        ) => account_ns(block.writes[*index].base_account(), encoding.form),
        (_, BlockItem::Transaction(_)) => TRANSACTION_NS,
        (_, BlockItem::Block) => TRANSACTION_NS * (1 + block.transactions.len() as u64),
        _ => MESSAGE_NS,
    }
}

/// Publishes matched items of a block, at a commitment.
fn publish_items(
    batch: &mut NotificationBatch<'_>,
    block: &Arc<Block>,
    commitment: Commitment,
    items: Vec<MatchedItem>,
) {
    if items.is_empty() {
        return;
    }
    block.show_statuses();
    // At least as new as the block. It is read for mints only, and those do not change.
    let view = batch.pubsub.api.reader.view(commitment);
    let position = batch.position;
    let pubsub = Arc::clone(batch.pubsub);
    let body = Arc::clone(block);
    let cost = |item: &MatchedItem| cost_ns(block, item);
    batch.encode_all(items, cost, move |(matched, item), out| {
        let after_delivery = match item {
            BlockItem::Signature(_) => AfterDelivery::End,
            _ => AfterDelivery::Continue,
        };
        let text = encode_item(&pubsub, &body, &view, &matched, item);
        out.extend(text.map(|text| text_publication(&matched, text, position, after_delivery)));
    });
}

/// The notification of an item, if the item passes the checks that the index cannot do.
fn encode_item(
    pubsub: &SolanaPubSub,
    block: &Block,
    view: &View,
    matched: &Match<Subscription>,
    item: BlockItem,
) -> Option<SharedBytes> {
    let slot = block.id.slot;
    let effective = |encoding| pubsub.api.effective_encoding(encoding);
    match (&*matched.identity, item) {
        // The id may have belonged to another address: events are behind the writer.
        (Subscription::Account { pubkey, encoding, .. }, BlockItem::Account(index)) => {
            let write = Some(&block.writes[index]).filter(|write| write.pubkey == *pubkey)?;
            let account = write.after();
            let account = account.as_deref();
            let encoding = effective(*encoding);
            let value = notification::account(pubkey, account, encoding, view);
            notification::text(pubsub, &matched.identity, matched.id, notification::at(slot, value))
        }
        (Subscription::Program { encoding, filters, .. }, BlockItem::Program(index)) => {
            let write = &block.writes[index];
            let encoding = effective(*encoding);
            let account = write.after()?;
            let pubkey = &write.pubkey;
            let value = notification::program_account(pubkey, &account, encoding, filters, view)?;
            notification::text(pubsub, &matched.identity, matched.id, notification::at(slot, value))
        }
        (Subscription::Logs { filter, .. }, BlockItem::Logs(index)) => {
            let executed = &block.transactions[index];
            let skipped = *filter == LogsFilter::AllButVotes && executed.is_vote;
            let logs = notification::logs(executed).filter(|_| !skipped)?;
            notification::text(pubsub, &matched.identity, matched.id, notification::at(slot, logs))
        }
        (Subscription::Signature { .. }, BlockItem::Signature(index)) => {
            let result = notification::processed(&block.transactions[index]);
            notification::text(pubsub, &matched.identity, matched.id, result)
        }
        (Subscription::Transaction { .. }, BlockItem::Transaction(index)) => {
            encode_transaction(pubsub, matched, &block.transactions[index])
        }
        (
            Subscription::Block { filter, encoding, details, rewards, version_max, .. },
            BlockItem::Block,
        ) => {
            let options = BlockEncodingOptions {
                transaction_details: *details,
                show_rewards: *rewards,
                max_supported_transaction_version: *version_max,
            };
            let update = notification::block(block, *filter, *encoding, options)?;
            notification::text(
                pubsub,
                &matched.identity,
                matched.id,
                notification::at(slot, update),
            )
        }
        _ => None,
    }
}

/// The subscriptions to whole blocks.
fn match_block_subscriptions(pubsub: &SolanaPubSub, commitment: Commitment) -> Vec<MatchedItem> {
    let blocks =
        pubsub.subscriptions.matches().matching(SubscriptionKind::Block.at(commitment), []);
    blocks.into_iter().map(|found| (found, BlockItem::Block)).collect()
}

/// The items of a block that subscriptions match, except whole blocks. Cost: a lookup for each write, transaction and
/// mentioned address of the block whose topic has a subscription, and the matches.
fn match_items(pubsub: &SolanaPubSub, block: &Block, commitment: Commitment) -> Vec<MatchedItem> {
    let mut items = Vec::new();
    let matches = pubsub.subscriptions.matches();
    let topic = SubscriptionKind::Account.at(commitment);
    if matches.has(topic) {
        for (index, write) in block.writes.iter().enumerate() {
            // Not by the write's own id: this may run long after the block.
            let Some(id) = pubsub.api.lookup_address(&write.pubkey) else { continue };
            let key = Key { kind: key_kind::ITSELF, id };
            let found = matches.matching(topic, [key]);
            items.extend(found.into_iter().map(|found| (found, BlockItem::Account(index))));
        }
    }
    let topic = SubscriptionKind::Program.at(commitment);
    if matches.has(topic) {
        let mut owners = OwnerLookup { pubsub, last: None };
        for (index, write) in block.writes.iter().enumerate() {
            let Some(account) = write.base_account() else { continue };
            let Some(id) = owners.owner_id(account) else { continue };
            let found = matches.matching(topic, [Key { kind: key_kind::PROGRAM, id }]);
            items.extend(found.into_iter().map(|found| (found, BlockItem::Program(index))));
        }
    }
    let topic = SubscriptionKind::Logs.at(commitment);
    if matches.has(topic) {
        for (index, executed) in block.transactions.iter().enumerate() {
            let found = matches.matching(topic, mentioned_keys(pubsub, executed));
            items.extend(found.into_iter().map(|found| (found, BlockItem::Logs(index))));
        }
    }
    let topic = SubscriptionKind::Signature.at(commitment);
    if commitment != Commitment::Processed && matches.has(topic) {
        for (index, executed) in block.transactions.iter().enumerate() {
            let found = matches.matching_exact(topic, executed.signature().as_ref()).into_iter();
            let found = found.filter(|found| !matches.is_on_hold(found.id));
            items.extend(found.map(|found| (found, BlockItem::Signature(index))));
        }
    }
    drop(matches);
    if commitment != Commitment::Processed {
        for (index, executed) in block.transactions.iter().enumerate() {
            let found = match_transaction(pubsub, executed, commitment);
            items.extend(found.into_iter().map(|found| (found, BlockItem::Transaction(index))));
        }
    }
    items
}

/// Looks up the ids of owners. Adjacent writes mostly have the same owner.
struct OwnerLookup<'a> {
    pubsub: &'a SolanaPubSub,
    last: Option<(Pubkey, Option<AddressId>)>,
}

impl OwnerLookup<'_> {
    fn owner_id(&mut self, account: &Account) -> Option<AddressId> {
        let owner = account.0.owner();
        if let Some((last, id)) = self.last
            && last == *owner
        {
            return id;
        }
        let id = self.pubsub.api.lookup_address(owner);
        self.last = Some((*owner, id));
        id
    }
}

/// The publication of an encoded notification to all listeners of a subscription.
fn text_publication(
    to: &Match<Subscription>,
    text: SharedBytes,
    position: Position,
    after_delivery: AfterDelivery,
) -> Publication<Payload<BlockItems>> {
    new_publication(to.id, Payload::Whole(text), position, after_delivery)
}

fn new_publication(
    subscription: SubscriptionId,
    body: Payload<BlockItems>,
    position: Position,
    after_delivery: AfterDelivery,
) -> Publication<Payload<BlockItems>> {
    let bytes = body.bytes();
    Publication { subscription, body, bytes, at: position, after_delivery }
}

/// Notifications that are encoded and not delivered yet.
struct NotificationBatch<'a> {
    pubsub: &'a Arc<SolanaPubSub>,
    /// The event that they are of.
    position: Position,
    messages: Vec<Publication<Payload<BlockItems>>>,
    bytes: usize,
}

impl NotificationBatch<'_> {
    /// Sends to all subscriptions of a kind that has no commitment.
    fn broadcast(&mut self, kind: SubscriptionKind, result: &impl serde::Serialize) {
        let found = self.pubsub.subscriptions.matches().matching(kind.topic(), []);
        for matched in found {
            self.send(&matched, result, AfterDelivery::Continue);
        }
    }

    fn send(
        &mut self,
        to: &Match<Subscription>,
        result: &impl serde::Serialize,
        after_delivery: AfterDelivery,
    ) {
        if let Some(text) = notification::text(self.pubsub, &to.identity, to.id, result) {
            self.push(text_publication(to, text, self.position, after_delivery));
        }
    }

    /// Encodes items to messages, in order: on this thread if that is quick, else in parts together with the pool.
    fn encode_all<T: Send + 'static>(
        &mut self,
        items: Vec<T>,
        cost_ns: impl Fn(&T) -> u64,
        encode: impl Fn(T, &mut Vec<Publication<Payload<BlockItems>>>) + Send + Sync + 'static,
    ) {
        let costs: Vec<u64> = items.iter().map(cost_ns).collect();
        let mut messages = Vec::new();
        if items.len() < 2 || costs.iter().sum::<u64>() < ALONE_NS {
            for item in items {
                encode(item, &mut messages);
                messages.drain(..).for_each(|message| self.push(message));
            }
            return;
        }
        let encode = Arc::new(encode);
        let mut items = items.into_iter().zip(costs).peekable();
        while items.peek().is_some() {
            let parts = next_round(&mut items);
            let encode = Arc::clone(&encode);
            let results = fork_join(&self.pubsub.pool, parts, move |part| {
                let mut messages = Vec::new();
                part.into_iter().for_each(|item| encode(item, &mut messages));
                messages
            });
            results.into_iter().flatten().for_each(|message| self.push(message));
        }
    }

    fn push(&mut self, message: Publication<Payload<BlockItems>>) {
        self.bytes += message.bytes;
        self.messages.push(message);
        if self.messages.len() >= BATCH_MESSAGES_MAX || self.bytes >= BATCH_BYTES_MAX {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.bytes = 0;
        if !self.messages.is_empty() {
            self.pubsub.subscriptions.deliver(self.messages.drain(..));
        }
    }
}

/// The next items, in parts.
fn next_round<T>(items: &mut impl Iterator<Item = (T, u64)>) -> Vec<Vec<T>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut part_ns = 0;
    let mut round_ns = 0;
    for (item, ns) in items {
        part.push(item);
        part_ns += ns;
        round_ns += ns;
        if part_ns >= PART_NS {
            parts.push(std::mem::take(&mut part));
            part_ns = 0;
        }
        if round_ns >= ROUND_NS {
            break;
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
