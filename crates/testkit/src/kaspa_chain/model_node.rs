//! A model of a kaspad: blocks, a virtual block, and its messages. It is naive: each block has a copy of its UTXO set.
//!
//! A block accepts the transactions of the block below it, and those of blocks that it merges. The virtual block does
//! the same on top of the sink, so the next block commits to the set that the virtual block had.

use std::collections::{BTreeMap, HashMap};

use fastrand::Rng;
use kaspa::{
    AcceptedTransaction, AcceptingBlock, AddressPayload, AddressUtxo, Block, BlockTemplate,
    BlueWork, CovenantBinding, Hash, Header, Network, Outpoint, ParentLevels, Parents, Prefix,
    ScriptPublicKey, SubnetworkId, Transaction, TransactionInput, TransactionOutput, UtxoChanges,
    UtxoEntry,
};
use muhash::MuHash;

/// A UTXO set. Sorted, so that a seed leads to the same run on each machine.
pub type Utxos = BTreeMap<Outpoint, UtxoEntry>;

/// UTXOs from which on transactions make fewer outputs than they spend.
const UTXOS_TARGET: usize = 120;
/// Blocks after which a merged block is merged by the chain.
const MERGE_BLOCKS_MAX: u64 = 2;

/// A block of the DAG.
#[derive(Clone)]
pub struct NodeBlock {
    /// The block with the transactions that it accepts.
    pub accepting: AcceptingBlock,
    /// The block's own transactions, which the next block accepts.
    body: Vec<Transaction>,
    /// The UTXO set after its acceptance.
    pub utxos: Utxos,
    product: MuHash,
    height: u64,
}

/// A block that is not on the chain, and is merged by the virtual block.
#[derive(Clone)]
struct MergedBlock {
    hash: Hash,
    body: Vec<Transaction>,
    since_height: u64,
}

/// The state of the virtual block.
#[derive(Clone)]
struct Virtual {
    accepted: Vec<AcceptedTransaction>,
    utxos: Utxos,
    product: MuHash,
    daa_score: u64,
}

/// A model of a kaspad. The same seed and the same calls lead to the same blocks.
pub struct ModelNode {
    /// The source of all its choices. A caller may take its own from it.
    pub rng: Rng,
    blocks: HashMap<Hash, NodeBlock>,
    /// The selected chain, without blocks that are too deep.
    chain: Vec<Hash>,
    merged: Vec<MergedBlock>,
    current: Virtual,
    depth_max: usize,
    made: u64,
}

fn scripts() -> Vec<ScriptPublicKey> {
    let mut scripts: Vec<ScriptPublicKey> = (1..=5)
        .map(|key| ScriptPublicKey::from_payload(&AddressPayload::PublicKey([key; 32])))
        .collect();
    scripts.push(ScriptPublicKey::from_payload(&AddressPayload::EcdsaPublicKey([6; 33])));
    scripts.push(ScriptPublicKey::from_payload(&AddressPayload::ScriptHash([7; 32])));
    scripts.push(ScriptPublicKey { version: 0, script: vec![8; 60].into() });
    scripts
}

/// Returns the product over a whole set.
fn hash_set(utxos: &Utxos) -> MuHash {
    let mut product = MuHash::EMPTY;
    utxos.iter().for_each(|(outpoint, entry)| product.add(&entry.element(outpoint)));
    product
}

impl ModelNode {
    /// Creates a node with simnet's first block. A reorganization removes at most `depth_max` blocks.
    pub fn new(seed: u64, depth_max: usize) -> Self {
        let header = Network::Simnet.genesis();
        let hash = header.hash();
        let accepting = AcceptingBlock { hash, header, transactions: Vec::new() };
        let genesis = NodeBlock {
            accepting,
            body: Vec::new(),
            utxos: Utxos::new(),
            product: MuHash::EMPTY,
            height: 0,
        };
        let current = Virtual {
            accepted: Vec::new(),
            utxos: Utxos::new(),
            product: MuHash::EMPTY,
            daa_score: 0,
        };
        Self {
            rng: Rng::with_seed(seed),
            blocks: HashMap::from([(hash, genesis)]),
            chain: vec![hash],
            merged: Vec::new(),
            current,
            depth_max,
            made: 0,
        }
    }

