//! Replicas behind a truncated or damaged log jump, and new generations are continued without one if possible.

use chain_solana::RevertReason;
use chain_solana::wire::{BlockName, Mark, RecordDigest};

use crate::rig::{config, load, start, start_new};
use crate::source_chain::{SourceChain, Step};
use crate::source_log::{RecordPosition, SourceLog};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_behind_a_truncated_log_jumps_to_a_snapshot() {
    for seed in 0..6 {
        let mut chain = SourceChain::new(seed);
        let mut log = SourceLog::new(&chain).await;
        for _ in 0..10 {
            let steps = chain.step();
            log.append_steps(&chain, &steps).await;
        }
        // It is loaded, and starts to read only when the log is truncated.
        let replica = load(config(), &log, &log.depot).await;
        for _ in 0..40 {
            let steps = chain.step();
            log.append_steps(&chain, &steps).await;
        }
        let root = chain.root;
        log.write_snapshot(&chain, root).await;
        log.space.truncate_generation(log.generation, log.positions[&root].sequence + 1);
        for _ in 0..10 {
            let steps = chain.step();
            log.append_steps(&chain, &steps).await;
        }
        let replica = start(replica);
        replica.wait_for(&chain).await;
        replica.check(&chain, root);
        assert!(replica.faults("truncated") > 0, "seed {seed}");
        assert_eq!(replica.status.jumps(), 1, "seed {seed}");
        let lines = replica.stop().lines();
        let jump = lines.iter().position(|line| line.starts_with("jumped"));
        let after: Vec<&str> = lines[jump.unwrap_or_else(|| panic!("seed {seed}")) + 1..]
            .iter()
            .take(3)
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(after, ["tip", "confirmed", "rooted"], "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_jumps_over_a_damage_within_a_generation() {
    let mut chain = SourceChain::new(12);
    let mut log = SourceLog::new(&chain).await;
    for _ in 0..10 {
        let steps = chain.extend(chain.tip);
        log.append_steps(&chain, &steps).await;
    }
    // It is loaded, and starts to read only when the message is damaged.
    let replica = load(config(), &log, &log.depot).await;
    let damaged = log.sequence + 1;
    for _ in 0..60 {
        let steps = chain.extend(chain.tip);
        log.append_steps(&chain, &steps).await;
    }
    log.space.damage_message(log.generation, damaged);
    let root = chain.root;
    assert!(log.positions[&root].sequence > damaged);
    log.write_snapshot(&chain, root).await;
    let replica = start(replica);
    replica.wait_for(&chain).await;
    replica.check(&chain, root);
    assert!(replica.faults("value") > 0);
    assert_eq!(replica.status.jumps(), 1);
    assert_eq!(replica.status.generation(), log.generation);
    replica.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_generation_from_a_known_block_needs_no_jump() {
    for seed in 0..6 {
        let mut chain = SourceChain::new(seed);
        let mut log = SourceLog::new(&chain).await;
        let replica = start_new(&log).await;
        for _ in 0..40 {
            let steps = chain.step();
            log.append_steps(&chain, &steps).await;
        }
        replica.wait_for(&chain).await;
        // The next leader logs the blocks above its root again.
        let root = chain.root;
        let again: Vec<Step> = chain
            .chain_to(chain.tip)
            .into_iter()
            .skip_while(|block| *block != root)
            .skip(1)
            .map(Step::Block)
            .collect();
        log.open_generation(&chain, root).await;
        log.append_steps(&chain, &again).await;
        for _ in 0..20 {
            let steps = chain.extend(chain.tip);
            log.append_steps(&chain, &steps).await;
        }
        replica.wait_for(&chain).await;
        replica.check(&chain, 0);
        assert_eq!(replica.status.jumps(), 0, "seed {seed}");
        assert_eq!(replica.status.generation(), 2, "seed {seed}");
        replica.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_generation_from_an_unknown_block_is_jumped_to() {
    let mut chain = SourceChain::new(7);
    let mut log = SourceLog::new(&chain).await;
    let replica = start_new(&log).await;
    for _ in 0..20 {
        let steps = chain.step();
        log.append_steps(&chain, &steps).await;
    }
    replica.wait_for(&chain).await;
    // These are in no log: the old one is deleted before.
    for _ in 0..30 {
        chain.extend(chain.tip);
    }
    log.space.delete_generation(log.generation);
    let root = chain.root;
    let name = BlockName { slot: chain.blocks[root].block.id.slot, number: log.number };
    let digest = RecordDigest([55; 32]);
    let position = RecordPosition { name, digest, generation: log.generation, sequence: 0 };
    log.positions.insert(root, position);
    log.open_generation(&chain, root).await;
    let above: Vec<usize> =
        chain.chain_to(chain.tip).into_iter().skip_while(|block| *block != root).skip(1).collect();
    for block in above {
        log.append_block(&chain, block).await;
    }
    let tip = Mark::TipMoved(log.name(chain.tip));
    let confirmed = Mark::Confirmed(log.name(chain.confirmed));
    log.append_marks(vec![tip, confirmed]).await;
    replica.wait_for(&chain).await;
    replica.check(&chain, root);
    assert_eq!(replica.status.jumps(), 1);
    replica.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forks_that_died_before_a_snapshot_are_skipped() {
    let mut chain = SourceChain::new(9);
    let mut log = SourceLog::new(&chain).await;
    let parent = chain.make_block(0);
    let left = chain.make_block(parent);
    let rooted = chain.make_block(parent);
    for block in [parent, left] {
        log.append_block(&chain, block).await;
    }
    log.append_block(&chain, rooted).await;
    let left_child = chain.make_block(left);
    let rooted_child = chain.make_block(rooted);
    let left_sibling = chain.make_block(parent);
    // The snapshot is of `rooted`: these come after its record.
    log.append_marks(vec![Mark::TipMoved(log.name(left)), Mark::Confirmed(log.name(parent))]).await;
    for block in [left_child, rooted_child, left_sibling] {
        log.append_block(&chain, block).await;
    }
    let reason = RevertReason::Abandoned;
    let reverted = |block| Mark::Reverted { block, reason: reason.clone() };
    let marks = vec![
        Mark::TipMoved(log.name(left_child)),
        Mark::Rooted(log.name(parent)),
        Mark::TipMoved(log.name(rooted_child)),
        Mark::Confirmed(log.name(rooted)),
        reverted(log.name(left_sibling)),
        reverted(log.name(left_child)),
        reverted(log.name(left)),
        Mark::Rooted(log.name(rooted)),
    ];
    log.append_marks(marks).await;
    (chain.tip, chain.confirmed, chain.root) = (rooted_child, rooted, rooted);
    log.write_snapshot(&chain, rooted).await;
    let replica = start_new(&log).await;
    replica.wait_for(&chain).await;
    replica.check(&chain, rooted);
    assert_eq!(replica.status.last_fault(), None);
    let lines = replica.stop().lines();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        kinds.into_iter().filter(|kind| *kind != "executed").collect::<Vec<_>>(),
        ["created", "accounts", "frozen", "tip"]
    );
}
