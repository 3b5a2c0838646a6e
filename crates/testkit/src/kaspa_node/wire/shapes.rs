//! The shapes of headers, transactions, blocks and UTXOs, as kaspad 2.1.0 writes them.
//!
//! There are two families: plain shapes in most messages, and optional ones in getVirtualChainFromBlockV2, where each
//! field has a tag.

use kaspa::{
    AddressUtxo, CovenantBinding, Hash, Header, Outpoint, Prefix, ScriptPublicKey, Transaction,
    TransactionInput, TransactionOutput, UtxoEntry,
};

use super::value::{Structure, Value};

/// A block and its verbose data.
pub(crate) struct BlockShape<'a> {
    pub(crate) hash: Hash,
    pub(crate) header: &'a Header,
    /// `None` if the request does not include them.
    pub(crate) transactions: Option<&'a [Transaction]>,
    pub(crate) transaction_ids: &'a [Hash],
    pub(crate) selected_parent: Hash,
    pub(crate) children: &'a [Hash],
    pub(crate) blues: &'a [Hash],
    pub(crate) reds: &'a [Hash],
    pub(crate) is_chain_block: bool,
    pub(crate) prefix: Prefix,
}

/// The block of a transaction.
pub(crate) struct TransactionBlock {
    /// The hash of the block. Zeros for the mempool.
    pub(crate) block_hash: Hash,
    /// The time of the block in Unix milliseconds. 0 for the mempool.
    pub(crate) block_time_ms: u64,
}

/// An accepted transaction with the outputs that it spends.
pub(crate) struct AcceptedShape<'a> {
    pub(crate) id: Hash,
    pub(crate) hash: Hash,
    pub(crate) transaction: &'a Transaction,
    pub(crate) spent: &'a [UtxoEntry],
    pub(crate) block: TransactionBlock,
    pub(crate) prefix: Prefix,
}

/// The difficulty of simnet's blocks, as kaspad computes it from their bits.
pub(crate) const DIFFICULTY: f64 = 1.000_000_119_209_303_8;

impl BlockShape<'_> {
    /// Returns the block with verbose data.
    pub(crate) fn to_structure(&self) -> Structure {
        let placed = |prefix| PlacedTransaction {
            block: TransactionBlock {
                block_hash: self.hash,
                block_time_ms: self.header.timestamp_ms,
            },
            prefix,
        };
        let transactions = self.transactions.unwrap_or_default().iter();
        let transactions =
            transactions.map(|tx| plain_transaction(tx, Some(&placed(self.prefix)))).collect();
        let verbose = Structure::with_version8(1)
            .field("hash", Value::Hash(self.hash))
            .field("difficulty", Value::F64(DIFFICULTY))
            .field("selectedParentHash", Value::Hash(self.selected_parent))
            .field("transactionIds", Value::hashes(self.transaction_ids))
            .field("isHeaderOnly", Value::Flag(false))
            .field("blueScore", Value::U64(self.header.blue_score))
            .field("childrenHashes", Value::hashes(self.children))
            .field("mergeSetBluesHashes", Value::hashes(self.blues))
            .field("mergeSetRedsHashes", Value::hashes(self.reds))
            .field("isChainBlock", Value::Flag(self.is_chain_block));
        Structure::with_version16(1)
            .field("header", Value::Structure(plain_header(Some(self.hash), self.header)))
            .field("transactions", Value::structures(transactions))
            .field("verboseData", Value::optional_structure(Some(verbose)))
    }
}

/// A block without its hash, as in a template.
pub(crate) fn raw_block(header: &Header, transactions: &[Transaction]) -> Structure {
    let transactions = transactions.iter().map(|tx| plain_transaction(tx, None)).collect();
    Structure::with_version16(1)
        .field("header", Value::Structure(plain_header(None, header)))
        .field("transactions", Value::structures(transactions))
}

