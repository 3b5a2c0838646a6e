//! From the ledger's events to updates, on a thread of its own.
//!
//! Input: events, in order, over a bounded channel from the ledger's one writer. Output: updates to the broker.
//! Order of a bank: `CREATED_BANK`; its account writes and transactions as they happen; its entries; `COMPLETED`, the
//! block, its footer, its metadata; then processed, confirmed and finalized, each once, and after its ancestors. Above
//! processed, a bank's content is released when the bank reaches the commitment: the last write of each account, the
//! transactions, the entries, the block. A reverted bank is never released.
//! Bounds: `Config::events_max` queued events, with `Config::events_bytes_max` bytes or one event. If the channel loses
//! writes of accounts, the clients of accounts are closed: those of a commitment above processed when the bank reaches
//! it. Lost transactions are sent at the end of their bank. If it loses another event, every client is closed and the
//! log is emptied, because the event may have been for any of them. A client whose filters delay the others is closed
//! before that.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chain_solana::{
    AccountUpdate, Block, BlockFooter, EventBounds, EventCounters, EventReceiver, EventSender,
    EventSink, ExecutedTransaction, LedgerEvent, LostEvents, Received, RevertReason, event_channel,
};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use ledger::{BlockId, Commitment, Slot};
use solana_pubkey::Pubkey;
use tonic::Status;
use yellowstone_grpc_proto::geyser::SlotStatus;

use crate::broker::Broker;
use crate::clock::{monotonic, now_ms};
use crate::config::Config;
use crate::counters::Event;
use crate::line_limit::LineLimit;
use crate::update::{FrozenBlock, SlotUpdate, Update, UpdateKind};

/// Time in which events may wait without a pause before a client is closed for it: half a slot. A smaller value closes
/// clients for a pause of the machine.
const BEHIND_MAX: Duration = Duration::from_millis(200);

/// The sink for the events of the ledger's one writer. As an [`EventSink`] it never blocks.
pub struct GrpcEventSink {
    events: EventSender,
    publisher: JoinHandle<()>,
}

impl GrpcEventSink {
    /// Sends an event. Waits for space if the queued events are at a bound, so a ledger's writer must not call it.
    pub fn send_and_wait(&self, event: LedgerEvent) {
        self.events.send_and_wait(event);
    }

    /// Reports that events were lost. All clients are closed before the next event is published, and at once if there
    /// is none.
    pub fn report_loss(&self) {
        self.events.report_loss();
    }

    /// Waits until all events are published and the publisher's thread has ended.
    pub fn close(self) {
        drop(self.events);
        // A panic of the publisher was logged.
        let _ = self.publisher.join();
    }

    /// Returns the counters of the queued events.
    pub(crate) fn counters(&self) -> EventCounters {
        self.events.counters()
    }
}

impl EventSink for GrpcEventSink {
    fn send(&mut self, event: &LedgerEvent) {
        if !matches!(event, LedgerEvent::TipMoved { .. } | LedgerEvent::Voted(_)) {
            self.events.try_send(event);
        }
    }

    fn needs_account_updates(&self) -> bool {
        true
    }

    fn needs_entries(&self) -> bool {
        true
    }
}

/// Starts the publisher. The log starts with the stored blocks.
pub(crate) fn start(
    broker: &Arc<Broker>,
    stored_blocks: Vec<Arc<Block>>,
) -> io::Result<GrpcEventSink> {
    let Config { events_max, events_bytes_max, .. } = broker.config;
    let bounds = EventBounds { events_max, bytes_max: Some(events_bytes_max), has_reserve: true };
    let (sender, events) = event_channel(bounds);
    let mut publisher = Publisher {
        broker: Arc::clone(broker),
        banks: HashMap::new(),
        open: HashMap::new(),
        last_bank_id: 0,
        banks_without_accounts: HashSet::new(),
        slots_without_transactions: HashSet::new(),
        behind_since: None,
        lost_events_line: LineLimit::default(),
        lost_writes_line: LineLimit::default(),
        late_transactions_line: LineLimit::default(),
    };
    publisher.restore(stored_blocks);
    let publisher = std::thread::Builder::new()
        .name("grpc-publisher".to_owned())
        .spawn(move || publisher.run(events))?;
    Ok(GrpcEventSink { events: sender, publisher })
}

struct Publisher {
    broker: Arc<Broker>,
    /// The banks that are not finalized, and those that were finalized last.
    banks: HashMap<BlockId, Bank>,
    /// The newest open bank of a slot.
    open: HashMap<Slot, BlockId>,
    last_bank_id: u64,
    /// Banks that lack writes of accounts, until a later one is final.
    banks_without_accounts: HashSet<BlockId>,
    /// Slots whose transactions are sent at the end of their bank.
    slots_without_transactions: HashSet<Slot>,
    /// When events began to wait.
    behind_since: Option<Instant>,
    /// The lines about lost events, and about lost writes alone.
    lost_events_line: LineLimit,
    lost_writes_line: LineLimit,
    late_transactions_line: LineLimit,
}

