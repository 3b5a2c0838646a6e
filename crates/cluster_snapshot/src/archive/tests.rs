//! An archive of random chains: read back, written by two, damaged, and with holes.

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
    ArchiveError, ArchiveFault, ArchiveHole, ArchiveLimits, ArchiveObject, ArchiveWriter,
    check_archive, list_archive, list_holes, list_open_slots, read_block, read_footer, read_hole,
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

/// Records the hole before a block that the writer refuses.
async fn record_hole(writer: &mut ArchiveWriter, next: &Block) -> ArchiveHole {
    let err = writer.push(next).await.expect_err("a block is missing");
    assert!(matches!(err, ArchiveError::Hole { .. }), "{err}");
    writer.record_hole(next).await.expect("a store in memory")
}

/// The slots of holes without objects.
async fn open_slots(depot: &Depot) -> Vec<std::ops::RangeInclusive<Slot>> {
    let mut open = Vec::new();
    for hole in list_holes(depot, CLUSTER).await.expect("a store in memory") {
        open.extend(list_open_slots(depot, &schedule(), &hole).await.expect("a store in memory"));
    }
    open
}

#[tokio::test]
async fn an_archive_continues_after_a_hole_which_another_archiver_fills() {
    for seed in 0..40 {
        let mut random = Rng::with_seed(seed);
        let depot = memory();
        let chain = chain(seed, 0, 300);
        let from = random.usize(1..150);
        let to = from + random.usize(1..60);
        let next = &chain[to];
        let mut writer = open(&depot, SMALL).await;
        push_all(&mut writer, &chain[..from]).await;
        let hole = record_hole(&mut writer, next).await;
        let missing = hole.missing_first..=hole.end.slot;
        let is_missing = |block: &Block| missing.contains(&block.id.slot);
        assert!(chain[from..to].iter().all(is_missing), "seed {seed}");
        assert!(!is_missing(&chain[from - 1]) && !is_missing(next), "seed {seed}");
        assert_eq!(hole.end.blockhash, chain[to - 1].blockhash);
        push_all(&mut writer, &chain[to..]).await;
        // A new process continues after the hole, or after the objects behind it.
        let mut restarted = open(&depot, SMALL).await;
        assert!(restarted.next_slot() > Some(hole.last), "seed {seed}");
        push_all(&mut restarted, &chain[to..]).await;
        assert_eq!(open_slots(&depot).await, [hole.key().slots()], "seed {seed}");
        let found = faults(&depot).await;
        let [ArchiveFault::Open { hole: named, slots }] = &found[..] else {
            panic!("seed {seed}: {found:?}");
        };
        assert_eq!((named, slots.clone()), (&hole, hole.key().slots()));

        // It has objects of a part of the hole, and then of all of it.
        for end in [to - 1, chain.len()] {
            let Some(slots) = open_slots(&depot).await.pop() else { break };
            let first = *slots.start();
            let limits = SMALL;
            let opened =
                ArchiveWriter::open_hole(depot.clone(), &hole, first, schedule(), limits).await;
            let mut filler = opened.expect("the archive is intact");
            for block in chain[..end].iter().filter(|block| block.id.slot >= first) {
                filler.push(block).await.expect("it follows");
                if block.id.slot > hole.last {
                    break;
                }
            }
            assert_eq!(filler.disagreements(), 0, "seed {seed}");
        }
        assert!(open_slots(&depot).await.is_empty(), "seed {seed}");
        let found = faults(&depot).await;
        assert!(found.is_empty(), "seed {seed}: {found:?}");
        check_blocks(&depot, &chain).await;
    }
}

/// Opens a hole at a range whose blocks are known.
async fn open_hole(depot: &Depot, hole: &ArchiveHole, first: Slot) -> ArchiveWriter {
    let opened = ArchiveWriter::open_hole(depot.clone(), hole, first, schedule(), SMALL).await;
    opened.expect("the archive is intact")
}

/// Pushes blocks up to the first one after a slot.
async fn push_up_to(writer: &mut ArchiveWriter, blocks: &[Block], last: Slot) {
    for block in blocks {
        writer.push(block).await.expect("it follows");
        if block.id.slot > last {
            return;
        }
    }
}

