//! The final blocks that are read from a log of several generations, which start late, repeat blocks, are damaged, or
//! contradict each other.

use std::future::ready;
use std::sync::Arc;

use chain_solana::wire::{BlockName, RecordDigest};
use futures_util::future::BoxFuture;
use ledger::Slot;
use replica::{LoggedBlocks, find_newest_generation};
use replicated_log::memory::{Faults, MemoryLogSpace, ReadFaults};
use replicated_log::{AppendError, Log, LogError, LogMessage, LogReader, LogSpace, Tail};

use crate::logged_blocks::{
    LEVEL_MIN, check_final_blocks, final_blocks, read_blocks, read_open_blocks,
};
use crate::source_chain::{FIRST_SLOT, SourceChain, Step};
use crate::source_log::{CLUSTER, RecordPosition, SourceLog};

/// A chain without forks, and a log of its first blocks.
async fn start_log(seed: u64, blocks: usize) -> (SourceChain, SourceLog) {
    let mut chain = SourceChain::new(seed);
    let mut log = SourceLog::new(&chain).await;
    extend(&mut chain, &mut log, blocks).await;
    (chain, log)
}

async fn extend(chain: &mut SourceChain, log: &mut SourceLog, blocks: usize) {
    for _ in 0..blocks {
        let steps = chain.extend(chain.tip);
        log.append_steps(chain, &steps).await;
    }
}

/// Opens the next generation from a block, which may not be in the log. Lists the blocks above it, and their roots.
async fn open_from(chain: &SourceChain, log: &mut SourceLog, start: usize) {
    let name = BlockName { slot: find_slot(chain, start), number: log.number };
    let digest = RecordDigest([77; 32]);
    let unlogged = RecordPosition { name, digest, generation: log.generation, sequence: 0 };
    log.positions.entry(start).or_insert(unlogged);
    log.open_generation(chain, start).await;
    list_blocks(chain, log, start, chain.tip).await;
}

/// Opens the next generation from a block. Its ingester dies after it has listed the blocks up to `end`.
async fn open_until(chain: &SourceChain, log: &mut SourceLog, start: usize, end: usize) {
    log.open_generation(chain, start).await;
    list_blocks(chain, log, start, end).await;
}

/// Lists the blocks after `start` up to `end`, and their roots.
async fn list_blocks(chain: &SourceChain, log: &mut SourceLog, start: usize, end: usize) {
    for block in chain.chain_to(end).into_iter().filter(|block| *block > start) {
        let mut steps = vec![Step::Block(block)];
        steps.extend((block <= chain.root).then_some(Step::Rooted(block)));
        log.append_steps(chain, &steps).await;
    }
}

fn find_slot(chain: &SourceChain, block: usize) -> Slot {
    chain.blocks[block].block.id.slot
}

/// Returns the blocks of a list up to `start`, and from `end` on.
fn select_outside(blocks: Vec<usize>, start: usize, end: usize) -> Vec<usize> {
    blocks.into_iter().filter(|block| *block <= start || *block >= end).collect()
}

#[tokio::test]
async fn blocks_of_a_generation_are_followed_by_those_of_the_next() {
    for depth in [0, 1, 6] {
        let (mut chain, mut log) = start_log(8, 30).await;
        let before = final_blocks(&chain);
        let start = before[before.len() - 1 - depth];
        open_from(&chain, &mut log, start).await;
        extend(&mut chain, &mut log, 10).await;
        let all = final_blocks(&chain);
        assert!(all.len() > before.len());
        check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &all);
        // The oldest generation has the oldest ones of the later blocks.
        check_final_blocks(&read_blocks(&log, FIRST_SLOT).await, &chain, &all);
        let after: Vec<usize> = all.into_iter().filter(|block| *block > start).collect();
        check_final_blocks(&read_blocks(&log, find_slot(&chain, start) + 1).await, &chain, &after);
    }
}

