//! The replies of the model node, method by method.
//!
//! A method that is not modelled fails with a text that says so.

use std::collections::BTreeSet;

use kaspa::{
    AddressPayload, Hash, Header, KaspaAddress, Method, Outpoint, Prefix, ScriptPublicKey,
    Transaction, UtxoEntry,
};

use super::dag::{Accepted, ChainPath, Dag, DagBlock, MempoolEntry, Miner};
use super::faults::Faults;
use super::notices::{accepted_ids, chain_structure, to_address_utxo};
use super::wire::{
    AcceptedShape, BlockShape, Call, PlacedTransaction, Structure, TransactionBlock, Value,
    address_utxo, optional_header, plain_transaction, raw_block,
};

/// The maximum number of merged blocks in a reply of getVirtualChainFromBlock or getVirtualChainFromBlockV2.
pub const CHAIN_BATCH_MAX: usize = 2_480;
/// The maximum number of blocks in a reply of getBlocks.
const BLOCKS_MAX: usize = 249;
/// The selected parent that kaspad reports for the first block.
const ORIGIN: Hash = Hash([0xfe; 32]);

/// The error of a method that needs the index of UTXOs.
const NO_UTXO_INDEX: &str = "Method unavailable. Run the node with the --utxoindex argument.";

/// The state that replies are made from.
pub(crate) struct Replies<'a> {
    pub(crate) dag: &'a Dag,
    pub(crate) faults: &'a Faults,
    /// Whether the node reports that it is in sync.
    pub(crate) is_synced: bool,
    /// Whether the node runs with `--utxoindex`.
    pub(crate) has_utxo_index: bool,
    pub(crate) pruning_point: Hash,
}

/// The result of a method: its structure, or the text of its error.
pub(crate) type MethodResult = Result<Structure, String>;