/// A bank as far as it was published.
struct Bank {
    bank_id: u64,
    parent: BlockId,
    /// The last write of each account.
    accounts: HashMap<Pubkey, Arc<Update>>,
    transactions: Vec<Arc<Update>>,
    footer: Option<Arc<BlockFooter>>,
    status: Option<Commitment>,
}

impl Bank {
    /// The updates of its next transactions.
    fn add_transactions(
        &mut self,
        block: BlockId,
        transactions: &[Arc<ExecutedTransaction>],
    ) -> Vec<Arc<Update>> {
        let kinds = transactions.iter().map(|it| UpdateKind::Transaction(Arc::clone(it)));
        let updates: Vec<_> = kinds.map(|kind| new_update(block, self.bank_id, kind)).collect();
        self.transactions.extend_from_slice(&updates);
        updates
    }

    /// The updates of the transactions of its block that were not sent, some of which precede others that were.
    fn complete_transactions(&mut self, block: &Block) -> Vec<Arc<Update>> {
        let index_of = |update: &Update| match &update.kind {
            UpdateKind::Transaction(executed) => Some(executed.index),
            _ => None,
        };
        let sent = std::mem::take(&mut self.transactions).into_iter();
        let mut sent: HashMap<u32, Arc<Update>> =
            sent.filter_map(|update| Some((index_of(&update)?, update))).collect();
        let mut unsent = Vec::new();
        for executed in &block.transactions {
            let update = sent.remove(&executed.index).unwrap_or_else(|| {
                let kind = UpdateKind::Transaction(Arc::clone(executed));
                let update = new_update(block.id, self.bank_id, kind);
                unsent.push(Arc::clone(&update));
                update
            });
            self.transactions.push(update);
        }
        unsent
    }
}

impl Publisher {
    fn run(mut self, mut events: EventReceiver) {
        let counters = events.counters();
        while let Some(received) = events.recv() {
            self.close_costliest_client_if_behind(counters.queue_len());
            let event = match received {
                Received::Event { event, .. } => event,
                Received::Lost(lost) => {
                    self.lose_events(lost);
                    continue;
                }
            };
            // After a panic the clients lack this event, so they are closed. Later banks are still served.
            let publish = || self.publish(&event);
            if catch_unwind(AssertUnwindSafe(publish)).is_err() {
                tracing::error!("the publisher of gRPC panicked: all clients are closed");
                self.lose();
            }
        }
        self.broker.end(Status::unavailable("the ledger has ended"));
    }

    /// Closes a client on which the publisher spends its time, if that is why events wait.
    fn close_costliest_client_if_behind(&mut self, queued: usize) {
        if queued == 0 {
            self.behind_since = None;
            return;
        }
        let now = monotonic();
        let Some(since) = self.behind_since else {
            self.behind_since = Some(now);
            return self.broker.start_cost_period();
        };
        let period = now - since;
        if period >= BEHIND_MAX {
            self.broker.close_costliest_client(period);
            self.broker.start_cost_period();
            self.behind_since = Some(now);
        }
    }

    /// Publishes finalized blocks of an earlier run, as far as they are stored.
    fn restore(&mut self, blocks: Vec<Arc<Block>>) {
        for block in blocks {
            self.create(block.id, block.parent);
            self.freeze(&block);
            self.advance(block.id, Commitment::Confirmed);
            self.advance(block.id, Commitment::Finalized);
            self.broker.set_root(block.id);
            self.forget_below(block.id);
        }
        self.broker.end_restored();
    }

    /// Closes all clients, unless only writes and transactions were lost.
    fn lose_events(&mut self, lost: LostEvents) {
        let limit = self.broker.config.events_max;
        if lost.has_others {
            if let Some(omitted) = self.lost_events_line.admit(monotonic()) {
                tracing::error!(
                    limit,
                    omitted,
                    "events were lost (grpc.events_max, grpc.events_bytes_max): all clients are closed"
                );
            }
            return self.lose();
        }
        let LostEvents { account_blocks, transaction_slots, has_others: _ } = lost;
        if !transaction_slots.is_empty() {
            if let Some(omitted) = self.late_transactions_line.admit(monotonic()) {
                tracing::warn!(
                    limit,
                    omitted,
                    ?transaction_slots,
                    "transactions are late (grpc.events_max, grpc.events_bytes_max): they are sent at the end of their bank"
                );
            }
            self.broker.counters.record(Event::TransactionsLost);
            self.slots_without_transactions.extend(transaction_slots);
        }
        if !account_blocks.is_empty() {
            if let Some(omitted) = self.lost_writes_line.admit(monotonic()) {
                tracing::error!(
                    limit,
                    omitted,
                    ?account_blocks,
                    "writes were lost (grpc.events_max, grpc.events_bytes_max): clients of accounts are closed"
                );
            }
            self.broker.counters.record(Event::WritesLost);
            self.banks_without_accounts.extend(account_blocks);
            self.broker.close_account_listeners();
        }
    }

