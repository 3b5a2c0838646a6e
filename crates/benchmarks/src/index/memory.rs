//! Bytes an address and bytes an entry.

use std::time::Duration;

use address::AddressTable;
use anyhow::Result;
use cpu_time::ThreadTime;
use index::Index;
use ledger::{Address, AddressId, Key, KeyKind};
use testkit::zipf::Zipf;

use super::baselines::{Agave, Baseline, Dash, Locked};
use super::heap;
use super::keys::{Numbers, pubkey};
use super::size::Size;
use crate::median::median;
use crate::threshold;

/// The cost of a build.
pub(crate) struct Built {
    /// Number of entries, up to the memory bound.
    pub(crate) entries: u32,
    pub(crate) heap_bytes: usize,
    peak_bytes: usize,
    took: Duration,
}

pub(crate) fn run(size: &Size, only: Option<&str>) -> Result<()> {
    let is_selected = |name: &str| only.is_none_or(|only| only == name);
    let bound = size.heap_bytes_max;
    if is_selected("ours") {
        addresses(size.addresses)?;
    }
    head("keys of one entry", "entry");
    // A candidate that reached the bound reaches it again with more keys.
    let mut stopped = Vec::new();
    for keys in size.keys {
        if is_selected("ours") {
            let built = hydrant_of_one(keys);
            row("ours", keys, &built);
            if keys == size.keys[1] {
                threshold::at_most("index_keys_of_one_bytes", built.per_entry(), "B/entry", 12.0);
            }
        }
        for (name, mut rival) in baselines() {
            if !is_selected(name) {
                continue;
            }
            if stopped.contains(&name) {
                println!("{name:16} {keys:>10}  reaches the bound as above");
                continue;
            }
            let one = |n| (pubkey(n), pubkey(n | 1 << 31));
            let built = build_baseline(&mut *rival, keys, bound, one);
            row(name, keys, &built);
            if built.entries < keys {
                stopped.push(name);
            }
        }
    }
    head("one key", "entry");
    if is_selected("ours") {
        // Dense: half of all ids. Sparse: one of 200 in a ledger of a billion.
        for (name, universe, limit) in [("dense", 2, 0.5), ("sparse", 200, 4.0)] {
            let built = hydrant_of_many(size.entries, size.entries * universe);
            row(&format!("ours, {name}"), size.entries, &built);
            threshold::at_most(
                &format!("index_{name}_key_bytes"),
                built.per_entry(),
                "B/entry",
                limit,
            );
        }
    }
    for (name, mut rival) in baselines() {
        if is_selected(name) {
            let one = |n| (pubkey(u32::MAX), pubkey(n));
            row(name, size.entries, &build_baseline(&mut *rival, size.entries, bound, one));
        }
    }
    head("mainnet shape", "account");
    if is_selected("ours") {
        let built = hydrant_of_shape(size.accounts);
        row("ours, addresses", size.accounts, &built);
        threshold::at_most("index_mainnet_shape_bytes", built.per_entry(), "B/account", 90.0);
    }
    for (name, make) in BASELINES {
        if is_selected(name) {
            row(name, size.accounts, &baseline_of_shape(make, size.accounts, bound));
        }
    }
    Ok(())
}

fn head(what: &str, unit: &str) {
    println!(
        "\n{what:19}{:>8}{:>12}{:>15} build CPU ns",
        "entries",
        format!("B/{unit}"),
        format!("peak B/{unit}")
    );
}

/// The address table: bytes at rest, the highest ratio of peak to bytes at rest, the longest insert. The longest is CPU
/// time, and the median of three builds: one of ten million inserts is interrupted by the kernel.
fn addresses(count: u32) -> Result<()> {
    let mut longest = Vec::new();
    for _ in 0..2 {
        longest.push(table(count)?.longest.as_secs_f64() * 1e3);
    }
    let Table { bytes, peak_ratio, longest: last, took } = table(count)?;
    longest.push(last.as_secs_f64() * 1e3);
    let each = bytes as f64 / f64::from(count);
    let build_ns = took.as_nanos() as f64 / f64::from(count);
    println!(
        "addresses {count}: {each:.2} B each, {build_ns:.0} ns CPU each with the clock read twice, \
         longest inserts {longest:.3?} ms"
    );
    threshold::at_most("address_bytes", each, "B/address", 44.0);
    threshold::at_most("address_growth_peak", peak_ratio, "x", 1.1);
    threshold::at_most("address_insert_longest_ms", median(longest), "ms", 5.0);
    Ok(())
}

