//! Blocks of getBlock, getBlockTemplate and blockAddedNotification in Borsh.

use super::reader::{BorshError, Reader};
use super::utxo::read_script;
use crate::hash::Hash;
use crate::header::{BlueWork, Header, InvalidParents, ParentLevels, Parents};
use crate::message::{Block, BlockTemplate};
use crate::transaction::{
    CovenantBinding, SubnetworkId, Transaction, TransactionInput, TransactionOutput,
};
use crate::utxo::Outpoint;

/// The fewest bytes of a transaction, an input and an output, with their lengths.
const TRANSACTION_BYTES_MIN: usize = 4 + 2 + 2 + 8 + 8 + 8 + 20 + 8 + 4 + 8 + 5;
const INPUT_BYTES_MIN: usize = 4 + 1 + 41 + 4 + 8 + 1 + 5;
const OUTPUT_BYTES_MIN: usize = 4 + 1 + 8 + 2 + 4 + 5;

/// The version of an input with a budget, and of an output with a covenant.
const TOCCATA_VERSION: u8 = 2;

impl Block {
    /// Reads the structure of a reply to getBlock, or the content of [`crate::Notification::BlockAdded`].
    pub fn decode_borsh(structure: &[u8]) -> Result<Self, BorshError> {
        let mut reader = Reader::new(structure);
        let _version = reader.u16()?;
        let mut block = reader.payload()?;
        let _version = block.u16()?;
        let mut header = block.payload()?;
        let _version = header.u16()?;
        Ok(Self {
            hash: header.hash()?,
            header: read_plain_header(&mut header)?,
            transactions: block.payload()?.list(TRANSACTION_BYTES_MIN, read_transaction)?,
        })
    }

    /// Reads the blocks that a block merges, from the verbose data of the same structure: the blue ones, then the red ones.
    pub fn decode_borsh_merge_set(structure: &[u8]) -> Result<Vec<Hash>, BorshError> {
        let mut reader = Reader::new(structure);
        let _version = reader.u16()?;
        let mut block = reader.payload()?;
        let _version = block.u16()?;
        let _header = block.payload()?;
        let _transactions = block.payload()?;
        let missing = BorshError::MissingField { field: "verboseData" };
        let mut verbose = block.optional_payload()?.ok_or(missing)?;
        let _version = verbose.u8()?;
        let _hash = verbose.hash()?;
        let _difficulty = verbose.f64()?;
        let _selected_parent = verbose.hash()?;
        let _transaction_ids = verbose.hashes()?;
        let _is_header_only = verbose.flag("isHeaderOnly")?;
        let _blue_score = verbose.u64()?;
        let _children = verbose.hashes()?;
        let mut merge_set = verbose.hashes()?;
        merge_set.extend(verbose.hashes()?);
        Ok(merge_set)
    }
}

impl BlockTemplate {
    /// Reads the structure of a reply to getBlockTemplate.
    pub fn decode_borsh(structure: &[u8]) -> Result<Self, BorshError> {
        let mut reader = Reader::new(structure);
        let _version = reader.u16()?;
        let mut block = reader.payload()?;
        let is_synced = reader.flag("isSynced")?;
        let _version = block.u16()?;
        let mut header = block.payload()?;
        let _version = header.u16()?;
        Ok(Self { header: read_plain_header(&mut header)?, is_synced })
    }
}

/// Reads a header with all of its fields, and with the parents of each level.
fn read_plain_header(reader: &mut Reader<'_>) -> Result<Header, BorshError> {
    Ok(Header {
        version: reader.u16()?,
        parents: read_levels(reader)?,
        hash_merkle_root: reader.hash()?,
        accepted_id_merkle_root: reader.hash()?,
        utxo_commitment: reader.hash()?,
        timestamp_ms: reader.u64()?,
        bits: reader.u32()?,
        nonce: reader.u64()?,
        daa_score: reader.u64()?,
        blue_work: read_blue_work(reader)?,
        blue_score: reader.u64()?,
        pruning_point: reader.hash()?,
    })
}

/// Reads a list of lists of parents, and joins equal ones that follow each other.
fn read_levels(reader: &mut Reader<'_>) -> Result<Parents, BorshError> {
    let mut runs: Vec<ParentLevels> = Vec::new();
    let level_count = reader.count(size_of::<u32>())?;
    for level in 1..=level_count {
        let error = BorshError::UnknownValue { field: "the number of levels", value: level as u64 };
        let cumulative_level = u8::try_from(level).map_err(|_| error)?;
        let parents = reader.hashes()?;
        match runs.last_mut() {
            Some(run) if run.parents == parents => run.cumulative_level = cumulative_level,
            _ => runs.push(ParentLevels { cumulative_level, parents }),
        }
    }
    Parents::new(runs).map_err(invalid_parents)
}

pub(crate) fn invalid_parents(error: InvalidParents) -> BorshError {
    BorshError::Invalid { field: "parentsByLevel", reason: error.to_string() }
}

pub(crate) fn read_blue_work(reader: &mut Reader<'_>) -> Result<BlueWork, BorshError> {
    let mut work = reader.array()?;
    work.reverse();
    Ok(BlueWork(work))
}

fn read_transaction(reader: &mut Reader<'_>) -> Result<Transaction, BorshError> {
    let mut reader = reader.payload()?;
    let _version = reader.u16()?;
    Ok(Transaction {
        version: reader.u16()?,
        inputs: reader.payload()?.list(INPUT_BYTES_MIN, read_input)?,
        outputs: reader.payload()?.list(OUTPUT_BYTES_MIN, read_output)?,
        lock_time: reader.u64()?,
        subnetwork_id: SubnetworkId(reader.array()?),
        gas: reader.u64()?,
        payload: reader.bytes()?.to_vec(),
        storage_mass: reader.u64()?,
    })
}

fn read_input(reader: &mut Reader<'_>) -> Result<TransactionInput, BorshError> {
    let mut reader = reader.payload()?;
    let version = reader.u8()?;
    let mut outpoint = reader.payload()?;
    let _version = outpoint.u8()?;
    let mut input = TransactionInput {
        previous_outpoint: Outpoint { transaction_id: outpoint.hash()?, index: outpoint.u32()? },
        signature_script: reader.bytes()?.to_vec(),
        sequence: reader.u64()?,
        sig_op_count: reader.u8()?,
        compute_budget: 0,
    };
    let _verbose_data = reader.payload()?;
    if version >= TOCCATA_VERSION {
        input.compute_budget = reader.u16()?;
    }
    Ok(input)
}

fn read_output(reader: &mut Reader<'_>) -> Result<TransactionOutput, BorshError> {
    let mut reader = reader.payload()?;
    let version = reader.u8()?;
    let amount = reader.u64()?;
    let script_public_key = read_script(&mut reader)?;
    let _verbose_data = reader.payload()?;
    let covenant = match version {
        TOCCATA_VERSION.. => reader.optional_payload()?.map(read_covenant).transpose()?,
        _ => None,
    };
    Ok(TransactionOutput { amount, script_public_key, covenant })
}

pub(crate) fn read_covenant(mut reader: Reader<'_>) -> Result<CovenantBinding, BorshError> {
    let _version = reader.u8()?;
    let authorizing_input = reader.u16()?;
    let covenant_id: Hash = reader.hash()?;
    Ok(CovenantBinding { authorizing_input, covenant_id })
}
