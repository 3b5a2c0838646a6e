//! The reply to getVirtualChainFromBlockV2 at its level Full, block by block.
//!
//! Every field of a block and a transaction is optional on the wire. At this level none is missing but the verbose data of
//! outputs, and a reply without one of the others is refused.

use super::block::{invalid_parents, read_blue_work, read_covenant};
use super::reader::{BorshError, Reader};
use super::utxo::read_script;
use crate::hash::Hash;
use crate::header::{Header, ParentLevels, Parents};
use crate::message::{AcceptedTransaction, AcceptingBlock};
use crate::transaction::{SubnetworkId, Transaction, TransactionInput, TransactionOutput};
use crate::utxo::{Outpoint, UtxoEntry};

/// The fewest bytes of a block, a transaction, an input, an output and a run of levels.
const BLOCK_BYTES_MIN: usize = 4 + 2 + 4 + 4;
const TRANSACTION_BYTES_MIN: usize = 4 + 2 + 1 + 8 + 8 + 5 + 5;
const INPUT_BYTES_MIN: usize = 4 + 1 + 5 + 4 + 5;
const OUTPUT_BYTES_MIN: usize = 4 + 1 + 2 + 5;
const RUN_BYTES_MIN: usize = 1 + 4;

/// The version of an input with a budget, and of an output and an entry with a covenant.
const TOCCATA_VERSION: u8 = 2;

/// The change of the selected chain from the requested block to the sink.
#[derive(Clone, Debug)]
pub struct ChainReply<'a> {
    /// Blocks that left the chain, the highest first.
    pub removed: Vec<Hash>,
    /// Blocks that joined the chain, the lowest first.
    pub added: Vec<Hash>,
    blocks: Reader<'a>,
    blocks_left: usize,
}

impl<'a> ChainReply<'a> {
    /// Reads the lists of hashes of a reply's structure.
    pub fn parse(structure: &'a [u8]) -> Result<Self, BorshError> {
        let mut reader = Reader::new(structure);
        let _version = reader.u16()?;
        let removed = reader.hashes()?;
        let added = reader.hashes()?;
        let mut blocks = reader.payload()?;
        let blocks_left = blocks.count(BLOCK_BYTES_MIN)?;
        Ok(Self { removed, added, blocks, blocks_left })
    }

    /// Returns the number of blocks that are not read yet.
    pub fn blocks_left(&self) -> usize {
        self.blocks_left
    }

    /// Reads the next of the added blocks.
    pub fn next_block(&mut self) -> Result<Option<AcceptingBlock>, BorshError> {
        if self.blocks_left == 0 {
            return Ok(None);
        }
        self.blocks_left -= 1;
        let mut block = self.blocks.payload()?;
        let _version = block.u16()?;
        let mut header = block.payload()?;
        let _version = header.u16()?;
        Ok(Some(AcceptingBlock {
            hash: header.present("hash", Reader::hash)?,
            header: read_header(&mut header)?,
            transactions: block.payload()?.list(TRANSACTION_BYTES_MIN, read_transaction)?,
        }))
    }
}

fn read_header(reader: &mut Reader<'_>) -> Result<Header, BorshError> {
    Ok(Header {
        version: reader.present("version", Reader::u16)?,
        parents: reader.present("parentsByLevel", read_runs)?,
        hash_merkle_root: reader.present("hashMerkleRoot", Reader::hash)?,
        accepted_id_merkle_root: reader.present("acceptedIdMerkleRoot", Reader::hash)?,
        utxo_commitment: reader.present("utxoCommitment", Reader::hash)?,
        timestamp_ms: reader.present("timestamp", Reader::u64)?,
        bits: reader.present("bits", Reader::u32)?,
        nonce: reader.present("nonce", Reader::u64)?,
        daa_score: reader.present("daaScore", Reader::u64)?,
        blue_work: reader.present("blueWork", read_blue_work)?,
        blue_score: reader.present("blueScore", Reader::u64)?,
        pruning_point: reader.present("pruningPoint", Reader::hash)?,
    })
}

fn read_runs(reader: &mut Reader<'_>) -> Result<Parents, BorshError> {
    let runs = reader.list(RUN_BYTES_MIN, |reader| {
        Ok(ParentLevels { cumulative_level: reader.u8()?, parents: reader.hashes()? })
    })?;
    Parents::new(runs).map_err(invalid_parents)
}

