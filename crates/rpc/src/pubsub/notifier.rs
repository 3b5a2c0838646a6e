//! From the ledger's events to the listeners' queues.
//!
//! In: events, in order, over a bounded channel from the writer. Out: notifications in the queues of
//! those who want them. One thread does it, so that each client sees the order of events; what takes
//! longer than microseconds to encode it shares out with the CPU pool (`share`), and whole blocks come
//! after all else that an event tells, so that nobody waits for them.
//! Bounds: `Config::events_max` events wait. The writer never waits: an event that finds no room is
//! dropped, and then every connection is closed, because any of them may have wanted it.
//! Rules: accounts, programs, logs and blocks are told when their block is complete (once as
//! processed, once as confirmed) and when it is finalized, every block of the final chain; signatures
//! and transactions at processed as soon as they are executed. The engine walks from block to block
//! (`subscriptions::Poll`), so that nothing is jumped; blocks of a fork that was left are told to sets.
//! Invariant: a notification is encoded once for each distinct subscription, without any lock, and
//! those of a subscription are handed out in the order of events.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use chain_solana::{Block, EventSink, ExecutedTransaction, LedgerEvent, View};
use foldhash::HashMap;
use ledger::{Address, AddressId, BlockId, Commitment, Key};
use solana::Account;
use solana_account::ReadableAccount;
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_transaction_status::BlockEncodingOptions;
use subscriptions::{
    AfterDelivery, BlockStep, CloseReason, Direction, Match, Position, Publication, SubscriptionId,
};

use super::address_notification::ItemRef;
use super::fork_join::fork_join;
use super::payload::Payload;
use super::shared_text::SharedText;
use super::subscription::{LogsFilter, Subscription, SubscriptionKind, key_kind};
use super::{PubSub, address_notification, notification, transaction_filter};

/// Notifications that are made before they are handed out: bounds what waits in between.
const BATCH_MESSAGES_MAX: usize = 256;
/// As [`BATCH_MESSAGES_MAX`], in bytes.
const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Encoding that takes no longer, in nanoseconds, the notifier does alone: to share it out costs some
/// tens of microseconds.
const ALONE_NS: u64 = 200_000;
/// What one part is that is shared out.
const PART_NS: u64 = 100_000;
/// What is shared out at once: bounds what is encoded and not handed out, some 64 MB.
const ROUND_NS: u64 = 64_000_000;

/// Where the ledger's one writer puts its events. Never blocks.
///
/// Dropping it is the end of the ledger: every connection is closed once what waits has been told.
pub struct EventSender {
    events: SyncSender<(Position, LedgerEvent)>,
    cursor: Arc<EventCursor>,
}

/// How far the stream of events is.
#[derive(Default)]
pub(super) struct EventCursor {
    /// Events so far, lost ones included.
    sent: AtomicU64,
    /// Whether one was lost of which the listeners do not know yet.
    lost: AtomicBool,
}

impl EventCursor {
    /// The position of the newest event. All that it and those before it made true can be read.
    pub(super) fn position(&self) -> Position {
        Position(self.sent.load(Ordering::Acquire))
    }
}

