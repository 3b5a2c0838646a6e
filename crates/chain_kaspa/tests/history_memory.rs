//! The bytes of the history as it estimates them, compared with an allocator's count.

use chain_kaspa::{Chain, ChainConfig, ChainLoader, HistoryLimits};
use kaspa::{
    AcceptedTransaction, AcceptingBlock, AddressPayload, Hash, Header, Network, Outpoint,
    ParentLevels, Parents, ScriptPublicKey, SubnetworkId, Transaction, TransactionOutput,
};
use muhash::MuHash;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const BLOCKS: u64 = 400;
const TRANSACTIONS: u64 = 20;
/// Levels of parents of a header, and parents on each of them: 200 hashes.
const PARENT_LEVELS: u8 = 20;
const PARENTS: usize = 10;
/// Blocks that are not final share their header with the ledger.
const DEPTH: usize = 10;
/// How far the estimate may be from the allocator's count, as a part of it.
const ERROR_MAX: f64 = 0.3;

/// A chain of blocks that accept rewards only.
fn blocks() -> Vec<AcceptingBlock> {
    let mut product = MuHash::EMPTY;
    let mut parent = Network::Simnet.genesis();
    let mut blocks = Vec::new();
    for number in 1..=BLOCKS {
        let daa_score = parent.daa_score + 1;
        let transactions: Vec<AcceptedTransaction> =
            (0..TRANSACTIONS).map(|index| reward(number * TRANSACTIONS + index)).collect();
        for accepted in &transactions {
            for (index, output) in (0..).zip(&accepted.transaction.outputs) {
                let outpoint = Outpoint { transaction_id: accepted.id, index };
                product.add(&output.to_utxo(daa_score, true).element(&outpoint));
            }
        }
        // Parents on all levels, as on mainnet.
        let levels = (0..PARENT_LEVELS).map(|level| {
            let mut parents = vec![Hash([level; 32]); PARENTS];
            parents[0] = parent.hash();
            ParentLevels { cumulative_level: level + 1, parents }
        });
        let header = Header {
            parents: Parents::new(levels.collect()).expect("increasing levels"),
            utxo_commitment: Hash(product.finalize()),
            daa_score,
            blue_score: daa_score,
            ..parent
        };
        blocks.push(AcceptingBlock { hash: header.hash(), header: header.clone(), transactions });
        parent = header;
    }
    blocks
}

/// A reward for two scripts: one of its own, and one that all share.
fn reward(number: u64) -> AcceptedTransaction {
    let mut key = [1; 32];
    key[..8].copy_from_slice(&number.to_le_bytes());
    let output = |key| TransactionOutput {
        amount: 5,
        script_public_key: ScriptPublicKey::from_payload(&AddressPayload::PublicKey(key)),
        covenant: None,
    };
    let transaction = Transaction {
        outputs: vec![output(key), output([2; 32])],
        subnetwork_id: SubnetworkId::COINBASE,
        payload: number.to_le_bytes().to_vec(),
        ..Transaction::default()
    };
    let id = transaction.id();
    let block_hash = Hash::default();
    AcceptedTransaction { id, transaction, spent: Vec::new(), block_hash, block_time_ms: 0 }
}

/// Follows the chain. Returns it with the bytes that it takes.
fn follow(bytes_max: usize) -> (Chain, usize) {
    let before = ALLOCATOR.current_usage();
    let history = HistoryLimits { blocks_max: usize::MAX, bytes_max };
    let config = ChainConfig { history, depth_max: DEPTH, ..ChainConfig::new(100_000) };
    let loader = ChainLoader::new(config, Network::Simnet.genesis());
    let mut chain = loader.finish().expect("an empty set");
    for block in blocks() {
        let mut step = chain.start_step(&[]).expect("a step");
        step.add_block(block).expect("an honest chain");
        step.commit();
        drop(chain.publish().expect("a publication"));
        chain.reclaim();
    }
    let bytes = ALLOCATOR.current_usage() - before;
    (chain, bytes)
}

#[test]
fn the_estimate_is_near_the_allocators_count() {
    drop(follow(usize::MAX));
    let without_history = follow(0);
    let with_history = follow(usize::MAX);
    let history = with_history.0.reader().history();
    assert_eq!(history.blocks_len() as u64, BLOCKS);
    assert_eq!(history.transactions_len() as u64, BLOCKS * TRANSACTIONS);
    let counted = with_history.1.saturating_sub(without_history.1) as f64;
    let estimated = history.bytes() as f64;
    let error = (estimated - counted).abs() / counted;
    assert!(error < ERROR_MAX, "{estimated} bytes estimated, {counted} counted");

    let bounded = follow(history.bytes() / 4);
    let counted = bounded.1.saturating_sub(without_history.1) as f64;
    assert!(counted < 1.1 * (1.0 + ERROR_MAX) * estimated / 4.0, "{counted} bytes counted");
}