    /// The newest block of the selected chain.
    pub fn sink(&self) -> &NodeBlock {
        &self.blocks[self.chain.last().expect("a chain has a block")]
    }

    /// The block with a hash, unless it is too deep.
    pub fn block(&self, hash: &Hash) -> Option<&NodeBlock> {
        self.blocks.get(hash)
    }

    /// The virtual UTXO set.
    pub fn virtual_utxos(&self) -> &Utxos {
        &self.current.utxos
    }

    /// The chain blocks above a depth, the lowest first.
    pub fn newest_blocks(&self, count: usize) -> impl Iterator<Item = &NodeBlock> {
        let first = self.chain.len().saturating_sub(count);
        self.chain[first..].iter().map(|hash| &self.blocks[hash])
    }

    /// The number of chain blocks above the first one that a reorganization may remove.
    pub fn reorganization_max(&self) -> usize {
        (self.chain.len() - 1).min(self.depth_max)
    }

    /// A template for the next block.
    pub fn template(&self) -> BlockTemplate {
        let header = self.header(self.sink(), &self.current, 0);
        BlockTemplate { header, is_synced: true }
    }

    /// The sink with its own transactions, as in the reply to getBlock.
    pub fn sink_with_body(&self) -> Block {
        let NodeBlock { accepting, body, .. } = self.sink();
        let AcceptingBlock { hash, header, .. } = accepting.clone();
        Block { hash, header, transactions: body.clone() }
    }

    /// The blocks that the virtual block merges, the sink first. The others have the header of the sink.
    pub fn merged_blocks(&self) -> Vec<Block> {
        let sink = self.sink_with_body();
        let to_block = |merged: &MergedBlock| Block {
            hash: merged.hash,
            header: sink.header.clone(),
            transactions: merged.body.clone(),
        };
        let others: Vec<Block> = self.merged.iter().map(to_block).collect();
        std::iter::once(sink).chain(others).collect()
    }

    /// The DAA score of the virtual block.
    pub fn virtual_daa_score(&self) -> u64 {
        self.current.daa_score
    }

    /// The reply to getVirtualChainFromBlockV2: the blocks that leave the chain, and those that join it.
    pub fn chain_from(&self, start: Hash) -> Option<(Vec<Hash>, Vec<AcceptingBlock>)> {
        let mut removed = Vec::new();
        let mut at = start;
        let fork = loop {
            if let Some(fork) = self.chain.iter().rposition(|hash| *hash == at) {
                break fork;
            }
            removed.push(at);
            at = self.blocks.get(&at)?.accepting.header.parents.direct()[0];
        };
        let joined = self.chain[fork + 1..].iter();
        let added = joined.map(|hash| self.blocks[hash].accepting.clone()).collect();
        Some((removed, added))
    }

    /// Adds a block on the sink. It merges the same blocks as the virtual block, or none of them.
    pub fn mine(&mut self) -> UtxoChanges {
        let sink = self.sink().clone();
        let must_merge =
            self.merged.iter().any(|merged| sink.height - merged.since_height >= MERGE_BLOCKS_MAX);
        let merges = must_merge || self.rng.u8(..3) > 0;
        let merged = if merges { std::mem::take(&mut self.merged) } else { Vec::new() };
        let block = self.build(&sink, &merged);
        self.push(block);
        self.update_virtual()
    }

    /// Adds a block that is not on the chain, for the virtual block to merge.
    pub fn merge(&mut self) -> UtxoChanges {
        let body = self.new_body(&self.current.utxos.clone());
        self.made += 1;
        let mut hash = Hash([0xee; 32]);
        hash.0[..8].copy_from_slice(&self.made.to_le_bytes());
        let since_height = self.sink().height;
        self.merged.push(MergedBlock { hash, body, since_height });
        self.update_virtual()
    }

