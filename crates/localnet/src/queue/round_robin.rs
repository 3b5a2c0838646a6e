//! Deficit round robin on two levels: clients, and the fee payers of each client.
//!
//! In: items, each with its client, its fee payer and its [`QueuedLoad`]. Out: the item to execute next.
//! Clients are visited in a circle. On each visit a client spends up to [`QUANTUM`] compute units times its weight.
//! Within its visits its fee payers are visited in a circle as well, so that fee payers of one client (a proxy, a
//! faucet) do not delay each other. Clients come first: more fee payers do not get a client more than its share.
//! Bounds: [`Limits`]. Of each, a client's waiting items may take as much as remains free, so a single client gets half
//! and the next one always finds space. A fee payer may take [`PAYER_SHARE`] times what remains for its client. There
//! is one entry for each client and each fee payer with waiting items.
//! An item that costs more than a quantum (a bundle, a call of code that has to be compiled) waits until its client and
//! its fee payer have passed on as many visits as it takes to save the excess. So a visit never leaves more than a
//! quantum of debt.
//! `clients::ClientShares` is not used: it gives a client nine tenths, which is too much of a queue with one executing
//! thread, it counts one quantity, and it has no fee payers. The loads here change with the queue, under its lock.
//! Invariant: items of one fee payer of one client leave in the order of arrival.
//! Cost: constant, four hash lookups for each step, and two for each visit that is passed on.
//! Not here: threads (`super`), the compute units of a transaction (`super::cost`).

use std::collections::{HashMap, VecDeque};

use chain_solana::{QueueBound, Sender};
use clients::ClientId;
use foldhash::quality::RandomState;
use solana_pubkey::Pubkey;

/// The most compute units that one transaction can request.
pub(super) const UNITS_MAX: u32 = 1_400_000;
/// Cost of a transaction in addition to its requested compute units: about the time in which the executing thread loads
/// and writes its accounts.
const BASE_UNITS: i64 = 20_000;
/// Quantum of a client of weight 1, and of a fee payer: enough for any one transaction.
const QUANTUM: i64 = UNITS_MAX as i64 + BASE_UNITS;
/// Quanta of a client on one visit at most, so that the others do not wait for long.
const WEIGHT_MAX: u32 = 16;
/// A fee payer's waiting items may take this many times what remains for its client.
const PAYER_SHARE: u64 = 3;

/// Bounds of the waiting items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) transactions: u64,
    /// Compute units that they request.
    pub(crate) compute_units: u64,
}

/// The load of waiting items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuedLoad {
    /// Transactions.
    pub transactions: u64,
    /// Compute units that they request.
    pub compute_units: u64,
    /// Bytes of memory that they use.
    pub bytes: u64,
}

impl QueuedLoad {
    pub(super) fn add(&mut self, more: Self) {
        self.transactions += more.transactions;
        self.compute_units += more.compute_units;
        self.bytes += more.bytes;
    }

    fn remove(&mut self, less: Self) {
        self.transactions -= less.transactions;
        self.compute_units -= less.compute_units;
        self.bytes -= less.bytes;
    }
}

/// The bound that refused an item, with the compared values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) bound: QueueBound,
    /// The waiting quantity.
    pub(super) queued: u64,
    /// The limit of the quantity at that time.
    pub(super) limit: u64,
}

/// Waiting items, by client and fee payer.
pub(super) struct RoundRobin<T> {
    limits: Limits,
    load: QueuedLoad,
    /// Clients with waiting items, in the order of visits.
    circle: VecDeque<ClientId>,
    clients: HashMap<ClientId, Client, RandomState>,
    payer_queues: HashMap<(ClientId, Pubkey), PayerQueue<T>, RandomState>,
}

/// A client with waiting items.
struct Client {
    load: QueuedLoad,
    weight: u32,
    /// The deficit counter: compute units left in its visit.
    credit: i64,
    /// Its fee payers, in the order of visits. Never empty.
    payers: VecDeque<Pubkey>,
}

/// The waiting items of one fee payer of one client. Never empty.
struct PayerQueue<T> {
    load: QueuedLoad,
    /// The deficit counter: compute units left in its visit.
    credit: i64,
    items: VecDeque<QueueEntry<T>>,
}

