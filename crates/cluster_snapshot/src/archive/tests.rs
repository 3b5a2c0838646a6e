//! An archive of random chains: read back, written by two, and damaged.

mod holes;

use bytes::Bytes;
use chain_solana::{BankHashComponents, Block};
use depot::faults::{Faults, FaultyStore};
use depot::{Depot, DepotConfig, Put};
use fastrand::Rng;
use ledger::{BlockId, Slot};
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;

use super::object::CoveredSlots;
use super::{
    ArchiveError, ArchiveFault, ArchiveLimits, ArchiveObject, ArchiveWriter, check_archive,
    list_archive, read_block, read_footer,
};

const CLUSTER: &str = "test";

/// Some twenty blocks an object.
const SMALL: ArchiveLimits = ArchiveLimits { object_slots: 50 };

fn config() -> DepotConfig {
    DepotConfig {
        retries_max: 40,
        backoff: std::time::Duration::ZERO,
        backoff_max: std::time::Duration::ZERO,
        ..DepotConfig::default()
    }
}

fn memory() -> Depot {
    Depot::open("memory:", &config()).expect("a store in memory")
}

fn schedule() -> EpochSchedule {
    EpochSchedule::custom(2_500, 2_500, false)
}

fn hash(random: &mut Rng) -> Hash {
    Hash::new_from_array(std::array::from_fn(|_| random.u8(..)))
}

/// A chain from `first` on with skipped slots, some of them thousands.
fn chain(seed: u64, first: Slot, blocks: usize) -> Vec<Block> {
    let mut random = Rng::with_seed(seed);
    let mut parent = first.saturating_sub(1);
    let mut slot = first;
    let mut chain: Vec<Block> = Vec::new();
    for height in 0..blocks as u64 {
        let blockhash = hash(&mut random);
        let before = chain.last().map(|before| (before.blockhash, before.bank_hash));
        let (previous_blockhash, parent_hash) =
            before.unwrap_or_else(|| (hash(&mut random), hash(&mut random)));
        chain.push(Block {
            id: BlockId { slot, version: random.u64(..) },
            parent: BlockId { slot: parent, version: random.u64(..) },
            block_height: height,
            blockhash,
            previous_blockhash,
            bank_hash: hash(&mut random),
            hash_components: BankHashComponents {
                parent_hash,
                last_blockhash: blockhash,
                ..Default::default()
            },
            block_time: random.i64(..),
            transaction_count: random.u64(..),
            transactions: Vec::new(),
            rewards: Vec::new(),
            reward_partitions: random.bool().then(|| random.u64(..)),
            entries: Vec::new(),
            writes: Vec::new(),
        });
        parent = slot;
        slot += match random.u8(..40) {
            0 => random.u64(1..3_000),
            n if n < 10 => u64::from(n) + 1,
            _ => 1,
        };
    }
    chain
}

/// Blocks without a skipped slot between them.
fn consecutive_blocks(slots: std::ops::Range<Slot>) -> Vec<Block> {
    let block = |slot: Slot| Block {
        parent: BlockId { slot: slot.saturating_sub(1), version: 0 },
        ..chain(slot, slot, 1).remove(0)
    };
    slots.map(block).collect()
}

async fn open(depot: &Depot, limits: ArchiveLimits) -> ArchiveWriter {
    let opened = ArchiveWriter::open(depot.clone(), CLUSTER, schedule(), limits).await;
    opened.expect("the archive is intact")
}

async fn push_all(writer: &mut ArchiveWriter, chain: &[Block]) {
    for block in chain {
        writer.push(block).await.expect("it follows");
    }
}

async fn objects(depot: &Depot) -> Vec<ArchiveObject> {
    list_archive(depot, CLUSTER).await.expect("a store in memory")
}

async fn put(depot: &Depot, key: &str, body: Bytes) {
    depot.delete(key).await.expect("a store in memory");
    assert_eq!(depot.put_new(key, body).await.expect("a store in memory"), Put::Created);
}

async fn faults(depot: &Depot) -> Vec<ArchiveFault> {
    check_archive(depot, CLUSTER, true).await.expect("a store in memory")
}