    /// Closes the clients of accounts at processed once more at the end of a bank that lacks writes: further clients
    /// have connected.
    fn end_bank_without_accounts(&self, block: BlockId) {
        if self.banks_without_accounts.contains(&block) {
            self.broker.end_bank_without_writes();
        }
    }

    fn lose(&mut self) {
        self.broker.counters.record(Event::EventsLost);
        self.banks.clear();
        self.open.clear();
        self.broker.close_all(&Broker::lagged_status(), None);
    }

    fn publish(&mut self, event: &LedgerEvent) {
        match event {
            LedgerEvent::BankCreated { block, parent, .. } => self.create(*block, *parent),
            LedgerEvent::AccountsWritten { block, updates } => self.accounts(*block, updates),
            LedgerEvent::Executed(all) => self.transactions(all),
            LedgerEvent::BlockFooter { block, footer } => {
                if let Some(bank) = self.banks.get_mut(block) {
                    bank.footer = Some(Arc::clone(footer));
                }
            }
            LedgerEvent::Frozen { block, .. } => self.freeze(block),
            LedgerEvent::Confirmed { block, .. } => self.advance(block.id, Commitment::Confirmed),
            LedgerEvent::Rooted { block, .. } => {
                self.advance(block.id, Commitment::Confirmed);
                self.advance(block.id, Commitment::Finalized);
                self.broker.set_root(block.id);
                self.forget_below(block.id);
            }
            LedgerEvent::Reverted { block, reason, .. } => self.revert(block, reason),
            LedgerEvent::Jumped { block, .. } => self.jump(block),
            LedgerEvent::TipMoved { .. } | LedgerEvent::Voted(_) => {}
        }
    }

    /// No client can be sent the banks between. Each one is closed, and subscribes again.
    fn jump(&mut self, block: &Block) {
        let slot = block.id.slot;
        let from = block.parent.slot;
        tracing::warn!(slot, from, "the ledger jumped: all clients are closed");
        self.banks.clear();
        self.open.clear();
        let status = Status::data_loss(format!(
            "the node has no blocks between slot {from} and slot {slot}: subscribe again, from slot {} on or without \
             from_slot",
            slot.saturating_add(1)
        ));
        self.broker.close_all(&status, Some(slot));
    }

    fn create(&mut self, block: BlockId, parent: BlockId) {
        self.last_bank_id += 1;
        let bank = Bank {
            bank_id: self.last_bank_id,
            parent,
            accounts: HashMap::new(),
            transactions: Vec::new(),
            footer: None,
            status: None,
        };
        self.banks.insert(block, bank);
        self.open.insert(block.slot, block);
        self.broker.start_bank(block);
        self.publish_status(block, SlotStatus::SlotCreatedBank);
    }

    fn accounts(&mut self, block: BlockId, writes: &[AccountUpdate]) {
        let Some(bank) = self.banks.get_mut(&block) else { return };
        let updates: Vec<_> = writes
            .iter()
            .map(|write| new_update(block, bank.bank_id, UpdateKind::Account(write.clone())))
            .collect();
        for (write, update) in writes.iter().zip(&updates) {
            bank.accounts.insert(write.pubkey, Arc::clone(update));
        }
        self.broker.publish(&updates);
    }

    fn transactions(&mut self, all: &[Arc<ExecutedTransaction>]) {
        for of_slot in all.chunk_by(|one, two| one.slot == two.slot) {
            let slot = of_slot.first().map_or(0, |executed| executed.slot);
            let Some(block) = self.open.get(&slot).copied() else { continue };
            let Some(bank) = self.banks.get_mut(&block) else { continue };
            let updates = bank.add_transactions(block, of_slot);
            self.broker.publish(&updates);
        }
    }

