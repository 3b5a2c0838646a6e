//! Snapshots of random ledgers: written and read back, listed, and over a store that fails.
//!
//! Not here: damaged objects (`damage`), the removal of old snapshots (`removal`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chain_solana::wire::{BlockName, RecordDigest};
use chain_solana::{BankHashComponents, Block, BlockInfo, BlockhashQueue, View};
use depot::faults::{Faults, FaultyStore};
use depot::{Depot, DepotConfig, Put};
use fastrand::Rng;
use ledger::{Address, BlockId, Commitment, Slot};
use query::LedgerConfig;
use snapshot_ledger::BulkLoader;
use snapshot_solana::stored_rows::{BankRow, ChainRow, LatticeRow};
use solana::{Account, EpochStakes, VerificationLevel};
use solana_account::AccountSharedData;
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;

use crate::{
    Manifest, ManifestFields, SnapshotFacts, SnapshotLoadError, SnapshotWriteError, WriteLimits,
    load_manifest, load_snapshot_parts, newest_snapshots, write_snapshot,
};

mod damage;
mod removal;

const CLUSTER: &str = "test";

/// When the snapshots of the tests were made.
const MADE_AT_MS: u64 = 1_700_000_000_000;

/// Small parts and groups, so that few accounts make many.
const LIMITS: WriteLimits =
    WriteLimits { part_bytes: 20_000, ids_max: 100, bytes_per_second: u64::MAX };

/// A ledger with random accounts, and the facts of its block.
struct Source {
    view: View,
    accounts: BTreeMap<Pubkey, Account>,
    facts: SnapshotFacts,
}

fn config() -> LedgerConfig {
    LedgerConfig::new(100_000)
}

fn depot_config() -> DepotConfig {
    DepotConfig {
        retries_max: 40,
        backoff: Duration::ZERO,
        backoff_max: Duration::ZERO,
        ..DepotConfig::default()
    }
}

fn memory() -> Depot {
    Depot::open("memory:", &depot_config()).expect("a store in memory")
}

fn hash(random: &mut Rng) -> Hash {
    Hash::new_from_array(std::array::from_fn(|_| random.u8(..)))
}

fn random_account(random: &mut Rng) -> Account {
    let bytes = if random.u8(..10) == 0 { random.usize(..5_000) } else { random.usize(..200) };
    Account(AccountSharedData::from(solana_account::Account {
        lamports: random.u64(1..1 << 40),
        data: (0..bytes).map(|_| random.u8(..)).collect(),
        owner: Pubkey::new_from_array([random.u8(..4); 32]),
        executable: random.bool(),
        rent_epoch: random.u64(..),
    }))
}

fn block(slot: Slot, random: &mut Rng) -> Block {
    let blockhash = hash(random);
    Block {
        id: BlockId { slot, version: 7 },
        parent: BlockId { slot: slot - 1, version: 5 },
        block_height: random.u64(..1_000),
        blockhash,
        previous_blockhash: hash(random),
        bank_hash: hash(random),
        hash_components: BankHashComponents {
            parent_hash: hash(random),
            signature_count: random.u64(..1_000),
            last_blockhash: blockhash,
            lt_checksum: hash(random),
        },
        block_time: random.i64(..),
        transaction_count: random.u64(..),
        transactions: Vec::new(),
        rewards: Vec::new(),
        reward_partitions: None,
        entries: Vec::new(),
        writes: Vec::new(),
    }
}

