//! Rows that compare like with like: a write with the registration of its address, reads that end with addresses, and
//! the read that an RPC node makes: from a key to the records of all its entries.
//!
//! Shape: CPU time of one thread, all candidates one after the other in each round, and the ratio of the medians. The
//! rivals look records up in a `HashMap` with the record next to its address, which is faster than any ledger that they
//! are used with. Their locks are taken, but no thread waits for them. Ours publishes and reclaims as in the grid.
//! Not here: the number of threads (the grid), memory (`index`).

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use address::AddressTable;
use anyhow::{Context, Result, ensure};
use arc_swap::ArcSwap;
use cpu_time::ThreadTime;
use index::Index;
use ledger::{Address, BlockId, Commitment, Key, KeyKind, Record};
use parking_lot::RwLock;
use query::{Ledger, LedgerConfig, Reader};
use solana::{Account, key_kind};
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use testkit::synthetic::{KnownOwner, Synthetic, SyntheticConfig};

use super::candidate::{OURS, WRITES_PER_PUBLISH_MAX};
use crate::index::baselines::{Baseline, Dash, DashOutside, Locked};
use crate::index::keys::{Numbers, Shuffled, pubkey};
use crate::median::median;
use crate::report::{Progress, Report, Rows};
use crate::threshold;

pub(super) struct Size {
    /// Accounts of the ledger that is read.
    accounts: u32,
    /// Accounts of the ledger that is written, from empty to full.
    writes: u32,
    rounds: usize,
    /// Entries that a candidate reads in a round, of each length.
    entries_per_round: usize,
}

pub(super) const FULL: Size =
    Size { accounts: 1_500_000, writes: 1_000_000, rounds: 5, entries_per_round: 1_000_000 };
pub(super) const TOY: Size =
    Size { accounts: 20_000, writes: 2_000, rounds: 1, entries_per_round: 10_000 };

/// A rival's name and constructor.
type NamedBaseline = (&'static str, fn() -> Box<dyn Baseline>);

const RIVALS: [NamedBaseline; 5] = [
    ("rwlock-hashmap", || Box::new(Locked::default())),
    ("dashmap-4", || Box::new(Dash::new(4))),
    ("dashmap-8", || Box::new(Dash::new(8))),
    ("dashmap-16", || Box::new(Dash::new(16))),
    ("dashmap-hashmap", || Box::new(DashOutside::default())),
];

/// The rows, in their order.
const WORKS: [(&str, &str); 5] = [
    ("write_one_key", "Write of a new account, all under one key"),
    ("write_four_a_key", "Write of a new account, four under a key"),
    (
        "write_four_a_key_unregistered",
        "The same, without the rivals' ledger: their accounts cannot be read",
    ),
    ("addresses", "Read of the addresses of a key"),
    ("records", "Read of the records of a key: address, lamports, 165 bytes"),
];

const COLUMNS: &[&str] = &["work", "entries", "candidate", "round", "cpu_ns_per_entry"];
const KEY_LEN: usize = 4;

/// Measures what has no row yet, if `is_selected`. Returns the tables, and prints the bars.
pub(super) fn run(size: &Size, report: &Report, is_selected: bool) -> Result<String> {
    let mut rounds = Rounds {
        rows: report.rows("like.csv", KEY_LEN, COLUMNS)?,
        size,
        progress: Progress::new("contention, like for like", Rounds::count(size) as f64),
    };
    if is_selected {
        writes(&mut rounds)?;
        addresses(&mut rounds)?;
        records(&mut rounds)?;
    }
    Ok(rounds.tables())
}

/// The rounds measured so far.
struct Rounds<'a> {
    rows: Rows,
    size: &'a Size,
    /// In rows.
    progress: Progress,
}