struct QueueEntry<T> {
    load: QueuedLoad,
    /// Compute units that it costs in addition to those of its load.
    surcharge: u64,
    item: T,
}

impl<T> QueueEntry<T> {
    /// Compute units of the item's turn.
    fn cost(&self) -> i64 {
        let QueuedLoad { transactions, compute_units, .. } = self.load;
        BASE_UNITS * transactions as i64 + (compute_units + self.surcharge) as i64
    }

    /// Credit that must be exceeded before the item's turn: its cost beyond a quantum.
    fn advance(&self) -> i64 {
        (self.cost() - QUANTUM).max(0)
    }
}

impl<T> RoundRobin<T> {
    /// An empty queue.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            load: QueuedLoad::default(),
            circle: VecDeque::new(),
            clients: HashMap::default(),
            payer_queues: HashMap::default(),
        }
    }

    /// Appends an item to those of its client and fee payer.
    pub(super) fn push(
        &mut self,
        sender: Sender,
        payer: Pubkey,
        load: QueuedLoad,
        item: T,
    ) -> Result<(), Refusal> {
        self.admit(sender.client, payer, load)?;
        self.payer_queue(sender, payer, load).push_back(QueueEntry { load, surcharge: 0, item });
        Ok(())
    }

    /// Returns an item that was just popped to the front of its fee payer's queue, where it costs `surcharge` compute
    /// units more. The bounds do not count the surcharge.
    pub(super) fn push_front(
        &mut self,
        sender: Sender,
        payer: Pubkey,
        load: QueuedLoad,
        surcharge: u64,
        item: T,
    ) {
        self.payer_queue(sender, payer, load).push_front(QueueEntry { load, surcharge, item });
    }

    /// Adds a load to a client and its fee payer, and returns the payer's items, to which the caller adds one.
    fn payer_queue(
        &mut self,
        sender: Sender,
        payer: Pubkey,
        load: QueuedLoad,
    ) -> &mut VecDeque<QueueEntry<T>> {
        self.load.add(load);
        let client = self.clients.entry(sender.client).or_insert_with(|| {
            self.circle.push_back(sender.client);
            Client { load: QueuedLoad::default(), weight: 1, credit: 0, payers: VecDeque::new() }
        });
        client.load.add(load);
        client.weight = sender.weight.clamp(1, WEIGHT_MAX);
        if client.payers.is_empty() {
            client.credit = client.quantum();
        }
        let queue = self.payer_queues.entry((sender.client, payer)).or_insert_with(|| {
            client.payers.push_back(payer);
            // Most have one item.
            PayerQueue {
                load: QueuedLoad::default(),
                credit: QUANTUM,
                items: VecDeque::with_capacity(1),
            }
        });
        queue.load.add(load);
        &mut queue.items
    }

    fn admit(&self, client: ClientId, payer: Pubkey, load: QueuedLoad) -> Result<(), Refusal> {
        let zero = QueuedLoad::default();
        let of_client = self.clients.get(&client).map_or(zero, |client| client.load);
        let of_payer = self.payer_queues.get(&(client, payer)).map_or(zero, |queue| queue.load);
        let transactions = |load: QueuedLoad| load.transactions;
        let [in_queue, by_client, by_payer] = [self.load, of_client, of_payer].map(transactions);
        Waiting { in_queue, by_client, by_payer }.admit(
            load.transactions,
            self.limits.transactions,
            [
                QueueBound::Transactions,
                QueueBound::ClientTransactions,
                QueueBound::PayerTransactions,
            ],
        )?;
        let compute_units = |load: QueuedLoad| load.compute_units;
        let [in_queue, by_client, by_payer] = [self.load, of_client, of_payer].map(compute_units);
        Waiting { in_queue, by_client, by_payer }.admit(
            load.compute_units,
            self.limits.compute_units,
            [
                QueueBound::ComputeUnits,
                QueueBound::ClientComputeUnits,
                QueueBound::PayerComputeUnits,
            ],
        )
    }

    /// Removes the item to execute next.
    #[cfg(test)]
    pub(super) fn pop(&mut self) -> Option<T> {
        self.pop_with_cost().map(|(item, _)| item)
    }

    /// Removes the item to execute next, and returns it with the compute units that it costs.
    pub(super) fn pop_with_cost(&mut self) -> Option<(T, i64)> {
        let (id, payer) = self.next_payer()?;
        let client = self.clients.get_mut(&id)?;
        let queue = self.payer_queues.get_mut(&(id, payer))?;
        let entry = queue.items.pop_front()?;
        let cost = entry.cost();
        let QueueEntry { load, item, .. } = entry;

        queue.load.remove(load);
        queue.credit -= cost;
        if queue.items.is_empty() {
            client.payers.pop_front();
            self.payer_queues.remove(&(id, payer));
        } else if queue.credit <= 0 {
            queue.credit += QUANTUM;
            client.payers.rotate_left(1);
        }

        client.load.remove(load);
        client.credit -= cost;
        if client.payers.is_empty() {
            self.circle.pop_front();
            self.clients.remove(&id);
        } else if client.credit <= 0 {
            client.credit += client.quantum();
            self.circle.rotate_left(1);
        }

        self.load.remove(load);
        if self.circle.is_empty() {
            self.forget_burst();
        }
        Some((item, cost))
    }

    /// The client and the fee payer whose item is next: the first ones that have saved what it costs beyond a quantum.
    /// Those before them pass on their visits.
    fn next_payer(&mut self) -> Option<(ClientId, Pubkey)> {
        loop {
            let id = *self.circle.front()?;
            // A client is in the circle exactly while it has an entry, and so is a fee payer with its queue; no queue is
            // empty.
            let client = self.clients.get_mut(&id)?;
            let (payer, advance) = loop {
                let payer = *client.payers.front()?;
                let queue = self.payer_queues.get_mut(&(id, payer))?;
                let advance = queue.items.front()?.advance();
                if queue.credit > advance {
                    break (payer, advance);
                }
                queue.credit += QUANTUM;
                client.payers.rotate_left(1);
            };
            if client.credit > advance {
                return Some((id, payer));
            }
            client.credit += client.quantum();
            self.circle.rotate_left(1);
        }
    }

    /// Frees the memory that a burst of clients and fee payers needed.
    fn forget_burst(&mut self) {
        const RETAINED_MAX: usize = 1_024;
        self.circle.shrink_to(RETAINED_MAX);
        self.clients.shrink_to(RETAINED_MAX);
        self.payer_queues.shrink_to(RETAINED_MAX);
    }

    /// The load of all waiting items.
    pub(super) fn load(&self) -> QueuedLoad {
        self.load
    }

    /// Number of clients with waiting items.
    pub(super) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// The largest load of one client, for each quantity separately. Cost: one step for each client.
    pub(super) fn largest(&self) -> QueuedLoad {
        self.clients.values().fold(QueuedLoad::default(), |most, client| QueuedLoad {
            transactions: most.transactions.max(client.load.transactions),
            compute_units: most.compute_units.max(client.load.compute_units),
            bytes: most.bytes.max(client.load.bytes),
        })
    }
}

impl Client {
    fn quantum(&self) -> i64 {
        QUANTUM * i64::from(self.weight)
    }
}

/// The waiting amount of one quantity: in total, of the client, and of the fee payer.
struct Waiting {
    in_queue: u64,
    by_client: u64,
    by_payer: u64,
}

impl Waiting {
    /// Checks that `more` of it fits into the bounds of queue, client and fee payer.
    fn admit(&self, more: u64, limit: u64, bounds: [QueueBound; 3]) -> Result<(), Refusal> {
        let left = limit.saturating_sub(self.in_queue);
        let left_to_client = left.saturating_sub(self.by_client);
        let checks = [
            (more > left, self.in_queue, limit),
            (more > left_to_client, self.by_client, left),
            (
                self.by_payer + more > left_to_client.saturating_mul(PAYER_SHARE),
                self.by_payer,
                left_to_client.saturating_mul(PAYER_SHARE),
            ),
        ];
        let refused = bounds.into_iter().zip(checks).find(|(_, (is_full, ..))| *is_full);
        match refused {
            Some((bound, (_, queued, limit))) => Err(Refusal { bound, queued, limit }),
            None => Ok(()),
        }
    }
}
