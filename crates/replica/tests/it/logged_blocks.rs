//! The final blocks that are read from a log are those of the chain's model, without the damaged ones.
//!
//! Not here: logs of several generations (`logged_generations`).

use chain_solana::Block;
use ledger::Slot;
use replica::LoggedBlocks;
use solana::VerificationLevel;

use crate::source_chain::{FIRST_SLOT, SourceChain};
use crate::source_log::{CLUSTER, SourceLog};

/// The level of the tests' ingester.
pub(crate) const LEVEL_MIN: Option<VerificationLevel> = Some(VerificationLevel::Sequence);

/// Reads all final blocks of a log for an archive that needs the blocks from a slot on.
pub(crate) async fn read_blocks(log: &SourceLog, from: Slot) -> Vec<Block> {
    let opened = LoggedBlocks::open(&log.space, &log.depot, CLUSTER, from, LEVEL_MIN).await;
    match opened.expect("a log in memory") {
        Some(mut logged) => read_open_blocks(&mut logged).await,
        None => Vec::new(),
    }
}

/// Reads all further blocks of a log.
pub(crate) async fn read_open_blocks(logged: &mut LoggedBlocks) -> Vec<Block> {
    let mut blocks = Vec::new();
    while let Some(block) = logged.next_block().await.expect("a log in memory") {
        blocks.push(block);
    }
    blocks
}

/// Compares blocks with those of a chain.
pub(crate) fn check_final_blocks(blocks: &[Block], chain: &SourceChain, expected: &[usize]) {
    let slots: Vec<Slot> = blocks.iter().map(|block| block.id.slot).collect();
    let source = expected.iter().map(|index| chain.blocks[*index].block.id.slot);
    assert_eq!(slots, source.collect::<Vec<Slot>>());
    for (block, index) in blocks.iter().zip(expected) {
        let source = &chain.blocks[*index].block;
        assert_eq!(block.parent.slot, source.parent.slot);
        assert_eq!(block.blockhash, source.blockhash);
        assert_eq!(block.previous_blockhash, source.previous_blockhash);
        assert_eq!(block.hash_components, source.hash_components);
        let signatures = |block: &Block| -> Vec<_> {
            block.transactions.iter().map(|executed| executed.signature()).collect()
        };
        assert_eq!(signatures(block), signatures(source));
    }
}

/// The final blocks after the first one.
pub(crate) fn final_blocks(chain: &SourceChain) -> Vec<usize> {
    chain.chain_to(chain.root).into_iter().skip(1).collect()
}

#[tokio::test]
async fn the_final_blocks_of_a_forked_chain_are_read_in_their_order() {
    for seed in 0..12 {
        let mut chain = SourceChain::new(seed);
        let mut log = SourceLog::new(&chain).await;
        for at in 0..80 {
            let steps = chain.step();
            log.append_steps(&chain, &steps).await;
            if at == 30 {
                log.append_term(2).await;
            }
        }
        let expected = final_blocks(&chain);
        assert!(!expected.is_empty(), "seed {seed}");
        check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &expected);
        // The first block of the generation is not before this one: the log has the later ones.
        check_final_blocks(&read_blocks(&log, FIRST_SLOT).await, &chain, &expected);
    }
}

#[tokio::test]
async fn the_log_is_read_from_the_newest_snapshot_before_the_needed_block() {
    let mut chain = SourceChain::new(3);
    let mut log = SourceLog::new(&chain).await;
    for _ in 0..40 {
        let steps = chain.extend(chain.tip);
        log.append_steps(&chain, &steps).await;
    }
    let root = chain.root;
    log.write_snapshot(&chain, root).await;
    for _ in 0..20 {
        let steps = chain.extend(chain.tip);
        log.append_steps(&chain, &steps).await;
    }
    let all = final_blocks(&chain);
    let slot = chain.blocks[root].block.id.slot;
    let later: Vec<usize> = all.iter().copied().filter(|index| *index > root).collect();
    check_final_blocks(&read_blocks(&log, slot + 1).await, &chain, &later);
    check_final_blocks(&read_blocks(&log, slot).await, &chain, &all);
    // Retention has removed the messages before the snapshot.
    log.space.truncate_generation(log.generation, log.positions[&root].sequence + 1);
    check_final_blocks(&read_blocks(&log, slot + 1).await, &chain, &later);
}

#[tokio::test]
async fn records_of_an_ingester_of_too_low_a_level_are_passed_over() {
    let mut chain = SourceChain::new(4);
    let mut log = SourceLog::new(&chain).await;
    for _ in 0..10 {
        let steps = chain.extend(chain.tip);
        log.append_steps(&chain, &steps).await;
    }
    let proven = final_blocks(&chain);
    log.level = None;
    log.append_term(2).await;
    for _ in 0..10 {
        let steps = chain.extend(chain.tip);
        log.append_steps(&chain, &steps).await;
    }
    assert!(!proven.is_empty() && proven.len() < final_blocks(&chain).len());
    check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &proven);
}

#[tokio::test]
async fn a_damaged_or_lost_record_is_passed_over() {
    for seed in 0..20 {
        let mut chain = SourceChain::new(seed);
        let mut log = SourceLog::new(&chain).await;
        for _ in 0..60 {
            let steps = chain.extend(chain.tip);
            log.append_steps(&chain, &steps).await;
        }
        let all = final_blocks(&chain);
        let damaged = all[5 + seed as usize];
        let sequence = log.positions[&damaged].sequence;
        if seed % 2 == 0 {
            log.space.damage_message(log.generation, sequence);
        } else {
            log.space.lose_message(log.generation, sequence);
        }
        let intact: Vec<usize> = all.into_iter().filter(|index| *index != damaged).collect();
        check_final_blocks(&read_blocks(&log, FIRST_SLOT + 1).await, &chain, &intact);
    }
}

#[tokio::test]
async fn a_log_that_ends_before_its_last_message_is_incomplete() {
    let mut chain = SourceChain::new(9);
    let mut log = SourceLog::new(&chain).await;
    for _ in 0..40 {
        let steps = chain.extend(chain.tip);
        log.append_steps(&chain, &steps).await;
    }
    for is_deleted in [false, true] {
        let from = FIRST_SLOT + 1;
        let opened = LoggedBlocks::open(&log.space, &log.depot, CLUSTER, from, LEVEL_MIN).await;
        let mut logged = opened.expect("a log in memory").expect("it has the blocks");
        let first = logged.next_block().await.expect("a log in memory");
        assert!(first.is_some() && !logged.is_incomplete());
        if is_deleted {
            log.space.delete_generation(log.generation);
        }
        while logged.next_block().await.expect("a log in memory").is_some() {}
        assert_eq!(logged.is_incomplete(), is_deleted);
    }
}