fn source(seed: u64, slot: Slot, accounts: usize) -> Source {
    let mut random = Rng::with_seed(seed);
    let block = block(slot, &mut random);
    let mut blockhashes: Vec<Hash> = (0..random.usize(..300)).map(|_| hash(&mut random)).collect();
    blockhashes.push(block.blockhash);
    let mut info = BlockInfo {
        block: block.id,
        parent: block.parent,
        block_height: block.block_height,
        blockhashes: Arc::new(BlockhashQueue::new(block.blockhash)),
        transaction_count: block.transaction_count,
        unix_timestamp: 12,
        capitalization: 0,
        bank_hash: block.bank_hash,
        hash_components: block.hash_components,
        complete: true,
    };
    let mut loader = BulkLoader::new(config(), info.clone());
    let mut written = BTreeMap::new();
    for _ in 0..accounts {
        let mut bytes: [u8; 32] = std::array::from_fn(|_| random.u8(..));
        if random.bool() {
            // Many addresses start alike.
            bytes[..9].fill(200);
        }
        let pubkey = Pubkey::new_from_array(bytes);
        let account = random_account(&mut random);
        loader.add(pubkey, account.clone()).expect("there is room");
        written.insert(pubkey, account);
    }
    let lamports = u64::try_from(loader.lamports()).expect("a sum");
    info.capitalization = lamports;
    let lt_hash = loader.lt_hash().clone();
    let (_, reader) = loader.finish(info).expect("there is room");
    let fields = ManifestFields {
        chain: ChainRow {
            genesis_hash: hash(&mut random),
            genesis_unix_timestamp: 1,
            epoch_schedule: EpochSchedule::default(),
            ns_per_slot: 400_000_000,
            lamports_per_signature: 5_000,
            inflation: Inflation::new_disabled(),
        },
        bank: BankRow {
            blockhashes,
            lattice: Some(LatticeRow { lt_hash, hard_forks: Vec::new() }),
            jump: None,
        },
        epochs: vec![EpochStakes { epoch: 3, voters: Vec::new() }],
        block,
        unix_timestamp: 12,
        capitalization: lamports,
        level: Some(VerificationLevel::Voted),
    };
    let facts = SnapshotFacts {
        cluster: CLUSTER.to_owned(),
        generation: 1,
        position: slot * 10,
        block: BlockName { slot, number: slot + 1 },
        block_digest: RecordDigest([9; 32]),
        fields,
        made_at_ms: MADE_AT_MS,
    };
    Source { view: reader.view(Commitment::Finalized), accounts: written, facts }
}

async fn write(depot: &Depot, source: &Source) -> Result<Manifest, SnapshotWriteError> {
    write_snapshot(depot, &source.view, source.facts.clone(), LIMITS).await
}

async fn load(depot: &Depot, key: &str) -> Result<BTreeMap<Pubkey, Account>, SnapshotLoadError> {
    let manifest = load_manifest(depot, key, None).await?;
    let info = manifest.fields.block_info().expect("it has blockhashes");
    let loader = load_snapshot_parts(depot, &manifest, config(), 3).await?;
    assert_eq!(loader.lt_hash(), &manifest.lt_hash);
    assert_eq!(loader.lamports(), u128::from(manifest.lamports));
    let (_, reader) = loader.finish(info)?;
    let view = reader.view(Commitment::Finalized);
    let address = |address: Address| address.to_array().map(Pubkey::new_from_array);
    let all =
        view.all().map(|(key, account)| (address(key).expect("32 bytes"), (*account).clone()));
    Ok(all.collect())
}

async fn put(depot: &Depot, key: &str, body: Bytes) {
    depot.delete(key).await.expect("a store in memory");
    assert_eq!(depot.put_new(key, body).await.expect("a store in memory"), Put::Created);
}

async fn list_slots(depot: &Depot) -> Vec<Slot> {
    let keys = newest_snapshots(depot, CLUSTER).await.expect("a store in memory");
    keys.iter().map(|key| key.slot).collect()
}

/// Writes a snapshot with another position in the log.
async fn write_at(depot: &Depot, slot: Slot, change: impl FnOnce(&mut SnapshotFacts)) {
    let mut source = source(slot, slot, 30);
    change(&mut source.facts);
    write(depot, &source).await.expect("it is written");
}

#[tokio::test]
async fn a_snapshot_is_read_as_it_was_written() {
    for seed in 0..20 {
        let depot = memory();
        let accounts = if seed == 0 { 0 } else { Rng::with_seed(seed).usize(..1_500) };
        let source = source(seed, 5, accounts);
        let manifest = write(&depot, &source).await.expect("it is written");
        assert_eq!(manifest.accounts, source.accounts.len() as u64, "seed {seed}");
        assert!(accounts < 500 || manifest.parts.len() > 3, "seed {seed}");
        let bytes = manifest.to_bytes();
        let again = Manifest::from_bytes(&bytes).expect("it is intact");
        assert_eq!(again.to_bytes(), bytes, "seed {seed}");
        assert_eq!(again.fields.block.parent, BlockId { slot: 4, version: 5 });
        load_manifest(&depot, &manifest.key(), Some(manifest.digest()))
            .await
            .expect("it is the named one");
        let other = load_manifest(&depot, &manifest.key(), Some([0; 32])).await;
        assert!(other.is_err_and(|err| err.to_string().contains("another digest")));
        let found = load(&depot, &manifest.key()).await.expect("it is intact");
        assert!(found == source.accounts, "seed {seed}");
    }
}

