//! A small DAG of simnet's blocks: headers with their real hashes, commitments over the UTXO set, the virtual block.
//!
//! In: blocks and transactions. Out: the [`BlockEffects`] of each block, from which a node makes its notifications.
//! Shape: a block is checked when it is added. A block with a wrong commitment or invalid transactions stays in the
//! DAG, but off the selected chain. The virtual block merges the tips, and its selected parent is the sink.
//! Scores, the order of acceptance, coinbases, Merkle roots and differences follow kaspad 2.1.0. Simplifications:
//! colours (`ghostdag`), timestamps, parents on higher levels, and `accepted_id_merkle_root`, which is a hash over the
//! accepted ids instead of the commitment of KIP-21. There is no pruning and no finality.

mod acceptance;
mod blocks;
mod coinbase;
mod ghostdag;
mod mempool;
mod new_block;
mod utxo_diff;
mod utxo_set;
mod virtual_parents;

use std::collections::BTreeMap;
use std::sync::Arc;

use kaspa::{Hash, Header, Network, Outpoint, SubnetworkId, Transaction, UtxoEntry};
use muhash::MuHash;

use self::acceptance::{accept_merged, check_spend};
use self::blocks::Blocks;
pub use self::blocks::{Accepted, ChainPath, ChainState, DagBlock, Ghostdag, Reward};
pub use self::coinbase::Miner;
#[cfg(test)]
pub(crate) use self::coinbase::merkle_root;
use self::coinbase::{CoinbasePayload, coinbase};
pub use self::mempool::MempoolEntry;
use self::mempool::{Mempool, NextBlock};
pub use self::new_block::{InvalidBlock, NewBlock};
pub use self::utxo_diff::UtxoDiff;
use self::utxo_set::{UtxoSet, UtxoView};

/// The payload of simnet's first coinbase.
const GENESIS_PAYLOAD: &[u8] = b"\0\0\0\0\0\0\0\0\x00\xe1\xf5\x05\0\0\0\0\0\0\x01\0kaspa-simnet";

/// The DAG, with its virtual block and its mempool.
pub struct Dag {
    blocks: Blocks,
    /// At the sink, between calls.
    set: UtxoSet,
    virtual_block: VirtualBlock,
    mempool: Mempool,
    coinbase_maturity: u64,
}

/// The block that merges the tips.
#[derive(Clone, Debug)]
pub struct VirtualBlock {
    /// The parents, the sink first.
    pub parents: Vec<Hash>,
    /// The merged blocks and the scores.
    pub ghostdag: Ghostdag,
    /// The acceptance, relative to the UTXO set of the sink.
    pub state: ChainState,
}

/// The effects of adding a block.
#[derive(Clone, Debug)]
pub struct BlockEffects {
    /// The block. `None` if the DAG contained it before.
    pub added: Option<Arc<DagBlock>>,
    /// The change of the virtual block.
    pub change: VirtualChange,
}

/// A change of the virtual block.
#[derive(Clone, Debug)]
pub struct VirtualChange {
    /// The change of the selected chain.
    pub path: ChainPath,
    /// The difference between the UTXO sets of the old and the new virtual block.
    pub diff: UtxoDiff,
}

/// Whether a commitment is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommitmentCheck {
    Strict,
    Skipped,
}

impl Dag {
    /// A DAG with simnet's first block. Coinbases can be spent after `coinbase_maturity` DAA scores.
    pub fn new(coinbase_maturity: u64) -> Self {
        let header = Network::Simnet.genesis();
        let coinbase = Transaction {
            subnetwork_id: SubnetworkId::COINBASE,
            payload: GENESIS_PAYLOAD.to_vec(),
            ..Transaction::default()
        };
        let hash = header.hash();
        let ghostdag = Ghostdag {
            selected_parent: None,
            blues: Vec::new(),
            reds: Vec::new(),
            merge_order: Vec::new(),
            blue_score: 0,
            blue_work: 0,
            daa_score: 0,
        };
        let state = ChainState {
            accepted: Vec::new(),
            rewards: Vec::new(),
            diff: UtxoDiff::default(),
            mu_hash: MuHash::EMPTY,
        };
        let virtual_block = VirtualBlock {
            parents: vec![hash],
            ghostdag: Ghostdag { selected_parent: Some(hash), ..ghostdag.clone() },
            state: state.clone(),
        };
        let blocks = Blocks::new(DagBlock {
            hash,
            header,
            transaction_ids: vec![coinbase.id()],
            transactions: vec![coinbase],
            ghostdag,
            state: Some(state),
        });
        let mut dag = Self {
            blocks,
            set: UtxoSet::at_genesis(hash),
            virtual_block,
            mempool: Mempool::default(),
            coinbase_maturity,
        };
        dag.resolve_virtual();
        dag
    }

    /// The DAA scores after which a coinbase can be spent.
    pub fn coinbase_maturity(&self) -> u64 {
        self.coinbase_maturity
    }

    /// The first block.
    pub fn genesis(&self) -> Hash {
        self.blocks.genesis()
    }

