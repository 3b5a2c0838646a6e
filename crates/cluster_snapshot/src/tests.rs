//! Snapshots of random ledgers: read back, damaged in every object, over a store that fails, and removed.

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
    Manifest, ManifestError, ManifestFields, RemovalRules, SnapshotFacts, SnapshotLoadError,
    SnapshotWriteError, WriteLimits, load_manifest, load_snapshot_parts, newest_snapshots,
    remove_old_snapshots, write_snapshot,
};

const CLUSTER: &str = "test";

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
async fn every_damage_is_named_and_the_snapshot_before_stays_loadable() {
    let depot = memory();
    let before = source(1, 4, 200);
    write(&depot, &before).await.expect("it is written");
    let source = source(2, 5, 400);
    let manifest = write(&depot, &source).await.expect("it is written");
    let manifest_key = manifest.key();
    for seed in 0..400 {
        let mut random = Rng::with_seed(seed);
        let is_manifest = random.u8(..4) == 0;
        let part = random.usize(..manifest.parts.len());
        let key = if is_manifest { &manifest_key } else { &manifest.parts[part].key };
        let intact = depot.get(key, 1 << 30).await.expect("it exists");
        let mut body = intact.to_vec();
        match random.u8(..5) {
            0 => body.truncate(random.usize(..body.len())),
            1 => body.push(0),
            2 => {
                let other = &manifest.parts[(part + 1) % manifest.parts.len()].key;
                body = depot.get(other, 1 << 30).await.expect("it exists").to_vec();
            }
            _ => {
                let at = random.usize(..body.len());
                body[at] ^= 1 << random.u8(..8);
            }
        }
        put(&depot, key, body.into()).await;
        match load(&depot, &manifest_key).await {
            Err(err) => {
                let err = err.to_string();
                assert!(err.contains(key.as_str()), "seed {seed}, {key}: {err}");
            }
            // A decoder of zstd ignores some bits of a frame.
            Ok(found) => assert!(!is_manifest && found == source.accounts, "seed {seed}, {key}"),
        }
        depot.delete(key).await.expect("a store in memory");
        let err = load(&depot, &manifest_key).await.expect_err("it is missing").to_string();
        assert!(err.contains(key.as_str()), "seed {seed}, {key}: {err}");
        let keys = newest_snapshots(&depot, CLUSTER).await.expect("a store in memory");
        assert_eq!(keys.len(), if is_manifest { 1 } else { 2 });
        put(&depot, key, intact).await;
    }
    let keys = newest_snapshots(&depot, CLUSTER).await.expect("a store in memory");
    let found = load(&depot, &keys[1].key).await.expect("it is intact");
    assert!(found == before.accounts);
}

