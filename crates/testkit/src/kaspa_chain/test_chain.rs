//! A chain of Kaspa that a test writes block by block. Each block accepts one transaction, with real hashes and
//! commitments.
//!
//! Not here: a source of such a chain behind wRPC (`kaspa_node`).

use std::collections::BTreeMap;

use chain_kaspa::{Chain, ChainConfig, ChainLoader, hash_utxos};
use kaspa::{
    AcceptedTransaction, AcceptingBlock, AddressPayload, AddressUtxo, Hash, Header, KaspaAddress,
    Network, Outpoint, ParentLevels, Parents, Prefix, ScriptPublicKey, SubnetworkId, Transaction,
    TransactionInput, TransactionOutput, UtxoChanges, UtxoEntry,
};
use muhash::MuHash;

/// The depth of the deepest reorganization, unless a test sets another one.
pub const DEPTH: usize = 100;

/// An output of a transaction.
#[derive(Clone)]
pub struct Payment {
    /// The address that it pays to.
    pub to: KaspaAddress,
    /// The amount in sompi.
    pub sompi: u64,
}

/// A chain, and its blocks as the test made them.
pub struct TestChain {
    /// The chain that readers see.
    pub chain: Chain,
    /// The time of the blocks that contain the next transactions, in Unix milliseconds.
    pub block_time_ms: u64,
    /// The root, and the blocks above it.
    blocks: Vec<Block>,
    made: u64,
}

/// A chain block, and the UTXO set after it.
#[derive(Clone)]
struct Block {
    hash: Hash,
    header: Header,
    utxos: BTreeMap<Outpoint, UtxoEntry>,
    product: MuHash,
}

/// Returns the address of a test's key.
pub fn address(key: u8) -> KaspaAddress {
    KaspaAddress { prefix: Prefix::Simnet, payload: AddressPayload::PublicKey([key; 32]) }
}

/// Returns an output that pays to a test's key.
pub fn pay(key: u8, sompi: u64) -> Payment {
    Payment { to: address(key), sompi }
}

impl TestChain {
    /// Creates a chain that starts with these UTXOs.
    ///
    /// Panics if two of them have the same outpoint.
    pub fn new(utxos: Vec<(Outpoint, UtxoEntry)>) -> Self {
        Self::with_depth(utxos, DEPTH)
    }

    /// Creates a chain that starts with these UTXOs, and whose reorganizations have this depth at most.
    ///
    /// Panics if two of the UTXOs have the same outpoint.
    pub fn with_depth(utxos: Vec<(Outpoint, UtxoEntry)>, depth_max: usize) -> Self {
        let product = hash_utxos(&utxos);
        let utxo_commitment = Hash(product.finalize());
        let header = Header { utxo_commitment, ..Network::Simnet.genesis() };
        let config = ChainConfig { depth_max, ..ChainConfig::new(100_000) };
        let mut loader = ChainLoader::new(config, header.clone());
        loader.add_product(&product);
        loader.insert_unhashed(&utxos).expect("room");
        let chain = loader.finish().expect("the hash of the set");
        let utxos = utxos.into_iter().collect();
        let root = Block { hash: header.hash(), header, utxos, product };
        Self { chain, block_time_ms: 0, blocks: vec![root], made: 0 }
    }

    fn sink(&self) -> &Block {
        self.blocks.last().expect("a chain has a block")
    }

    /// Returns the hash of the sink.
    pub fn sink_hash(&self) -> Hash {
        self.sink().hash
    }

    /// Returns the UTXOs of the sink that pay to an address.
    pub fn list_utxos(&self, address: &KaspaAddress) -> Vec<AddressUtxo> {
        let script = ScriptPublicKey::from_payload(&address.payload);
        let own = self.sink().utxos.iter().filter(|(_, utxo)| utxo.script_public_key == script);
        own.map(|(outpoint, entry)| to_address_utxo(*outpoint, entry)).collect()
    }

    /// Adds a block that spends outputs, and makes others. Returns the new ones.
    ///
    /// Panics if the sink does not have an output that is spent.
    pub fn add_block(&mut self, spent: &[Outpoint], payments: &[Payment]) -> Vec<Outpoint> {
        self.replace_blocks(0, vec![(spent.to_vec(), payments.to_vec())])
    }