    fn freeze(&mut self, block: &Arc<Block>) {
        let id = block.id;
        if self.open.get(&id.slot) == Some(&id) {
            self.open.remove(&id.slot);
        }
        let Some(bank) = self.banks.get_mut(&id) else { return };
        let updates = if self.slots_without_transactions.contains(&id.slot) {
            bank.complete_transactions(block)
        } else {
            // A producer of whole banks, such as `follow`, reports them as executed after this event, if ever.
            let unsent = block.transactions.get(bank.transactions.len()..).unwrap_or_default();
            bank.add_transactions(id, unsent)
        };
        self.broker.publish(&updates);
        let entries = (0..).zip(&block.entries).map(|(index, entry)| {
            new_update(id, bank.bank_id, UpdateKind::Entry { index, entry: *entry })
        });
        let mut entries: Vec<_> = entries.collect();
        self.broker.publish(&entries);
        self.publish_status(id, SlotStatus::SlotCompleted);
        let Some(bank) = self.banks.get_mut(&id) else { return };
        let write_of = |update: &Update| match &update.kind {
            UpdateKind::Account(account) => Some(account.clone()),
            _ => None,
        };
        let mut accounts: Vec<_> = std::mem::take(&mut bank.accounts)
            .into_values()
            .filter_map(|update| Some((write_of(&update)?, update)))
            .collect();
        accounts.sort_unstable_by_key(|(write, _)| write.write_version);
        let (writes, mut content): (Vec<_>, Vec<_>) = accounts.into_iter().unzip();
        content.append(&mut bank.transactions);
        content.append(&mut entries);
        let frozen = Arc::new(FrozenBlock { block: Arc::clone(block), accounts: writes });
        let mut ends = vec![UpdateKind::Block(Arc::clone(&frozen))];
        ends.extend(bank.footer.take().map(UpdateKind::Footer));
        ends.push(UpdateKind::BlockMeta(frozen));
        let ends: Vec<_> =
            ends.into_iter().map(|kind| new_update(id, bank.bank_id, kind)).collect();
        content.extend_from_slice(&ends);
        self.broker.publish(&ends);
        self.broker.set_content(id, content.into());
        self.end_bank_without_accounts(id);
        self.set_status(id, Commitment::Processed);
    }

    /// A bank gets to a commitment above processed, and its ancestors before it.
    fn advance(&mut self, block: BlockId, commitment: Commitment) {
        let mut chain = Vec::new();
        let mut next = block;
        while let Some(bank) = self.banks.get(&next)
            && bank.status.is_some_and(|status| status < commitment)
        {
            chain.push(next);
            next = bank.parent;
        }
        for block in chain.into_iter().rev() {
            let lacks_writes = self.banks_without_accounts.contains(&block);
            self.broker.release(commitment, block, lacks_writes);
            self.set_status(block, commitment);
        }
    }

    fn set_status(&mut self, block: BlockId, commitment: Commitment) {
        let Some(bank) = self.banks.get_mut(&block) else { return };
        bank.status = Some(commitment);
        let status = match commitment {
            Commitment::Processed => SlotStatus::SlotProcessed,
            Commitment::Confirmed => SlotStatus::SlotConfirmed,
            Commitment::Finalized => SlotStatus::SlotFinalized,
        };
        self.publish_status(block, status);
    }

    fn revert(&mut self, block: &Block, reason: &RevertReason) {
        let id = block.id;
        // The log may remove the bank's updates so far, but not its death.
        self.broker.mark_dropped(id);
        if let RevertReason::Dead { error } = reason {
            // The publisher has forgotten a final bank, which a local ledger may revert on request.
            let bank_id = self.banks.get(&id).map_or(0, |bank| bank.bank_id);
            let parent = Some(block.parent.slot);
            let status = SlotStatus::SlotDead;
            let slot = SlotUpdate { parent, status, dead_error: Some(error.clone()) };
            self.broker.publish(&[new_update(id, bank_id, UpdateKind::Slot(slot))]);
        }
        // A frozen bank has ended.
        if self.banks.get(&id).is_some_and(|bank| bank.status.is_none()) {
            self.end_bank_without_accounts(id);
        }
        self.banks_without_accounts.remove(&id);
        self.banks.remove(&id);
        self.open.retain(|_, open| *open != id);
    }

    /// Everything below the root is final or was reverted.
    fn forget_below(&mut self, root: BlockId) {
        self.banks.retain(|block, _| block.slot >= root.slot);
        self.open.retain(|slot, _| *slot >= root.slot);
        self.banks_without_accounts.retain(|block| block.slot > root.slot);
        self.slots_without_transactions.retain(|slot| *slot > root.slot);
    }

    fn publish_status(&self, block: BlockId, status: SlotStatus) {
        let Some(bank) = self.banks.get(&block) else { return };
        let slot = SlotUpdate { parent: Some(bank.parent.slot), status, dead_error: None };
        self.broker.publish(&[new_update(block, bank.bank_id, UpdateKind::Slot(slot))]);
    }
}

fn new_update(block: BlockId, bank_id: u64, kind: UpdateKind) -> Arc<Update> {
    Arc::new(Update { slot: block.slot, bank_id, created_ms: now_ms(), kind })
}