/// Checks that each slot of the archive is the block of the chain, or skipped.
async fn check_blocks(depot: &Depot, chain: &[Block]) {
    for object in objects(depot).await {
        let footer = read_footer(depot, &object).await.expect("it is intact");
        let blocks = chain.iter().filter(|block| object.slots().contains(&block.id.slot));
        let mut count = 0;
        for block in blocks {
            let found = read_block(depot, &object, &footer, block.id.slot).await;
            let found = found.expect("it is intact").expect("it is archived");
            assert_eq!(found.blockhash, block.blockhash);
            assert_eq!(found.parent.slot, block.parent.slot);
            assert_eq!(found.hash_components, block.hash_components);
            count += 1;
        }
        assert_eq!(footer.blocks.len(), count);
        let epoch = schedule().get_epoch(object.first);
        assert_eq!([object.epoch, schedule().get_epoch(object.last)], [epoch, epoch]);
    }
}

#[tokio::test]
async fn an_archive_has_the_chain_without_holes_through_restarts_and_faults() {
    for seed in 0..20 {
        let mut random = Rng::with_seed(seed);
        let faults_of_store = Faults {
            unavailable: random.f64() * 0.3,
            lost_answer: random.f64() * 0.3,
            conflict: random.f64() * 0.3,
            cut_body: random.f64() * 0.3,
            ..Faults::default()
        };
        let store = FaultyStore::new(seed, faults_of_store);
        let depot = Depot::with_store(store, "p", &config());
        let chain = chain(seed, 0, 120);
        let middle = random.usize(..chain.len());
        push_all(&mut open(&depot, SMALL).await, &chain[..middle]).await;
        // A new process gets the blocks from the last object on, or from an earlier one.
        let mut writer = open(&depot, SMALL).await;
        push_all(&mut writer, &chain).await;
        let found = objects(&depot).await;
        let gaps = CoveredSlots::new(found.iter().map(ArchiveObject::slots)).find_inner_gaps();
        assert!(found.len() > 3 && gaps.is_empty(), "seed {seed}");
        assert_eq!(found[0].first, 0);
        assert_eq!(writer.next_slot(), found.last().map(|object| object.last + 1));
        assert!(faults(&depot).await.is_empty(), "seed {seed}");
        check_blocks(&depot, &chain).await;
        assert_eq!(writer.disagreements(), 0);
    }
}

#[tokio::test]
async fn two_archivers_write_the_same_objects() {
    let depot = memory();
    let alone = memory();
    let chain = chain(7, 0, 200);
    push_all(&mut open(&alone, SMALL).await, &chain).await;
    let mut first = open(&depot, SMALL).await;
    let mut second = open(&depot, SMALL).await;
    for block in &chain {
        let (one, other) = tokio::join!(first.push(block), second.push(block));
        assert_eq!(one.expect("it follows"), other.expect("it follows"));
    }
    assert_eq!(objects(&depot).await, objects(&alone).await);
    assert_eq!(first.disagreements() + second.disagreements(), 0);
    // An archiver with other blocks does not change the objects.
    let mut other = chain.clone();
    other[1].block_time ^= 1;
    let empty = memory();
    let mut third = open(&empty, SMALL).await;
    let mut fourth = open(&empty, SMALL).await;
    push_all(&mut third, &chain).await;
    push_all(&mut fourth, &other).await;
    assert_eq!(objects(&empty).await, objects(&alone).await);
    assert_eq!(fourth.disagreements(), 1);
    assert!(faults(&empty).await.is_empty());
}

#[tokio::test]
async fn the_bytes_of_blocks_do_not_decide_the_objects() {
    let chain = chain(3, 0, 300);
    let mut longer = chain.clone();
    for block in &mut longer {
        block.reward_partitions = Some(1);
    }
    let mut shorter = chain;
    for block in &mut shorter {
        block.reward_partitions = None;
    }
    let depot = memory();
    let alone = memory();
    push_all(&mut open(&depot, SMALL).await, &longer).await;
    push_all(&mut open(&alone, SMALL).await, &shorter).await;
    let keys = |objects: Vec<ArchiveObject>| objects.into_iter().map(|it| it.key);
    assert!(keys(objects(&depot).await).eq(keys(objects(&alone).await)));
    // Two archivers with these sources share a store.
    let shared = memory();
    let mut first = open(&shared, SMALL).await;
    let mut second = open(&shared, SMALL).await;
    for (long, short) in longer.iter().zip(&shorter) {
        first.push(long).await.expect("it follows");
        second.push(short).await.expect("it follows");
    }
    assert_eq!(objects(&shared).await, objects(&depot).await);
    assert!(second.disagreements() > 0);
    assert!(faults(&shared).await.is_empty());
    assert!(faults(&depot).await.is_empty());
}