fn read_transaction(reader: &mut Reader<'_>) -> Result<AcceptedTransaction, BorshError> {
    let mut reader = reader.payload()?;
    let _version = reader.u16()?;
    let version = reader.present("version", Reader::u16)?;
    let inputs = reader.payload()?.list(INPUT_BYTES_MIN, read_input)?;
    let outputs = reader.payload()?.list(OUTPUT_BYTES_MIN, read_output)?;
    let mut spent = Vec::with_capacity(inputs.len());
    let mut plain_inputs = Vec::with_capacity(inputs.len());
    for SpendingInput { input, entry } in inputs {
        plain_inputs.push(input);
        spent.push(entry);
    }
    let transaction = Transaction {
        version,
        inputs: plain_inputs,
        outputs,
        lock_time: reader.present("lockTime", Reader::u64)?,
        subnetwork_id: SubnetworkId(reader.present("subnetworkId", Reader::array)?),
        gas: reader.present("gas", Reader::u64)?,
        payload: reader.present("payload", Reader::bytes)?.to_vec(),
        storage_mass: reader.present("storageMass", Reader::u64)?,
    };
    let missing = BorshError::MissingField { field: "verboseData" };
    let mut verbose = reader.optional_payload()?.ok_or(missing)?;
    let _version = verbose.u8()?;
    let id = verbose.present("transactionId", Reader::hash)?;
    let _hash = verbose.option(Reader::hash)?;
    let _compute_mass = verbose.option(Reader::u64)?;
    Ok(AcceptedTransaction {
        id,
        transaction,
        spent,
        block_hash: verbose.present("blockHash", Reader::hash)?,
        block_time_ms: verbose.present("blockTime", Reader::u64)?,
    })
}

/// An input with the output that it spends.
struct SpendingInput {
    input: TransactionInput,
    entry: UtxoEntry,
}

fn read_input(reader: &mut Reader<'_>) -> Result<SpendingInput, BorshError> {
    let mut reader = reader.payload()?;
    let version = reader.u8()?;
    let missing = |field| BorshError::MissingField { field };
    let mut outpoint = reader.optional_payload()?.ok_or_else(|| missing("previousOutpoint"))?;
    let _version = outpoint.u8()?;
    let mut input = TransactionInput {
        previous_outpoint: Outpoint {
            transaction_id: outpoint.present("transactionId", Reader::hash)?,
            index: outpoint.present("index", Reader::u32)?,
        },
        signature_script: reader.present("signatureScript", Reader::bytes)?.to_vec(),
        sequence: reader.present("sequence", Reader::u64)?,
        sig_op_count: reader.option(Reader::u8)?.unwrap_or(0),
        compute_budget: 0,
    };
    let mut verbose = reader.optional_payload()?.ok_or_else(|| missing("verboseData"))?;
    if version >= TOCCATA_VERSION {
        input.compute_budget = reader.option(Reader::u16)?.unwrap_or(0);
    }
    let _version = verbose.u8()?;
    let entry = verbose.optional_payload()?.ok_or_else(|| missing("utxoEntry"))?;
    Ok(SpendingInput { input, entry: read_entry(entry)? })
}

fn read_entry(mut reader: Reader<'_>) -> Result<UtxoEntry, BorshError> {
    let version = reader.u8()?;
    let amount = reader.present("amount", Reader::u64)?;
    let script_public_key = reader.present("scriptPublicKey", read_script)?;
    let block_daa_score = reader.present("blockDaaScore", Reader::u64)?;
    let is_coinbase = reader.present("isCoinbase", |reader| reader.flag("isCoinbase"))?;
    let _verbose_data = reader.payload()?;
    let covenant_id = if version >= TOCCATA_VERSION { reader.option(Reader::hash)? } else { None };
    Ok(UtxoEntry { amount, script_public_key, block_daa_score, is_coinbase, covenant_id })
}

fn read_output(reader: &mut Reader<'_>) -> Result<TransactionOutput, BorshError> {
    let mut reader = reader.payload()?;
    let version = reader.u8()?;
    let amount = reader.present("value", Reader::u64)?;
    let script_public_key = reader.present("scriptPublicKey", read_script)?;
    let _verbose_data = reader.payload()?;
    if version < TOCCATA_VERSION {
        return Ok(TransactionOutput { amount, script_public_key, covenant: None });
    }
    // An option in an option. Both are used for an output without a covenant: the outer one for transactions of version 0.
    let Some(mut nullable) = reader.optional_payload()? else {
        return Ok(TransactionOutput { amount, script_public_key, covenant: None });
    };
    let _version = nullable.u8()?;
    let covenant = nullable.optional_payload()?.map(read_covenant).transpose()?;
    Ok(TransactionOutput { amount, script_public_key, covenant })
}
