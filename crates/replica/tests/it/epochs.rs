//! Epochs of the log that have no records, are deleted, or are created again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

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

/// Opens the next epoch from the root, with the blocks above it.
async fn open_from_root(chain: &SourceChain, log: &mut SourceLog) {
    let root = chain.root;
    log.open_epoch(chain, root).await;
    let above = chain.chain_to(chain.tip).into_iter().skip_while(|block| *block != root).skip(1);
    let again: Vec<Step> = above.map(Step::Block).collect();
    log.append_steps(chain, &again).await;
}

async fn wait_for_fault(replica: &RunningReplica, name: &str) {
    let describe = || format!("{name}: {:?}", replica.status.last_fault());
    eventually(|| replica.status.broken(name) > 0, describe).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_without_a_record_is_not_followed() {
    let mut chain = SourceChain::new(31);
    let mut log = SourceLog::new(&chain).await;
    let space = WatchedSpace::new(&log.space);
    let loaded = Replica::load(config(), Arc::new(space.clone()), log.depot.clone()).await;
    let replica = start(loaded.unwrap_or_else(|err| panic!("no replica: {err}")));
    extend(&mut chain, &mut log, 20).await;
    replica.wait_for(&chain).await;
    log.space.create_epoch(log.epoch + 1).await.expect("a log");
    let asked = || space.watch.epochs_asked.load(Ordering::Relaxed);
    let before = asked();
    eventually(|| asked() > before + 2, || "the epochs are not asked for".to_owned()).await;
    extend(&mut chain, &mut log, 20).await;
    replica.wait_for(&chain).await;
    let is_ready = || replica.status.state() == ReplicaState::Ready;
    eventually(is_ready, || format!("{:?}", replica.status.not_ready_reason())).await;
    assert_eq!(replica.status.last_fault(), None);

    // A replica that starts now reads the epoch before, too.
    let late = start_new(&log).await;
    late.wait_for(&chain).await;
    open_from_root(&chain, &mut log).await;
    extend(&mut chain, &mut log, 10).await;
    for replica in [replica, late] {
        replica.wait_for(&chain).await;
        replica.check(&chain, 0);
        assert_eq!(replica.status.position().0, 2);
        assert_eq!(replica.status.jumps(), 0);
        replica.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_epoch_is_gone_and_not_unreachable() {
    let mut chain = SourceChain::new(32);
    let mut log = SourceLog::new(&chain).await;
    let replica = start_new(&log).await;
    extend(&mut chain, &mut log, 20).await;
    open_from_root(&chain, &mut log).await;
    extend(&mut chain, &mut log, 10).await;
    replica.wait_for(&chain).await;
    assert_eq!(replica.status.position().0, 2);
    // The epoch before still exists.
    log.space.delete_epoch(2);
    wait_for_fault(&replica, "gone").await;
    open_from_root(&chain, &mut log).await;
    extend(&mut chain, &mut log, 10).await;
    replica.wait_for(&chain).await;
    replica.check(&chain, 0);
    assert_eq!(replica.status.position().0, 3);
    assert_eq!(replica.status.jumps(), 0);
    replica.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_that_is_created_again_is_another_log() {
    let mut chain = SourceChain::new(33);
    let mut log = SourceLog::new(&chain).await;
    let replica = start_new(&log).await;
    extend(&mut chain, &mut log, 20).await;
    replica.wait_for(&chain).await;
    log.space.recreate_epoch(log.epoch);
    log.epoch -= 1;
    open_from_root(&chain, &mut log).await;
    extend(&mut chain, &mut log, 10).await;
    replica.wait_for(&chain).await;
    replica.check(&chain, 0);
    assert_eq!(replica.status.position().0, 1);
    assert_eq!(replica.status.jumps(), 0);
    replica.stop();
}
