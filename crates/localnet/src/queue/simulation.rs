//! The round-robin queue under random load: no item is lost or overtaken, and a client waits at most for one visit of
//! each other client. A failure names its seed.

use std::collections::{HashMap, HashSet, VecDeque};

use chain_solana::{QueueBound, Sender};
use clients::ClientId;
use solana_pubkey::Pubkey;

use super::round_robin::{Limits, QueuedLoad, Refusal, RoundRobin, UNITS_MAX};

/// Compute units of one visit of a client of weight 1 at most: its quantum, which its last transaction may exceed.
const VISIT_MAX: u64 = 2 * (UNITS_MAX as u64 + 20_000);

fn client(n: u8) -> ClientId {
    ClientId(u128::from(n))
}

fn payer(n: u64) -> Pubkey {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    Pubkey::new_from_array(bytes)
}

fn load(compute_units: u32) -> QueuedLoad {
    QueuedLoad { transactions: 1, compute_units: compute_units.into(), bytes: 1 }
}

const WIDE: Limits = Limits { transactions: 1_000_000, compute_units: 1_000_000_000_000 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    client: u8,
    payer: u8,
    number: u64,
    units: u32,
}

/// The expected contents of the queue, and the service of other clients since each client was served.
#[derive(Default)]
struct Model {
    lines: HashMap<(u8, u8), VecDeque<Item>>,
    waiting: HashMap<u8, usize>,
    /// For each waiting client: the units served to each other client since.
    served_since: HashMap<u8, HashMap<u8, u64>>,
}

impl Model {
    fn push(&mut self, item: Item) {
        self.lines.entry((item.client, item.payer)).or_default().push_back(item);
        let waiting = self.waiting.entry(item.client).or_default();
        *waiting += 1;
        if *waiting == 1 {
            self.served_since.insert(item.client, HashMap::new());
        }
    }

    fn pop(&mut self, item: Item, weights: &[u32], seed: u64) {
        let line = self.lines.get_mut(&(item.client, item.payer));
        let first = line.and_then(VecDeque::pop_front);
        assert_eq!(first, Some(item), "seed {seed}: overtaken within its line");
        *self.waiting.get_mut(&item.client).expect("it is waiting") -= 1;
        self.served_since.insert(item.client, HashMap::new());
        if self.waiting[&item.client] == 0 {
            self.served_since.remove(&item.client);
        }
        for (waits, served) in &mut self.served_since {
            if *waits == item.client {
                continue;
            }
            let units = served.entry(item.client).or_default();
            *units += u64::from(item.units) + 20_000;
            let weight = u64::from(weights[usize::from(item.client)]);
            // One visit, either the current or the next one; never two.
            assert!(
                *units <= VISIT_MAX * weight,
                "seed {seed}: client {waits} waits while {} is served {units} units",
                item.client
            );
        }
    }
}

fn run(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let weights: Vec<u32> = (0..6).map(|_| *random.choice(&[1, 1, 1, 2, 5]).unwrap()).collect();
    let limits = Limits {
        transactions: random.u64(50..2_000),
        compute_units: random.u64(10_000_000..1_000_000_000),
    };
    let mut queue = RoundRobin::new(limits);
    let mut model = Model::default();
    let mut number = 0;
    // Phases with more arrivals than departures, and the other way round.
    for _ in 0..20 {
        let push_chance = random.f64();
        for _ in 0..500 {
            if random.f64() < push_chance {
                number += 1;
                let item = Item {
                    client: random.u8(0..6),
                    payer: random.u8(0..4),
                    number,
                    units: *random.choice(&[0, 3_000, 200_000, UNITS_MAX]).unwrap(),
                };
                let weight = weights[usize::from(item.client)];
                let sender = Sender { client: client(item.client), weight };
                if queue.push(sender, payer(item.payer.into()), load(item.units), item).is_ok() {
                    model.push(item);
                }
            } else if let Some(item) = queue.pop() {
                model.pop(item, &weights, seed);
            }
            let waiting = model.waiting.values().sum::<usize>() as u64;
            assert_eq!(queue.load().transactions, waiting, "seed {seed}");
            assert!(queue.load().transactions <= limits.transactions, "seed {seed}");
            assert!(queue.load().compute_units <= limits.compute_units, "seed {seed}");
        }
    }
    while let Some(item) = queue.pop() {
        model.pop(item, &weights, seed);
    }
    assert!(model.waiting.values().all(|waiting| *waiting == 0), "seed {seed}: something is lost");
    assert_eq!((queue.load(), queue.clients()), (QueuedLoad::default(), 0), "seed {seed}");
}

