//! Generations of the log that have no records, are deleted, or are created again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chain_solana::wire::RecordDigest;
use ledger::Commitment;
use replica::{Replica, ReplicaState};
use replicated_log::LogSpace;
use testkit::eventually::eventually;

use crate::rig::{RunningReplica, config, start, start_new};
use crate::source_chain::{SourceChain, Step};
use crate::source_log::SourceLog;
use crate::watched_log::WatchedSpace;

async fn extend(chain: &mut SourceChain, log: &mut SourceLog, blocks: usize) {
    for _ in 0..blocks {
        let steps = chain.extend(chain.tip);
        log.append_steps(chain, &steps).await;
    }
}

/// Opens the next generation from the root, with the blocks above it.
async fn open_from_root(chain: &SourceChain, log: &mut SourceLog) {
    let root = chain.root;
    log.open_generation(chain, root).await;
    let above = chain.chain_to(chain.tip).into_iter().skip_while(|block| *block != root).skip(1);
    let again: Vec<Step> = above.map(Step::Block).collect();
    log.append_steps(chain, &again).await;
}

async fn wait_for_fault(replica: &RunningReplica, name: &str) {
    let describe = || format!("{name}: {:?}", replica.status.last_fault());
    eventually(|| replica.faults(name) > 0, describe).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_without_a_record_is_not_followed() {
    let mut chain = SourceChain::new(31);
    let mut log = SourceLog::new(&chain).await;
    let space = WatchedSpace::new(&log.space);
    let loaded = Replica::load(config(), Arc::new(space.clone()), log.depot.clone()).await;
    let replica = start(loaded.unwrap_or_else(|err| panic!("no replica: {err}")));
    extend(&mut chain, &mut log, 20).await;
    replica.wait_for(&chain).await;
    log.space.create_generation(log.generation + 1).await.expect("a log");
    let requests = || space.watch.generation_requests.load(Ordering::Relaxed);
    let before = requests();
    eventually(|| requests() > before + 2, || "no generation is requested".to_owned()).await;
    extend(&mut chain, &mut log, 20).await;
    replica.wait_for(&chain).await;
    let is_ready = || replica.status.state() == ReplicaState::Ready;
    eventually(is_ready, || format!("{:?}", replica.status.not_ready_reason())).await;
    assert_eq!(replica.status.last_fault(), None);

    // A replica that starts now reads the generation before, too.
    let late = start_new(&log).await;
    late.wait_for(&chain).await;
    open_from_root(&chain, &mut log).await;
    extend(&mut chain, &mut log, 10).await;
    for replica in [replica, late] {
        replica.wait_for(&chain).await;
        replica.check(&chain, 0);
        assert_eq!(replica.status.generation(), 2);
        assert_eq!(replica.status.jumps(), 0);
        replica.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_generation_is_gone_and_not_unreachable() {
    let mut chain = SourceChain::new(32);
    let mut log = SourceLog::new(&chain).await;
    let replica = start_new(&log).await;
    extend(&mut chain, &mut log, 20).await;
    open_from_root(&chain, &mut log).await;
    extend(&mut chain, &mut log, 10).await;
    replica.wait_for(&chain).await;
    assert_eq!(replica.status.generation(), 2);
    // The generation before still exists.
    log.space.delete_generation(2);
    wait_for_fault(&replica, "gone").await;
    open_from_root(&chain, &mut log).await;
    extend(&mut chain, &mut log, 10).await;
    replica.wait_for(&chain).await;
    replica.check(&chain, 0);
    assert_eq!(replica.status.generation(), 3);
    assert_eq!(replica.status.jumps(), 0);
    replica.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_that_is_created_again_is_another_log() {
    let mut chain = SourceChain::new(33);
    let mut log = SourceLog::new(&chain).await;
    let replica = start_new(&log).await;
    extend(&mut chain, &mut log, 20).await;
    replica.wait_for(&chain).await;
    log.space.recreate_generation(log.generation);
    log.generation -= 1;
    open_from_root(&chain, &mut log).await;
    extend(&mut chain, &mut log, 10).await;
    replica.wait_for(&chain).await;
    replica.check(&chain, 0);
    assert_eq!(replica.status.generation(), 1);
    assert_eq!(replica.status.jumps(), 0);
    replica.stop();
}

/// Opens the next generation from the block that is `depth` blocks below the root, with a digest that no replica knows.
/// Lists all blocks above it, and their marks, as an opener does that is behind.
async fn open_below_root(chain: &SourceChain, log: &mut SourceLog, depth: usize) {
    let on_chain = chain.chain_to(chain.tip);
    let root = on_chain.iter().position(|block| *block == chain.root).expect("it is on the chain");
    let opened = on_chain[root - depth];
    log.positions.get_mut(&opened).expect("it was logged").digest = RecordDigest([55; 32]);
    log.open_generation(chain, opened).await;
    for (at, block) in on_chain.iter().copied().enumerate().skip(root - depth + 1) {
        let mut steps = vec![Step::Block(block), Step::TipMoved(block)];
        let below = |depth: usize| at.checked_sub(depth).map(|at| on_chain[at]);
        let is_above = |block: &usize| *block > opened;
        steps.extend(below(2).filter(is_above).map(Step::Confirmed));
        steps.extend(below(5).filter(is_above).map(Step::Rooted));
        log.append_steps(chain, &steps).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_from_below_the_root_is_continued_by_the_names_of_blocks() {
    for (seed, blocks, depth) in [(40, 30, 0), (41, 30, 3), (42, 2_100, 2_000)] {
        let mut chain = SourceChain::new(seed);
        let mut log = SourceLog::new(&chain).await;
        let replica = start_new(&log).await;
        extend(&mut chain, &mut log, blocks).await;
        replica.wait_for(&chain).await;
        open_below_root(&chain, &mut log, depth).await;
        extend(&mut chain, &mut log, 20).await;
        replica.wait_for(&chain).await;
        replica.check(&chain, 0);
        assert_eq!(replica.status.generation(), 2, "{depth}");
        assert_eq!(replica.status.jumps(), 0, "{depth}");
        assert_eq!(replica.faults("tips"), 0, "{depth}");
        replica.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_from_before_the_own_snapshot_is_continued_from_its_block() {
    let mut chain = SourceChain::new(43);
    let mut log = SourceLog::new(&chain).await;
    extend(&mut chain, &mut log, 30).await;
    let start = chain.root;
    log.write_snapshot(&chain, start).await;
    let replica = start_new(&log).await;
    replica.wait_for(&chain).await;
    open_below_root(&chain, &mut log, 3).await;
    extend(&mut chain, &mut log, 20).await;
    replica.wait_for(&chain).await;
    replica.check(&chain, start);
    assert_eq!(replica.status.generation(), 2);
    assert_eq!(replica.status.jumps(), 0);
    replica.stop();
}

/// Opens a generation that makes another fork final, and waits until a replica refuses it. The fork has slots above or
/// below those of the blocks that the replica has made final.
async fn check_other_chain(seed: u64, is_older: bool) {
    let mut chain = SourceChain::new(seed);
    let mut log = SourceLog::new(&chain).await;
    let replica = start_new(&log).await;
    extend(&mut chain, &mut log, 10).await;
    let mut other = vec![chain.confirmed];
    let mut extend_other = |chain: &mut SourceChain| {
        for _ in 0..8 {
            let parent = other[other.len() - 1];
            other.push(chain.make_block(parent));
        }
    };
    if is_older {
        extend_other(&mut chain);
    }
    for _ in 0..20 {
        let mut steps = chain.extend(chain.tip);
        // The fork is not in this generation.
        steps.retain(|step| !matches!(step, Step::Reverted(_)));
        log.append_steps(&chain, &steps).await;
    }
    if !is_older {
        extend_other(&mut chain);
    }
    replica.wait_for(&chain).await;
    let shown = || replica.reader.view(Commitment::Finalized).block().slot;
    let before = shown();
    assert_eq!(chain.blocks[other[4]].block.id.slot < before, is_older);
    log.positions.get_mut(&other[0]).expect("it was logged").digest = RecordDigest([55; 32]);
    log.open_generation(&chain, other[0]).await;
    for block in other[1..].iter().copied() {
        log.append_steps(&chain, &[Step::Block(block), Step::TipMoved(block)]).await;
    }
    log.append_steps(&chain, &[Step::Rooted(other[4])]).await;
    wait_for_fault(&replica, "other_chain").await;
    assert_eq!(shown(), before);
    let is_broken = || replica.status.state() == ReplicaState::Broken;
    eventually(is_broken, || format!("{:?}", replica.status.state())).await;
    replica.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_of_another_chain_is_not_continued() {
    check_other_chain(44, false).await;
    check_other_chain(45, true).await;
}