impl Rounds<'_> {
    /// Returns the number of rows of all works.
    fn count(size: &Size) -> usize {
        let lengths: usize = WORKS.iter().map(|(work, _)| lengths(work, size).len()).sum();
        lengths * (RIVALS.len() + 1) * size.rounds
    }

    /// Measures a candidate once, if it has no row. `run` returns the number of entries, and what is dropped after the
    /// measurement.
    fn measure<T>(
        &mut self,
        work: &str,
        entries: usize,
        candidate: &str,
        round: usize,
        run: impl FnOnce() -> Result<(usize, T)>,
    ) -> Result<()> {
        let key = key(work, entries, candidate, round);
        if self.rows.find(&key).is_some() {
            self.progress.skip(1.0);
            return Ok(());
        }
        let began = ThreadTime::now();
        let (count, kept) = run()?;
        let ns = began.elapsed().as_nanos() as f64 / count.max(1) as f64;
        drop(kept);
        self.rows.push(&key, &[format!("{ns:.2}")])?;
        self.progress.add(1.0);
        Ok(())
    }

    /// Returns the median of all rounds; `None` if one was not measured.
    fn median(&self, work: &str, entries: usize, candidate: &str) -> Option<f64> {
        let rounds = (0..self.size.rounds)
            .map(|round| self.rows.number(&key(work, entries, candidate, round), 0));
        rounds.collect::<Option<Vec<f64>>>().map(median)
    }

    fn tables(&self) -> String {
        let mut text = String::new();
        for (work, about) in WORKS {
            let lengths = lengths(work, self.size);
            let rows: String =
                lengths.iter().filter_map(|entries| self.row(work, *entries)).collect();
            if rows.is_empty() {
                continue;
            }
            let names = RIVALS.map(|(name, _)| name).join(" | ");
            // Writing to a string never fails.
            let _ = write!(
                text,
                "\n## {about}\n\nCPU nanoseconds for each entry.\n\n\
                 | entries | {names} | {OURS} | of the best rival |\n|---{}|---|---|\n{rows}",
                "|---".repeat(RIVALS.len())
            );
        }
        text
    }

    fn row(&self, work: &str, entries: usize) -> Option<String> {
        let ours = self.median(work, entries, OURS)?;
        let rivals: Option<Vec<f64>> =
            RIVALS.iter().map(|(name, _)| self.median(work, entries, name)).collect();
        let rivals = rivals?;
        let best = rivals.iter().copied().fold(f64::INFINITY, f64::min);
        match work {
            "records" => {
                threshold::at_least(&format!("like_records_{entries}"), best / ours, "x", 2.0);
            }
            "write_four_a_key_unregistered" => {}
            "addresses" => {
                threshold::at_most(&format!("like_addresses_{entries}"), ours / best, "x", 1.0)
            }
            _ => threshold::at_most(&format!("like_{work}"), ours / best, "x", 1.0),
        }
        let rivals = rivals.iter().map(|ns| format!("{ns:.1} | ")).collect::<String>();
        Some(format!("| {entries} | {rivals}{ours:.1} | {:.3} |\n", ours / best))
    }
}

/// Returns the numbers of entries of a work: those of a ledger that is written, or of the keys that are read.
fn lengths(work: &str, size: &Size) -> Vec<usize> {
    match work {
        "addresses" | "records" => key_lengths(size).to_vec(),
        _ => vec![size.writes as usize],
    }
}

/// Returns the lengths of the keys that are read; the last is about that of the largest mint.
fn key_lengths(size: &Size) -> [usize; 4] {
    let accounts = size.accounts as usize;
    [1, 100, 10_000.min(accounts / 4), accounts * 15 / 100]
}

fn key(work: &str, entries: usize, candidate: &str, round: usize) -> [String; KEY_LEN] {
    [work.to_owned(), entries.to_string(), candidate.to_owned(), round.to_string()]
}

fn address(pubkey: &Pubkey) -> Address {
    Address::from(pubkey.to_bytes())
}

/// Accounts that are registered and entered under their key, from none to all.
fn writes(rounds: &mut Rounds<'_>) -> Result<()> {
    let accounts = rounds.size.writes;
    let order = Shuffled { bits: 30 };
    for (work, per_key, is_registered) in [
        ("write_one_key", u32::MAX, true),
        ("write_four_a_key", 4, true),
        ("write_four_a_key_unregistered", 4, false),
    ] {
        // The accounts of a key come one after the other seldom.
        let key_of =
            |n: u32| pubkey((1 << 31) | (order.at(n) % (accounts / per_key.min(accounts))));
        for round in 0..rounds.size.rounds {
            for (name, make) in RIVALS {
                rounds.measure(work, accounts as usize, name, round, || {
                    let mut index = make();
                    let ledger: RwLock<HashMap<Pubkey, u32>> = RwLock::default();
                    for n in 0..accounts {
                        let account = pubkey(n);
                        if is_registered {
                            ledger.write().insert(account, n);
                        }
                        index.put(key_of(n), account);
                    }
                    Ok((accounts as usize, (index, ledger)))
                })?;
            }
            rounds.measure(work, accounts as usize, OURS, round, || {
                let table = AddressTable::new(2 * accounts, 42);
                let mut index = Index::new(2 * accounts, 42);
                let published = ArcSwap::from_pointee(table.epoch());
                for n in 0..accounts {
                    let account = table.retain(&address(&pubkey(n)))?;
                    let id = table.retain(&address(&key_of(n)))?;
                    index.insert(Key { kind: KeyKind(0), id }, account);
                    if n.is_multiple_of(WRITES_PER_PUBLISH_MAX) {
                        published.store(Arc::new(table.epoch()));
                        index.reclaim_some(table.oldest_pinned_epoch());
                    }
                }
                Ok((accounts as usize, (table, index, published)))
            })?;
        }
    }
    Ok(())
}