#[tokio::test]
async fn an_archive_begins_with_a_whole_range_and_refuses_a_gap() {
    let depot = memory();
    let mut writer = open(&depot, ArchiveLimits { object_slots: 1_000 }).await;
    let blocks = consecutive_blocks(1_990..4_100);
    push_all(&mut writer, &blocks).await;
    let found = objects(&depot).await;
    let ranges: Vec<_> = found.iter().map(ArchiveObject::slots).collect();
    assert_eq!(ranges, [2_000..=2_499, 2_500..=2_999, 3_000..=3_999], "an epoch has 2,500 slots");
    let footer = read_footer(&depot, &found[2]).await.expect("it is intact");
    assert_eq!(footer.blocks.len(), 1_000);
    let mut gap = chain(1, 4_102, 1).remove(0);
    gap.parent.slot = 4_101;
    let err = writer.push(&gap).await.expect_err("4,100 and 4,101 are missing");
    assert!(matches!(err, ArchiveError::Hole { slot: 4_102, parent: 4_101, last: 4_099 }), "{err}");
}

#[tokio::test]
async fn holes_and_damages_are_named() {
    let depot = memory();
    let chain = chain(9, 0, 200);
    push_all(&mut open(&depot, SMALL).await, &chain).await;
    let all = objects(&depot).await;
    for seed in 0..300 {
        let mut random = Rng::with_seed(seed);
        let at = random.usize(1..all.len() - 1);
        let object = &all[at];
        let intact = depot.get(&object.key, 1 << 20).await.expect("it exists");
        let mut body = intact.to_vec();
        match random.u8(..5) {
            0 => {
                depot.delete(&object.key).await.expect("a store in memory");
                let found = faults(&depot).await;
                let is_hole = |fault: &ArchiveFault| matches!(fault, ArchiveFault::Hole(slots) if *slots == object.slots());
                assert!(found.iter().any(is_hole), "seed {seed}: {found:?}");
                put(&depot, &object.key, intact).await;
                continue;
            }
            1 => body.truncate(random.usize(..body.len())),
            2 => body = depot.get(&all[at - 1].key, 1 << 20).await.expect("it exists").to_vec(),
            _ => {
                // Behind the magic, which no reader of ranges looks at.
                let at = random.usize(6..body.len());
                body[at] ^= 1 << random.u8(..8);
            }
        }
        put(&depot, &object.key, body.into()).await;
        let found = faults(&depot).await;
        if found.is_empty() {
            // A decoder of zstd ignores some bits of a frame.
            check_blocks(&depot, &chain).await;
        } else {
            let text = format!("{found:?}");
            assert!(text.contains(&object.key), "seed {seed}: {text}");
        }
        put(&depot, &object.key, intact).await;
    }
    assert!(faults(&depot).await.is_empty());
}

#[tokio::test]
async fn a_whole_range_is_written_without_a_block_after_it() {
    let depot = memory();
    let mut writer = open(&depot, SMALL).await;
    let blocks = consecutive_blocks(0..150);
    push_all(&mut writer, &blocks[..99]).await;
    assert_eq!(writer.write_whole_range().await.expect("a store in memory"), None);
    push_all(&mut writer, &blocks[99..100]).await;
    let written = writer.write_whole_range().await.expect("a store in memory");
    assert_eq!(written.map(|object| object.slots()), Some(50..=99));
    assert_eq!(writer.write_whole_range().await.expect("a store in memory"), None);
    push_all(&mut writer, &blocks[100..]).await;
    writer.write_whole_range().await.expect("a store in memory");
    let ranges: Vec<_> = objects(&depot).await.iter().map(ArchiveObject::slots).collect();
    assert_eq!(ranges, [0..=49, 50..=99, 100..=149]);
    assert!(faults(&depot).await.is_empty());
}

#[tokio::test]
async fn an_archive_continues_once_its_damaged_end_is_deleted() {
    let depot = memory();
    let chain = chain(11, 0, 200);
    push_all(&mut open(&depot, SMALL).await, &chain).await;
    let newest = objects(&depot).await.pop().expect("it has objects");
    put(&depot, &newest.key, Bytes::from_static(b"HYSA")).await;
    let opened = ArchiveWriter::open(depot.clone(), CLUSTER, schedule(), SMALL).await;
    let err = opened.err().expect("it is damaged").to_string();
    assert!(err.contains(&newest.key), "{err}");
    depot.delete(&newest.key).await.expect("a store in memory");
    push_all(&mut open(&depot, SMALL).await, &chain).await;
    assert_eq!(objects(&depot).await.last(), Some(&newest));
    assert!(faults(&depot).await.is_empty());
}
