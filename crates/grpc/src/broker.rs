//! The clients and their shared state: the indices, the log, the queues.
//!
//! In: updates in order, from the publisher; clients and their requests. Out: messages in the clients' queues.
//! Shape: one lock over all but the indices. The publisher holds it for one update; a client to replace its filters, or
//! to copy references out of the log. Messages of a replay are encoded without it. The indices have a lock of their
//! own, which the publisher takes first: no connection waits for a thread that inserts filters.
//! Invariant: publishing costs the matches of the update (`index`). It never waits for a client: a client whose queue
//! is full is closed.
//! Invariant: a client that replays gets each update once: it becomes live in the same critical section in which the
//! log has nothing more for it, after it sent its last part. Filters without a slot leave its position unchanged.

use std::sync::Arc;
use std::time::Duration;

use api_keys::KeyNumber;
use bytes::Bytes;
use clients::ClientId;
use foldhash::{HashMap, HashMapExt};
use grpc_server::{QueueBudget, ServerState, StatusTimer, StreamId};
use ledger::{BlockId, Commitment, Slot};
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tonic::Status;

use crate::clock::monotonic;
use crate::config::Config;
use crate::counters::{Event, GrpcCounters};
use crate::encode::Encoder;
use crate::filter::{FilterId, FilterSet, TransactionKeys};
use crate::ids::{ListenerId, SetId};
use crate::index::Index;
use crate::indexed_set::IndexedSet;
use crate::line_limit::LineLimit;
use crate::log::{BankContent, Cursor, Log, LogPart};
use crate::publish_cost::{PublishCost, costliest_client};
use crate::queue::{Full, Queue};
use crate::shares::FilterShares;
use crate::update::Update;

/// Bytes of updates that a replay takes out of the log at once, and one update more.
const REPLAY_BYTES: usize = 256 << 10;

/// The clients and their shared state.
pub(crate) struct Broker {
    pub(crate) config: Config,
    pub(crate) counters: GrpcCounters,
    pub(crate) budget: Arc<QueueBudget>,
    pub(crate) shares: FilterShares,
    /// The state of the connections.
    pub(crate) server: Arc<ServerState>,
    /// Runs long work for clients. `None` in tests: it is done at once.
    pub(crate) worker: Option<Handle>,
    /// By commitment. It is locked before `state`, if both are.
    indices: Mutex<[Index; 3]>,
    state: Mutex<State>,
}

struct State {
    log: Log,
    listeners: HashMap<ListenerId, Listener>,
    /// The listeners that are live, by their filters.
    live: HashMap<SetId, ListenerId>,
    next_id: u64,
    /// The period of the costs of listeners.
    cost_period: u64,
    /// The status of every client since the server ends. Nothing is published after it.
    end: Option<Status>,
    /// The line about a slot that left the log too early.
    early_removal_line: LineLimit,
}

struct Listener {
    queue: Arc<Queue>,
    client: ClientId,
    timer: Arc<StatusTimer>,
    filters: Option<IndexedSet>,
    /// Whether it gets new updates. Otherwise it reads the log.
    is_live: bool,
    /// Updates of earlier slots are left out, although they come later: the ledger may be behind its client.
    from_slot: Slot,
    cost: PublishCost,
}

/// The next step of a client that replays.
pub(crate) enum ReplayStep {
    /// Send the updates of this part that match its filters, then continue after it.
    Updates(LogPart),
    /// None: the client is live.
    Live,
    /// Its slots were removed from the log.
    Lost,
    /// Its filters need accounts or entries, which restored banks do not have.
    Incomplete(Status),
}

/// Bytes that the server holds for its clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrokerMemory {
    pub(crate) queues: usize,
    /// Of messages that left their queue and are not written.
    pub(crate) sending: usize,
    pub(crate) log: usize,
    pub(crate) filters: usize,
    pub(crate) log_slots: usize,
    pub(crate) listeners: usize,
}