#[tokio::test]
async fn blocks_that_only_later_generations_have_are_read() {
    let (mut chain, mut log) = start_log(9, 20).await;
    let mut expected = final_blocks(&chain);
    let from = find_slot(&chain, chain.root) + 1;
    for _ in 0..2 {
        let logged = chain.root;
        // No ingester has logged these blocks.
        for _ in 0..20 {
            chain.extend(chain.tip);
        }
        let start = chain.root;
        open_from(&chain, &mut log, start).await;
        extend(&mut chain, &mut log, 10).await;
        let later = final_blocks(&chain).into_iter().filter(|block| *block > logged);
        expected.extend(select_outside(later.collect(), logged, start + 1));
        check_final_blocks(&read_blocks(&log, from).await, &chain, &expected);
    }
    assert_eq!(log.generation, 3);
}

#[tokio::test]
async fn a_generation_of_an_opener_that_was_behind_replaces_the_one_before() {
    let (mut chain, mut log) = start_log(10, 20).await;
    let logged = chain.root;
    for _ in 0..20 {
        chain.extend(chain.tip);
    }
    let start = chain.root;
    open_from(&chain, &mut log, start).await;
    extend(&mut chain, &mut log, 5).await;
    let gap = select_outside(final_blocks(&chain), logged, start + 1);
    check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &gap);
    // It has the blocks that the generation before lacks.
    open_from(&chain, &mut log, logged).await;
    check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &final_blocks(&chain));
}

#[tokio::test]
async fn a_damage_is_closed_by_a_generation_that_continues_from_before_it() {
    for is_lost in [false, true] {
        for is_before in [false, true] {
            let (mut chain, mut log) = start_log(11, 30).await;
            let finals = final_blocks(&chain);
            let damaged = finals[finals.len() - 3];
            let sequence = log.positions[&damaged].sequence;
            if is_lost {
                log.space.lose_message(log.generation, sequence);
            } else {
                log.space.damage_message(log.generation, sequence);
            }
            let start = finals[finals.len() - if is_before { 8 } else { 1 }];
            open_from(&chain, &mut log, start).await;
            extend(&mut chain, &mut log, 10).await;
            let mut expected = final_blocks(&chain);
            expected.retain(|block| is_before || *block != damaged);
            check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &expected);
        }
    }
}

#[tokio::test]
async fn a_log_is_incomplete_if_only_a_removed_generation_had_blocks() {
    for has_all in [false, true] {
        let (mut chain, mut log) = start_log(12, 30).await;
        let finals = final_blocks(&chain);
        let start = if has_all { finals[0] } else { finals[20] };
        open_from(&chain, &mut log, start).await;
        extend(&mut chain, &mut log, 10).await;
        let from = FIRST_SLOT + 1;
        let opened = LoggedBlocks::open(&log.space, &log.depot, CLUSTER, from, LEVEL_MIN).await;
        let mut logged = opened.expect("a log in memory").expect("it has the blocks");
        let mut blocks = Vec::new();
        blocks.extend(logged.next_block().await.expect("a log in memory"));
        log.space.delete_generation(1);
        while let Some(block) = logged.next_block().await.expect("a log in memory") {
            blocks.push(block);
        }
        let first = finals[0];
        assert_eq!(blocks[0].id.slot, find_slot(&chain, first));
        let expected = select_outside(final_blocks(&chain), first, start + 1);
        check_final_blocks(&blocks, &chain, &expected);
        assert_eq!(logged.is_incomplete(), !has_all);
    }
}

#[tokio::test]
async fn a_damaged_first_record_does_not_hide_the_generations_before() {
    let (mut chain, mut log) = start_log(13, 30).await;
    let start = chain.root;
    open_from(&chain, &mut log, start).await;
    extend(&mut chain, &mut log, 10).await;
    log.space.damage_message(log.generation, 1);
    check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &final_blocks(&chain));
}

#[tokio::test]
async fn a_block_of_another_chain_than_the_generation_before_is_passed_over() {
    let (mut chain, mut log) = start_log(14, 20).await;
    let mut expected = final_blocks(&chain);
    let start = expected[2];
    log.open_generation(&chain, start).await;
    let mut parent = start;
    let mut other = Vec::new();
    for _ in 0..8 {
        parent = chain.make_block(parent);
        log.append_steps(&chain, &[Step::Block(parent), Step::Rooted(parent)]).await;
        other.push(parent);
    }
    // The parent of the first one is not the last block of the generation before.
    expected.extend(&other[1..]);
    check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &expected);
}