    /// The tip of the selected chain.
    pub fn sink(&self) -> Arc<DagBlock> {
        Arc::clone(self.blocks.expect_block(&self.virtual_block.parents[0]))
    }

    /// The virtual block.
    pub fn virtual_block(&self) -> &VirtualBlock {
        &self.virtual_block
    }

    /// The commitment over the UTXO set of the virtual block.
    pub fn virtual_commitment(&self) -> Hash {
        Hash(self.virtual_block.state.mu_hash.finalize())
    }

    /// Returns a block by its hash.
    pub fn block(&self, hash: &Hash) -> Option<&Arc<DagBlock>> {
        self.blocks.find(hash)
    }

    /// The children of a block.
    pub fn children(&self, hash: &Hash) -> &[Hash] {
        self.blocks.children(hash)
    }

    /// The blocks without children.
    pub fn tips(&self) -> impl Iterator<Item = &Hash> {
        self.blocks.tips().iter()
    }

    /// The number of blocks above the first one.
    pub fn block_count(&self) -> u64 {
        self.blocks.count() as u64 - 1
    }

    /// Returns the path from a block to the sink.
    pub fn chain_path(&self, from: &Hash) -> ChainPath {
        self.blocks.chain_path(from, &self.virtual_block.parents[0])
    }

    /// The block of the selected chain that is `depth` blocks below the sink.
    pub fn chain_block(&self, depth: usize) -> Hash {
        let path = self.chain_path(&self.genesis());
        let chain: Vec<Hash> = std::iter::once(self.genesis()).chain(path.added).collect();
        let at = chain.len().checked_sub(depth + 1);
        chain[at.unwrap_or_else(|| panic!("the chain has {} blocks", chain.len()))]
    }

    /// Whether a block is on the selected chain.
    pub fn is_chain_block(&self, hash: &Hash) -> bool {
        self.chain_path(hash).removed.is_empty()
    }

    /// Returns all blocks except a block and its ancestors, by work.
    pub fn blocks_above(&self, low: &Hash) -> Vec<Hash> {
        let tips: Vec<Hash> = self.tips().copied().collect();
        let mut above = self.blocks.difference(&tips, low);
        above.sort_by_key(|hash| self.blocks.sort_key(hash));
        above
    }

    /// Returns the UTXO set of the virtual block, the content of a node's index.
    pub fn utxos(&self) -> BTreeMap<Outpoint, UtxoEntry> {
        let utxos = self.virtual_view().iter();
        utxos.map(|(outpoint, entry)| (*outpoint, entry.clone())).collect()
    }

    /// Returns the UTXO set after the acceptance of a chain block.
    pub fn utxos_at(&mut self, block: &Hash) -> BTreeMap<Outpoint, UtxoEntry> {
        self.set.move_to(&self.blocks, block);
        let utxos = self.set.utxos().map(|(outpoint, entry)| (*outpoint, entry.clone())).collect();
        self.set.move_to(&self.blocks, &self.virtual_block.parents[0]);
        utxos
    }

    /// The transactions in the mempool.
    pub fn mempool(&self) -> &[MempoolEntry] {
        self.mempool.entries()
    }

    /// Whether a new transaction can spend an output.
    pub fn is_spendable(&self, outpoint: &Outpoint) -> bool {
        let mature = |entry: &UtxoEntry| {
            let age = self.virtual_block.ghostdag.daa_score - entry.block_daa_score;
            !entry.is_coinbase || age >= self.coinbase_maturity
        };
        let is_mature = self.virtual_view().find(outpoint).is_some_and(mature);
        is_mature && !self.mempool.spends(outpoint)
    }

