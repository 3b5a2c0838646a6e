//! The import from a real kaspad on simnet. Run by name, with `HYDRANT_KASPAD` as the path of the program: kaspad
//! 2.1.0, built with its feature `devnet-prealloc`.

use std::sync::Arc;

use chain_kaspa::ChainConfig;
use follow_kaspa::{ImportConfig, ImportProgress, PeerConfig, import_chain};
use kaspa::{Block, BlockDagInfo, Hash, Method, Network};
use tokio::runtime::Handle;

use crate::kaspad::{Kaspad, address};
use crate::world::{World, config};

/// Addresses of the ledger: a script with many UTXOs has an address for each of them.
const ADDRESSES_MAX: u32 = 1_000_000;
/// Parameters with which kaspad prunes after a few hundred blocks, as in its own tests.
const FAST_PRUNING: &str = r#"{
    "timestamp_deviation_tolerance": 16, "difficulty_window_size": 32, "min_difficulty_window_size": 16,
    "pruning_proof_m": 16,
    "blockrate": {
        "target_time_per_block": 100, "ghostdag_k": 10, "past_median_time_sample_rate": 1,
        "difficulty_sample_rate": 1, "max_block_parents": 10, "mergeset_size_limit": 32, "merge_depth": 64,
        "finality_depth": 100, "pruning_depth": 200, "coinbase_maturity": 10
    }
}"#;

async fn import(kaspad: &Kaspad, dir: &tempfile::TempDir) -> chain_kaspa::Chain {
    let peer = PeerConfig::parse(&kaspad.p2p().to_string(), Network::Simnet).expect("an address");
    let path = dir.path().join("kaspa.snapshot");
    let import = ImportConfig::new(Network::Simnet, vec![kaspad.source()], vec![peer], path);
    let runtime = Handle::current();
    let progress = Arc::new(ImportProgress::default());
    let run = move || {
        let chain = import_chain(&runtime, &import, &ChainConfig::new(ADDRESSES_MAX), &progress);
        assert_eq!(progress.transfers(), 1, "{progress}");
        chain.expect("a chain")
    };
    tokio::task::spawn_blocking(run).await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kaspad"]
async fn a_real_kaspad_sends_sets_of_many_chunks() {
    // One chunk below a window of 99, a whole window, and more.
    for utxos in [98_500, 99_000, 150_000_u64] {
        let mut kaspad = Kaspad::start_with(&[
            &format!("--num-prealloc-utxos={utxos}"),
            &format!("--prealloc-address={}", address(1)),
            "--prealloc-amount=1000",
        ])
        .await;
        let dir = tempfile::tempdir().expect("a directory");
        let chain = import(&kaspad, &dir).await;
        assert_eq!(chain.status().supply.utxos, utxos);
        assert_eq!(chain.status().supply.sompi, utxos * 1_000);
        let world = World::start_with(config(vec![kaspad.source()]), chain);
        kaspad.mine(5).await;
        kaspad.assert_followed(&world).await;
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kaspad"]
async fn a_real_kaspad_that_prunes_is_followed_from_its_pruning_point() {
    let dir = tempfile::tempdir().expect("a directory");
    let parameters = dir.path().join("parameters.json");
    std::fs::write(&parameters, FAST_PRUNING).expect("it is written");
    let parameters = format!("--override-params-file={}", parameters.display());
    let mut kaspad = Kaspad::start_with(&[&parameters]).await;
    let genesis = Network::Simnet.genesis().hash();
    let mut blocks = 0;
    while pruning_point(&mut kaspad).await == genesis {
        kaspad.mine(50).await;
        blocks += 50;
        assert!(blocks < 2_000, "nothing is pruned");
    }
    let block = pruning_point(&mut kaspad).await;
    let chain = import(&kaspad, &dir).await;
    assert_eq!(chain.sink().hash, block);
    assert!(chain.status().supply.utxos > 0);
    let world = World::start_with(config(vec![kaspad.source()]), chain);
    kaspad.assert_followed(&world).await;
    kaspad.mine(20).await;
    kaspad.assert_followed(&world).await;
    assert_eq!(world.status.chain().counters.refused, 0);
    world.stop().await;
}

/// Returns the pruning point of a kaspad, whose header it has.
async fn pruning_point(kaspad: &mut Kaspad) -> Hash {
    let structure = kaspad.call(Method::GetBlockDagInfo.encode_borsh_request(1)).await;
    let block = BlockDagInfo::decode_borsh(&structure).expect("a reply").pruning_point;
    let structure = kaspad.call(Method::encode_borsh_get_block(1, &block, false)).await;
    assert_eq!(Block::decode_borsh(&structure).expect("a block").header.hash(), block);
    block
}