#[tokio::test]
async fn a_generation_without_records_is_not_the_newest_one() {
    let (_, log) = start_log(15, 3).await;
    log.space.create_generation(log.generation + 1).await.expect("a new generation");
    let newest = find_newest_generation(&log.space).await.expect("a log in memory");
    assert_eq!(newest, Some(log.generation));
}

#[tokio::test]
async fn a_generation_that_ends_early_or_is_refused_does_not_hide_the_one_before() {
    for (has_damaged, is_refused) in [(false, false), (true, false), (true, true)] {
        let (mut chain, mut log) = start_log(16, 60).await;
        let finals = final_blocks(&chain);
        let damaged = finals.len() - 16;
        let sequence = log.positions[&finals[damaged]].sequence;
        log.space.damage_message(log.generation, sequence);
        // The second generation has a few blocks before the damaged one, and perhaps a few after it.
        let start = finals[damaged - 6];
        let end = finals[if has_damaged { damaged + 3 } else { damaged - 2 }];
        log.level = if is_refused { None } else { LEVEL_MIN };
        open_until(&chain, &mut log, start, end).await;
        log.level = LEVEL_MIN;
        open_from(&chain, &mut log, finals[finals.len() - 4]).await;
        extend(&mut chain, &mut log, 10).await;
        let mut expected = final_blocks(&chain);
        expected.retain(|block| has_damaged && !is_refused || *block != finals[damaged]);
        check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &expected);
        // The second generation is the newest one that starts before the damaged block.
        let blocks = read_blocks(&log, find_slot(&chain, finals[damaged])).await;
        expected.retain(|block| find_slot(&chain, *block) >= blocks[0].id.slot);
        check_final_blocks(&blocks, &chain, &expected);
    }
}

#[tokio::test]
async fn a_short_newest_generation_does_not_hide_the_one_before() {
    let (chain, mut log) = start_log(18, 40).await;
    let finals = final_blocks(&chain);
    open_until(&chain, &mut log, finals[10], finals[15]).await;
    // The second generation is the newest one that starts before this block.
    let blocks = read_blocks(&log, find_slot(&chain, finals[12])).await;
    check_final_blocks(&blocks, &chain, &finals[11..]);
}

#[tokio::test]
async fn a_generation_that_starts_within_a_gap_makes_it_shorter() {
    let (chain, mut log) = start_log(19, 40).await;
    let finals = final_blocks(&chain);
    let removed = log.positions[&finals[20]].sequence;
    open_until(&chain, &mut log, finals[10], finals[15]).await;
    // The first generation lacks the older blocks.
    log.space.truncate_generation(1, removed + 1);
    let expected = [&finals[11..=15], &finals[21..]].concat();
    check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &expected);
}

#[tokio::test]
async fn a_truncated_generation_does_not_hide_the_one_before() {
    for is_lost in [false, true] {
        let (mut chain, mut log) = start_log(20, 30).await;
        let start = chain.root;
        open_from(&chain, &mut log, start).await;
        extend(&mut chain, &mut log, 10).await;
        let removed = if is_lost { start } else { chain.root };
        extend(&mut chain, &mut log, 10).await;
        if is_lost {
            // Its start is unknown then.
            log.space.lose_message(log.generation, 1);
        } else {
            let sequence = log.positions[&removed].sequence;
            log.space.truncate_generation(log.generation, sequence + 1);
        }
        let expected = select_outside(final_blocks(&chain), start, removed + 1);
        check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &expected);
    }
}

/// A log with a generation that cannot be opened, or opens and cannot be read.
struct FailingSpace<'a> {
    space: &'a MemoryLogSpace,
    generation: u64,
    fails_on_open: bool,
}

/// A generation that cannot be read.
struct UnreadableLog(Arc<dyn Log>);

impl Log for UnreadableLog {
    fn append(&self, _: u64, _: Vec<LogMessage>) -> BoxFuture<'_, Result<u64, AppendError>> {
        unreachable!("blocks are read")
    }

    fn tail(&self) -> BoxFuture<'_, Result<Tail, LogError>> {
        self.0.tail()
    }

    fn read(&self, _: u64) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
        let error = LogError::with_reason("a log", "read it", "the disk fails");
        Box::pin(ready(Err(error)))
    }
}