    /// Replaces the newest blocks of the chain by others.
    pub fn reorganize(&mut self, removed: usize, added: usize) -> UtxoChanges {
        let left = self.chain.split_off(self.chain.len() - removed);
        self.merged.clear();
        let mut old_blocks = left.into_iter();
        for _ in 0..added {
            let sink = self.sink().clone();
            // Some of the transactions that were in the blocks before are accepted again.
            let mut merged = Vec::new();
            if let Some(hash) = old_blocks.next()
                && self.rng.bool()
            {
                let body = self.blocks[&hash].body.clone();
                merged.push(MergedBlock { hash, body, since_height: 0 });
            }
            let block = self.build(&sink, &merged);
            self.push(block);
        }
        self.update_virtual()
    }

    fn push(&mut self, block: NodeBlock) {
        let hash = block.accepting.hash;
        self.blocks.insert(hash, block);
        self.chain.push(hash);
        // Two reorganizations may be between two replies.
        let retained = 3 * self.depth_max + 10;
        if self.chain.len() > 2 * retained {
            self.chain.drain(..self.chain.len() - retained);
            let lowest = self.blocks[&self.chain[0]].height;
            self.blocks.retain(|_, block| block.height >= lowest);
        }
    }

    /// Makes a block on another one.
    fn build(&mut self, parent: &NodeBlock, merged: &[MergedBlock]) -> NodeBlock {
        let accepted = accept(parent, merged);
        self.made += 1;
        let header = self.header(parent, &accepted, self.made);
        let Virtual { accepted, utxos, product, .. } = accepted;
        if self.made.is_multiple_of(16) {
            assert_eq!(hash_set(&utxos), product, "the model's own sum");
        }
        let accepting = AcceptingBlock { hash: header.hash(), header, transactions: accepted };
        let body = self.new_body(&utxos);
        NodeBlock { accepting, body, utxos, product, height: parent.height + 1 }
    }

    fn header(&self, parent: &NodeBlock, state: &Virtual, nonce: u64) -> Header {
        let parent = &parent.accepting;
        let levels = vec![ParentLevels { cumulative_level: 1, parents: vec![parent.hash] }];
        let mut blue_work = BlueWork::default();
        blue_work.0[16..].copy_from_slice(&state.daa_score.to_be_bytes());
        Header {
            version: 1,
            parents: Parents::new(levels).expect("one level"),
            hash_merkle_root: Hash([1; 32]),
            accepted_id_merkle_root: Hash([2; 32]),
            utxo_commitment: Hash(state.product.finalize()),
            timestamp_ms: 1_700_000_000_000 + 100 * state.daa_score,
            bits: 0x207f_ffff,
            nonce,
            daa_score: state.daa_score,
            blue_work,
            blue_score: parent.header.blue_score + 1,
            pruning_point: Hash([3; 32]),
        }
    }

    /// A reward, and transactions that spend outputs of a set.
    fn new_body(&mut self, utxos: &Utxos) -> Vec<Transaction> {
        self.made += 1;
        let outputs = (0..1 + self.rng.usize(..3)).map(|_| self.new_output(None)).collect();
        let mut body = vec![Transaction {
            outputs,
            subnetwork_id: SubnetworkId::COINBASE,
            payload: self.made.to_le_bytes().to_vec(),
            ..Transaction::default()
        }];
        let mut spendable: Vec<Outpoint> = utxos.keys().copied().collect();
        for _ in 0..self.rng.usize(..4) {
            let inputs_max = if utxos.len() > UTXOS_TARGET { 8 } else { 3 };
            let inputs_len = (1 + self.rng.usize(..inputs_max)).min(spendable.len());
            if inputs_len == 0 {
                break;
            }
            let inputs = (0..inputs_len).map(|_| {
                let previous_outpoint = spendable.swap_remove(self.rng.usize(..spendable.len()));
                TransactionInput {
                    previous_outpoint,
                    signature_script: vec![1; 65],
                    sequence: 0,
                    sig_op_count: 1,
                    compute_budget: 0,
                }
            });
            let inputs = inputs.collect();
            let version = u16::from(self.rng.u8(..4) == 0);
            let covenant = (version == 1)
                .then_some(CovenantBinding { authorizing_input: 0, covenant_id: Hash([9; 32]) });
            let outputs = (0..1 + self.rng.usize(..4)).map(|_| self.new_output(covenant)).collect();
            body.push(Transaction { version, inputs, outputs, ..Transaction::default() });
        }
        body
    }

