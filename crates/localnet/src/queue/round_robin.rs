//! Deficit round robin on two levels: clients, and the fee payers of each client.
//!
//! In: items, each with its client, its fee payer and its [`Load`]. Out: the item to execute next.
//! Clients stand in a circle. On each visit a client spends up to [`QUANTUM`] compute units, as many times as its
//! weight says. Within its visits its fee payers stand in a circle of their own, so that a client that signs for
//! many payers (a proxy, a faucet) does not mix up their waiting times. Clients come first: more fee payers do not
//! get a client more than its share.
//! Bounds: [`Limits`]. Of both, a client may have as much waiting as is left, so one alone gets half and the next
//! one always finds room. A fee payer may have [`PAYER_SHARE`] times as much as is left to its client. An entry for
//! each client and each fee payer that has something waiting.
//! Invariant: items of one fee payer of one client leave in the order in which they came.
//! Cost: constant, two look-ups by hash for each step.
//! Not here: threads (`super`), what a transaction asks for (`super::cost`).

use std::collections::{HashMap, VecDeque};

use chain_solana::{QueueBound, Sender};
use foldhash::quality::RandomState;
use pool::ClientId;
use solana_pubkey::Pubkey;

/// The most compute units that one transaction can ask for.
pub(super) const UNITS_MAX: u32 = 1_400_000;
/// What a transaction costs beside the compute units that it asks for: about the time in which the executing thread
/// loads and writes its accounts.
const BASE_UNITS: i64 = 20_000;
/// What a client of weight 1 spends on one visit, and a fee payer within it: enough for any one transaction.
const QUANTUM: i64 = UNITS_MAX as i64 + BASE_UNITS;
/// No client spends more quanta on one visit, so that the others do not wait for long.
const WEIGHT_MAX: u32 = 16;
/// How much more than what is left to its client a fee payer may have waiting.
const PAYER_SHARE: u64 = 3;

/// What may wait at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Transactions.
    pub(crate) transactions: u64,
    /// Compute units that they ask for.
    pub(crate) compute_units: u64,
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Transactions.
    pub transactions: u64,
    /// Compute units that they ask for.
    pub compute_units: u64,
    /// Bytes of memory that they take.
    pub bytes: u64,
}

impl Load {
    fn add(&mut self, more: Self) {
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

/// Which bound refused an item, and what it compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) bound: QueueBound,
    /// What waits of it.
    pub(super) queued: u64,
    /// What may wait of it now.
    pub(super) limit: u64,
}

/// Items that wait, by client and fee payer.
pub(super) struct RoundRobin<T> {
    limits: Limits,
    load: Load,
    /// Clients with something waiting, in the order in which they are visited.
    circle: VecDeque<ClientId>,
    clients: HashMap<ClientId, Client, RandomState>,
    lines: HashMap<(ClientId, Pubkey), Line<T>, RandomState>,
}

/// A client that has something waiting.
struct Client {
    load: Load,
    weight: u32,
    /// What is left of its visit.
    credit: i64,
    /// Its fee payers, in the order in which they are visited. Never empty.
    payers: VecDeque<Pubkey>,
}

/// What waits of one fee payer of one client. Never empty.
struct Line<T> {
    load: Load,
    /// What is left of its visit.
    credit: i64,
    items: VecDeque<(Load, T)>,
}

impl<T> RoundRobin<T> {
    /// Nothing waits.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            load: Load::default(),
            circle: VecDeque::new(),
            clients: HashMap::default(),
            lines: HashMap::default(),
        }
    }

    /// Puts an item in, behind those of its client and fee payer.
    pub(super) fn push(
        &mut self,
        sender: Sender,
        payer: Pubkey,
        load: Load,
        item: T,
    ) -> Result<(), Refusal> {
        self.admit(sender.client, payer, load)?;
        self.load.add(load);
        let client = self.clients.entry(sender.client).or_insert_with(|| {
            self.circle.push_back(sender.client);
            Client { load: Load::default(), weight: 1, credit: 0, payers: VecDeque::new() }
        });
        client.load.add(load);
        client.weight = sender.weight.clamp(1, WEIGHT_MAX);
        if client.payers.is_empty() {
            client.credit = client.quantum();
        }
        let line = self.lines.entry((sender.client, payer)).or_insert_with(|| {
            client.payers.push_back(payer);
            // Most lines hold one item.
            Line { load: Load::default(), credit: QUANTUM, items: VecDeque::with_capacity(1) }
        });
        line.load.add(load);
        line.items.push_back((load, item));
        Ok(())
    }

    fn admit(&self, client: ClientId, payer: Pubkey, load: Load) -> Result<(), Refusal> {
        let zero = Load::default();
        let of_client = self.clients.get(&client).map_or(zero, |client| client.load);
        let of_payer = self.lines.get(&(client, payer)).map_or(zero, |line| line.load);
        let transactions = |load: Load| load.transactions;
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
        let compute_units = |load: Load| load.compute_units;
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

    /// Takes out the item to execute next.
    pub(super) fn pop(&mut self) -> Option<T> {
        let id = *self.circle.front()?;
        // A client is in the circle exactly while it has an entry, and so is a fee payer with its line; no line is
        // empty.
        let client = self.clients.get_mut(&id)?;
        let payer = *client.payers.front()?;
        let line = self.lines.get_mut(&(id, payer))?;
        let (load, item) = line.items.pop_front()?;
        let cost = BASE_UNITS + load.compute_units as i64;

        line.load.remove(load);
        line.credit -= cost;
        if line.items.is_empty() {
            client.payers.pop_front();
            self.lines.remove(&(id, payer));
        } else if line.credit <= 0 {
            line.credit += QUANTUM;
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
        Some(item)
    }

    /// Gives back what a burst of clients and fee payers took.
    fn forget_burst(&mut self) {
        const RETAINED_MAX: usize = 1_024;
        self.circle.shrink_to(RETAINED_MAX);
        self.clients.shrink_to(RETAINED_MAX);
        self.lines.shrink_to(RETAINED_MAX);
    }

    /// How much waits.
    pub(super) fn load(&self) -> Load {
        self.load
    }

    /// How many clients have something waiting.
    pub(super) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// The most that one client has waiting, of each quantity by itself. Looks at every client.
    pub(super) fn largest(&self) -> Load {
        self.clients.values().fold(Load::default(), |most, client| Load {
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

/// What waits of one quantity: in all, of the client, and of the fee payer.
struct Waiting {
    in_queue: u64,
    by_client: u64,
    by_payer: u64,
}

impl Waiting {
    /// Whether `more` of it fits, by the bounds of queue, client and fee payer.
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