struct Table {
    bytes: usize,
    peak_ratio: f64,
    longest: Duration,
    took: Duration,
}

fn table(count: u32) -> Result<Table> {
    let before = heap::now();
    let table = AddressTable::new(count, 42);
    let mut peak_ratio: f64 = 0.0;
    let mut longest = Duration::ZERO;
    let start = ThreadTime::now();
    heap::forget_peak();
    for n in 0..count {
        let address = Address::from(pubkey(n).to_bytes());
        let began = ThreadTime::now();
        table.retain(&address)?;
        longest = longest.max(began.elapsed());
        if n % (count / 100).max(1) == 0 && n > count / 10 {
            let rests = (heap::now() - before) as f64;
            peak_ratio = peak_ratio.max((heap::peak() - before) as f64 / rests);
            heap::forget_peak();
        }
    }
    Ok(Table { bytes: heap::now() - before, peak_ratio, longest, took: start.elapsed() })
}

/// Keys and records have separate ids; records are not in order.
pub(crate) fn hydrant_of_one(keys: u32) -> Built {
    measured(|| {
        let mut index = Index::new(2 * keys, 42);
        let start = ThreadTime::now();
        for n in 0..keys {
            let key = Key { kind: KeyKind(0), id: AddressId(n) };
            index.insert(key, AddressId(keys + (n ^ 0x55) % keys));
        }
        (index, start.elapsed(), keys)
    })
}

/// One key of random records among `universe` ids.
fn hydrant_of_many(entries: u32, universe: u32) -> Built {
    measured(|| {
        let mut index = Index::new(universe, 42);
        let mut numbers = Numbers(7);
        let key = Key { kind: KeyKind(0), id: AddressId(3) };
        let start = ThreadTime::now();
        while index.len() < entries as usize {
            index.insert(key, AddressId(numbers.below(universe)));
        }
        (index, start.elapsed(), entries)
    })
}

/// Addresses and four indices of a ledger of [`Shape`].
pub(crate) fn hydrant_of_shape(accounts: u32) -> Built {
    measured(|| {
        let start = ThreadTime::now();
        let table = AddressTable::new(accounts + accounts / 2, 42);
        let mut index = Index::new(accounts + accounts / 2, 42);
        let mut shape = Shape::new(accounts);
        for n in 0..accounts {
            let account = table.retain(&Address::from(pubkey(n).to_bytes()));
            for (facet, key) in shape.keys_of(n) {
                let Some(key) = key else { continue };
                let key = table.retain(&Address::from(pubkey(key).to_bytes()));
                if let (Ok(id), Ok(account)) = (key, account) {
                    index.insert(Key { kind: KeyKind(facet), id }, account);
                }
            }
        }
        ((table, index), start.elapsed(), accounts)
    })
}

/// Four indices in a rival's structure, one for each.
pub(crate) fn baseline_of_shape(
    make: impl Fn() -> Box<dyn Baseline>,
    accounts: u32,
    heap_bytes_max: usize,
) -> Built {
    measured(|| {
        let start = ThreadTime::now();
        let mut indices = [make(), make(), make(), make()];
        let mut shape = Shape::new(accounts);
        for n in 0..accounts {
            for (facet, key) in shape.keys_of(n) {
                if let Some(key) = key {
                    indices[usize::from(facet)].put(pubkey(key), pubkey(n));
                }
            }
            if n % 256 == 0 && heap::now() > heap_bytes_max {
                return (indices, start.elapsed(), n + 1);
            }
        }
        (indices, start.elapsed(), accounts)
    })
}