impl Replies<'_> {
    /// Returns the reply to a call that does not change the node.
    pub(crate) fn respond(&self, call: &Call) -> MethodResult {
        if !self.has_utxo_index && needs_utxo_index(call) {
            return Err(NO_UTXO_INDEX.to_owned());
        }
        match call {
            Call::Plain(method) => self.respond_plain(*method),
            Call::Addresses { method: Method::GetUtxosByAddresses, addresses } => {
                Ok(self.utxos_by_addresses(addresses))
            }
            Call::Addresses { method: Method::GetBalancesByAddresses, addresses } => {
                Ok(self.balances_by_addresses(addresses))
            }
            Call::Addresses { addresses, .. } => Ok(self.mempool_by_addresses(addresses)),
            Call::BalanceByAddress(address) => {
                Ok(reply().field("balance", Value::U64(self.balance(address))))
            }
            Call::Block { hash, include_transactions } => {
                let block = self.find_block(hash)?;
                let block = self.block(block, *include_transactions);
                Ok(reply().field("block", Value::Structure(block)))
            }
            Call::BlockColor(hash) => self.block_color(hash),
            Call::Blocks { low_hash, include_blocks, include_transactions } => {
                self.blocks(*low_hash, *include_blocks, *include_transactions)
            }
            Call::Chain { start, include_ids, min_confirmation_count } => {
                self.chain(start, *include_ids, *min_confirmation_count)
            }
            Call::ChainV2 { is_full: false, .. } => {
                Err("the model node has getVirtualChainFromBlockV2 at its level Full".to_owned())
            }
            Call::ChainV2 { start, min_confirmation_count, .. } => {
                self.chain_v2(start, *min_confirmation_count)
            }
            Call::Template { pay_address, extra_data } => self.template(pay_address, extra_data),
            Call::MempoolEntry(id) => {
                let entry = self.dag.mempool().iter().find(|entry| entry.id == *id);
                let entry = entry.ok_or_else(|| format!("Transaction {id} not found"))?;
                Ok(reply().field("mempoolEntry", Value::Structure(mempool_entry(entry))))
            }
            Call::MempoolEntries { is_orphans_only } => {
                // The model does not have an orphan pool.
                let pool = if *is_orphans_only { &[][..] } else { self.dag.mempool() };
                let entries = pool.iter().map(mempool_entry).collect();
                Ok(reply().field("mempoolEntries", Value::structures(entries)))
            }
            Call::Other(
                Method::GetHeaders | Method::GetSubnetwork | Method::ResolveFinalityConflict,
            ) => Err("Not implemented".to_owned()),
            Call::Other(method) => Err(format!("the model node has no {}", method.name())),
            Call::Subscribe(_)
            | Call::Unsubscribe(_)
            | Call::SubmitBlock { .. }
            | Call::SubmitTransaction(_) => Err("a call that changes the node".to_owned()),
        }
    }

    /// Applies the lies about a UTXO.
    pub(crate) fn report_entry(&self, outpoint: &Outpoint, entry: &UtxoEntry) -> UtxoEntry {
        let amount = self.faults.report_amount(outpoint, entry.amount);
        UtxoEntry { amount, ..entry.clone() }
    }

    /// Returns the UTXOs of addresses, each once. The prefix of a requested address is ignored.
    fn utxos_by_addresses(&self, addresses: &[KaspaAddress]) -> Structure {
        let scripts: Vec<ScriptPublicKey> = addresses.iter().map(to_script).collect();
        let utxos = self.dag.utxos();
        let own = utxos.iter().filter(|(_, entry)| scripts.contains(&entry.script_public_key));
        let own = own.map(|(outpoint, entry)| {
            address_utxo(&to_address_utxo(outpoint, self.report_entry(outpoint, entry)))
        });
        reply().field("entries", Value::structures(own.collect()))
    }

    fn balances_by_addresses(&self, addresses: &[KaspaAddress]) -> Structure {
        let entry = |address: &KaspaAddress| {
            Structure::with_version8(1)
                .field("address", Value::Address(*address))
                .field("balance", Value::some(Value::U64(self.balance(address))))
        };
        reply().field("entries", Value::structures(addresses.iter().map(entry).collect()))
    }

    fn balance(&self, address: &KaspaAddress) -> u64 {
        let script = to_script(address);
        let utxos = self.dag.utxos();
        let own = utxos.iter().filter(|(_, entry)| entry.script_public_key == script);
        own.map(|(outpoint, entry)| self.faults.report_amount(outpoint, entry.amount)).sum()
    }

    /// Returns the transactions in the mempool by address, each address once.
    fn mempool_by_addresses(&self, addresses: &[KaspaAddress]) -> Structure {
        let payloads: BTreeSet<AddressPayload> =
            addresses.iter().map(|address| address.payload).collect();
        let entries = payloads.into_iter().map(|payload| {
            let address = &KaspaAddress { prefix: Prefix::Simnet, payload };
            let script = to_script(address);
            let select = |is_own: &dyn Fn(&MempoolEntry) -> bool| {
                let own = self.dag.mempool().iter().filter(|entry| is_own(entry));
                Value::structures(own.map(mempool_entry).collect())
            };
            let sending =
                select(&|entry| entry.spent.iter().any(|spent| spent.script_public_key == script));
            let receiving = select(&|entry| {
                let mut outputs = entry.transaction.outputs.iter();
                outputs.any(|output| output.script_public_key == script)
            });
            Structure::without_version()
                .field("address", Value::Address(*address))
                .field("sending", sending)
                .field("receiving", receiving)
        });
        reply().field("entries", Value::structures(entries.collect()))
    }

    fn find_block(&self, hash: &Hash) -> Result<&DagBlock, String> {
        let block = self.dag.block(hash).map(AsRef::as_ref);
        block.ok_or_else(|| format!("cannot find header {hash}"))
    }

    fn block(&self, block: &DagBlock, include_transactions: bool) -> Structure {
        let header = self.faults.report_header(&block.hash, &block.header);
        let is_chain_block = self.dag.is_chain_block(&block.hash);
        block_structure(BlockStatus {
            block,
            header: &header,
            include_transactions,
            children: self.dag.children(&block.hash),
            is_chain_block,
        })
    }

    /// Returns whether the chain block that merges a block counts it as blue.
    fn block_color(&self, hash: &Hash) -> MethodResult {
        let chain = self.dag.chain_path(&self.dag.genesis()).added;
        let mut chain = chain.iter().filter_map(|hash| self.dag.block(hash));
        let merger = chain.find(|block| block.ghostdag.merge_order.contains(hash));
        let merger =
            merger.ok_or_else(|| format!("Block {hash} doesn't have any merger block."))?;
        Ok(reply().field("blue", Value::Flag(merger.ghostdag.blues.contains(hash))))
    }

    fn blocks(
        &self,
        low_hash: Option<Hash>,
        include_blocks: bool,
        include_transactions: bool,
    ) -> MethodResult {
        if include_transactions && !include_blocks {
            let text =
                "If includeTransactions is set, then includeBlockVerboseData must be set as well.";
            return Err(text.to_owned());
        }
        let low_hash = low_hash.unwrap_or_else(|| self.dag.genesis());
        self.find_block(&low_hash)?;
        let above = self.dag.blocks_above(&low_hash);
        let hashes: Vec<Hash> = std::iter::once(low_hash).chain(above).take(BLOCKS_MAX).collect();
        let shown = if include_blocks { hashes.as_slice() } else { &[] };
        let blocks = shown.iter().filter_map(|hash| self.dag.block(hash));
        let blocks = blocks.map(|block| self.block(block, include_transactions)).collect();
        Ok(reply()
            .field("blockHashes", Value::hashes(&hashes))
            .field("blocks", Value::structures(blocks)))
    }

    /// Returns at most a batch of the path to the sink, without blocks that have too few confirmations.
    fn confirmed_path(
        &self,
        start: &Hash,
        min_confirmation_count: Option<u64>,
    ) -> Result<ChainPath, String> {
        self.find_block(start)?;
        let mut path = self.dag.chain_path(start);
        path.added.truncate(CHAIN_BATCH_MAX);
        let sink_blue_score = self.dag.sink().header.blue_score;
        let count = min_confirmation_count.unwrap_or(0);
        while let Some(last) = path.added.last().filter(|_| count > 0) {
            let blue_score = self.find_block(last)?.header.blue_score;
            if sink_blue_score.saturating_sub(blue_score) > count {
                break;
            }
            path.added.pop();
        }
        Ok(path)
    }

    /// Truncates a path after the block that completes a batch of merged blocks.
    fn limit_merged(&self, path: &mut ChainPath) {
        let mut merged = 0;
        let mut len = 0;
        for block in path.added.iter().filter_map(|hash| self.dag.block(hash)) {
            if merged >= CHAIN_BATCH_MAX {
                break;
            }
            merged += block.ghostdag.merge_order.len();
            len += 1;
        }
        path.added.truncate(len);
    }

    fn chain(
        &self,
        start: &Hash,
        include_ids: bool,
        min_confirmation_count: Option<u64>,
    ) -> MethodResult {
        let mut path = self.confirmed_path(start, min_confirmation_count)?;
        if !include_ids {
            return Ok(chain_structure(&path, &[]));
        }
        self.limit_merged(&mut path);
        Ok(chain_structure(&path, &accepted_ids(self.dag, &path.added)))
    }

    fn chain_v2(&self, start: &Hash, min_confirmation_count: Option<u64>) -> MethodResult {
        let mut path = self.confirmed_path(start, min_confirmation_count)?;
        self.limit_merged(&mut path);
        let blocks = path.added.iter().filter_map(|hash| self.dag.block(hash));
        let blocks = blocks.map(|block| self.accepting_block(block)).collect::<Result<_, _>>()?;
        Ok(reply()
            .field("removedChainBlockHashes", Value::hashes(&path.removed))
            .field("addedChainBlockHashes", Value::hashes(&path.added))
            .field("chainBlockAcceptedTransactions", Value::structures(blocks)))
    }

    /// Returns a chain block with the transactions that it accepts. If a script has no address, the call fails, as in
    /// kaspad at every level above None.
    fn accepting_block(&self, block: &DagBlock) -> MethodResult {
        let header = self.faults.report_header(&block.hash, &block.header);
        let accepted = block.state.as_ref().map_or(&[][..], |state| &state.accepted);
        let accepted = accepted.iter().map(|accepted| self.accepted_transaction(accepted));
        let accepted = accepted.collect::<Result<Vec<_>, _>>()?;
        Ok(Structure::with_version16(1)
            .field("chainBlockHeader", Value::Structure(optional_header(block.hash, &header)))
            .field("acceptedTransactions", Value::structures(accepted)))
    }

    fn accepted_transaction(&self, accepted: &Accepted) -> MethodResult {
        let block = self.find_block(&accepted.block)?;
        let original = &block.transactions[accepted.index];
        let mut outputs = original.outputs.iter();
        if outputs.any(|output| output.script_public_key.payload().is_none()) {
            return Err("The address is invalid".to_owned());
        }
        let id = block.transaction_ids[accepted.index];
        let transaction = self.report_transaction(original, id);
        let spent = original.inputs.iter().zip(&accepted.spent);
        let spent: Vec<UtxoEntry> = spent
            .map(|(input, entry)| self.report_entry(&input.previous_outpoint, entry))
            .collect();
        let shape = AcceptedShape {
            id,
            hash: original.hash(),
            transaction: &transaction,
            spent: &spent,
            block: TransactionBlock {
                block_hash: block.hash,
                block_time_ms: block.header.timestamp_ms,
            },
            prefix: Prefix::Simnet,
        };
        Ok(shape.to_structure())
    }

    fn report_transaction(&self, original: &Transaction, id: Hash) -> Transaction {
        let mut transaction = original.clone();
        for (index, output) in (0..).zip(&mut transaction.outputs) {
            let outpoint = Outpoint { transaction_id: id, index };
            output.amount = self.faults.report_amount(&outpoint, output.amount);
        }
        transaction
    }

    fn template(&self, pay_address: &KaspaAddress, extra_data: &[u8]) -> MethodResult {
        if pay_address.prefix != Prefix::Simnet {
            let prefix = pay_address.prefix.name();
            return Err(format!("The address has an invalid prefix {prefix}"));
        }
        let miner = Miner { script: to_script(pay_address), extra_data: extra_data.to_vec() };
        let block = self.dag.build_template(&miner);
        Ok(reply()
            .field("block", Value::Structure(raw_block(&block.header, &block.transactions)))
            .field("isSynced", Value::Flag(self.is_synced)))
    }
}

