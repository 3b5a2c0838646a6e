//! Chains that start with many UTXOs.

use anyhow::Result;
use chain_kaspa::{Chain, ChainConfig, ChainLoader, HistoryLimits, hash_utxos};
use kaspa::{Outpoint, UtxoEntry};
use muhash::MuHash;
use query::LedgerConfig;
use testkit::kaspa_chain::{BlockBuilder, dust_utxo};

/// UTXOs that are made at a time.
const BATCH_UTXOS: u32 = 8_192;
/// Publications after which nothing of the load is in memory that readers do not need.
const PUBLICATIONS: usize = 3;

/// The addresses that a ledger has room for in addition to those of its UTXOs.
pub(crate) const SPARE_ADDRESSES: u32 = 1_000_000;

/// Loads UTXOs `0..count` at rest. The set is not hashed, so no block can follow.
pub(crate) fn load_unhashed(
    config: ChainConfig,
    count: u32,
    make: impl Fn(u32) -> (Outpoint, UtxoEntry),
) -> Result<Chain> {
    let first = BlockBuilder::new(MuHash::EMPTY);
    let mut loader = ChainLoader::new(config, first.sink().clone());
    for batch in batches(count, make) {
        // The header commits to the empty set. It makes no difference for the memory.
        loader.insert_unhashed(&batch)?;
    }
    settle(loader.finish()?)
}

/// The hash of the UTXOs `0..scripts` of a pool, which takes some seconds for a million.
pub(crate) fn hash_pool(scripts: u32) -> MuHash {
    let mut product = MuHash::EMPTY;
    for batch in batches(scripts, |number| dust_utxo(number, 1)) {
        product.mix_in(&hash_utxos(&batch));
    }
    product.normalize();
    product
}

/// Loads the UTXOs `0..scripts` of a pool, which have this hash. `builder` makes the blocks above them.
pub(crate) fn load_pool(
    builder: &BlockBuilder,
    product: &MuHash,
    scripts: u32,
    depth_max: usize,
    history: HistoryLimits,
) -> Result<Chain> {
    let ledger = LedgerConfig::new(2 * scripts + SPARE_ADDRESSES);
    let config = ChainConfig { ledger, depth_max, history, ..ChainConfig::new(0) };
    let mut loader = ChainLoader::new(config, builder.sink().clone());
    loader.add_product(product);
    for batch in batches(scripts, |number| dust_utxo(number, 1)) {
        loader.insert_unhashed(&batch)?;
    }
    settle(loader.finish()?)
}

fn batches(
    count: u32,
    make: impl Fn(u32) -> (Outpoint, UtxoEntry),
) -> impl Iterator<Item = Vec<(Outpoint, UtxoEntry)>> {
    (0..count)
        .step_by(BATCH_UTXOS as usize)
        .map(move |first| (first..count.min(first + BATCH_UTXOS)).map(&make).collect())
}

fn settle(mut chain: Chain) -> Result<Chain> {
    for _ in 0..PUBLICATIONS {
        drop(chain.publish()?);
        chain.reclaim();
    }
    Ok(chain)
}