/// A ledger as mainnet's: most accounts are token accounts, ranks of owners, mints and programs are
/// log-uniform (Zipf's law with exponent 1), one program owns more than half, one account in fifty has
/// a delegate. No key is an account, which is the worst case for ours.
struct Shape {
    numbers: Numbers,
    accounts: u32,
}

impl Shape {
    fn new(accounts: u32) -> Self {
        Self { numbers: Numbers(11), accounts }
    }

    /// An account's keys as numbers of pubkeys: program, mint, owner, delegate.
    fn keys_of(&mut self, account: u32) -> [(u8, Option<u32>); 4] {
        let Self { numbers, accounts } = self;
        let program = if numbers.below(100) < 60 { 0 } else { rank(numbers, 2_000) };
        let ranks = [
            (0, Some(program)),
            (1, Some(rank(numbers, *accounts / 20))),
            (2, Some(rank(numbers, *accounts / 10 * 3))),
            (3, account.is_multiple_of(50).then(|| rank(numbers, *accounts / 100))),
        ];
        ranks.map(|(facet, rank)| (facet, rank.map(|rank| 1 << 31 | u32::from(facet) << 28 | rank)))
    }
}

/// A rank below `ranks`, the first the likeliest.
fn rank(numbers: &mut Numbers, ranks: u32) -> u32 {
    let part = f64::from(numbers.below(1 << 30)) / f64::from(1 << 30);
    Zipf::new(1, ranks.into()).rank_at(part) as u32
}

/// A rival's name and constructor.
type NamedBaseline = (&'static str, fn() -> Box<dyn Baseline>);

const BASELINES: [NamedBaseline; 6] = [
    ("rwlock-hashmap", || Box::new(Locked::default())),
    ("agave", || Box::new(Agave::default())),
    ("dashmap-4", || Box::new(Dash::new(4))),
    ("dashmap-32", || Box::new(Dash::new(32))),
    ("dashmap-128", || Box::new(Dash::new(128))),
    ("dashmap-512", || Box::new(Dash::new(512))),
];

fn baselines() -> impl Iterator<Item = (&'static str, Box<dyn Baseline>)> {
    BASELINES.into_iter().map(|(name, make)| (name, make()))
}

pub(crate) fn build_baseline(
    rival: &mut dyn Baseline,
    entries: u32,
    heap_bytes_max: usize,
    entry: impl Fn(u32) -> (solana_pubkey::Pubkey, solana_pubkey::Pubkey),
) -> Built {
    measured(|| {
        let start = ThreadTime::now();
        for n in 0..entries {
            let (key, record) = entry(n);
            rival.put(key, record);
            if n % 256 == 0 && heap::now() > heap_bytes_max {
                return ((), start.elapsed(), n + 1);
            }
        }
        ((), start.elapsed(), entries)
    })
}

/// Runs `build`, which returns the structure, its build time, and its number of entries.
fn measured<T>(build: impl FnOnce() -> (T, Duration, u32)) -> Built {
    let before = heap::now();
    heap::forget_peak();
    let (built, took, entries) = build();
    let now = heap::now();
    let peak = heap::peak();
    drop(built);
    Built { entries, heap_bytes: now - before, peak_bytes: peak - before, took }
}

impl Built {
    pub(crate) fn per_entry(&self) -> f64 {
        self.heap_bytes as f64 / f64::from(self.entries)
    }
}

fn row(name: &str, entries_expected: u32, built: &Built) {
    let Built { entries, peak_bytes, took, .. } = built;
    let peak = *peak_bytes as f64 / f64::from(*entries);
    let build_ns = took.as_nanos() as f64 / f64::from(*entries);
    let note = if *entries < entries_expected { "  stopped at the bound" } else { "" };
    let each = built.per_entry();
    println!("{name:16} {entries:>10} {each:>11.2} {peak:>14.2} {build_ns:>12.0}{note}");
}
