//! Damage of a log in a directory: batches that are flipped or deleted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use replica::{LoggedBlocks, Replica, ReplicaConfig};
use replicated_log::{LogConfig, LogMessage, LogSpace, MessageKind, StoredMessage, open_log_space};

use crate::logged_blocks::{LEVEL_MIN, check_final_blocks, final_blocks, read_open_blocks};
use crate::rig::{config, start};
use crate::source_chain::{FIRST_SLOT, SourceChain};
use crate::source_log::{CLUSTER, SourceLog};

async fn open(dir: &Path) -> Arc<dyn LogSpace> {
    let config = LogConfig {
        url: format!("file://{}", dir.display()),
        cluster: CLUSTER.to_owned(),
        replicas: 1,
        max_age: Duration::from_secs(3_600),
        max_bytes: 1 << 30,
        in_flight_bytes: 1 << 20,
        request_timeout: Duration::from_secs(10),
    };
    open_log_space(&config).await.expect("a directory")
}

/// Appends the messages that a log in memory has and its copy lacks. Each record is a batch.
async fn copy_generation(log: &SourceLog, space: &dyn LogSpace) {
    space.create_generation(log.generation).await.expect("a directory");
    let copy = space.open_generation(log.generation).await.expect("a generation");
    let mut last = copy.tail().await.expect("a directory").last;
    let messages = log.space.stored_messages(log.generation);
    let missing: Vec<_> = messages.into_iter().filter(|it| it.sequence > last).collect();
    for record in missing.chunk_by(|_, next| next.kind == MessageKind::Body) {
        let messages = record.iter().map(|StoredMessage { kind, payload, .. }| {
            let payload = payload.clone();
            LogMessage { kind: *kind, payload }
        });
        last = copy.append(last, messages.collect()).await.expect("no other writer");
    }
    assert_eq!(last, log.sequence);
}

async fn extend(chain: &mut SourceChain, log: &mut SourceLog, blocks: usize) {
    for _ in 0..blocks {
        let steps = chain.extend(chain.tip);
        log.append_steps(chain, &steps).await;
    }
}

/// Finds the batch with this message.
fn find_batch(dir: &Path, sequence: u64) -> PathBuf {
    let mut batches: Vec<(u64, PathBuf)> = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let is_marker = path.parent().is_some_and(|dir| dir.ends_with("generations"));
            let name = path.file_name().and_then(|name| name.to_str());
            match name.and_then(|name| name.parse::<u64>().ok()) {
                _ if path.is_dir() => dirs.push(path),
                Some(first) if !is_marker => batches.push((first, path)),
                _ => {}
            }
        }
    }
    batches.sort();
    let found = batches.into_iter().rev().find(|(first, _)| *first <= sequence);
    found.expect("a batch").1
}

/// Flips a bit in the middle of a batch.
fn flip_middle(path: &Path) {
    let mut bytes = std::fs::read(path).expect("a batch");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).expect("a batch");
}

/// A replica meets a batch that was changed, and jumps to a snapshot after it.
async fn check_jump(seed: u64, names: &[&str], change: impl Fn(&Path)) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut chain = SourceChain::new(seed);
    let mut log = SourceLog::new(&chain).await;
    extend(&mut chain, &mut log, 20).await;
    let damaged = log.positions[&chain.tip].sequence;
    let space = open(dir.path()).await;
    copy_generation(&log, &*space).await;
    // It is loaded before there is a snapshot after the damage. A reader of a directory polls.
    let config = ReplicaConfig { idle_check_interval: Duration::from_millis(500), ..config() };
    let loaded = Replica::load(config, open(dir.path()).await, log.depot.clone()).await;
    let replica = loaded.unwrap_or_else(|err| panic!("no replica: {err}"));
    extend(&mut chain, &mut log, 20).await;
    let root = chain.root;
    log.write_snapshot(&chain, root).await;
    extend(&mut chain, &mut log, 10).await;
    copy_generation(&log, &*space).await;
    change(&find_batch(dir.path(), damaged));
    let replica = start(replica);
    replica.wait_for(&chain).await;
    replica.check(&chain, root);
    let found: u64 = names.iter().map(|name| replica.faults(name)).sum();
    assert!(found > 0, "{names:?}: {:?}", replica.status.last_fault());
    assert_eq!(replica.faults("unreachable"), 0);
    assert_eq!(replica.status.jumps(), 1);
    replica.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_batch_is_damage_and_ends_with_a_jump() {
    check_jump(50, &["damaged"], flip_middle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_batch_is_missing_and_ends_with_a_jump() {
    let delete = |path: &Path| std::fs::remove_file(path).expect("a batch");
    check_jump(51, &["missing"], delete).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn final_blocks_before_a_damaged_end_are_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut chain = SourceChain::new(52);
    let mut log = SourceLog::new(&chain).await;
    extend(&mut chain, &mut log, 20).await;
    copy_generation(&log, &*open(dir.path()).await).await;
    // The marks after the newest block.
    flip_middle(&find_batch(dir.path(), log.sequence));
    let space = open(dir.path()).await;
    let from = FIRST_SLOT + 1;
    let opened = LoggedBlocks::open(&*space, &log.depot, CLUSTER, from, LEVEL_MIN).await;
    let mut logged = opened.expect("a directory").expect("it has blocks");
    let blocks = read_open_blocks(&mut logged).await;
    let finals = final_blocks(&chain);
    check_final_blocks(&blocks, &chain, &finals[..finals.len() - 1]);
    assert!(logged.is_incomplete());
}