#[tokio::test]
async fn two_writers_of_a_block_make_one_snapshot_in_a_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("file://{}", dir.path().display());
    let depot = Depot::open(&url, &depot_config()).expect("a directory");
    let source = source(1, 5, 300);
    let other_facts = SnapshotFacts { made_at_ms: 5, ..source.facts.clone() };
    let other_limits = WriteLimits { part_bytes: 9_000, ..LIMITS };
    let (first, second) = tokio::join!(
        write(&depot, &source),
        write_snapshot(&depot, &source.view, other_facts, other_limits),
    );
    let first = first.expect("it is written");
    let second = second.expect("it is written");
    assert_eq!(first.to_bytes(), second.to_bytes(), "both have the one that was first");
    let found = load(&depot, &first.key()).await.expect("it is intact");
    assert!(found == source.accounts);
}

#[tokio::test]
async fn a_block_has_a_snapshot_in_each_generation_of_the_log() {
    let depot = memory();
    let source = source(1, 5, 100);
    let first = write(&depot, &source).await.expect("it is written");
    let opening = SnapshotFacts { generation: 2, position: 0, ..source.facts.clone() };
    let second = write_snapshot(&depot, &source.view, opening, LIMITS).await;
    let second = second.expect("it is written");
    let keys = newest_snapshots(&depot, CLUSTER).await.expect("a store in memory");
    let keys: Vec<String> = keys.into_iter().map(|key| key.key).collect();
    assert_eq!(keys, [second.key(), first.key()]);
    let manifest = load_manifest(&depot, &second.key(), None).await.expect("it is intact");
    assert_eq!([manifest.generation, manifest.position], [2, 0]);
}

#[tokio::test]
async fn a_snapshot_of_another_bank_is_not_written() {
    let depot = memory();
    let source = source(1, 5, 50);
    let mut wrong = source.facts.clone();
    wrong.fields.capitalization += 1;
    let mut sum = source.facts.clone();
    if let Some(row) = &mut sum.fields.bank.lattice {
        row.lt_hash = lattice::LtHash::EMPTY;
    }
    let mut slot = source.facts.clone();
    slot.block.slot = 6;
    for (facts, what) in [(wrong, "lamports"), (sum, "sum over all"), (slot, "slot")] {
        let err = write_snapshot(&depot, &source.view, facts, LIMITS).await.expect_err(what);
        assert!(err.to_string().contains(what), "{err}");
        assert_eq!(newest_snapshots(&depot, CLUSTER).await, Ok(Vec::new()));
    }
}

#[tokio::test]
async fn snapshots_among_many_other_objects_are_listed_by_pages() {
    let store = FaultyStore::new(0, Faults::default());
    let depot = Depot::with_store(Arc::clone(&store) as _, "p", &depot_config());
    for slot in [5, 6] {
        write_at(&depot, slot, |_| {}).await;
    }
    let keys = newest_snapshots(&depot, CLUSTER).await.expect("a store in memory");
    for number in 0..3_000 {
        // Before, within and after the snapshots.
        let dir = keys[number % 2].dir();
        for key in [format!("snap/{CLUSTER}/0/{number}"), format!("{dir}/part-{number:09}")] {
            depot.put_new(&key, Bytes::new()).await.expect("a store in memory");
        }
        let after = format!("snap/{CLUSTER}/9/{number}/manifest");
        depot.put_new(&after, Bytes::new()).await.expect("a store in memory");
    }
    let lists = store.lists();
    assert_eq!(list_slots(&depot).await, [6, 5]);
    let lists = store.lists() - lists;
    assert!(lists <= 10, "{lists} requests for 9,000 objects");
}

#[tokio::test]
async fn a_store_with_faults_changes_nothing() {
    for seed in 0..30 {
        let mut random = Rng::with_seed(seed);
        let faults = Faults {
            unavailable: random.f64() * 0.3,
            lost_answer: random.f64() * 0.3,
            conflict: random.f64() * 0.3,
            cut_body: random.f64() * 0.5,
            ..Faults::default()
        };
        let depot = Depot::with_store(FaultyStore::new(seed, faults), "p", &depot_config());
        let source = source(seed, 5, 200);
        let manifest = write(&depot, &source).await.expect("it is written");
        let found = load(&depot, &manifest.key()).await.expect("it is intact");
        assert!(found == source.accounts, "seed {seed}");
    }
}