impl EventSink for EventSender {
    fn send(&mut self, event: &LedgerEvent) {
        let at = Position(self.cursor.sent.fetch_add(1, Ordering::Release) + 1);
        match self.events.try_send((at, event.clone())) {
            Ok(()) => {}
            // The notifier looks at the flag after each event, and it has a queue full of them.
            Err(TrySendError::Full(_)) => self.cursor.lost.store(true, Ordering::Release),
            // The notifier ends only with this sink: its thread could not go on.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

/// Starts the notifier.
pub(super) fn start(pubsub: Arc<PubSub>) -> io::Result<EventSender> {
    let (sender, events) = sync_channel(pubsub.config.events_max.max(1));
    let stream = Arc::clone(&pubsub.event_cursor);
    let notifier = Notifier { pubsub, events };
    std::thread::Builder::new().name("notifier".to_owned()).spawn(move || notifier.run())?;
    Ok(EventSender { events: sender, cursor: stream })
}

struct Notifier {
    pubsub: Arc<PubSub>,
    events: Receiver<(Position, LedgerEvent)>,
}

impl Notifier {
    fn run(self) {
        while let Ok((at, event)) = self.events.recv() {
            if self.pubsub.event_cursor.lost.swap(false, Ordering::AcqRel) {
                let limit = self.pubsub.config.events_max;
                tracing::error!(
                    limit,
                    "events were lost (pubsub.events_max): all subscribers are closed"
                );
                self.pubsub.subscriptions.close_all(CloseReason::EventsLost);
            }
            // A panic costs the subscribers this event, of which they are told; not the rest.
            if catch_unwind(AssertUnwindSafe(|| publish_event(&self.pubsub, at, &event))).is_err() {
                tracing::error!("the notifier panicked: all subscribers are closed");
                self.pubsub.subscriptions.close_all(CloseReason::EventsLost);
            }
        }
        self.pubsub.shut_down();
    }
}

/// Tells one event to whoever wants it.
fn publish_event(pubsub: &Arc<PubSub>, at: Position, event: &LedgerEvent) {
    let mut outbox = NotificationBatch { pubsub, at, messages: Vec::new(), bytes: 0 };
    match event {
        LedgerEvent::BankCreated { slot, parent, root, .. } => {
            outbox.broadcast(SubscriptionKind::Slot, &notification::slot(*slot, *parent, *root));
            publish_slot_updates(&mut outbox, event);
        }
        LedgerEvent::Executed(all) => {
            all.iter().for_each(|executed| publish_transaction(&mut outbox, executed));
        }
        LedgerEvent::Completed { block, .. } => {
            publish_slot_updates(&mut outbox, event);
            let parent = pubsub.recent_blocks.lock().parent_of(block);
            let parent = parent.or_else(|| pubsub.subscriptions.tip(Commitment::Processed));
            pubsub.recent_blocks.lock().add(block);
            let parent = parent.unwrap_or(block.id);
            let bytes = usize::try_from(block.bytes()).unwrap_or(usize::MAX);
            if pubsub.subscriptions.add_block(block.id, parent, Arc::clone(block), bytes).is_err() {
                return handle_missing_parent(pubsub, block);
            }
            advance(&mut outbox, block, Commitment::Processed);
            advance(&mut outbox, block, Commitment::Confirmed);
        }
        LedgerEvent::Voted(vote) => {
            outbox.broadcast(SubscriptionKind::Vote, &notification::vote(vote))
        }
        LedgerEvent::Finalized { block, .. } => {
            publish_slot_updates(&mut outbox, event);
            outbox.broadcast(SubscriptionKind::Root, &block.id.slot);
            advance(&mut outbox, block, Commitment::Finalized);
        }
    }
    outbox.flush();
}

/// A block has a commitment now: tells of it, and of all that this brings with it.
fn advance(outbox: &mut NotificationBatch<'_>, block: &Block, commitment: Commitment) {
    let Ok(steps) = outbox.pubsub.subscriptions.advance(commitment, block.id) else {
        return handle_missing_parent(outbox.pubsub, block);
    };
    for step in steps.iter() {
        if step.direction == Direction::Applied {
            let wanted = match_items(outbox.pubsub, &step.body, step.commitment);
            publish_items(outbox, &step.body, step.commitment, wanted);
        }
        publish_to_sets(outbox, step);
    }
    outbox.flush(); // before the steps are let go: then they count as told
    let steps: Vec<BlockStep<Block>> = steps.to_vec();
    for step in steps.iter().filter(|step| step.direction == Direction::Applied) {
        let wanted = match_block_subscriptions(outbox.pubsub, step.commitment);
        publish_items(outbox, &step.body, step.commitment, wanted);
    }
}

/// The blocks do not hang together: nobody can be told what is between them.
fn handle_missing_parent(pubsub: &PubSub, block: &Block) {
    tracing::error!(slot = block.id.slot, "a block without its parent: all subscribers are closed");
    pubsub.subscriptions.close_all(CloseReason::EventsLost);
    pubsub.subscriptions.start_at(|_| block.id);
}

/// What a step is to sets of addresses. Cost: a look-up for each write, and the matches.
fn publish_to_sets(outbox: &mut NotificationBatch<'_>, step: &BlockStep<Block>) {
    let pubsub = outbox.pubsub;
    let topic = SubscriptionKind::Addresses.at(step.commitment);
    for facet in key_kind::ALL {
        if !pubsub.subscriptions.matches().has_key_kind(topic, facet) {
            continue;
        }
        let things = address_notification::block_items(pubsub, &step.body, facet);
        let found = pubsub.subscriptions.matches().matching_sets(topic, facet, step.number, things);
        let found: Vec<_> = found
            .into_iter()
            .map(|(wanted, places)| (wanted, ItemRef::merge_refs(places)))
            .collect();
        let cost = |(wanted, places): &(Match<Subscription>, Vec<ItemRef>)| {
            let form = match &*wanted.identity {
                Subscription::Addresses { encoding, .. } => encoding.form,
                _ => UiAccountEncoding::Base64,
            };
            let of = |place: &ItemRef| match step.body.writes.get(place.index()) {
                Some(write) if facet != key_kind::MENTIONED => {
                    account_ns(write.account.as_deref(), form)
                }
                _ => MESSAGE_NS,
            };
            MESSAGE_NS + places.iter().map(of).sum::<u64>()
        };
        let (node, whole) = (Arc::clone(pubsub), step.clone());
        outbox.encode_all(found, cost, move |(wanted, places), out| {
            let Subscription::Addresses { encoding, .. } = &*wanted.identity else { return };
            for placed in address_notification::encode_step(&node, &whole, facet, *encoding, places)
            {
                let (body, at) = (Payload::Split(placed), Position(whole.number));
                out.push(new_publication(wanted.id, body, at, AfterDelivery::Continue));
            }
        });
    }
}

fn publish_slot_updates(outbox: &mut NotificationBatch<'_>, event: &LedgerEvent) {
    for update in notification::slot_updates(event) {
        outbox.broadcast(SubscriptionKind::SlotsUpdates, &update);
    }
}

/// A transaction at processed; its signature, and "received" to those who wait for more than that.
fn publish_transaction(outbox: &mut NotificationBatch<'_>, executed: &Arc<ExecutedTransaction>) {
    let found = match_transaction(outbox.pubsub, executed, Commitment::Processed);
    let (at, node, of) = (outbox.at, Arc::clone(outbox.pubsub), Arc::clone(executed));
    outbox.encode_all(
        found,
        |_| TRANSACTION_NS,
        move |wanted, out| {
            let body = encode_transaction(&node, &wanted, &of);
            out.extend(
                body.map(|body| text_publication(&wanted, body, at, AfterDelivery::Continue)),
            );
        },
    );
    let topic = SubscriptionKind::Signature.at(Commitment::Processed);
    let matches = outbox.pubsub.subscriptions.matches();
    if !matches.has(topic) {
        return;
    }
    let found = matches.matching_exact(topic, executed.signature().as_ref());
    drop(matches);
    for wanted in found {
        let Subscription::Signature { commitment, received, .. } = &*wanted.identity else {
            continue;
        };
        if *received {
            outbox.send(&wanted, &notification::received(executed), AfterDelivery::Continue);
        }
        if *commitment == Commitment::Processed {
            outbox.send(&wanted, &notification::processed(executed), AfterDelivery::End);
        }
    }
}

/// Who wants a transaction whole.
fn match_transaction(
    pubsub: &PubSub,
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

/// The notification of a transaction, if the filter wants it.
fn encode_transaction(
    pubsub: &PubSub,
    wanted: &Match<Subscription>,
    executed: &ExecutedTransaction,
) -> Option<SharedText> {
    let Subscription::Transaction { filter, encoding, details, rewards, version_max, .. } =
        &*wanted.identity
    else {
        return None;
    };
    if !filter.matches(executed) {
        return None;
    }
    let told = transaction_filter::encode_notification(
        executed,
        *encoding,
        *details,
        *rewards,
        *version_max,
    )?;
    notification::text(pubsub, &wanted.identity, wanted.id, told)
}

/// The keys of all that a transaction names.
fn mentioned_keys(pubsub: &PubSub, executed: &ExecutedTransaction) -> impl Iterator<Item = Key> {
    let ids = executed.account_keys.iter().filter_map(|key| pubsub.lookup_address(key));
    ids.map(|id| Key { kind: key_kind::MENTIONED, id })
}

/// What is to be made into a notification: a place in the block's writes or transactions.
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

/// What a message costs that is small, in nanoseconds, about.
const MESSAGE_NS: u64 = 1_000;
/// A transaction, as a message or in a block.
const TRANSACTION_NS: u64 = 15_000;

/// What an account costs.
fn account_ns(account: Option<&Account>, form: UiAccountEncoding) -> u64 {
    let bytes = account.map_or(0, |account| account.0.data().len() as u64);
    match form {
        UiAccountEncoding::JsonParsed => 10 * MESSAGE_NS + 2 * bytes,
        UiAccountEncoding::Base64Zstd => 20 * MESSAGE_NS + 20 * bytes,
        _ => MESSAGE_NS + 2 * bytes,
    }
}

fn cost_ns(block: &Block, (wanted, item): &MatchedItem) -> u64 {
    match (&*wanted.identity, item) {
        (
            Subscription::Account { encoding, .. } | Subscription::Program { encoding, .. },
            BlockItem::Account(at) | BlockItem::Program(at),
        ) => account_ns(block.writes[*at].account.as_deref(), encoding.form),
        (_, BlockItem::Transaction(_)) => TRANSACTION_NS,
        (_, BlockItem::Block) => TRANSACTION_NS * (1 + block.transactions.len() as u64),
        _ => MESSAGE_NS,
    }
}

/// What of a block is wanted, at a commitment.
fn publish_items(
    outbox: &mut NotificationBatch<'_>,
    block: &Arc<Block>,
    commitment: Commitment,
    wanted: Vec<MatchedItem>,
) {
    if wanted.is_empty() {
        return;
    }
    // At least as new as the block, and the mints that it is asked for do not change.
    let view = outbox.pubsub.reader.view(commitment);
    let (at, node, of) = (outbox.at, Arc::clone(outbox.pubsub), Arc::clone(block));
    let cost = |wanted: &MatchedItem| cost_ns(block, wanted);
    outbox.encode_all(wanted, cost, move |(wanted, item), out| {
        let then = match item {
            BlockItem::Signature(_) => AfterDelivery::End,
            _ => AfterDelivery::Continue,
        };
        let made = encode_item(&node, &of, &view, &wanted, item);
        out.extend(made.map(|body| text_publication(&wanted, body, at, then)));
    });
}

/// The notification of an item, if its subscription wants it when it is looked at closely.
fn encode_item(
    pubsub: &PubSub,
    block: &Block,
    view: &View,
    wanted: &Match<Subscription>,
    item: BlockItem,
) -> Option<SharedText> {
    let slot = block.id.slot;
    let effective = |encoding| pubsub.effective_encoding(encoding);
    match (&*wanted.identity, item) {
        // An id may have been another address' before: the events are behind the writer.
        (Subscription::Account { pubkey, encoding, .. }, BlockItem::Account(at)) => {
            let write = Some(&block.writes[at]).filter(|write| write.pubkey == *pubkey)?;
            let account = write.account.as_deref();
            let value = notification::account(pubkey, account, effective(*encoding), view);
            notification::text(pubsub, &wanted.identity, wanted.id, notification::at(slot, value))
        }
        (Subscription::Program { encoding, filters, .. }, BlockItem::Program(at)) => {
            let write = &block.writes[at];
            let (encoding, account) = (effective(*encoding), write.account.as_deref()?);
            let pubkey = &write.pubkey;
            let value = notification::program_account(pubkey, account, encoding, filters, view)?;
            notification::text(pubsub, &wanted.identity, wanted.id, notification::at(slot, value))
        }
        (Subscription::Logs { filter: of, .. }, BlockItem::Logs(at)) => {
            let executed = &block.transactions[at];
            let skipped = *of == LogsFilter::AllButVotes && executed.is_vote;
            let logs = notification::logs(executed).filter(|_| !skipped)?;
            notification::text(pubsub, &wanted.identity, wanted.id, notification::at(slot, logs))
        }
        (Subscription::Signature { .. }, BlockItem::Signature(at)) => {
            let told = notification::processed(&block.transactions[at]);
            notification::text(pubsub, &wanted.identity, wanted.id, told)
        }
        (Subscription::Transaction { .. }, BlockItem::Transaction(at)) => {
            encode_transaction(pubsub, wanted, &block.transactions[at])
        }
        (
            Subscription::Block { filter: of, encoding, details, rewards, version_max, .. },
            BlockItem::Block,
        ) => {
            let options = BlockEncodingOptions {
                transaction_details: *details,
                show_rewards: *rewards,
                max_supported_transaction_version: *version_max,
            };
            let update = notification::block(block, *of, *encoding, options)?;
            notification::text(pubsub, &wanted.identity, wanted.id, notification::at(slot, update))
        }
        _ => None,
    }
}

/// Who wants whole blocks.
fn match_block_subscriptions(pubsub: &PubSub, commitment: Commitment) -> Vec<MatchedItem> {
    let blocks =
        pubsub.subscriptions.matches().matching(SubscriptionKind::Block.at(commitment), []);
    blocks.into_iter().map(|found| (found, BlockItem::Block)).collect()
}

/// Who wants what of a block, but for all of it. Cost: a look-up for each write, transaction and name
/// of the block whose topic anybody listens to, and the matches.
fn match_items(pubsub: &PubSub, block: &Block, commitment: Commitment) -> Vec<MatchedItem> {
    let mut wanted = Vec::new();
    let matches = pubsub.subscriptions.matches();
    let topic = SubscriptionKind::Account.at(commitment);
    if matches.has(topic) {
        for (at, write) in block.writes.iter().enumerate() {
            // Not by the write's own number: this may be told long after the block.
            let Some(id) = pubsub.lookup_address(&write.pubkey) else { continue };
            let key = Key { kind: key_kind::ITSELF, id };
            let found = matches.matching(topic, [key]);
            wanted.extend(found.into_iter().map(|found| (found, BlockItem::Account(at))));
        }
    }
    let topic = SubscriptionKind::Program.at(commitment);
    if matches.has(topic) {
        let mut owners = OwnerLookup { pubsub, last: None };
        for (at, write) in block.writes.iter().enumerate() {
            let Some(account) = write.account.as_deref() else { continue };
            let Some(id) = owners.owner_id(account) else { continue };
            let found = matches.matching(topic, [Key { kind: key_kind::PROGRAM, id }]);
            wanted.extend(found.into_iter().map(|found| (found, BlockItem::Program(at))));
        }
    }
    let topic = SubscriptionKind::Logs.at(commitment);
    if matches.has(topic) {
        for (at, executed) in block.transactions.iter().enumerate() {
            let found = matches.matching(topic, mentioned_keys(pubsub, executed));
            wanted.extend(found.into_iter().map(|found| (found, BlockItem::Logs(at))));
        }
    }
    let topic = SubscriptionKind::Signature.at(commitment);
    if commitment != Commitment::Processed && matches.has(topic) {
        for (at, executed) in block.transactions.iter().enumerate() {
            let found = matches.matching_exact(topic, executed.signature().as_ref());
            wanted.extend(found.into_iter().map(|found| (found, BlockItem::Signature(at))));
        }
    }
    drop(matches);
    if commitment != Commitment::Processed {
        for (at, executed) in block.transactions.iter().enumerate() {
            let found = match_transaction(pubsub, executed, commitment);
            wanted.extend(found.into_iter().map(|found| (found, BlockItem::Transaction(at))));
        }
    }
    wanted
}

/// The numbers of owners. Neighbouring writes mostly have the same one.
struct OwnerLookup<'a> {
    pubsub: &'a PubSub,
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
        let id = self.pubsub.lookup_address(owner);
        self.last = Some((*owner, id));
        id
    }
}

/// A notification of an event for whoever has a subscription.
fn text_publication(
    to: &Match<Subscription>,
    text: SharedText,
    at: Position,
    then: AfterDelivery,
) -> Publication<Payload> {
    new_publication(to.id, Payload::Whole(text), at, then)
}

fn new_publication(
    subscription: SubscriptionId,
    body: Payload,
    at: Position,
    then: AfterDelivery,
) -> Publication<Payload> {
    let bytes = body.bytes();
    Publication { subscription, body, bytes, at, after_delivery: then }
}

/// Notifications on their way to the queues.
struct NotificationBatch<'a> {
    pubsub: &'a Arc<PubSub>,
    /// The event that they tell of.
    at: Position,
    messages: Vec<Publication<Payload>>,
    bytes: usize,
}

impl NotificationBatch<'_> {
    /// To everyone who listens to a kind that has no commitment.
    fn broadcast(&mut self, kind: SubscriptionKind, result: &impl serde::Serialize) {
        let found = self.pubsub.subscriptions.matches().matching(kind.topic(), []);
        for wanted in found {
            self.send(&wanted, result, AfterDelivery::Continue);
        }
    }

