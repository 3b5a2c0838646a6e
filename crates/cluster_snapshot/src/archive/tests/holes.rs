//! Holes of an archive of random chains: recorded, filled by other archivers, and damaged.

use super::super::{ArchiveHole, list_holes, list_open_slots, read_hole};
use super::*;

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