#[tokio::test]
async fn a_manifest_of_another_version_cluster_or_block_is_named() {
    let depot = memory();
    let source = source(2, 5, 40);
    let manifest = write(&depot, &source).await.expect("it is written");
    let seal = |mut bytes: Vec<u8>| {
        bytes.truncate(bytes.len() - 32);
        let digest = blake3::hash(&bytes);
        bytes.extend(digest.as_bytes());
        bytes
    };
    let mut newer = manifest.to_bytes();
    newer[4] += 1;
    let err = Manifest::from_bytes(&seal(newer)).expect_err("it is newer");
    assert!(err.to_string().contains("upgrade readers"), "{err}");
    let mut long = manifest.clone();
    long.parts[0].unpacked_bytes = (1 << 30) + 1;
    let err = Manifest::from_bytes(&long.to_bytes()).expect_err("a part is too long");
    assert!(matches!(err, ManifestError::Contradiction("unpacked length of a part")), "{err}");
    let other_cluster = manifest.key().replace("/test/", "/other/");
    put(&depot, &other_cluster, manifest.to_bytes().into()).await;
    let err = load_manifest(&depot, &other_cluster, None).await.expect_err("another cluster");
    assert!(err.to_string().contains("another cluster"), "{err}");
    let other_block = manifest.key().replace("/00000000000000000005-", "/00000000000000000006-");
    put(&depot, &other_block, manifest.to_bytes().into()).await;
    let err = load_manifest(&depot, &other_block, None).await.expect_err("another block");
    assert!(err.to_string().contains("another block"), "{err}");
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

/// When the snapshots of the tests were made.
const MADE_AT_MS: u64 = 1_700_000_000_000;

/// Rules of generation 1, to which the age of the snapshots does not matter.
fn rules(keep: usize, needed: Option<u64>) -> RemovalRules {
    let younger_than = Duration::from_secs(60);
    RemovalRules { keep, newest_generation: 1, needed, younger_than, now_ms: MADE_AT_MS + 60_000 }
}

async fn list_slots(depot: &Depot) -> Vec<Slot> {
    let keys = newest_snapshots(depot, CLUSTER).await.expect("a store in memory");
    keys.iter().map(|key| key.slot).collect()
}

/// Writes a snapshot with another place in the log.
async fn write_at(depot: &Depot, slot: Slot, change: impl FnOnce(&mut SnapshotFacts)) {
    let mut source = source(slot, slot, 30);
    change(&mut source.facts);
    write(depot, &source).await.expect("it is written");
}

/// Creates a part of a snapshot without a manifest.
async fn put_part(depot: &Depot, slot: Slot, generation: u64) -> String {
    let key = format!("snap/{CLUSTER}/{slot:020}-{generation:010}-{}/part-x", Hash::default());
    depot.put_new(&key, Bytes::new()).await.expect("a store in memory");
    key
}

#[tokio::test]
async fn old_snapshots_are_removed_and_needed_ones_stay() {
    let depot = memory();
    for slot in 1..=8 {
        write(&depot, &source(slot, slot, 30)).await.expect("it is written");
    }
    assert_eq!(list_slots(&depot).await, [8, 7, 6, 5, 4, 3, 2, 1]);
    // The log starts after the block of slot 3, whose position is 30.
    let remove =
        async |keep, needed| remove_old_snapshots(&depot, CLUSTER, &rules(keep, needed)).await;
    let removed = remove(3, Some(35)).await.expect("a store in memory");
    assert!(removed >= 8, "two objects of each of four snapshots: {removed}");
    assert_eq!(list_slots(&depot).await, [8, 7, 6, 3]);
    // Parts without a manifest, older and newer than the snapshots that stay.
    for slot in [2, 9] {
        put_part(&depot, slot, 1).await;
    }
    assert_eq!(remove(3, Some(35)).await, Ok(1));
    // A damaged one does not count, and is left while it is new.
    let newest = newest_snapshots(&depot, CLUSTER).await.expect("a store in memory").remove(0);
    put(&depot, &newest.key, Bytes::from_static(b"HYSM")).await;
    remove(2, None).await.expect("a store in memory");
    assert_eq!(list_slots(&depot).await, [8, 7, 6]);
    remove(1, None).await.expect("a store in memory");
    assert_eq!(list_slots(&depot).await, [8, 7]);
    assert_eq!(remove(1, None).await, Ok(0));
}

#[tokio::test]
async fn a_snapshot_that_opens_a_generation_is_not_crowded_out() {
    let depot = memory();
    for slot in [110, 120, 130, 140] {
        write_at(&depot, slot, |_| {}).await;
    }
    let opening = put_part(&depot, 100, 2).await;
    // While the generation is not created, and afterwards.
    for newest_generation in [1, 2] {
        let rules = RemovalRules { newest_generation, ..rules(3, Some(1)) };
        remove_old_snapshots(&depot, CLUSTER, &rules).await.expect("a store in memory");
        assert!(depot.get(&opening, 0).await.is_ok(), "its writer is not ready");
    }
    assert_eq!(list_slots(&depot).await, [140, 130, 120]);
    depot.delete(&opening).await.expect("a store in memory");
    let open_generation = |facts: &mut SnapshotFacts| {
        facts.generation = 2;
        facts.position = 0;
    };
    write_at(&depot, 100, open_generation).await;
    let remove = async |keep, needed| {
        let rules = RemovalRules { newest_generation: 2, ..rules(keep, Some(needed)) };
        remove_old_snapshots(&depot, CLUSTER, &rules).await.expect("a store in memory")
    };
    assert_eq!(remove(3, 1).await, 0);
    // Another opener was late. The first message of the log names one of both.
    write_at(&depot, 105, open_generation).await;
    for slot in [111, 112] {
        write_at(&depot, slot, |facts| facts.generation = 2).await;
    }
    assert!(remove(2, 1).await > 0);
    assert_eq!(list_slots(&depot).await, [112, 111, 105, 100]);
    // The log was truncated.
    assert!(remove(2, 1_111).await > 0);
    assert_eq!(list_slots(&depot).await, [112, 111]);
}

#[tokio::test]
async fn a_young_snapshot_stays_for_those_who_load_it() {
    let depot = memory();
    for slot in 1..=5 {
        write_at(&depot, slot, |facts| facts.made_at_ms = MADE_AT_MS + slot * 1_000).await;
    }
    // One of the generation before.
    write_at(&depot, 6, |facts| facts.generation = 0).await;
    // A writer that is slower than those of slots 4 and 5.
    let part = put_part(&depot, 4, 1).await;
    let remove = async |now_ms| {
        let rules = RemovalRules { now_ms, ..rules(1, None) };
        remove_old_snapshots(&depot, CLUSTER, &rules).await.expect("a store in memory")
    };
    assert_eq!(remove(MADE_AT_MS + 59_000).await, 0);
    assert!(remove(MADE_AT_MS + 62_000).await > 0);
    assert_eq!(list_slots(&depot).await, [5, 4, 3]);
    assert!(depot.get(&part, 0).await.is_ok(), "an older one is kept");
    assert!(remove(MADE_AT_MS + 65_000).await > 0);
    assert_eq!(list_slots(&depot).await, [5]);
    assert!(depot.get(&part, 0).await.is_err());
}
