//! Snapshots that replicas load, copy and write.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster_snapshot::newest_snapshots;
use depot::Depot;
use ledger::{Commitment, Slot};
use replica::{Replica, ReplicaConfig, ReplicaError};
use testkit::eventually::{TIMEOUT, eventually};

use crate::rig::{config, load, start, start_new};
use crate::source_chain::SourceChain;
use crate::source_log::{CLUSTER, SourceLog, memory_depot};

async fn extend(chain: &mut SourceChain, log: &mut SourceLog, blocks: usize) {
    for _ in 0..blocks {
        let steps = chain.step();
        log.append_steps(chain, &steps).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_loads_the_copy_without_the_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let with_cache = || ReplicaConfig { cache_dir: Some(dir.path().to_owned()), ..config() };
    let mut chain = SourceChain::new(1);
    let mut log = SourceLog::new(&chain).await;
    extend(&mut chain, &mut log, 20).await;
    let root = chain.root;
    log.write_snapshot(&chain, root).await;
    let replica = start(load(with_cache(), &log, &log.depot).await);
    replica.wait_for(&chain).await;
    eventually(|| has_manifest(dir.path()), || "no copy".to_owned()).await;
    replica.stop();
    extend(&mut chain, &mut log, 20).await;
    let empty = memory_depot();
    let replica = start(load(with_cache(), &log, &empty).await);
    replica.wait_for(&chain).await;
    replica.check(&chain, root);
    replica.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_that_the_log_does_not_name_is_refused() {
    let chain = SourceChain::new(6);
    let mut log = SourceLog::new(&chain).await;
    log.stated_digest = Some([7; 32]);
    log.open_generation(&chain, 0).await;
    let loaded = Replica::load(config(), Arc::new(log.space.clone()), log.depot.clone()).await;
    let err = loaded.err().expect("the manifest is another one").to_string();
    assert!(err.contains("another digest"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_writes_snapshots_that_others_load() {
    let mut chain = SourceChain::new(2);
    let mut log = SourceLog::new(&chain).await;
    let snapshot_interval = Some(Duration::from_millis(5));
    let writing = ReplicaConfig { snapshot_interval, snapshots_kept: 1, ..config() };
    let writer = start(load(writing, &log, &log.depot).await);
    extend(&mut chain, &mut log, 30).await;
    writer.wait_for(&chain).await;
    let root = chain.root;
    wait_for_snapshot(&log.depot, chain.blocks[root].block.id.slot).await;
    assert!(writer.status.written_snapshots() > 0);
    writer.stop();
    extend(&mut chain, &mut log, 10).await;
    let replica = load(config(), &log, &log.depot).await;
    let loaded = replica.reader().view(Commitment::Finalized).block().slot;
    assert_eq!(loaded, chain.blocks[root].block.id.slot);
    let replica = start(replica);
    replica.wait_for(&chain).await;
    replica.check(&chain, root);
    replica.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_that_others_may_be_loading_are_retained() {
    let mut chain = SourceChain::new(4);
    let mut log = SourceLog::new(&chain).await;
    let snapshot_interval = Some(Duration::from_millis(5));
    let writing = ReplicaConfig { snapshot_interval, snapshots_kept: 1, ..config() };
    let writer = start(load(writing, &log, &log.depot).await);
    let mut roots = Vec::new();
    for _ in 0..3 {
        for _ in 0..10 {
            let steps = chain.extend(chain.tip);
            log.append_steps(&chain, &steps).await;
        }
        writer.wait_for(&chain).await;
        roots.push(chain.blocks[chain.root].block.id.slot);
        wait_for_snapshot(&log.depot, roots[roots.len() - 1]).await;
    }
    writer.stop();
    let keys = newest_snapshots(&log.depot, CLUSTER).await.expect("a store in memory");
    assert!(roots.iter().all(|slot| keys.iter().any(|key| key.slot == *slot)), "{keys:?}");
}

/// Waits until the newest snapshot is of this slot.
async fn wait_for_snapshot(depot: &Depot, slot: Slot) {
    let found = async {
        loop {
            let keys = newest_snapshots(depot, CLUSTER).await.expect("a store in memory");
            if keys.first().is_some_and(|key| key.slot == slot) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, found).await.is_ok(), "no snapshot of slot {slot}");
}

/// Whether a directory has a complete snapshot.
fn has_manifest(dir: &Path) -> bool {
    let snapshots = std::fs::read_dir(dir.join("snap").join(CLUSTER));
    let is_complete = |entry: std::fs::DirEntry| entry.path().join("manifest").exists();
    snapshots.is_ok_and(|snapshots| snapshots.flatten().any(is_complete))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_snapshot_is_left_for_the_one_before_and_none_is_explained() {
    let mut chain = SourceChain::new(3);
    let mut log = SourceLog::new(&chain).await;
    extend(&mut chain, &mut log, 20).await;
    let root = chain.root;
    let manifest = log.write_snapshot(&chain, root).await;
    log.depot.delete(&manifest.parts[0].key).await.expect("a part");
    let replica = start_new(&log).await;
    replica.wait_for(&chain).await;
    replica.check(&chain, 0);
    replica.stop();

    log.space.truncate_generation(log.generation, log.sequence);
    let space = Arc::new(log.space.clone());
    let refused = Replica::load(config(), space, log.depot.clone()).await.err();
    let Some(ReplicaError::NoSnapshot { reasons, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(reasons.contains("the log begins at"), "{reasons}");
}