/// Reads of each short key in a round.
const READS_PER_KEY: usize = 10;

/// Keys with random accounts of a ledger.
fn addresses(rounds: &mut Rounds<'_>) -> Result<()> {
    let accounts = rounds.size.accounts;
    let table = AddressTable::new(2 * accounts, 42);
    let mut index = Index::new(2 * accounts, 42);
    for n in 0..accounts {
        table.retain(&address(&pubkey(n)))?;
    }
    let mut rivals = RIVALS.map(|(name, make)| (name, make()));
    let mut first_key = 1 << 31;
    let lengths = key_lengths(rounds.size).map(|len| {
        // Reads of short keys alternate between many keys, which the processor's cache does not hold.
        let count = rounds.size.entries_per_round / len / READS_PER_KEY;
        let keys = first_key..first_key + count.max(1) as u32;
        first_key = keys.end;
        (len, keys)
    });
    for (len, keys) in &lengths {
        for key_number in keys.clone() {
            let key = pubkey(key_number);
            let id = table.retain(&address(&key))?;
            let mut numbers = Numbers(u64::from(key_number));
            for _ in 0..*len {
                let n = numbers.below(accounts);
                let record = table.lookup(&address(&pubkey(n))).context("a registered address")?;
                index.insert(Key { kind: KeyKind(0), id }, record);
                rivals.iter_mut().for_each(|(_, rival)| rival.put(key, pubkey(n)));
            }
        }
    }
    let published = ArcSwap::from_pointee(table.epoch());
    for round in 0..rounds.size.rounds {
        for (len, keys) in lengths.clone() {
            let reads = (rounds.size.entries_per_round / len).max(1);
            let read_keys: Vec<Pubkey> = keys.map(pubkey).cycle().take(reads).collect();
            for (name, rival) in &rivals {
                let mut found: Vec<Pubkey> = Vec::new();
                rounds.measure("addresses", len, name, round, || {
                    let mut count = 0;
                    for key in &read_keys {
                        found.clear();
                        rival.copy(key, &mut found);
                        count += std::hint::black_box(&found).len();
                    }
                    Ok((count, ()))
                })?;
            }
            let mut found = Vec::new();
            rounds.measure("addresses", len, OURS, round, || {
                let mut count = 0;
                for key in &read_keys {
                    found.clear();
                    let _epoch = published.load();
                    let id = table.lookup(&address(key)).context("a registered key")?;
                    let mut records = index.postings().records(Key { kind: KeyKind(0), id });
                    while let Some(ids) = records.batch() {
                        table.copy_addresses(ids, &mut found);
                    }
                    count += std::hint::black_box(&found).len();
                }
                Ok((count, ()))
            })?;
        }
    }
    Ok(())
}

/// A record as the rivals' ledger has it, next to its address.
struct StoredAccount {
    lamports: u64,
    data: [u8; 165],
}

/// The copy of a record that a read ends with.
struct RecordBuffer {
    bytes: [u8; 32 + 8 + 165],
    lamports: u64,
    count: usize,
}

impl RecordBuffer {
    fn new() -> Self {
        Self { bytes: [0; 205], lamports: 0, count: 0 }
    }

    fn add(&mut self, address: &[u8], lamports: u64, data: &[u8]) {
        self.bytes[..32].copy_from_slice(address);
        self.bytes[32..40].copy_from_slice(&lamports.to_le_bytes());
        let len = data.len().min(165);
        self.bytes[40..40 + len].copy_from_slice(&data[..len]);
        std::hint::black_box(&self.bytes);
        self.lamports = self.lamports.wrapping_add(lamports);
        self.count += 1;
    }
}