#[test]
fn no_item_is_lost_or_overtaken_and_a_client_waits_for_at_most_one_visit_of_each_other() {
    for seed in 0..200 {
        run(seed);
    }
}

/// Pushes items of `payers` fee payers until one is refused. Returns the number of accepted items, and the refusal.
fn fill(queue: &mut RoundRobin<u64>, by: u8, payers: u64, units: u32) -> (u64, Refusal) {
    for n in 0.. {
        let payer = payer(n % payers);
        if let Err(refusal) = queue.push(client(by).into(), payer, load(units), n) {
            return (n, refusal);
        }
    }
    unreachable!("the queue has bounds")
}

#[test]
fn a_flood_of_heavy_transactions_delays_another_clients_by_one_of_them() {
    let mut queue = RoundRobin::new(WIDE);
    for n in 0..6_000 {
        // Many fee payers of one client are one client.
        queue.push(client(1).into(), payer(n % 200), load(UNITS_MAX), n).unwrap();
    }
    for round in 0..100 {
        queue.push(client(2).into(), payer(7), load(3_000), 10_000 + round).unwrap();
        let position = (0..).find(|_| queue.pop().is_none_or(|item| item >= 10_000));
        assert_eq!(position, Some(1), "round {round}");
    }
}

#[test]
fn a_fee_payer_that_floods_delays_another_of_the_same_client_by_one_transaction() {
    let mut queue = RoundRobin::new(WIDE);
    for n in 0..6_000 {
        queue.push(client(1).into(), payer(1), load(UNITS_MAX), n).unwrap();
    }
    assert_eq!(queue.pop(), Some(0));
    queue.push(client(1).into(), payer(2), load(3_000), 10_000).unwrap();
    assert_eq!([queue.pop(), queue.pop()], [Some(1), Some(10_000)]);
}

#[test]
fn clients_share_by_compute_units_and_not_by_transactions() {
    let mut queue = RoundRobin::new(WIDE);
    for n in 0..10_000 {
        queue.push(client(1).into(), payer(1), load(UNITS_MAX), n).unwrap();
        queue.push(client(2).into(), payer(2), load(120_000), 10_000 + n).unwrap();
    }
    let light = (0..1_100).filter(|_| queue.pop().is_some_and(|item| item >= 10_000)).count();
    // A heavy transaction costs 1,420,000 units and a light one 140,000.
    assert!((995..=1_005).contains(&light), "{light} of 1,100");
}

/// The load of a bundle of 5 transactions.
fn bundle(compute_units: u64) -> QueuedLoad {
    QueuedLoad { transactions: 5, compute_units: 5 * compute_units, bytes: 5 }
}

#[test]
fn clients_that_send_bundles_get_no_larger_share() {
    let mut queue = RoundRobin::new(WIDE);
    let heavy = u64::from(UNITS_MAX);
    // The first client always has one bundle in the queue, and the second one many transactions.
    for n in 0..10_000 {
        queue.push(client(2).into(), payer(2), load(UNITS_MAX), n).unwrap();
    }
    queue.push(client(1).into(), payer(1), bundle(heavy), 10_000).unwrap();
    let mut bundles = 0;
    let mut transactions = 0;
    while transactions < 5_000 {
        if queue.pop().is_some_and(|item| item >= 10_000) {
            bundles += 1;
            queue.push(client(1).into(), payer(1), bundle(heavy), 10_000).unwrap();
        } else {
            transactions += 1;
        }
    }
    // A bundle of 5 transactions costs as much as 5.
    assert!((990..=1_010).contains(&bundles), "{bundles} bundles beside {transactions}");
}

#[test]
fn a_flood_of_bundles_delays_another_clients_transaction_by_one_of_them() {
    let mut queue = RoundRobin::new(WIDE);
    for n in 0..1_000 {
        queue.push(client(1).into(), payer(n % 50), bundle(UNITS_MAX.into()), n).unwrap();
    }
    for round in 0..100 {
        queue.push(client(2).into(), payer(7), load(3_000), 10_000 + round).unwrap();
        let position = (0..).find(|_| queue.pop().is_none_or(|item| item >= 10_000));
        assert!(position.is_some_and(|position| position <= 1), "round {round}: {position:?}");
    }
}

