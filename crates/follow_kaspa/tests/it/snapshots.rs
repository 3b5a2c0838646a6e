//! The snapshot file: written while the chain is followed, checked when it is loaded.

use std::path::Path;
use std::time::Duration;

use chain_kaspa::ChainConfig;
use follow_kaspa::{
    FollowError, RestartBase, SnapshotConfig, SnapshotError, load_snapshot, start_chain,
};
use kaspa::Network;
use ledger::Commitment;
use testkit::eventually::eventually;
use testkit::kaspa_node::KaspaNode;

use crate::world::{World, chain_config, config, reorganize_offline, source};

fn short_chain() -> ChainConfig {
    ChainConfig { depth_max: 3, ..chain_config() }
}

/// Follows a node until a file of a block above the first one is written.
async fn write_snapshot(node: &KaspaNode, path: &Path) {
    let mut config = config(vec![source(node)]);
    let interval = Duration::from_millis(5);
    config.snapshot = Some(SnapshotConfig { path: path.to_owned(), interval });
    let world = World::start(config, short_chain());
    world.reach_sink(node).await;
    let root = world.status.chain().root.hash;
    let is_written = || {
        let loaded = load_snapshot(path, Network::Simnet, chain_config());
        loaded.is_ok_and(|chain| chain.sink().hash == root)
    };
    eventually(is_written, || format!("{:?}", world.status.last_snapshot_error())).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_continues_from_its_file() {
    let node = KaspaNode::start().await;
    node.mine(30);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("utxos.snapshot");
    write_snapshot(&node, &path).await;
    node.mine(10);
    node.reorganize(5);
    let chain = start_chain(Network::Simnet, short_chain(), Some(&path)).expect("a chain");
    assert!(chain.sink().daa_score > 20, "it does not start at the first block");
    let world = World::start_with(config(vec![source(&node)]), chain);
    world.reach_sink(&node).await;
    node.mine(4);
    world.reach_virtual(&node).await;
    assert!(world.reader.utxos.view(Commitment::Confirmed).meta().is_proven());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_is_refused() {
    let node = KaspaNode::start().await;
    node.mine(12);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("utxos.snapshot");
    write_snapshot(&node, &path).await;
    let bytes = std::fs::read(&path).expect("it was written");
    let damaged = dir.path().join("damaged");
    let load = |bytes: &[u8]| {
        std::fs::write(&damaged, bytes).expect("it is written");
        load_snapshot(&damaged, Network::Simnet, ChainConfig::new(1_000)).err()
    };
    assert!(load(&bytes).is_none());
    for len in 0..bytes.len() {
        assert!(load(&bytes[..len]).is_some(), "cut after {len}");
    }
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(load(&flipped).is_some(), "flipped at {at}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(load(&longer), Some(SnapshotError::Damaged { .. })));
    let other = load_snapshot(&path, Network::Devnet, chain_config()).err();
    assert!(matches!(other, Some(SnapshotError::OtherNetwork { .. })), "{other:?}");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("it is written");
    let refused = start_chain(Network::Simnet, chain_config(), Some(&path)).err();
    assert!(matches!(refused, Some(FollowError::Snapshot { .. })), "{refused:?}");
}

/// Follows a node from its snapshot file, until the node leaves our final block. Returns the base of the restart.
async fn follow_until_restart(node: &KaspaNode, path: &Path, depth: usize) -> RestartBase {
    let chain = start_chain(Network::Simnet, short_chain(), Some(path)).expect("a chain");
    let mut config = config(vec![source(node)]);
    let interval = Duration::from_secs(3_600);
    config.snapshot = Some(SnapshotConfig { path: path.to_owned(), interval });
    let world = World::start_with(config, chain);
    world.reach_sink(node).await;
    reorganize_offline(node, depth).await;
    match world.wait_for_end().await {
        FollowError::Restart { base, .. } => base,
        end => panic!("{end:?}"),
    }
}

fn load_block(path: &Path) -> Option<kaspa::Hash> {
    let loaded = load_snapshot(path, Network::Simnet, chain_config());
    loaded.ok().map(|chain| chain.sink().hash)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deep_reorganization_starts_again_from_a_file_below_it() {
    let node = KaspaNode::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("utxos.snapshot");
    let previous = dir.path().join("utxos.snapshot.previous");
    let low = dir.path().join("low");
    node.mine(30);
    write_snapshot(&node, &path).await;
    std::fs::copy(&path, &low).expect("it was written");
    let low_block = load_block(&low);
    // The file is below the reorganization, and our final block is not.
    node.mine(10);
    assert_eq!(follow_until_restart(&node, &path, 8).await, RestartBase::Snapshot);
    assert_eq!(load_block(&path), low_block);
    // The newest file is of a block that leaves. The one before is loaded.
    node.mine(4);
    write_snapshot(&node, &path).await;
    std::fs::copy(&low, &previous).expect("it is written");
    assert_eq!(follow_until_restart(&node, &path, 8).await, RestartBase::PreviousSnapshot);
    assert_eq!(load_block(&path), low_block);
    // Both files are of blocks that leave.
    node.mine(4);
    write_snapshot(&node, &path).await;
    std::fs::copy(&path, &previous).expect("it is written");
    assert_eq!(follow_until_restart(&node, &path, 8).await, RestartBase::Genesis);
    assert_eq!(load_block(&path), None);
    let chain = start_chain(Network::Simnet, short_chain(), Some(&path)).expect("the first block");
    let world = World::start_with(config(vec![source(&node)]), chain);
    world.reach_virtual(&node).await;
    world.stop().await;
}

#[test]
fn a_missing_file_means_the_first_block() {
    let path = Path::new("/nonexistent/utxos.snapshot");
    let chain = start_chain(Network::Simnet, chain_config(), Some(path)).expect("the first block");
    assert_eq!(chain.sink().hash, Network::Simnet.genesis().hash());
    let mainnet = start_chain(Network::Mainnet, chain_config(), Some(path)).err();
    assert!(matches!(mainnet, Some(FollowError::NeedsSnapshot { .. })), "{mainnet:?}");
}