fn plain_header(hash: Option<Hash>, header: &Header) -> Structure {
    let mut levels = Vec::new();
    for run in header.parents.runs() {
        levels.resize(usize::from(run.cumulative_level), Value::hashes(&run.parents));
    }
    let mut structure = Structure::with_version16(1);
    if let Some(hash) = hash {
        structure = structure.field("hash", Value::Hash(hash));
    }
    structure
        .field("version", Value::U16(header.version))
        .field("parentsByLevel", Value::List(levels))
        .field("hashMerkleRoot", Value::Hash(header.hash_merkle_root))
        .field("acceptedIdMerkleRoot", Value::Hash(header.accepted_id_merkle_root))
        .field("utxoCommitment", Value::Hash(header.utxo_commitment))
        .field("timestamp", Value::U64(header.timestamp_ms))
        .field("bits", Value::U32(header.bits))
        .field("nonce", Value::U64(header.nonce))
        .field("daaScore", Value::U64(header.daa_score))
        .field("blueWork", Value::BlueWork(header.blue_work))
        .field("blueScore", Value::U64(header.blue_score))
        .field("pruningPoint", Value::Hash(header.pruning_point))
}

/// The header in getVirtualChainFromBlockV2.
pub(crate) fn optional_header(hash: Hash, header: &Header) -> Structure {
    let runs = header.parents.runs().iter().map(|run| {
        Value::Tuple(vec![Value::U8(run.cumulative_level), Value::hashes(&run.parents)])
    });
    Structure::with_version16(1)
        .field("hash", Value::some(Value::Hash(hash)))
        .field("version", Value::some(Value::U16(header.version)))
        .field("parentsByLevel", Value::some(Value::List(runs.collect())))
        .field("hashMerkleRoot", Value::some(Value::Hash(header.hash_merkle_root)))
        .field("acceptedIdMerkleRoot", Value::some(Value::Hash(header.accepted_id_merkle_root)))
        .field("utxoCommitment", Value::some(Value::Hash(header.utxo_commitment)))
        .field("timestamp", Value::some(Value::U64(header.timestamp_ms)))
        .field("bits", Value::some(Value::U32(header.bits)))
        .field("nonce", Value::some(Value::U64(header.nonce)))
        .field("daaScore", Value::some(Value::U64(header.daa_score)))
        .field("blueWork", Value::some(Value::BlueWork(header.blue_work)))
        .field("blueScore", Value::some(Value::U64(header.blue_score)))
        .field("pruningPoint", Value::some(Value::Hash(header.pruning_point)))
}

/// The context of a transaction's verbose data.
pub(crate) struct PlacedTransaction {
    pub(crate) block: TransactionBlock,
    pub(crate) prefix: Prefix,
}

/// Returns a transaction, with verbose data if its block is known.
pub(crate) fn plain_transaction(tx: &Transaction, placed: Option<&PlacedTransaction>) -> Structure {
    let inputs = tx.inputs.iter().map(plain_input).collect();
    let prefix = placed.map(|placed| placed.prefix);
    let outputs = tx.outputs.iter().map(|output| plain_output(output, prefix)).collect();
    let verbose = placed.map(|PlacedTransaction { block, .. }| {
        Structure::with_version8(1)
            .field("transactionId", Value::Hash(tx.id()))
            .field("hash", Value::Hash(tx.hash()))
            .field("computeMass", Value::U64(compute_mass(tx)))
            .field("blockHash", Value::Hash(block.block_hash))
            .field("blockTime", Value::U64(block.block_time_ms))
    });
    Structure::with_version16(1)
        .field("version", Value::U16(tx.version))
        .field("inputs", Value::structures(inputs))
        .field("outputs", Value::structures(outputs))
        .field("lockTime", Value::U64(tx.lock_time))
        .field("subnetworkId", Value::FixedBytes(tx.subnetwork_id.0.to_vec()))
        .field("gas", Value::U64(tx.gas))
        .field("payload", Value::Bytes(tx.payload.clone()))
        .field("storageMass", Value::U64(tx.storage_mass))
        .json_field("mass", Value::U64(tx.storage_mass))
        .field("verboseData", Value::optional_structure(verbose))
}

fn plain_input(input: &TransactionInput) -> Structure {
    Structure::with_version8(2)
        .field("previousOutpoint", Value::Structure(outpoint(&input.previous_outpoint)))
        .field("signatureScript", Value::Bytes(input.signature_script.clone()))
        .field("sequence", Value::U64(input.sequence))
        .field("sigOpCount", Value::U8(input.sig_op_count))
        .field("verboseData", Value::optional_structure(None))
        .field("computeBudget", Value::U16(input.compute_budget))
}