impl Broker {
    /// `root` is the root of the ledger, after which it publishes everything, if it has one.
    pub(crate) fn new(
        config: Config,
        server: Arc<ServerState>,
        root: Option<Slot>,
        worker: Option<Handle>,
    ) -> Self {
        let state = State {
            log: Log::new(config.replay_slots_max, config.replay_bytes_max, root),
            listeners: HashMap::new(),
            live: HashMap::new(),
            next_id: 0,
            cost_period: 0,
            end: None,
            early_removal_line: LineLimit::default(),
        };
        Self {
            budget: Arc::new(QueueBudget::new(config.queues_bytes_max)),
            counters: GrpcCounters::new(),
            shares: FilterShares::new(&config),
            server,
            worker,
            indices: Mutex::new([Index::new(), Index::new(), Index::new()]),
            state: Mutex::new(state),
            config,
        }
    }

    /// Starts a bank. Its updates follow.
    pub(crate) fn start_bank(&self, block: BlockId) {
        let state = &mut *self.state.lock();
        if state.end.is_none() {
            state.log.start(block);
        }
    }

    /// Publishes updates in this order.
    pub(crate) fn publish(&self, updates: &[Arc<Update>]) {
        for update in updates {
            let indices = self.indices.lock();
            let state = &mut *self.state.lock();
            if state.end.is_some() {
                return;
            }
            state.log.push(update);
            for commitment in [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized]
            {
                if update.is_at(commitment) {
                    self.send(&indices[commitment as usize], state, update);
                }
            }
        }
    }

    /// The banks so far were restored. Later ones are published whole.
    pub(crate) fn end_restored(&self) {
        self.state.lock().log.end_restored();
    }

    pub(crate) fn set_root(&self, block: BlockId) {
        self.state.lock().log.set_root(block);
    }

    /// Records that the chain dropped a bank, so that the log removes it first.
    pub(crate) fn mark_dropped(&self, block: BlockId) {
        self.state.lock().log.mark_dropped(block);
    }

    /// Stores the content of a frozen bank, until it is released at finalized or removed.
    pub(crate) fn set_content(&self, block: BlockId, content: BankContent) {
        self.state.lock().log.set_content(block, content);
    }

    /// Publishes the content of a bank to the clients of a commitment above processed. If the log has it no more, these
    /// clients are closed. If the content lacks writes, those of accounts are.
    pub(crate) fn release(&self, commitment: Commitment, block: BlockId, lacks_writes: bool) {
        // One critical section: a client that becomes live must not get the content from the log and from here, and a
        // client of accounts must not connect between the close and the release.
        let indices = self.indices.lock();
        let state = &mut *self.state.lock();
        if state.end.is_some() {
            return;
        }
        state.log.release(commitment, block);
        let Some(content) = state.log.content(block) else {
            if let Some(omitted) = state.early_removal_line.admit(monotonic()) {
                tracing::error!(
                    slot = block.slot,
                    omitted,
                    "a slot left the log of gRPC before its commitment (grpc.replay_bytes_max)"
                );
            }
            return Self::close_commitment(state, commitment);
        };
        if lacks_writes {
            state.end_bank_without_writes(commitment);
        }
        let index = &indices[commitment as usize];
        if !index.is_empty() {
            content.iter().for_each(|update| self.send(index, state, update));
        }
    }

    /// Closes every client and empties the log: events of the ledger were lost, or the ledger jumped. `root` is the
    /// slot after which it publishes everything, if that is known.
    pub(crate) fn close_all(&self, status: &Status, root: Option<Slot>) {
        Self::close_listeners(&mut self.state.lock(), status, root);
    }

    /// Closes every client, now and later: the server or the ledger ends. Later events of the ledger are not published.
    pub(crate) fn end(&self, status: Status) {
        let state = &mut *self.state.lock();
        Self::close_listeners(state, &status, None);
        state.end.get_or_insert(status);
    }

    /// Closes the clients of API keys that were removed.
    pub(crate) fn close_keys(&self, removed: &[KeyNumber]) {
        let state = &*self.state.lock();
        for (id, listener) in &state.listeners {
            if listener.client.key().is_some_and(|key| removed.contains(&key)) {
                listener.close(*id, Status::unauthenticated("the API key was removed"));
            }
        }
        self.server.removals.send_replace(());
    }