fn needs_utxo_index(call: &Call) -> bool {
    match call {
        Call::BalanceByAddress(_) | Call::Plain(Method::GetCoinSupply) => true,
        Call::Addresses { method, .. } => {
            matches!(method, Method::GetUtxosByAddresses | Method::GetBalancesByAddresses)
        }
        _ => false,
    }
}

/// A block, with the fields of its verbose data that depend on the rest of the DAG.
pub(crate) struct BlockStatus<'a> {
    pub(crate) block: &'a DagBlock,
    /// The header to report.
    pub(crate) header: &'a Header,
    pub(crate) include_transactions: bool,
    pub(crate) children: &'a [Hash],
    pub(crate) is_chain_block: bool,
}

/// A block with verbose data.
pub(crate) fn block_structure(status: BlockStatus<'_>) -> Structure {
    let BlockStatus { block, header, include_transactions, children, is_chain_block } = status;
    let ghostdag = &block.ghostdag;
    let shape = BlockShape {
        hash: block.hash,
        header,
        transactions: include_transactions.then_some(&block.transactions),
        transaction_ids: &block.transaction_ids,
        selected_parent: ghostdag.selected_parent.unwrap_or(ORIGIN),
        children,
        blues: &ghostdag.blues,
        reds: &ghostdag.reds,
        is_chain_block,
        prefix: Prefix::Simnet,
    };
    shape.to_structure()
}

fn mempool_entry(entry: &MempoolEntry) -> Structure {
    let placed = PlacedTransaction {
        block: TransactionBlock { block_hash: Hash::default(), block_time_ms: 0 },
        prefix: Prefix::Simnet,
    };
    Structure::without_version()
        .field("fee", Value::U64(entry.fee))
        .field(
            "transaction",
            Value::Structure(plain_transaction(&entry.transaction, Some(&placed))),
        )
        .field("is_orphan", Value::Flag(false))
}

/// A reply, without its fields.
pub(crate) fn reply() -> Structure {
    Structure::with_version16(1)
}

fn to_script(address: &KaspaAddress) -> ScriptPublicKey {
    ScriptPublicKey::from_payload(&address.payload)
}