fn plain_output(output: &TransactionOutput, prefix: Option<Prefix>) -> Structure {
    let script = &output.script_public_key;
    let verbose = prefix.and_then(|prefix| script.address(prefix)).map(|address| {
        Structure::with_version8(1)
            .field("scriptPublicKeyType", script_class(script))
            .field("scriptPublicKeyAddress", Value::Address(address))
    });
    Structure::with_version8(2)
        .field("value", Value::U64(output.amount))
        .field("scriptPublicKey", Value::Script(script.clone()))
        .field("verboseData", Value::optional_structure(verbose))
        .field("covenant", Value::optional_structure(output.covenant.map(covenant)))
}

impl AcceptedShape<'_> {
    /// The transaction in getVirtualChainFromBlockV2, at its level Full.
    pub(crate) fn to_structure(&self) -> Structure {
        let tx = self.transaction;
        let inputs = tx.inputs.iter().zip(self.spent);
        let inputs = inputs.map(|(input, spent)| optional_input(input, spent, self.prefix));
        let outputs = tx.outputs.iter().map(|output| optional_output(output, self.prefix));
        let verbose = Structure::with_version8(1)
            .field("transactionId", Value::some(Value::Hash(self.id)))
            .field("hash", Value::some(Value::Hash(self.hash)))
            .field("computeMass", Value::some(Value::U64(compute_mass(tx))))
            .field("blockHash", Value::some(Value::Hash(self.block.block_hash)))
            .field("blockTime", Value::some(Value::U64(self.block.block_time_ms)));
        Structure::with_version16(1)
            .field("version", Value::some(Value::U16(tx.version)))
            .field("inputs", Value::structures(inputs.collect()))
            .field("outputs", Value::structures(outputs.collect()))
            .field("lockTime", Value::some(Value::U64(tx.lock_time)))
            .field("subnetworkId", Value::some(Value::FixedBytes(tx.subnetwork_id.0.to_vec())))
            .field("gas", Value::some(Value::U64(tx.gas)))
            .field("payload", Value::some(Value::Bytes(tx.payload.clone())))
            .field("storageMass", Value::some(Value::U64(tx.storage_mass)))
            .json_field("mass", Value::U64(tx.storage_mass))
            .field("verboseData", Value::optional_structure(Some(verbose)))
    }
}

fn optional_input(input: &TransactionInput, spent: &UtxoEntry, prefix: Prefix) -> Structure {
    let previous = Structure::with_version8(1)
        .field("transactionId", Value::some(Value::Hash(input.previous_outpoint.transaction_id)))
        .field("index", Value::some(Value::U32(input.previous_outpoint.index)));
    let entry = Structure::with_version8(2)
        .field("amount", Value::some(Value::U64(spent.amount)))
        .field("scriptPublicKey", Value::some(Value::Script(spent.script_public_key.clone())))
        .field("blockDaaScore", Value::some(Value::U64(spent.block_daa_score)))
        .field("isCoinbase", Value::some(Value::Flag(spent.is_coinbase)))
        .field("verboseData", optional_script_data(&spent.script_public_key, prefix))
        .field("covenantId", Value::optional(spent.covenant_id.map(Value::Hash)));
    let verbose =
        Structure::with_version8(1).field("utxoEntry", Value::optional_structure(Some(entry)));
    Structure::with_version8(2)
        .field("previousOutpoint", Value::optional_structure(Some(previous)))
        .field("signatureScript", Value::some(Value::Bytes(input.signature_script.clone())))
        .field("sequence", Value::some(Value::U64(input.sequence)))
        .field("sigOpCount", Value::some(Value::U8(input.sig_op_count)))
        .field("verboseData", Value::optional_structure(Some(verbose)))
        .field("computeBudget", Value::some(Value::U16(input.compute_budget)))
}

fn optional_output(output: &TransactionOutput, prefix: Prefix) -> Structure {
    let script = &output.script_public_key;
    Structure::with_version8(2)
        .field("value", Value::some(Value::U64(output.amount)))
        .field("scriptPublicKey", Value::some(Value::Script(script.clone())))
        .field("verboseData", optional_script_data(script, prefix))
        .field("covenant", nullable_covenant(output.covenant))
}