    /// Replaces the newest blocks by others. Returns the outputs of the last one.
    ///
    /// Panics if there are not as many blocks above the root, or an output that is spent does not exist.
    pub fn replace_blocks(
        &mut self,
        removed: usize,
        added: Vec<(Vec<Outpoint>, Vec<Payment>)>,
    ) -> Vec<Outpoint> {
        let left = self.blocks.split_off(self.blocks.len() - removed);
        let removed: Vec<Hash> = left.iter().rev().map(|block| block.hash).collect();
        let mut outpoints = Vec::new();
        let mut accepting = Vec::new();
        for (spent, payments) in added {
            let (block, new_outpoints) = self.build(&spent, &payments);
            accepting.push(block);
            outpoints = new_outpoints;
        }
        let mut step = self.chain.start_step(&removed).expect("a step");
        for block in accepting {
            step.add_block(block).expect("an honest block");
        }
        step.commit();
        outpoints
    }

    /// Makes a block on the sink, which becomes the sink.
    fn build(
        &mut self,
        spent: &[Outpoint],
        payments: &[Payment],
    ) -> (AcceptingBlock, Vec<Outpoint>) {
        self.made += 1;
        let parent = self.sink().clone();
        let is_coinbase = spent.is_empty();
        let daa_score = parent.header.daa_score + 1;
        let input = |outpoint: &Outpoint| TransactionInput {
            previous_outpoint: *outpoint,
            signature_script: vec![1; 65],
            sequence: 0,
            sig_op_count: 1,
            compute_budget: 0,
        };
        let output = |payment: &Payment| TransactionOutput {
            amount: payment.sompi,
            script_public_key: ScriptPublicKey::from_payload(&payment.to.payload),
            covenant: None,
        };
        let subnetwork_id = if is_coinbase { SubnetworkId::COINBASE } else { SubnetworkId::NATIVE };
        let transaction = Transaction {
            inputs: spent.iter().map(input).collect(),
            outputs: payments.iter().map(output).collect(),
            subnetwork_id,
            payload: self.made.to_le_bytes().to_vec(),
            ..Transaction::default()
        };
        let id = transaction.id();
        let Block { mut utxos, mut product, .. } = parent.clone();
        let spent: Vec<UtxoEntry> = spent
            .iter()
            .map(|outpoint| {
                let entry = utxos.remove(outpoint).expect("it is not spent");
                product.remove(&entry.element(outpoint));
                entry
            })
            .collect();
        let mut outpoints = Vec::new();
        for (index, output) in (0..).zip(&transaction.outputs) {
            let outpoint = Outpoint { transaction_id: id, index };
            let entry = output.to_utxo(daa_score, is_coinbase);
            product.add(&entry.element(&outpoint));
            utxos.insert(outpoint, entry);
            outpoints.push(outpoint);
        }
        product.normalize();
        let levels = ParentLevels { cumulative_level: 1, parents: vec![parent.hash] };
        let header = Header {
            parents: Parents::new(vec![levels]).expect("one level"),
            utxo_commitment: Hash(product.finalize()),
            nonce: self.made,
            daa_score,
            blue_score: parent.header.blue_score + 1,
            ..parent.header
        };
        let hash = header.hash();
        let block_time_ms = self.block_time_ms;
        let accepted =
            AcceptedTransaction { id, transaction, spent, block_hash: hash, block_time_ms };
        let accepting =
            AcceptingBlock { hash, header: header.clone(), transactions: vec![accepted] };
        self.blocks.push(Block { hash, header, utxos, product });
        (accepting, outpoints)
    }

    /// Returns a UTXO as the virtual block above the sink makes it.
    pub fn virtual_utxo(&self, number: u8, payment: &Payment) -> AddressUtxo {
        let outpoint = Outpoint { transaction_id: Hash([number; 32]), index: 0 };
        let entry = UtxoEntry {
            amount: payment.sompi,
            script_public_key: ScriptPublicKey::from_payload(&payment.to.payload),
            block_daa_score: self.sink().header.daa_score + 1,
            is_coinbase: false,
            covenant_id: None,
        };
        to_address_utxo(outpoint, &entry)
    }

    /// Shows the changes to readers.
    ///
    /// Panics if the ledger is full.
    pub fn publish(&mut self) {
        drop(self.chain.publish().expect("a publication"));
        self.chain.reclaim();
    }

    /// Applies a message about the virtual block.
    pub fn change_virtual(&mut self, changes: &UtxoChanges) {
        if self.chain.virtual_mode() == chain_kaspa::VirtualMode::Off {
            self.chain.join_virtual();
        }
        self.chain.apply_utxos_changed(changes);
    }
}

/// Returns a UTXO with its address, as in messages.
pub fn to_address_utxo(outpoint: Outpoint, entry: &UtxoEntry) -> AddressUtxo {
    let address = entry.script_public_key.address(Prefix::Simnet);
    AddressUtxo { address, outpoint, entry: entry.clone() }
}