impl LogSpace for FailingSpace<'_> {
    fn newest_generation(&self) -> BoxFuture<'_, Result<Option<u64>, LogError>> {
        self.space.newest_generation()
    }

    fn create_generation(&self, _: u64) -> BoxFuture<'_, Result<bool, LogError>> {
        unreachable!("blocks are read")
    }

    fn remove_generations_below(&self, _: u64) -> BoxFuture<'_, Result<usize, LogError>> {
        unreachable!("blocks are read")
    }

    fn open_generation(&self, generation: u64) -> BoxFuture<'_, Result<Arc<dyn Log>, LogError>> {
        if generation == self.generation && !self.fails_on_open {
            return Box::pin(async move {
                let log = self.space.open_generation(generation).await?;
                let unreadable: Arc<dyn Log> = Arc::new(UnreadableLog(log));
                Ok(unreadable)
            });
        }
        if generation == self.generation {
            let error = LogError::with_reason("a log", "open it", "the server is overloaded");
            return Box::pin(ready(Err(error)));
        }
        self.space.open_generation(generation)
    }

    fn durability_faults(&self) -> BoxFuture<'_, Result<Vec<String>, LogError>> {
        unreachable!("blocks are read")
    }
}

#[tokio::test]
async fn a_read_is_incomplete_if_a_generation_that_exists_cannot_be_opened() {
    let (mut chain, mut log) = start_log(17, 30).await;
    let start = chain.root;
    open_from(&chain, &mut log, start).await;
    extend(&mut chain, &mut log, 10).await;
    for (generation, is_incomplete) in [(1, true), (9, false)] {
        let space = FailingSpace { space: &log.space, generation, fails_on_open: true };
        let from = FIRST_SLOT + 1;
        let opened = LoggedBlocks::open(&space, &log.depot, CLUSTER, from, LEVEL_MIN).await;
        let mut logged = opened.expect("the newest one is open").expect("it has blocks");
        while logged.next_block().await.expect("a log in memory").is_some() {}
        assert_eq!(logged.is_incomplete(), is_incomplete);
    }
}

#[tokio::test]
async fn a_generation_that_cannot_be_read_does_not_hide_the_others() {
    for fails_on_open in [true, false] {
        let (mut chain, mut log) = start_log(21, 30).await;
        let first_end = chain.root;
        let mut start = first_end;
        for _ in 0..2 {
            start = chain.root;
            open_from(&chain, &mut log, start).await;
            extend(&mut chain, &mut log, 10).await;
        }
        let space = FailingSpace { space: &log.space, generation: 2, fails_on_open };
        let from = FIRST_SLOT + 1;
        let opened = LoggedBlocks::open(&space, &log.depot, CLUSTER, from, LEVEL_MIN).await;
        let mut logged = opened.expect("the newest one is open").expect("it has blocks");
        let expected = select_outside(final_blocks(&chain), first_end, start + 1);
        check_final_blocks(&read_open_blocks(&mut logged).await, &chain, &expected);
        assert!(logged.is_incomplete());
    }
}

#[tokio::test]
async fn a_failed_read_of_the_only_generation_is_an_error() {
    let (chain, log) = start_log(22, 30).await;
    let from = FIRST_SLOT + 1;
    let opened = LoggedBlocks::open(&log.space, &log.depot, CLUSTER, from, LEVEL_MIN).await;
    let mut logged = opened.expect("a log in memory").expect("it has the blocks");
    let mut blocks = Vec::new();
    blocks.extend(logged.next_block().await.expect("a log in memory"));
    let read = ReadFaults { failed: 1_000, ..ReadFaults::default() };
    log.space.set_faults(Faults { read, ..Faults::default() });
    assert!(logged.next_block().await.is_err());
    log.space.set_faults(Faults::default());
    blocks.extend(read_open_blocks(&mut logged).await);
    check_final_blocks(&blocks, &chain, &final_blocks(&chain));
    assert!(!logged.is_incomplete());
}