#[test]
fn bundles_alone_leave_in_order_and_empty_the_queue() {
    let mut queue = RoundRobin::new(WIDE);
    for n in 0..100 {
        queue.push(client(1).into(), payer(1), bundle(UNITS_MAX.into()), n).unwrap();
    }
    let popped: Vec<u64> = std::iter::from_fn(|| queue.pop()).collect();
    assert_eq!(popped, (0..100).collect::<Vec<_>>());
    assert_eq!((queue.load(), queue.clients()), (QueuedLoad::default(), 0));
}

#[test]
fn compiled_code_delays_another_client_by_one_compilation() {
    /// Compute units of compiling 10 MB.
    const SURCHARGE: u64 = 50_000_000;
    let mut queue = RoundRobin::new(WIDE);
    for n in 0..1_000 {
        queue.push(client(1).into(), payer(n % 50), load(1_000), n).unwrap();
    }
    let mut charged = HashSet::new();
    let mut compiled = 0;
    for round in 0..200 {
        queue.push(client(2).into(), payer(7), load(3_000), 10_000 + round).unwrap();
        let compiled_before = compiled;
        loop {
            match queue.pop().expect("an item waits") {
                item if item >= 10_000 => break,
                item if charged.insert(item) => {
                    let payer = payer(item % 50);
                    queue.push_front(client(1).into(), payer, load(1_000), SURCHARGE, item);
                }
                _ => compiled += 1,
            }
        }
        assert!(compiled - compiled_before <= 1, "round {round}: {}", compiled - compiled_before);
    }
    // It passes on as many visits as its code costs.
    assert!(compiled <= 200 / 30, "{compiled} compilations");
    let left: Vec<u64> = std::iter::from_fn(|| queue.pop()).collect();
    assert_eq!(left.len() + compiled, 1_000, "nothing is lost");
    assert_eq!((queue.load(), queue.clients()), (QueuedLoad::default(), 0));
}

#[test]
fn a_client_of_weight_4_gets_4_times_as_much() {
    let mut queue = RoundRobin::new(WIDE);
    for n in 0..2_000 {
        let heavy = Sender { client: client(1), weight: 4 };
        queue.push(heavy, payer(1), load(UNITS_MAX), n).unwrap();
        queue.push(client(2).into(), payer(2), load(UNITS_MAX), 10_000 + n).unwrap();
    }
    let first = (0..1_000).filter(|_| queue.pop().is_some_and(|item| item < 10_000)).count();
    assert!((795..=805).contains(&first), "{first} of 1,000");
}

#[test]
fn the_next_client_finds_space_however_much_the_others_send() {
    let limits = Limits { transactions: 1_024, compute_units: u64::MAX / 2 };
    let mut queue = RoundRobin::new(limits);
    let accepted = [1, 2, 3, 4].map(|by| fill(&mut queue, by, 1_000, 3_000));
    assert_eq!(accepted.map(|(accepted, _)| accepted), [512, 256, 128, 64]);
    let refusal = Refusal { bound: QueueBound::ClientTransactions, queued: 512, limit: 512 };
    assert_eq!(accepted[0].1, refusal);

    let limits = Limits { transactions: 1_000_000, compute_units: 1_024 * 1_000_000 };
    let mut queue = RoundRobin::new(limits);
    let accepted = [1, 2, 3].map(|by| fill(&mut queue, by, 1_000, 1_000_000));
    assert_eq!(accepted.map(|(accepted, _)| accepted), [512, 256, 128]);
    assert_eq!(accepted[2].1.bound, QueueBound::ClientComputeUnits);
}

#[test]
fn one_fee_payer_leaves_space_for_the_others_of_its_client() {
    let limits = Limits { transactions: 7_000, compute_units: u64::MAX / 2 };
    let mut queue = RoundRobin::new(limits);
    let (accepted, refusal) = fill(&mut queue, 1, 1, 3_000);
    assert_eq!((accepted, refusal.bound), (3_000, QueueBound::PayerTransactions));
    queue.push(client(1).into(), payer(9), load(3_000), 0).unwrap();
}

#[test]
fn a_queue_of_one_accepts_one() {
    let limits = Limits { transactions: 1, compute_units: UNITS_MAX.into() };
    let mut queue = RoundRobin::new(limits);
    let (accepted, refusal) = fill(&mut queue, 1, 1, UNITS_MAX);
    let full = Refusal { bound: QueueBound::Transactions, queued: 1, limit: 1 };
    assert_eq!((accepted, refusal), (1, full));
}