/// Token accounts of a ledger, found by their owner or mint.
struct TokenLedger {
    /// The accounts of ours are in memory as long as it lives.
    _writer: Ledger<Account, ()>,
    reader: Reader<Account, ()>,
    rivals: [(&'static str, Box<dyn Baseline>); RIVALS.len()],
    ledger: RwLock<HashMap<Pubkey, StoredAccount>>,
}

const ROOT: BlockId = BlockId { slot: 1, version: 0 };

impl TokenLedger {
    fn new(synthetic: &Synthetic) -> Result<Self> {
        let config = LedgerConfig::new(synthetic.addresses_max());
        let (mut writer, reader) = Ledger::new(config, ROOT, Arc::new(()));
        let mut rivals = RIVALS.map(|(name, make)| (name, make()));
        let mut ledger = HashMap::new();
        let mut changes = synthetic.changes();
        loop {
            let chunk: Vec<_> = changes.by_ref().take(8_192).collect();
            if chunk.is_empty() {
                break;
            }
            for change in &chunk {
                let account = change.record.as_ref().context("an account")?;
                let pubkey = to_pubkey(&change.address)?;
                account.keys(&mut |kind, key| {
                    if let (key_kind::MINT | key_kind::OWNER, Ok(key)) = (kind, to_pubkey(&key)) {
                        rivals.iter_mut().for_each(|(_, rival)| rival.put(key, pubkey));
                    }
                });
                let mut data = [0; 165];
                let bytes = account.0.data();
                let len = bytes.len().min(data.len());
                data[..len].copy_from_slice(&bytes[..len]);
                ledger.insert(pubkey, StoredAccount { lamports: account.0.lamports(), data });
            }
            writer.apply(ROOT, chunk, Arc::new(()))?;
        }
        // Versions that the last publish but one may still see are released by the next.
        (0..3).for_each(|_| writer.publish());
        Ok(Self { _writer: writer, reader, rivals, ledger: RwLock::new(ledger) })
    }

    fn read_rival(
        &self,
        rival: &dyn Baseline,
        key: &Pubkey,
        found: &mut Vec<Pubkey>,
        buffer: &mut RecordBuffer,
    ) {
        found.clear();
        rival.copy(key, found);
        let ledger = self.ledger.read();
        for pubkey in found.iter() {
            if let Some(StoredAccount { lamports, data }) = ledger.get(pubkey) {
                buffer.add(pubkey.as_ref(), *lamports, data);
            }
        }
    }

    /// Fails unless all candidates read the same records of a key.
    fn check_key(&self, kind: KeyKind, key: &Pubkey) -> Result<()> {
        let mut ours = RecordBuffer::new();
        self.read_ours(kind, key, &mut ours);
        for (name, rival) in &self.rivals {
            let mut theirs = RecordBuffer::new();
            self.read_rival(&**rival, key, &mut Vec::new(), &mut theirs);
            let [expected, found] = [&ours, &theirs].map(|read| (read.count, read.lamports));
            ensure!(found == expected, "{name} reads {found:?} for {key}, ours {expected:?}");
        }
        Ok(())
    }

    fn read_ours(&self, kind: KeyKind, key: &Pubkey, buffer: &mut RecordBuffer) {
        let view = self.reader.view(Commitment::Finalized);
        for (address, account) in view.records_by_key(kind, &address(key)) {
            buffer.add(address.as_bytes(), account.0.lamports(), account.0.data());
        }
    }
}

fn to_pubkey(address: &Address) -> Result<Pubkey> {
    Ok(Pubkey::new_from_array(address.to_array().context("an address of 32 bytes")?))
}

fn records(rounds: &mut Rounds<'_>) -> Result<()> {
    let synthetic = Synthetic::new(SyntheticConfig::tokens(7, rounds.size.accounts));
    let ledger = TokenLedger::new(&synthetic)?;
    let lengths = key_lengths(rounds.size);
    let owners = |accounts: u64| {
        let known = KnownOwner::all().filter(|known| known.accounts() == accounts);
        let owners = known.map(|known| (key_kind::OWNER, synthetic.known_owner(known)));
        owners.collect::<Vec<_>>()
    };
    let mint = vec![(key_kind::MINT, synthetic.largest_mint())];
    let keys = [owners(1), owners(100), owners(10_000), mint];
    keys.iter().flatten().try_for_each(|(kind, key)| ledger.check_key(*kind, key))?;
    for round in 0..rounds.size.rounds {
        for (len, keys) in lengths.into_iter().zip(&keys) {
            let reads = (rounds.size.entries_per_round / len / keys.len()).max(1);
            for (name, rival) in &ledger.rivals {
                let mut buffer = RecordBuffer::new();
                let mut found = Vec::new();
                rounds.measure("records", len, name, round, || {
                    for (_, key) in (0..reads).flat_map(|_| keys) {
                        ledger.read_rival(&**rival, key, &mut found, &mut buffer);
                    }
                    Ok((buffer.count, ()))
                })?;
            }
            rounds.measure("records", len, OURS, round, || {
                let mut buffer = RecordBuffer::new();
                for (kind, key) in (0..reads).flat_map(|_| keys) {
                    ledger.read_ours(*kind, key, &mut buffer);
                }
                Ok((buffer.count, ()))
            })?;
        }
    }
    Ok(())
}
