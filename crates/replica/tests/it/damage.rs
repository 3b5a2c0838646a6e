//! Damage of the log is named, and nothing of it is shown.
//!
//! Not here: the reports of faults (`fault_reports`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chain_solana::wire::{BlockName, EncodedRecord, Mark, RecordDigest};
use chain_solana::{AccountWrite, Block, RevertReason};
use cluster_snapshot::fault_reports::fault_report_dir;
use ledger::{AddressId, Commitment, StoredRecord};
use replica::{Replica, ReplicaConfig, ReplicaError, ReplicaState};
use replicated_log::memory::{Faults, ReadFaults};
use solana::{Account, VerificationLevel};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use testkit::eventually::eventually;
use tokio::time::Instant;

use crate::rig::{RunningReplica, config, load, start, start_new};
use crate::source_chain::SourceChain;
use crate::source_log::{CLUSTER, RecordPosition, SourceLog};
use crate::watched_log::WatchedSpace;

/// A chain of some blocks, its log, and a replica that shows it.
async fn start_chain(seed: u64) -> (SourceChain, SourceLog, RunningReplica) {
    let mut chain = SourceChain::new(seed);
    let mut log = SourceLog::new(&chain).await;
    let replica = start_new(&log).await;
    for _ in 0..12 {
        let steps = chain.step();
        log.append_steps(&chain, &steps).await;
    }
    replica.wait_for(&chain).await;
    (chain, log, replica)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_single_reads_are_read_again() {
    let one = |rate| ReadFaults { failed: rate, ..ReadFaults::default() };
    let cases: [(ReadFaults, &[&str]); 5] = [
        (ReadFaults { flipped_bit: 40, ..one(0) }, &["value", "body"]),
        (ReadFaults { missing: 40, ..one(0) }, &["missing"]),
        (ReadFaults { doubled: 200, ..one(0) }, &["repeated"]),
        (ReadFaults { swapped: 40, ..one(0) }, &["order", "number"]),
        (one(40), &["unreachable"]),
    ];
    for (seed, (read, names)) in cases.into_iter().enumerate() {
        let seed = seed as u64;
        let mut chain = SourceChain::new(seed);
        let mut log = SourceLog::new(&chain).await;
        log.space.set_faults(Faults { seed, read, ..Faults::default() });
        let replica = start_new(&log).await;
        for _ in 0..60 {
            let steps = chain.step();
            log.append_steps(&chain, &steps).await;
        }
        replica.wait_for(&chain).await;
        replica.check(&chain, 0);
        let found: u64 = names.iter().map(|name| replica.faults(name)).sum();
        assert!(found > 0, "{read:?}");
        assert_eq!(replica.status.jumps(), 0, "{read:?}");
        replica.stop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_counted_and_not_delivered_are_missing() {
    let mut chain = SourceChain::new(8);
    let mut log = SourceLog::new(&chain).await;
    let space = WatchedSpace::new(&log.space);
    let loaded = Replica::load(config(), Arc::new(space.clone()), log.depot.clone()).await;
    let replica = start(loaded.unwrap_or_else(|err| panic!("no replica: {err}")));
    let steps = chain.extend(chain.tip);
    log.append_steps(&chain, &steps).await;
    replica.wait_for(&chain).await;
    space.watch.held_from.store(log.sequence + 1, Ordering::Relaxed);
    let steps = chain.extend(chain.tip);
    log.append_steps(&chain, &steps).await;
    let describe = || format!("{:?}", replica.status.last_fault());
    eventually(|| replica.faults("missing") > 0, describe).await;
    space.watch.held_from.store(u64::MAX, Ordering::Relaxed);
    replica.wait_for(&chain).await;
    replica.check(&chain, 0);
    assert_eq!(replica.status.jumps(), 0);
    replica.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_reader_ends_the_replica() {
    let mut chain = SourceChain::new(11);
    let mut log = SourceLog::new(&chain).await;
    let space = WatchedSpace::new(&log.space);
    let loaded = Replica::load(config(), Arc::new(space.clone()), log.depot.clone()).await;
    let replica = start(loaded.unwrap_or_else(|err| panic!("no replica: {err}")));
    let steps = chain.extend(chain.tip);
    log.append_steps(&chain, &steps).await;
    replica.wait_for(&chain).await;
    assert!(!replica.handle.is_finished());
    space.watch.panics_from.store(log.sequence + 1, Ordering::Relaxed);
    let steps = chain.extend(chain.tip);
    log.append_steps(&chain, &steps).await;
    eventually(|| replica.handle.is_finished(), || "it runs".to_owned()).await;
    assert_eq!(replica.status.state(), ReplicaState::Broken);
    assert!(matches!(replica.handle.stop(), Err(ReplicaError::Panicked)));
}

/// Waits for a fault of this name. Nothing newer is shown. Then a snapshot of a newer block ends it.
pub(crate) async fn expect_fault_and_jump(
    name: &str,
    mut chain: SourceChain,
    mut log: SourceLog,
    replica: RunningReplica,
) {
    let before = chain.blocks[chain.tip].block.id.slot;
    let is_named = || replica.faults(name) > 0;
    let describe = || format!("{name}: {:?}", replica.status.last_fault());
    eventually(is_named, describe).await;
    let shown = || replica.reader.view(Commitment::Processed).block().slot;
    assert!(shown() <= before, "{name}");
    eventually(|| replica.status.not_ready_reason().is_some(), || name.to_owned()).await;
    assert_ne!(replica.status.state(), ReplicaState::Ready, "{name}");

    // A later leader opens a generation from its newest root, which is above what the replica has confirmed.
    for _ in 0..20 {
        chain.extend(chain.tip);
    }
    let root = chain.root;
    log.positions.entry(root).or_insert_with(|| RecordPosition {
        name: BlockName { slot: chain.blocks[root].block.id.slot, number: log.number },
        digest: RecordDigest([77; 32]),
        generation: log.generation,
        sequence: 0,
    });
    log.number += 100;
    log.open_generation(&chain, root).await;
    let above: Vec<usize> =
        chain.chain_to(chain.tip).into_iter().skip_while(|block| *block != root).skip(1).collect();
    for block in above {
        log.append_block(&chain, block).await;
    }
    let marks =
        vec![Mark::TipMoved(log.name(chain.tip)), Mark::Confirmed(log.name(chain.confirmed))];
    log.append_marks(marks).await;
    replica.wait_for(&chain).await;
    replica.check(&chain, root);
    assert_eq!(replica.status.jumps(), 1, "{name}");
    let lines = replica.stop().lines();
    assert!(lines.iter().any(|line| line.starts_with("jumped")), "{name}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_message_that_is_damaged_is_named() {
    let (mut chain, mut log, replica) = start_chain(1).await;
    replica.stop();
    let replica = start_new(&log).await;
    replica.wait_for(&chain).await;
    replica.stop();
    // The damage is behind what a new replica can read.
    let damaged = log.sequence + 1;
    let kept = chain.tip;
    let block = chain.make_block(kept);
    log.append_block(&chain, block).await;
    log.space.damage_message(log.generation, damaged);
    let replica = start_new(&log).await;
    replica.wait_for(&chain).await;
    expect_fault_and_jump("value", chain, log, replica).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_to_read_a_damaged_record_again_are_apart() {
    let mut chain = SourceChain::new(9);
    let mut log = SourceLog::new(&chain).await;
    let reread_interval = Duration::from_millis(200);
    let pausing = || ReplicaConfig { reread_interval, ..config() };
    let replica = start(load(pausing(), &log, &log.depot).await);
    let steps = chain.extend(chain.tip);
    log.append_steps(&chain, &steps).await;
    replica.wait_for(&chain).await;
    replica.stop();

    let damaged = log.sequence + 1;
    let block = chain.make_block(chain.tip);
    log.append_block(&chain, block).await;
    log.space.damage_message(log.generation, damaged);
    let started = Instant::now();
    let replica = start(load(pausing(), &log, &log.depot).await);
    let describe = || format!("{:?}", replica.status.last_fault());
    eventually(|| replica.faults("value") >= 3, describe).await;
    assert!(started.elapsed() >= 2 * reread_interval);
    replica.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_break_the_chain_are_named() {
    for (name, seed) in [("number", 2), ("chain", 3), ("term", 4)] {
        let (mut chain, mut log, replica) = start_chain(seed).await;
        let block = chain.make_block(chain.tip);
        let record = match name {
            "number" => {
                log.append_block(&chain, block).await;
                log.number -= 1;
                log.encode_block(&chain, block, |_| ())
            }
            "chain" => {
                log.digest.0[0] ^= 1;
                log.encode_block(&chain, block, |_| ())
            }
            _ => {
                log.append_term(7).await;
                log.term = 3;
                log.encode_block(&chain, block, |_| ())
            }
        };
        log.append_raw(&record).await;
        expect_fault_and_jump(name, chain, log, replica).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ingester_of_too_low_a_level_is_refused_until_another_one_continues() {
    let level_min = Some(VerificationLevel::Sequence);
    let report_delay = Duration::ZERO;
    let config = || ReplicaConfig { level_min, report_delay, ..config() };
    let mut chain = SourceChain::new(40);
    let mut log = SourceLog::new(&chain).await;
    let depot = log.depot.clone();
    let replica = start(load(config(), &log, &depot).await);
    let steps = chain.extend(chain.tip);
    log.append_steps(&chain, &steps).await;
    replica.wait_for(&chain).await;

    log.level = None;
    log.append_term(2).await;
    let describe = || format!("{:?}", replica.status.last_fault());
    let reason = "broken: level; no snapshot to jump to";
    let is_refused = || replica.status.not_ready_reason().as_deref() == Some(reason);
    eventually(is_refused, describe).await;
    let fault = replica.status.last_fault().expect("a fault");
    assert!(fault.ends_with("level off, and consistent is needed here (--verify-min)"), "{fault}");
    // A generation of such an ingester is refused, too, and so is a start from its snapshot.
    let root = chain.root;
    log.open_generation(&chain, root).await;
    let space = Arc::new(log.space.clone());
    let refused = Replica::load(config(), space, depot.clone()).await;
    let Err(err) = refused else { panic!("a replica started") };
    assert!(err.to_string().contains("and consistent is needed here"), "{err}");

    log.level = level_min;
    expect_fault_and_jump("level", chain, log, replica).await;
    // Another generation of the same ingester would not help.
    let reports = depot.list(&fault_report_dir(CLUSTER)).await.expect("a list");
    assert!(reports.is_empty(), "{reports:?}");
}

/// A write that the sum does not contain, of an address above all others.
fn additional_write() -> AccountWrite {
    let account = AccountSharedData::new(1, 0, &Pubkey::new_from_array([200; 32]));
    AccountWrite {
        pubkey: Pubkey::new_from_array([250; 32]),
        id: AddressId(0),
        account: Some(StoredRecord::from(Arc::new(Account(account)))),
        removed_keys: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_that_contradict_their_sums_are_named() {
    type Edit = fn(&mut Block);
    let edits: [(&str, Edit); 5] = [
        ("sum", |block| block.writes.push(additional_write())),
        ("sum", |block| block.hash_components.lt_checksum = Hash::new_from_array([8; 32])),
        ("bank_hash", |block| block.bank_hash = Hash::new_from_array([8; 32])),
        ("bank_hash", |block| block.hash_components.signature_count += 1),
        ("no_sum", |block| block.bank_hash = Hash::default()),
    ];
    for (seed, (name, edit)) in edits.into_iter().enumerate() {
        let (mut chain, mut log, replica) = start_chain(10 + seed as u64).await;
        let block = chain.make_block(chain.tip);
        let record: EncodedRecord = log.encode_block(&chain, block, edit);
        log.append(&record).await;
        expect_fault_and_jump(name, chain, log, replica).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jump_that_leaves_the_confirmed_block_is_named() {
    let (mut chain, mut log, replica) = start_chain(30).await;
    for _ in 0..10 {
        let steps = chain.extend(chain.tip);
        log.append_steps(&chain, &steps).await;
    }
    replica.wait_for(&chain).await;
    let parent = chain.blocks[chain.confirmed].parent;
    // An ingester that did not know the confirmed block has jumped to the next one.
    let block = chain.make_block(chain.tip);
    let record = log.encode_jump(&chain, block, parent);
    log.append(&record).await;
    expect_fault_and_jump("jump", chain, log, replica).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_of_no_block_and_reverts_of_final_ones_are_named() {
    for (name, seed) in [("mark", 20), ("final_reverted", 21)] {
        let (chain, mut log, replica) = start_chain(seed).await;
        let root = log.name(chain.root);
        let mark = match name {
            // The record of a snapshot or of marks.
            "mark" => Mark::TipMoved(BlockName { slot: 500, number: log.number }),
            _ => Mark::Reverted { block: root, reason: RevertReason::Abandoned },
        };
        log.append_marks(vec![mark]).await;
        expect_fault_and_jump(name, chain, log, replica).await;
    }
}