    /// A new client without filters.
    pub(crate) fn connect(
        &self,
        timer: Arc<StatusTimer>,
        client: ClientId,
    ) -> Result<(ListenerId, Arc<Queue>), Status> {
        let state = &mut *self.state.lock();
        if let Some(status) = &state.end {
            return Err(status.clone());
        }
        state.next_id += 1;
        let id = ListenerId(state.next_id);
        let Config { queue_messages_max, queue_bytes_max, .. } = self.config;
        let queue = Queue::new(Arc::clone(&self.budget), queue_messages_max, queue_bytes_max);
        let queue = Arc::new(queue);
        let own = Arc::clone(&queue);
        let listener = Listener {
            queue: own,
            client,
            timer,
            filters: None,
            is_live: true,
            from_slot: 0,
            cost: PublishCost::default(),
        };
        state.listeners.insert(id, listener);
        Ok((id, queue))
    }

    /// Removes a client. Returns its filters, which the index still has.
    pub(crate) fn disconnect(&self, id: ListenerId) -> Option<IndexedSet> {
        let mut state = self.state.lock();
        let left = state.remove_filters(id);
        state.listeners.remove(&id);
        left
    }

    pub(crate) fn next_set(&self) -> SetId {
        let state = &mut *self.state.lock();
        state.next_id += 1;
        SetId(state.next_id)
    }

    /// Changes the index of a commitment, in a step. A publisher that waits is next.
    pub(crate) fn with_index(&self, commitment: Commitment, change: impl FnOnce(&mut Index)) {
        let mut indices = self.indices.lock();
        change(&mut indices[commitment as usize]);
        MutexGuard::unlock_fair(indices);
    }

    /// Replaces all filters of a client. Returns the set that the index has to remove, and the start of a replay.
    pub(crate) fn replace_filters(
        &self,
        id: ListenerId,
        set: IndexedSet,
        from_slot: Option<Slot>,
    ) -> (Option<IndexedSet>, Result<Option<Cursor>, Status>) {
        self.state.lock().replace_filters(id, set, from_slot)
    }

    /// Returns the next step of a client that replays.
    pub(crate) fn replay(&self, id: ListenerId, cursor: &Cursor) -> ReplayStep {
        let State { log, live, listeners, .. } = &mut *self.state.lock();
        let Some(listener) = listeners.get_mut(&id) else { return ReplayStep::Live };
        let Some(set) = listener.filters.as_ref().filter(|_| !listener.is_live) else {
            return ReplayStep::Live;
        };
        let filters = &set.filters;
        if filters.needs_whole_banks() && !log.has_whole_banks(cursor) {
            return ReplayStep::Incomplete(log.unavailable_status(cursor.from_slot));
        }
        let Some(part) = log.read(cursor, filters.commitment, REPLAY_BYTES) else {
            return ReplayStep::Lost;
        };
        if part.is_end && part.updates.is_empty() {
            live.insert(set.id, id);
            listener.is_live = true;
            return ReplayStep::Live;
        }
        ReplayStep::Updates(part)
    }

    /// The oldest slot that can be replayed.
    pub(crate) fn first_slot(&self) -> Option<Slot> {
        self.state.lock().log.first_slot()
    }

    pub(crate) fn memory(&self) -> BrokerMemory {
        let state = self.state.lock();
        let used = self.budget.used_bytes();
        let sending = self.budget.sending();
        BrokerMemory {
            queues: used.saturating_sub(sending),
            sending,
            log: state.log.own_bytes(),
            filters: self.shares.filters.units_in_use(),
            log_slots: state.log.slots(),
            listeners: state.listeners.len(),
        }
    }

    /// The status of a client that is too slow.
    pub(crate) fn lagged_status() -> Status {
        Status::internal("lagged to send an update")
    }

    /// Returns the status of a client for a replay without space.
    pub(crate) fn exhausted_status(&self) -> Status {
        Status::resource_exhausted(format!(
            "the messages that wait for all clients have {} bytes (grpc.queues_bytes_max)",
            self.config.queues_bytes_max
        ))
    }

