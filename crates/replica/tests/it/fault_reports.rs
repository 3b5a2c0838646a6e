//! Faults at which a replica is stuck are reported to the ingesters, if a snapshot mends them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cluster_snapshot::fault_reports::{
    FAULT_REPORT_BYTES_MAX, FaultReport, fault_report_dir, parse_fault_report_key,
};
use replica::{Replica, ReplicaConfig};
use solana_hash::Hash;
use testkit::eventually::{TIMEOUT, eventually};

use crate::damage::expect_fault_and_jump;
use crate::rig::{config, load, start};
use crate::source_chain::SourceChain;
use crate::source_log::{CLUSTER, SourceLog};
use crate::watched_log::WatchedSpace;

/// Waits for the first report of a fault. Returns its key.
async fn wait_for_report(log: &SourceLog) -> String {
    let found = async {
        loop {
            let found = log.depot.list(&fault_report_dir(CLUSTER)).await.expect("a store");
            match found.into_iter().next() {
                Some(object) => return object.key,
                None => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(TIMEOUT, found).await.expect("a report")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_is_reported_although_the_log_flaps() {
    let mut chain = SourceChain::new(12);
    let mut log = SourceLog::new(&chain).await;
    let space = WatchedSpace::new(&log.space);
    let config = ReplicaConfig { report_delay: Duration::from_millis(50), ..config() };
    let loaded = Replica::load(config, Arc::new(space.clone()), log.depot.clone()).await;
    let replica = start(loaded.unwrap_or_else(|err| panic!("no replica: {err}")));
    let steps = chain.extend(chain.tip);
    log.append_steps(&chain, &steps).await;
    replica.wait_for(&chain).await;
    space.watch.flaps.store(true, Ordering::Relaxed);
    let block = chain.make_block(chain.tip);
    let record =
        log.encode_block(&chain, block, |block| block.bank_hash = Hash::new_from_array([8; 32]));
    log.append(&record).await;
    let key = wait_for_report(&log).await;
    assert_eq!(parse_fault_report_key(&key), Some((log.generation, log.sequence)));
    replica.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_without_a_way_to_continue_is_reported() {
    let mut chain = SourceChain::new(10);
    let mut log = SourceLog::new(&chain).await;
    let report_delay = Duration::from_millis(50);
    let config = ReplicaConfig { report_delay, ..config() };
    let replica = start(load(config, &log, &log.depot).await);
    for _ in 0..12 {
        let steps = chain.extend(chain.tip);
        log.append_steps(&chain, &steps).await;
    }
    replica.wait_for(&chain).await;
    replica.wait_for_end(&log).await;
    let sequence = log.sequence;
    let block = chain.make_block(chain.tip);
    let record =
        log.encode_block(&chain, block, |block| block.bank_hash = Hash::new_from_array([8; 32]));
    log.append(&record).await;

    let key = wait_for_report(&log).await;
    // The reader of the log is after the record that the writer refused.
    assert_eq!(parse_fault_report_key(&key), Some((log.generation, log.sequence)));
    assert!(log.sequence > sequence);
    let body = log.depot.get(&key, FAULT_REPORT_BYTES_MAX).await.expect("a report");
    let report = FaultReport::parse(std::str::from_utf8(&body).expect("text")).expect("a report");
    assert_eq!(report.what, "bank_hash");
    assert_eq!(report.slot, chain.blocks[block].block.id.slot);
    assert_eq!(report.confirmed, chain.blocks[chain.confirmed].block.id.slot);
    assert_eq!(report.record, log.number);
    expect_fault_and_jump("bank_hash", chain, log, replica).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_that_no_snapshot_mends_is_not_reported() {
    let mut chain = SourceChain::new(11);
    let mut log = SourceLog::new(&chain).await;
    let config = ReplicaConfig { report_delay: Duration::ZERO, ..config() };
    let replica = start(load(config, &log, &log.depot).await);
    let block = chain.make_block(chain.tip);
    let record = log.encode_block(&chain, block, |block| block.bank_hash = Hash::default());
    log.append(&record).await;

    let describe = || format!("{:?}", replica.status.last_fault());
    // It says so after the attempt to report the fault.
    let reason = "broken: no_sum; no snapshot to jump to";
    let is_stuck = || replica.status.not_ready_reason().as_deref() == Some(reason);
    eventually(is_stuck, describe).await;
    let reports = log.depot.list(&fault_report_dir(CLUSTER)).await.expect("a list");
    assert!(reports.is_empty(), "{reports:?}");
    replica.stop();
}
