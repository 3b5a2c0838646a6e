//! One hot key: two readers scan it in a loop while a writer is offered 10,000 writes a second.
//!
//! A write adds or removes one record. It is timed alone, and from its due time: the second is the delay that a
//! stream of writes sees. Ours publishes after every write, as a ledger does that publishes each transaction. Readers
//! pin an epoch for the whole scan and resolve each id to its address.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use address::{AddressTable, Epoch};
use anyhow::Result;
use arc_swap::ArcSwap;
use hdrhistogram::Histogram;
use index::{Index, Postings};
use ledger::{Address, AddressId, Key, KeyKind};
use testkit::clock::now;

use super::baselines::{Agave, Baseline, Dash, Locked};
use super::keys::{Numbers, pubkey};
use crate::threshold;

const READERS: usize = 2;
const KEY: Key = Key { kind: KeyKind(0), id: AddressId(0) };

pub(crate) struct Size {
    entries: u32,
    writes_per_second: u32,
    duration: Duration,
}

pub(crate) const FULL: Size =
    Size { entries: 1_000_000, writes_per_second: 10_000, duration: Duration::from_secs(5) };
pub(crate) const TOY: Size =
    Size { entries: 5_000, writes_per_second: 10_000, duration: Duration::from_millis(100) };

/// The scanned and written key: records with numbers below `entries` stay, those up to twice as many are added and
/// removed.
trait Candidate: Sync {
    /// Adds or removes a record.
    fn toggle(&mut self, record: u32, is_in: bool);
    /// A scan of all records with their addresses, to be run alongside writes.
    fn scanner(&self) -> Box<dyn Fn() -> usize + Send + Sync>;
}