    /// Sends an update to the live clients of a commitment that match it.
    fn send(&self, index: &Index, state: &State, update: &Update) {
        if index.is_empty() {
            return;
        }
        let mut candidates = Vec::new();
        index.find_shared(update, state.cost_period, &mut candidates);
        let started = monotonic();
        index.find_postings(update, &mut candidates);
        let Ok(count @ 1..) = u32::try_from(candidates.len()) else { return };
        let lookup = (monotonic() - started) / count;
        let keys = TransactionKeys::from_update(update);
        let mut encoder = Encoder::new(update);
        let mut ids: Vec<FilterId> = Vec::new();
        for of_listener in candidates.chunk_by(|one, two| one.0 == two.0) {
            let Some((set, _)) = of_listener.first() else { continue };
            let Some(id) = state.live.get(set).copied() else { continue };
            let Some(listener) = state.listeners.get(&id) else { continue };
            let Some(IndexedSet { filters, .. }) = &listener.filters else { continue };
            if update.slot < listener.from_slot {
                continue;
            }
            ids.clear();
            ids.extend(of_listener.iter().map(|(_, id)| *id));
            // Only its own filters: bodies are encoded once for all, and a listener must not pay for those before it.
            let started = monotonic();
            let messages = filters.messages(update, keys.as_ref(), &ids);
            let spent = monotonic() - started;
            let candidates = u32::try_from(of_listener.len()).unwrap_or(count);
            listener.cost.add(state.cost_period, spent + lookup * candidates);
            for spec in messages {
                update.show_statuses();
                self.queue(state, id, listener, encoder.message(spec));
            }
        }
        self.counters.add(Event::Encoded, encoder.encoded_messages() as u64);
    }

    /// Queues a message for a listener, or closes it, or the one with the most waiting bytes.
    fn queue(&self, state: &State, id: ListenerId, listener: &Listener, message: Bytes) {
        self.counters.add(Event::Message, 1);
        self.counters.add(Event::Bytes, message.len() as u64);
        loop {
            match listener.queue.push(message.clone()) {
                Ok(()) => return,
                Err(Full::Queue) => return self.close_lagged(id, listener),
                Err(Full::Budget) => {
                    let (id, largest) = state.largest(id, listener);
                    self.close_lagged(id, largest);
                }
            }
        }
    }

    /// Closes a listener that is too slow.
    fn close_lagged(&self, id: ListenerId, listener: &Listener) {
        if listener.close(id, Self::lagged_status()) {
            self.counters.record(Event::Lagged);
        }
    }

    /// Closes every client and empties the log.
    fn close_listeners(state: &mut State, status: &Status, root: Option<Slot>) {
        state.log.clear(root);
        for (id, listener) in &state.listeners {
            listener.close(*id, status.clone());
        }
    }

    /// Closes the clients of accounts at processed: writes were lost.
    pub(crate) fn close_account_listeners(&self) {
        self.state.lock().close_account_listeners(Commitment::Processed);
    }

    /// Ends a bank at processed that lacks writes of accounts.
    pub(crate) fn end_bank_without_writes(&self) {
        self.state.lock().end_bank_without_writes(Commitment::Processed);
    }

    /// Starts a period in which the time that is spent on listeners is compared.
    pub(crate) fn start_cost_period(&self) {
        self.state.lock().cost_period += 1;
    }

    /// Closes the client whose filters took most of a period, if they are why the publisher is behind.
    pub(crate) fn close_costliest_client(&self, period: Duration) {
        let indices = self.indices.lock();
        let state = &*self.state.lock();
        let live = state.listeners.values().filter(|listener| listener.filters.is_some());
        let costs = live.map(|listener| (listener.client, listener.cost.spent(state.cost_period)));
        let shared = indices.iter().flat_map(|index| index.shared_costs(state.cost_period));
        // The index tries the filters of a client that replays as well.
        let owners = state
            .listeners
            .values()
            .filter_map(|listener| listener.filters.as_ref().map(|set| (set.id, listener.client)));
        let owners: HashMap<SetId, ClientId> = owners.collect();
        let shared = shared.filter_map(|(set, spent)| Some((*owners.get(&set)?, spent)));
        let costs = costs.chain(shared);
        let Some((client, spent)) = costliest_client(costs, period) else { return };
        tracing::warn!(%client, ?spent, ?period, "a gRPC client is closed, its filters delay all");
        self.counters.record(Event::Shed);
        let status = Status::resource_exhausted(format!(
            "the updates are late, and the filters of this client took {} of the last {} ms",
            spent.as_millis(),
            period.as_millis()
        ));
        for (id, listener) in &state.listeners {
            if listener.client == client {
                listener.close(*id, status.clone());
            }
        }
    }