#[tokio::test]
async fn ranges_in_a_hole_are_archived_although_its_start_is_missing() {
    let mut filled = 0;
    for seed in 0..40 {
        let mut random = Rng::with_seed(seed);
        let depot = memory();
        let chain = chain(seed, 0, 300);
        let from = random.usize(1..50);
        let to = from + random.usize(100..200);
        let mut writer = open(&depot, SMALL).await;
        push_all(&mut writer, &chain[..from]).await;
        let hole = record_hole(&mut writer, &chain[to]).await;
        push_all(&mut writer, &chain[to..]).await;

        let known = &chain[random.usize(from + 1..to)..];
        let start = SMALL.next_range_start(&schedule(), known[0].parent.slot + 1);
        if start > hole.last {
            continue;
        }
        filled += 1;
        let mut filler = open_hole(&depot, &hole, start).await;
        push_up_to(&mut filler, known, hole.last).await;
        assert_eq!(open_slots(&depot).await, [hole.first..=start - 1], "seed {seed}");
        let found = faults(&depot).await;
        assert!(matches!(&found[..], [ArchiveFault::Open { .. }]), "seed {seed}: {found:?}");

        let mut filler = open_hole(&depot, &hole, hole.first).await;
        push_up_to(&mut filler, &chain, start - 1).await;
        assert_eq!(filler.disagreements(), 0, "seed {seed}");
        assert!(open_slots(&depot).await.is_empty(), "seed {seed}");
        let found = faults(&depot).await;
        assert!(found.is_empty(), "seed {seed}: {found:?}");
        check_blocks(&depot, &chain).await;
    }
    assert!(filled > 10);
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
async fn ranges_behind_the_end_of_a_hole_have_no_blocks() {
    let depot = memory();
    let mut writer = open(&depot, SMALL).await;
    push_all(&mut writer, &consecutive_blocks(0..20)).await;
    let mut next = chain(3, 400, 1).remove(0);
    next.parent.slot = 59;
    let hole = record_hole(&mut writer, &next).await;
    assert_eq!(hole.key().slots(), 0..=399);
    let mut filler = open_hole(&depot, &hole, 100).await;
    let mut other = chain(4, 150, 1).remove(0);
    other.parent.slot = 80;
    let err = filler.push(&other).await.expect_err("the hole ends at 59");
    assert!(matches!(err, ArchiveError::OtherChain { slot: 150, end: 59 }), "{err}");
    filler.push(&next).await.expect("it follows the end");
    assert_eq!(open_slots(&depot).await, [0..=99]);
}

#[tokio::test]
async fn a_hole_begins_after_the_range_whose_blocks_are_all_known() {
    let depot = memory();
    let mut writer = open(&depot, SMALL).await;
    let blocks = consecutive_blocks(0..200);
    push_all(&mut writer, &blocks[..100]).await;
    let hole = record_hole(&mut writer, &blocks[130]).await;
    assert_eq!(hole.key().slots(), 100..=149);
    push_all(&mut writer, &blocks[150..]).await;
    let ranges: Vec<_> = objects(&depot).await.iter().map(ArchiveObject::slots).collect();
    assert_eq!(ranges, [0..=49, 50..=99]);
    assert_eq!(open_slots(&depot).await, [100..=149]);
}

#[tokio::test]
async fn a_hole_is_not_filled_with_blocks_of_another_chain() {
    let depot = memory();
    let known = chain(1, 0, 200);
    let mut writer = open(&depot, SMALL).await;
    push_all(&mut writer, &known[..20]).await;
    let hole = record_hole(&mut writer, &known[60]).await;
    push_all(&mut writer, &known[60..]).await;
    let mut other = known.clone();
    other[59].blockhash = Hash::new_from_array([1; 32]);
    let opened =
        ArchiveWriter::open_hole(depot.clone(), &hole, hole.first, schedule(), SMALL).await;
    let mut filler = opened.expect("the archive is intact");
    let mut refused = None;
    for block in other.iter().filter(|block| block.id.slot >= hole.first) {
        if let Err(err) = filler.push(block).await {
            refused = Some(err);
            break;
        }
    }
    let end = known[59].id.slot;
    assert!(
        matches!(refused, Some(ArchiveError::OtherChain { slot, .. }) if slot == end),
        "{refused:?}"
    );
    assert!(!open_slots(&depot).await.is_empty());
}

#[tokio::test]
async fn two_archivers_that_lack_the_same_blocks_write_one_hole() {
    let depot = memory();
    let chain = chain(5, 0, 200);
    let mut first = open(&depot, SMALL).await;
    let mut second = open(&depot, SMALL).await;
    push_all(&mut first, &chain[..30]).await;
    push_all(&mut second, &chain[..30]).await;
    let hole = record_hole(&mut first, &chain[50]).await;
    assert_eq!(record_hole(&mut second, &chain[50]).await, hole);
    push_all(&mut first, &chain[50..]).await;
    push_all(&mut second, &chain[50..]).await;
    assert_eq!(second.disagreements(), 0);
    let keys = list_holes(&depot, CLUSTER).await.expect("a store in memory");
    assert_eq!(keys, [hole.key()]);
    assert_eq!(read_hole(&depot, &keys[0]).await.expect("it is intact"), hole);

    // An archiver with all blocks wrote the objects at the same time: it has no part in the hole.
    let mut third = open(&memory(), SMALL).await;
    push_all(&mut third, &chain).await;
    let err = third.record_hole(&chain[199]).await.expect_err("no block is missing");
    assert!(matches!(err, ArchiveError::Hole { .. }), "{err}");

    // A damaged hole is named, by a check and by a new process that would continue after it.
    let alone = memory();
    let mut writer = open(&alone, SMALL).await;
    push_all(&mut writer, &chain[..30]).await;
    let hole = record_hole(&mut writer, &chain[50]).await.key();
    put(&alone, &hole.key, vec![0; 1 << 20].into()).await;
    let found = format!("{:?}", faults(&alone).await);
    assert!(found.contains(&hole.key), "{found}");
    put(&alone, &hole.key, Bytes::from_static(b"HYSH")).await;
    let found = format!("{:?}", faults(&alone).await);
    assert!(found.contains(&hole.key), "{found}");
    let opened = ArchiveWriter::open(alone, CLUSTER, schedule(), SMALL).await;
    let err = opened.err().expect("it is damaged").to_string();
    assert!(err.contains(&hole.key), "{err}");
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