    fn send(
        &mut self,
        to: &Match<Subscription>,
        result: &impl serde::Serialize,
        then: AfterDelivery,
    ) {
        if let Some(text) = notification::text(self.pubsub, &to.identity, to.id, result) {
            self.push(text_publication(to, text, self.at, then));
        }
    }

    /// Makes messages of things, in their order: here if that is soon done, else in parts that the
    /// pool helps with.
    fn encode_all<T: Send + 'static>(
        &mut self,
        things: Vec<T>,
        cost_ns: impl Fn(&T) -> u64,
        make: impl Fn(T, &mut Vec<Publication<Payload>>) + Send + Sync + 'static,
    ) {
        let costs: Vec<u64> = things.iter().map(cost_ns).collect();
        let mut made = Vec::new();
        if things.len() < 2 || costs.iter().sum::<u64>() < ALONE_NS {
            for thing in things {
                make(thing, &mut made);
                made.drain(..).for_each(|message| self.push(message));
            }
            return;
        }
        let make = Arc::new(make);
        let mut things = things.into_iter().zip(costs).peekable();
        while things.peek().is_some() {
            let parts = next_round(&mut things);
            let make = Arc::clone(&make);
            let made = fork_join(&self.pubsub.pool, parts, move |part| {
                let mut made = Vec::new();
                part.into_iter().for_each(|thing| make(thing, &mut made));
                made
            });
            made.into_iter().flatten().for_each(|message| self.push(message));
        }
    }

    fn push(&mut self, message: Publication<Payload>) {
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

/// The next things, in parts.
fn next_round<T>(things: &mut impl Iterator<Item = (T, u64)>) -> Vec<Vec<T>> {
    let (mut parts, mut part, mut part_ns, mut round_ns) = (Vec::new(), Vec::new(), 0, 0);
    for (thing, ns) in things {
        part.push(thing);
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

/// The last blocks, by their hashes: what clients and children call them by.
#[derive(Default)]
pub(super) struct RecentBlocks {
    by_hash: HashMap<Hash, BlockId>,
    order: VecDeque<Hash>,
}

/// More than wait for a root and are kept for those who resume.
const RECENT_MAX: usize = 16_384;

impl RecentBlocks {
    pub(super) fn find(&self, hash: &Hash) -> Option<BlockId> {
        self.by_hash.get(hash).copied()
    }

    fn parent_of(&self, block: &Block) -> Option<BlockId> {
        self.find(&block.previous_blockhash).filter(|parent| parent.slot == block.parent_slot)
    }

    fn add(&mut self, block: &Block) {
        if self.by_hash.insert(block.blockhash, block.id).is_none() {
            self.order.push_back(block.blockhash);
        }
        if self.order.len() > RECENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_hash.remove(&oldest);
        }
    }
}

impl PubSub {
    fn lookup_address(&self, pubkey: &Pubkey) -> Option<AddressId> {
        self.reader.addresses().lookup(&Address::from(pubkey.to_bytes()))
    }
}