/// The covenant of an output in getVirtualChainFromBlockV2: an option in an option.
fn nullable_covenant(binding: Option<CovenantBinding>) -> Value {
    let nullable = binding.map(|binding| {
        let inner = Value::optional_structure(Some(covenant(binding)));
        Value::Framed(Box::new(Value::Versioned8(1, Box::new(inner))))
    });
    Value::Framed(Box::new(Value::optional(nullable)))
}

fn optional_script_data(script: &ScriptPublicKey, prefix: Prefix) -> Value {
    let data = Structure::with_version8(1)
        .field("scriptPublicKeyType", Value::some(script_class(script)))
        .field(
            "scriptPublicKeyAddress",
            Value::optional(script.address(prefix).map(Value::Address)),
        );
    Value::optional_structure(Some(data))
}

fn covenant(binding: CovenantBinding) -> Structure {
    Structure::with_version8(1)
        .field("authorizingInput", Value::U16(binding.authorizing_input))
        .field("covenantId", Value::Hash(binding.covenant_id))
}

/// The kind of a script.
fn script_class(script: &ScriptPublicKey) -> Value {
    match script.payload().map(|payload| payload.version()) {
        Some(0) => Value::Choice { code: 1, name: "PubKey" },
        Some(1) => Value::Choice { code: 2, name: "PubKeyECDSA" },
        Some(_) => Value::Choice { code: 3, name: "ScriptHash" },
        None => Value::Choice { code: 0, name: "NonStandard" },
    }
}

fn outpoint(outpoint: &Outpoint) -> Structure {
    Structure::with_version8(1)
        .field("transactionId", Value::Hash(outpoint.transaction_id))
        .field("index", Value::U32(outpoint.index))
}

/// A UTXO by address.
pub(crate) fn address_utxo(utxo: &AddressUtxo) -> Structure {
    let entry = Structure::with_version8(2)
        .field("amount", Value::U64(utxo.entry.amount))
        .field("scriptPublicKey", Value::Script(utxo.entry.script_public_key.clone()))
        .field("blockDaaScore", Value::U64(utxo.entry.block_daa_score))
        .field("isCoinbase", Value::Flag(utxo.entry.is_coinbase))
        .field("covenantId", Value::optional(utxo.entry.covenant_id.map(Value::Hash)));
    Structure::with_version8(1)
        .field("address", Value::optional(utxo.address.map(Value::Address)))
        .field("outpoint", Value::Structure(outpoint(&utxo.outpoint)))
        .field("utxoEntry", Value::Structure(entry))
}

/// Returns the mass of a transaction's size, scripts and signature operations. Zero for a coinbase.
pub(crate) fn compute_mass(tx: &Transaction) -> u64 {
    const MASS_PER_SCRIPT_BYTE: u64 = 10;
    const MASS_PER_SIG_OP: u64 = 1_000;
    const MASS_PER_BUDGET: u64 = 100;
    if tx.is_coinbase() {
        return 0;
    }
    // From version 1 on, an input has a budget, and an output may have a covenant.
    let budget_bytes = if tx.version > 0 { 2 } else { 0 };
    let input_bytes =
        |input: &TransactionInput| 36 + 8 + input.signature_script.len() + 8 + budget_bytes;
    let output_bytes = |output: &TransactionOutput| {
        let covenant_bytes = if output.covenant.is_some() { 2 + 32 } else { 0 };
        8 + 2 + 8 + output.script_public_key.script.len() + covenant_bytes
    };
    let inputs: usize = tx.inputs.iter().map(input_bytes).sum();
    let outputs: usize = tx.outputs.iter().map(output_bytes).sum();
    let bytes = 2 + 8 + inputs + 8 + outputs + 8 + 20 + 8 + 32 + 8 + tx.payload.len();
    let script_bytes = |output: &TransactionOutput| 2 + output.script_public_key.script.len();
    let script_bytes: usize = tx.outputs.iter().map(script_bytes).sum();
    let sig_ops: u64 = tx.inputs.iter().map(|input| u64::from(input.sig_op_count)).sum();
    let budget: u64 = tx.inputs.iter().map(|input| u64::from(input.compute_budget)).sum();
    bytes as u64
        + MASS_PER_SCRIPT_BYTE * script_bytes as u64
        + MASS_PER_SIG_OP * sig_ops
        + MASS_PER_BUDGET * budget
}
