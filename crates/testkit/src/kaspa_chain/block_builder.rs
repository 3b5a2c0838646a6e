//! Chain blocks with real hashes and commitments. The builder knows the hash of the UTXO set, and not the set.
//!
//! Input: accepted transactions with the outputs that they spend. Output: blocks as in the reply to
//! getVirtualChainFromBlockV2, each on the one before.
//! Shape: a header has parents on twenty levels, as on mainnet. Only the first parent exists.

use kaspa::{
    AcceptedTransaction, AcceptingBlock, BlockTemplate, Hash, Header, Network, Outpoint,
    ParentLevels, Parents,
};
use muhash::MuHash;

/// The score of the first block: that of a chain some months old.
const START_DAA_SCORE: u64 = 100_000_000;
/// Levels of a header's parents, and parents on each of them: 200 hashes.
const PARENT_LEVELS: u8 = 20;
const PARENTS: usize = 10;

/// A chain that grows block by block.
pub struct BlockBuilder {
    /// The header of the newest block.
    sink: Header,
    sink_hash: Hash,
    /// The product over the UTXO set after it.
    product: MuHash,
}

impl BlockBuilder {
    /// Starts at a block with a UTXO set of this product.
    pub fn new(product: MuHash) -> Self {
        let sink = Header {
            utxo_commitment: Hash(product.finalize()),
            daa_score: START_DAA_SCORE,
            blue_score: START_DAA_SCORE,
            ..Network::Simnet.genesis()
        };
        Self { sink_hash: sink.hash(), sink, product }
    }

    /// The header of the newest block.
    pub fn sink(&self) -> &Header {
        &self.sink
    }

    /// The DAA score of the next block, which all outputs have that it accepts.
    pub fn next_daa_score(&self) -> u64 {
        self.sink.daa_score + 1
    }

    /// A template with this DAA score, for a virtual block that accepts nothing.
    pub fn empty_template(&self, daa_score: u64) -> BlockTemplate {
        BlockTemplate { header: Header { daa_score, ..self.next_header() }, is_synced: true }
    }

    /// Makes the next block.
    pub fn build_block(&mut self, transactions: Vec<AcceptedTransaction>) -> AcceptingBlock {
        let daa_score = self.next_daa_score();
        for AcceptedTransaction { id, transaction, spent, .. } in &transactions {
            for (input, entry) in transaction.inputs.iter().zip(spent) {
                self.product.remove(&entry.element(&input.previous_outpoint));
            }
            for (index, output) in (0..).zip(&transaction.outputs) {
                let outpoint = Outpoint { transaction_id: *id, index };
                let entry = output.to_utxo(daa_score, transaction.is_coinbase());
                self.product.add(&entry.element(&outpoint));
            }
        }
        self.product.normalize();
        let header = self.next_header();
        let hash = header.hash();
        self.sink = header.clone();
        self.sink_hash = hash;
        AcceptingBlock { hash, header, transactions }
    }

    fn next_header(&self) -> Header {
        let levels = (1..=PARENT_LEVELS).map(|level| {
            let mut parents = vec![Hash([level; 32]); PARENTS];
            parents[0] = self.sink_hash;
            ParentLevels { cumulative_level: level, parents }
        });
        Header {
            parents: Parents::new(levels.collect()).expect("the levels increase"),
            utxo_commitment: Hash(self.product.finalize()),
            timestamp_ms: self.sink.timestamp_ms + 100,
            daa_score: self.next_daa_score(),
            blue_score: self.sink.blue_score + 1,
            ..self.sink.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use chain_kaspa::{ChainConfig, ChainLoader, TemplateCheck, hash_utxos};

    use super::super::{UtxoPool, dust_utxo};
    use super::*;

    const SCRIPTS: u32 = 200;

    #[test]
    fn a_chain_accepts_the_blocks_of_a_builder() {
        let utxos: Vec<_> = (0..SCRIPTS).map(|number| dust_utxo(number, 1)).collect();
        let mut builder = BlockBuilder::new(hash_utxos(&utxos));
        let mut pool = UtxoPool::new(7, SCRIPTS);
        let config = ChainConfig::new(10_000);
        let mut loader = ChainLoader::new(config, builder.sink().clone());
        loader.insert(&utxos).expect("room");
        let mut chain = loader.finish().expect("the set of the header");
        chain.join_virtual();
        let template = builder.empty_template(chain.status().virtual_daa_score);
        assert_eq!(chain.check_template(&template), TemplateCheck::Matched);
        for _ in 0..5 {
            let dropped = pool.make_transaction(2, 2);
            pool.restore_inputs(&dropped);
            let made: Vec<_> = (0..10).map(|_| pool.make_transaction(2, 2)).collect();
            let daa_score = builder.next_daa_score();
            made.iter().for_each(|transaction| pool.add_outputs(transaction, daa_score));
            let mut accepted: Vec<_> =
                made.into_iter().map(|transaction| transaction.accepted).collect();
            accepted.push(pool.make_reward(&[1, 1, 2]));
            let mut step = chain.start_step(&[]).expect("a step");
            step.add_block(builder.build_block(accepted)).expect("an honest block");
            step.commit();
            drop(chain.publish().expect("a publication"));
        }
        assert_eq!(chain.status().supply.utxos, u64::from(SCRIPTS) + 5 * 3);
        assert_eq!(chain.sink().hash, builder.sink().hash());
    }
}