    fn virtual_view(&self) -> UtxoView<'_> {
        UtxoView { set: &self.set, diff: &self.virtual_block.state.diff }
    }

    /// Adds a transaction to the mempool. The error is the text that kaspad sends.
    pub fn submit_transaction(&mut self, transaction: Transaction) -> Result<Hash, String> {
        let next = NextBlock {
            view: UtxoView { set: &self.set, diff: &self.virtual_block.state.diff },
            daa_score: self.virtual_block.ghostdag.daa_score,
            coinbase_maturity: self.coinbase_maturity,
        };
        self.mempool.insert(transaction, next)
    }

    /// Builds a block on the parents of the virtual block, with the transactions of the mempool.
    pub fn build_template(&self, miner: &Miner) -> NewBlock {
        let VirtualBlock { parents, ghostdag, state } = &self.virtual_block;
        let transactions = self.mempool.select_ready(NextBlock {
            view: self.virtual_view(),
            daa_score: ghostdag.daa_score,
            coinbase_maturity: self.coinbase_maturity,
        });
        self.blocks.build_block(parents, ghostdag, state, miner, transactions)
    }

    /// Builds a block on any parents.
    pub fn build_block_on(
        &mut self,
        parents: &[Hash],
        miner: &Miner,
        transactions: Vec<Transaction>,
    ) -> NewBlock {
        let ghostdag = self.blocks.merge_parents(parents);
        let state = self.accept_at(&ghostdag);
        let mut parents = parents.to_vec();
        parents.sort_by_key(|parent| std::cmp::Reverse(self.blocks.sort_key(parent)));
        let block = self.blocks.build_block(&parents, &ghostdag, &state, miner, transactions);
        self.set.move_to(&self.blocks, &self.virtual_block.parents[0]);
        block
    }

    /// The id of an accepted transaction.
    pub fn accepted_id(&self, accepted: &Accepted) -> Hash {
        self.blocks.accepted_id(accepted)
    }

    /// Adds a block. A duplicate has no effect, but is not an error.
    pub fn add_block(&mut self, block: NewBlock) -> Result<BlockEffects, InvalidBlock> {
        self.insert(block, CommitmentCheck::Strict)
    }

    /// Adds a block without a check of its commitment and transactions, as a lying node would.
    pub fn add_unchecked(&mut self, block: NewBlock) -> Result<BlockEffects, InvalidBlock> {
        self.insert(block, CommitmentCheck::Skipped)
    }

    /// Adds a block as it is, off the selected chain: one that commits to a UTXO set which this DAG does not have.
    pub(crate) fn add_foreign_block(&mut self, header: Header) -> Hash {
        let hash = header.hash();
        self.blocks.insert(DagBlock {
            hash,
            header,
            transactions: Vec::new(),
            transaction_ids: Vec::new(),
            ghostdag: self.virtual_block.ghostdag.clone(),
            state: None,
        });
        hash
    }

    fn insert(
        &mut self,
        block: NewBlock,
        check: CommitmentCheck,
    ) -> Result<BlockEffects, InvalidBlock> {
        let NewBlock { header, transactions } = block;
        let hash = header.hash();
        if self.blocks.find(&hash).is_some() {
            return Ok(BlockEffects { added: None, change: self.resolve_virtual() });
        }
        let ghostdag = self.blocks.check_header(&header, &transactions)?;
        let state = self.check_state(&header, &transactions, &ghostdag, check);
        let transaction_ids: Vec<Hash> = transactions.iter().map(Transaction::id).collect();
        self.mempool.remove_block(&transactions, &transaction_ids);
        let block = DagBlock { hash, header, transactions, transaction_ids, ghostdag, state };
        let added = Some(self.blocks.insert(block));
        Ok(BlockEffects { added, change: self.resolve_virtual() })
    }

    /// Returns the state of a block, or `None` if it must stay off the selected chain.
    fn check_state(
        &mut self,
        header: &Header,
        transactions: &[Transaction],
        ghostdag: &Ghostdag,
        check: CommitmentCheck,
    ) -> Option<ChainState> {
        let selected = ghostdag.selected_parent?;
        self.blocks.expect_block(&selected).state.as_ref()?;
        let state = self.accept_at(ghostdag);
        let payload = CoinbasePayload::parse(&transactions[0].payload);
        let miner = Miner { script: payload.script, extra_data: Vec::new() };
        let expected = coinbase(ghostdag, &state, &miner);
        let view = UtxoView { set: &self.set, diff: &state.diff };
        let is_valid = |transaction: &Transaction| {
            let find = |outpoint: &Outpoint| view.find(outpoint);
            check_spend(transaction, ghostdag.daa_score, self.coinbase_maturity, find).is_ok()
        };
        let is_right = header.utxo_commitment.0 == state.mu_hash.finalize()
            && header.parents.direct()[0] == selected
            && expected.outputs == transactions[0].outputs
            && transactions[1..].iter().all(is_valid);
        (is_right || check == CommitmentCheck::Skipped).then_some(state)
    }

    /// Accepts the merge set of a block. Leaves the UTXO set at the selected parent.
    fn accept_at(&mut self, ghostdag: &Ghostdag) -> ChainState {
        if let Some(selected) = &ghostdag.selected_parent {
            self.set.move_to(&self.blocks, selected);
        }
        accept_merged(&self.blocks, &self.set, ghostdag, self.coinbase_maturity)
    }

    /// Recomputes the virtual block from the tips.
    fn resolve_virtual(&mut self) -> VirtualChange {
        let parents = self.blocks.pick_virtual_parents();
        let ghostdag = self.blocks.merge_parents(&parents);
        assert_eq!(ghostdag.selected_parent, Some(parents[0]), "the sink has the most work");
        let state = self.accept_at(&ghostdag);
        let path = self.blocks.chain_path(&self.virtual_block.parents[0], &parents[0]);
        let mut diff = self.virtual_block.state.diff.to_reversed();
        for hash in &path.removed {
            diff.append(&utxo_set::chain_diff(self.blocks.expect_block(hash)).to_reversed());
        }
        for hash in &path.added {
            diff.append(utxo_set::chain_diff(self.blocks.expect_block(hash)));
        }
        diff.append(&state.diff);
        self.virtual_block = VirtualBlock { parents, ghostdag, state };
        VirtualChange { path, diff }
    }
}