    /// Closes the clients of a commitment.
    fn close_commitment(state: &State, commitment: Commitment) {
        for (id, listener) in &state.listeners {
            let own = listener.filters.as_ref().map(|set| set.filters.commitment);
            if own == Some(commitment) {
                listener.close(*id, Self::lagged_status());
            }
        }
    }
}

impl Listener {
    /// Closes the queue with a status. Returns false if it was closed before.
    fn close(&self, id: ListenerId, status: Status) -> bool {
        let is_open = self.queue.close(status);
        if is_open {
            self.timer.start(StreamId(id.0), self.queue.sending());
        }
        is_open
    }
}

impl State {
    fn close_account_listeners(&self, commitment: Commitment) {
        let needs_accounts =
            |set: &IndexedSet| set.filters.commitment == commitment && set.filters.needs_accounts();
        for (id, listener) in &self.listeners {
            if listener.filters.as_ref().is_some_and(needs_accounts) {
                listener.close(*id, Broker::lagged_status());
            }
        }
    }

    /// Closes the clients of accounts at a commitment. Later replays of such clients begin after the bank.
    fn end_bank_without_writes(&mut self, commitment: Commitment) {
        self.close_account_listeners(commitment);
        self.log.end_restored();
    }

    /// Takes the filters of a listener. They are still in the index.
    fn remove_filters(&mut self, id: ListenerId) -> Option<IndexedSet> {
        let set = self.listeners.get_mut(&id)?.filters.take()?;
        self.live.remove(&set.id);
        Some(set)
    }

    /// Replaces the filters of a listener. Returns the set that the index has to remove.
    fn replace_filters(
        &mut self,
        id: ListenerId,
        set: IndexedSet,
        from_slot: Option<Slot>,
    ) -> (Option<IndexedSet>, Result<Option<Cursor>, Status>) {
        let start = from_slot.map(|slot| self.cursor(slot, &set.filters)).transpose();
        if start.is_err() {
            return (Some(set), start);
        }
        let replaced = self.remove_filters(id);
        let Some(listener) = self.listeners.get_mut(&id) else { return (Some(set), start) };
        if let Some(slot) = from_slot {
            (listener.is_live, listener.from_slot) = (false, slot);
        }
        if listener.is_live {
            self.live.insert(set.id, id);
        }
        listener.filters = Some(set);
        (replaced, start)
    }

    fn cursor(&self, from_slot: Slot, filters: &FilterSet) -> Result<Cursor, Status> {
        let cursor = self.log.cursor(from_slot, filters.needs_whole_banks());
        cursor.ok_or_else(|| self.log.unavailable_status(from_slot))
    }

    /// The client with the most bytes that wait or are not written; `listener` if there are none.
    fn largest<'a>(&'a self, id: ListenerId, listener: &'a Listener) -> (ListenerId, &'a Listener) {
        let all = self.listeners.iter().map(|(id, listener)| (*id, listener));
        let largest = all.max_by_key(|(_, it)| it.queue.bytes());
        largest.filter(|(_, it)| it.queue.bytes() > 0).unwrap_or((id, listener))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const CLIENT: ClientId = ClientId(1);

    #[test]
    fn a_step_of_an_index_holds_up_no_connection() {
        let config = Config::default();
        let server = Arc::new(ServerState::new(config.transport()));
        let broker = Arc::new(Broker::new(config, server, None, None));
        broker.with_index(Commitment::Processed, |_| {
            let (done, is_done) = mpsc::sync_channel(1);
            let connecting = Arc::clone(&broker);
            // On a thread of its own: a connection that waits for the step fails the test instead of hanging it.
            thread::spawn(move || {
                let (id, _) = connecting.connect(Arc::default(), CLIENT).expect("the server runs");
                assert!(connecting.disconnect(id).is_none());
                connecting.next_set();
                assert_eq!(connecting.memory().listeners, 0);
                done.send(()).expect("the step waits");
            });
            let connected = is_done.recv_timeout(Duration::from_secs(10));
            assert!(connected.is_ok(), "a connection waits for the step");
        });
    }
}