type Baselines<'a> = &'a [(&'static str, fn() -> Box<dyn Baseline>)];

struct HotKeyResult {
    writes_per_second: f64,
    service: Histogram<u64>,
    from_due: Histogram<u64>,
    scans_per_second: f64,
}

pub(crate) fn run(size: &Size, only: Option<&str>) -> Result<()> {
    println!(
        "\nhot spot: {} entries, {} writes/s offered       writes/s  service p50/p99/max us  from due p99 us  scans/s",
        size.entries, size.writes_per_second
    );
    if only.is_none_or(|only| only == "ours") {
        let quiet = measured("ours, no reader", size, 0, || HydrantSet::new(size.entries))?;
        let busy = measured("ours", size, READERS, || HydrantSet::new(size.entries))?;
        let p99 = |outcome: &HotKeyResult| outcome.service.value_at_quantile(0.99) as f64 / 1e3;
        let offered = f64::from(size.writes_per_second);
        threshold::at_least("hot_spot_served", busy.writes_per_second / offered, "x", 0.99);
        threshold::at_most("hot_spot_write_p99_us", p99(&busy), "us", 20.0);
        threshold::at_most("hot_spot_write_p99_of_quiet", p99(&busy) / p99(&quiet), "x", 3.0);
    }
    let rivals: Baselines<'_> = &[
        ("rwlock-hashmap", || Box::new(Locked::default())),
        ("agave", || Box::new(Agave::default())),
        ("dashmap-32", || Box::new(Dash::new(32))),
    ];
    for (name, make) in rivals {
        if only.is_none_or(|only| only == *name) {
            measured(name, size, READERS, || BaselineSet::new(make(), size.entries))?;
        }
    }
    Ok(())
}

fn measured<C: Candidate>(
    name: &str,
    size: &Size,
    readers: usize,
    make: impl FnOnce() -> C,
) -> Result<HotKeyResult> {
    let mut candidate = make();
    let is_over = AtomicBool::new(false);
    let scans = AtomicUsize::new(0);
    let scanners: Vec<_> = (0..readers).map(|_| candidate.scanner()).collect();
    let mut outcome = None;
    std::thread::scope(|threads| {
        for scan in &scanners {
            let is_over = &is_over;
            let scans = &scans;
            threads.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::black_box(scan());
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        outcome = Some(write(&mut candidate, size));
        is_over.store(true, Ordering::Relaxed);
    });
    let mut outcome = outcome.unwrap_or_else(|| unreachable!("the scope ran"))?;
    outcome.scans_per_second = scans.load(Ordering::Relaxed) as f64 / size.duration.as_secs_f64();
    let us = |histogram: &Histogram<u64>, q| histogram.value_at_quantile(q) as f64 / 1e3;
    println!(
        "{name:48} {:>10.0} {:>9.2} /{:>9.2} /{:>9.1} {:>14.1} {:>8.0}",
        outcome.writes_per_second,
        us(&outcome.service, 0.5),
        us(&outcome.service, 0.99),
        outcome.service.max() as f64 / 1e3,
        us(&outcome.from_due, 0.99),
        outcome.scans_per_second,
    );
    Ok(outcome)
}

/// Offers writes at their rate. A late one is done at once, and timed from its due time.
fn write(candidate: &mut impl Candidate, size: &Size) -> Result<HotKeyResult> {
    let mut numbers = Numbers(99);
    let mut is_in: Vec<bool> = (0..2 * size.entries).map(|record| record < size.entries).collect();
    let mut service = Histogram::new(3)?;
    let mut from_due = Histogram::new(3)?;
    let interval = Duration::from_secs(1) / size.writes_per_second;
    let start = now();
    let mut due = start;
    let mut done = 0_u32;
    while due < start + size.duration && now() < start + size.duration {
        wait_until(due);
        let record = numbers.below(2 * size.entries);
        let goes_in = !is_in[record as usize];
        is_in[record as usize] = goes_in;
        let began = now();
        candidate.toggle(record, goes_in);
        let ended = now();
        service.record((ended - began).as_nanos() as u64)?;
        from_due.record((ended - due).as_nanos() as u64)?;
        due += interval;
        done += 1;
    }
    let writes_per_second = f64::from(done) / size.duration.as_secs_f64();
    Ok(HotKeyResult { writes_per_second, service, from_due, scans_per_second: 0.0 })
}

#[expect(clippy::disallowed_methods, reason = "writes come at their time")]
fn wait_until(due: Instant) {
    while let Some(left) = due.checked_duration_since(now()) {
        if left > Duration::from_micros(80) {
            std::thread::sleep(left - Duration::from_micros(60));
        }
        std::hint::spin_loop();
        if left.is_zero() {
            return;
        }
    }
}

/// The address table, the index, and the epoch that readers pin.
struct HydrantSet {
    table: Arc<AddressTable>,
    ids: Vec<AddressId>,
    index: Index,
    published: Arc<ArcSwap<Epoch>>,
}

impl HydrantSet {
    fn new(entries: u32) -> Self {
        let table = Arc::new(AddressTable::new(2 * entries, 42));
        let mut index = Index::new(2 * entries, 42);
        let address = |n| Address::from(pubkey(n).to_bytes());
        let ids: Vec<AddressId> =
            (0..2 * entries).filter_map(|n| table.retain(&address(n)).ok()).collect();
        for id in &ids[..entries as usize] {
            index.insert(KEY, *id);
        }
        let published = Arc::new(ArcSwap::from_pointee(table.epoch()));
        Self { table, ids, index, published }
    }
}

impl Candidate for HydrantSet {
    fn toggle(&mut self, record: u32, is_in: bool) {
        let id = self.ids[record as usize];
        if is_in {
            self.index.insert(KEY, id);
        } else {
            self.index.remove(KEY, id, self.table.newest_epoch());
        }
        self.published.store(Arc::new(self.table.epoch()));
        self.index.reclaim_some(self.table.oldest_pinned_epoch());
    }

    fn scanner(&self) -> Box<dyn Fn() -> usize + Send + Sync> {
        let table = Arc::clone(&self.table);
        let published = Arc::clone(&self.published);
        let postings: Arc<Postings> = Arc::clone(self.index.postings());
        Box::new(move || {
            let _epoch = published.load_full();
            let resolved = postings.records(KEY).map(|id| table.address(id));
            resolved.map(|address| usize::from(std::hint::black_box(address).is_some())).sum()
        })
    }
}

struct BaselineSet {
    baseline: Arc<Box<dyn Baseline>>,
}

impl BaselineSet {
    fn new(mut rival: Box<dyn Baseline>, entries: u32) -> Self {
        (0..entries).for_each(|n| rival.put(pubkey(u32::MAX), pubkey(n)));
        Self { baseline: Arc::new(rival) }
    }
}

impl Candidate for BaselineSet {
    fn toggle(&mut self, record: u32, is_in: bool) {
        let key = pubkey(u32::MAX);
        let record = pubkey(record);
        if is_in { self.baseline.insert(&key, record) } else { self.baseline.remove(&key, &record) }
    }

    fn scanner(&self) -> Box<dyn Fn() -> usize + Send + Sync> {
        let rival = Arc::clone(&self.baseline);
        Box::new(move || rival.scan(&pubkey(u32::MAX)))
    }
}