    fn new_output(&mut self, covenant: Option<CovenantBinding>) -> TransactionOutput {
        let scripts = scripts();
        // Half of the outputs pay to one script: it has more than its record can hold.
        let script = if self.rng.bool() { 0 } else { self.rng.usize(..scripts.len()) };
        let covenant = covenant.filter(|_| self.rng.bool());
        let script_public_key = scripts[script].clone();
        TransactionOutput { amount: self.rng.u64(1..1_000_000_000), script_public_key, covenant }
    }

    /// Computes the virtual block again. Returns the difference from the one before, as kaspad sends it.
    fn update_virtual(&mut self) -> UtxoChanges {
        let next = accept(self.sink(), &self.merged);
        let before = std::mem::replace(&mut self.current, next);
        difference(&before.utxos, &self.current.utxos)
    }
}

/// The entries that one set has more and less than another one.
pub fn difference(before: &Utxos, after: &Utxos) -> UtxoChanges {
    let missing = |from: &Utxos, other: &Utxos| -> Vec<AddressUtxo> {
        let changed = from.iter().filter(|(outpoint, entry)| other.get(*outpoint) != Some(*entry));
        let to_utxo = |(outpoint, entry): (&Outpoint, &UtxoEntry)| AddressUtxo {
            address: entry.script_public_key.address(Prefix::Simnet),
            outpoint: *outpoint,
            entry: entry.clone(),
        };
        changed.map(to_utxo).collect()
    };
    UtxoChanges { added: missing(after, before), removed: missing(before, after) }
}

/// Accepts the transactions of a block and of merged blocks, as far as their inputs exist.
fn accept(parent: &NodeBlock, merged: &[MergedBlock]) -> Virtual {
    let AcceptingBlock { hash, header, .. } = &parent.accepting;
    let mut state = Virtual {
        accepted: Vec::new(),
        utxos: parent.utxos.clone(),
        product: parent.product.clone(),
        // The first block does not count.
        daa_score: header.daa_score + u64::from(parent.height > 0) + merged.len() as u64,
    };
    for transaction in &parent.body {
        state.accept(transaction, *hash);
    }
    for merged in merged {
        // Only the reward of the selected parent is accepted.
        for transaction in merged.body.iter().filter(|transaction| !transaction.is_coinbase()) {
            state.accept(transaction, merged.hash);
        }
    }
    state.product.normalize();
    state
}

impl Virtual {
    fn accept(&mut self, transaction: &Transaction, block_hash: Hash) {
        let outpoints = transaction.inputs.iter().map(|input| input.previous_outpoint);
        if !outpoints.clone().all(|outpoint| self.utxos.contains_key(&outpoint)) {
            return;
        }
        let mut spent = Vec::new();
        for outpoint in outpoints {
            let entry = self.utxos.remove(&outpoint).expect("it was found");
            self.product.remove(&entry.element(&outpoint));
            spent.push(entry);
        }
        let id = transaction.id();
        for (index, output) in (0..).zip(&transaction.outputs) {
            let outpoint = Outpoint { transaction_id: id, index };
            let entry = output.to_utxo(self.daa_score, transaction.is_coinbase());
            self.product.add(&entry.element(&outpoint));
            self.utxos.insert(outpoint, entry);
        }
        let transaction = transaction.clone();
        let block_time_ms = 1_700_000_000_000;
        self.accepted.push(AcceptedTransaction {
            id,
            transaction,
            spent,
            block_hash,
            block_time_ms,
        });
    }
}
