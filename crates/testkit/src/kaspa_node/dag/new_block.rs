//! Builds new blocks, and checks those parts of a block that do not depend on UTXOs.

use std::collections::HashSet;

use kaspa::{BlueWork, Hash, Header, ParentLevels, Parents, Transaction};

use super::blocks::{Accepted, Blocks, ChainState, Ghostdag};
use super::coinbase::{Miner, coinbase, merkle_root};

/// The version of headers since Toccata.
const HEADER_VERSION: u16 = 2;
/// The difficulty of simnet.
const BITS: u32 = 0x207f_ffff;
/// The most direct parents of a block, at 10 blocks a second.
pub(crate) const PARENTS_MAX: usize = 16;
/// The time between a block and its newest parent.
const BLOCK_INTERVAL_MS: u64 = 100;

/// A block that is not in the DAG yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBlock {
    /// The header, whose nonce may be changed.
    pub header: Header,
    /// The transactions, the coinbase first.
    pub transactions: Vec<Transaction>,
}

/// Why a block is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidBlock {
    /// A parent does not exist.
    UnknownParent(Hash),
    /// The number of parents or of coinbases is wrong, or two inputs spend the same output.
    Malformed,
    /// The root over its transactions is wrong.
    MerkleRoot,
    /// A score or the work is wrong.
    Scores,
}

impl Blocks {
    /// Builds a block that merges `ghostdag` and accepts `state`.
    pub(crate) fn build_block(
        &self,
        parents: &[Hash],
        ghostdag: &Ghostdag,
        state: &ChainState,
        miner: &Miner,
        transactions: Vec<Transaction>,
    ) -> NewBlock {
        let coinbase = coinbase(ghostdag, state, miner);
        let transactions: Vec<Transaction> =
            std::iter::once(coinbase).chain(transactions).collect();
        let times = parents.iter().map(|parent| self.expect_block(parent).header.timestamp_ms);
        let header = Header {
            version: HEADER_VERSION,
            parents: parent_levels(parents, self.genesis()),
            hash_merkle_root: merkle_root(&transactions),
            accepted_id_merkle_root: self.accepted_root(ghostdag, state),
            utxo_commitment: Hash(state.mu_hash.finalize()),
            timestamp_ms: times.max().unwrap_or(0) + BLOCK_INTERVAL_MS,
            bits: BITS,
            nonce: 0,
            daa_score: ghostdag.daa_score,
            blue_work: big_endian(ghostdag.blue_work),
            blue_score: ghostdag.blue_score,
            pruning_point: self.genesis(),
        };
        NewBlock { header, transactions }
    }

    /// Returns a stand-in for the commitment of KIP-21.
    fn accepted_root(&self, ghostdag: &Ghostdag, state: &ChainState) -> Hash {
        let mut hasher = blake3::Hasher::new();
        if let Some(parent) = &ghostdag.selected_parent {
            hasher.update(&self.expect_block(parent).header.accepted_id_merkle_root.0);
        }
        for accepted in &state.accepted {
            hasher.update(&self.accepted_id(accepted).0);
        }
        Hash(hasher.finalize().into())
    }

    /// The id of an accepted transaction.
    pub(crate) fn accepted_id(&self, accepted: &Accepted) -> Hash {
        self.expect_block(&accepted.block).transaction_ids[accepted.index]
    }

    /// Checks parents, Merkle root and scores.
    pub(crate) fn check_header(
        &self,
        header: &Header,
        transactions: &[Transaction],
    ) -> Result<Ghostdag, InvalidBlock> {
        let parents = header.parents.direct();
        if let Some(parent) = parents.iter().find(|parent| self.find(parent).is_none()) {
            return Err(InvalidBlock::UnknownParent(*parent));
        }
        if parents.is_empty() || parents.len() > PARENTS_MAX || !are_well_formed(transactions) {
            return Err(InvalidBlock::Malformed);
        }
        if header.hash_merkle_root != merkle_root(transactions) {
            return Err(InvalidBlock::MerkleRoot);
        }
        let ghostdag = self.merge_parents(parents);
        let is_right = header.daa_score == ghostdag.daa_score
            && header.blue_score == ghostdag.blue_score
            && header.blue_work == big_endian(ghostdag.blue_work)
            && header.bits == BITS;
        if is_right { Ok(ghostdag) } else { Err(InvalidBlock::Scores) }
    }
}

/// Whether the first transaction is the only coinbase, and no output is spent twice.
fn are_well_formed(transactions: &[Transaction]) -> bool {
    let Some((first, others)) = transactions.split_first() else { return false };
    let mut spent = HashSet::new();
    let mut inputs = transactions.iter().flat_map(|transaction| &transaction.inputs);
    first.is_coinbase()
        && !others.iter().any(Transaction::is_coinbase)
        && inputs.all(|input| spent.insert(input.previous_outpoint))
}

/// Returns the direct parents, and the first block on two higher levels, so that headers have more than one run.
fn parent_levels(parents: &[Hash], genesis: Hash) -> Parents {
    let mut runs = vec![ParentLevels { cumulative_level: 1, parents: parents.to_vec() }];
    if parents != [genesis] {
        runs.push(ParentLevels { cumulative_level: 3, parents: vec![genesis] });
    }
    Parents::new(runs).expect("levels increase")
}

fn big_endian(work: u64) -> BlueWork {
    let mut bytes = [0; 24];
    bytes[16..].copy_from_slice(&work.to_be_bytes());
    BlueWork(bytes)
}
