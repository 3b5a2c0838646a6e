//! The status cache of a snapshot: the transactions of the last 300 slots, and their results.
//!
//! In: `snapshots/status_cache`. Out: the slot and the result of a transaction, by its signature.
//! An archive has 20 bytes of each signature, from an offset that a validator chose at random for each blockhash. So a
//! lookup tries every offset that was used, at most 45. It also has 20 bytes of each message's hash, which no signature
//! equals.
//! Bounds: [`ENTRIES_MAX`] entries of 28 bytes in a hash table, with [`RESULTS_MAX`] different results; others are
//! counted and not stored. [`SLOTS_MAX`] slots, [`BLOCKHASHES_MAX`] blockhashes in each.
//! Trust: no hash covers it, as in a validator.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;
use solana_transaction_error::TransactionError;

use crate::archive::Archive;
use crate::bincode_reader::BincodeReader;
use crate::error::SnapshotError;

/// Bytes of a signature that are stored.
pub const STATUS_KEY_BYTES: usize = 20;
/// The stored bytes of a signature.
pub type StatusKey = [u8; STATUS_KEY_BYTES];

/// Bytes of a signature.
const SIGNATURE_BYTES: usize = 64;
/// Entries that are stored: twice the transactions of 300 full slots of mainnet.
const ENTRIES_MAX: usize = 4 << 20;
/// Different results that are stored. The codes of programs make most of them, which an archive may choose freely. A
/// larger value lets a hostile archive use more memory, some 100 bytes each while it is read.
const RESULTS_MAX: usize = 1 << 16;
/// Agave stores 300.
const SLOTS_MAX: usize = 4_096;
const BLOCKHASHES_MAX: usize = 4_096;
/// Bytes of an error's text, at most.
const TEXT_BYTES_MAX: u64 = 4_096;

// Variants of Agave's TransactionError and InstructionError that have content.
const INSTRUCTION_ERROR: u32 = 8;
const DUPLICATE_INSTRUCTION: u32 = 30;
const INSUFFICIENT_FUNDS_FOR_RENT: u32 = 31;
const PROGRAM_RESTRICTED: u32 = 35;
const CUSTOM: u32 = 25;
const BORSH_IO_ERROR: u32 = 44;

/// Transactions by signature.
#[derive(Clone, Default)]
pub struct StatusCache {
    entries: HashMap<StatusKey, Position, RandomState>,
    /// The offsets of the stored bytes in signatures.
    offsets: BTreeSet<u8>,
    slots: Vec<u64>,
    /// The first one is success.
    results: Vec<Result<(), TransactionError>>,
    left_out: u64,
}

/// Indices of a slot and a result.
#[derive(Clone, Copy)]
struct Position {
    slot: u32,
    result: u32,
}

impl std::fmt::Debug for StatusCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = self.entries.len();
        let left_out = self.left_out;
        f.debug_struct("StatusCache")
            .field("entries", &entries)
            .field("left_out", &left_out)
            .finish()
    }
}

impl StatusCache {
    /// The slot and the result of a transaction.
    ///
    /// Cost: up to 45 lookups in a hash table, usually fewer than 10.
    pub fn find(
        &self,
        signature: &[u8; SIGNATURE_BYTES],
    ) -> Option<(u64, &Result<(), TransactionError>)> {
        let at = |offset: &u8| {
            let stored =
                signature.get(usize::from(*offset)..)?.first_chunk::<STATUS_KEY_BYTES>()?;
            self.entries.get(stored)
        };
        let Position { slot, result } = self.offsets.iter().find_map(at)?;
        Some((*self.slots.get(*slot as usize)?, self.results.get(*result as usize)?))
    }

    /// The newest slot.
    pub fn newest_slot(&self) -> Option<u64> {
        self.slots.iter().max().copied()
    }

    /// Entries that were too many to be stored.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.entries.capacity() * (size_of::<(StatusKey, Position)>() + 1)
            + self.results.capacity() * size_of::<Result<(), TransactionError>>()
            + self.slots.capacity() * size_of::<u64>()
    }

    /// Reads the current entry of an archive completely.
    pub(crate) fn read(archive: &mut Archive<'_>) -> Result<Self, SnapshotError> {
        let mut cache = Self { results: vec![Ok(())], ..Self::default() };
        let mut known: HashMap<Vec<u8>, u32, RandomState> = HashMap::default();
        let mut reader = BincodeReader::new(archive);
        reader.each("slots with statuses", 17, |reader| {
            reader.check_len(cache.slots.len(), SLOTS_MAX, "slots with statuses")?;
            let slot = reader.u64()?;
            reader.bool("whether a slot is rooted")?;
            let number = cache.slots.len() as u32; // at most SLOTS_MAX
            cache.slots.push(slot);
            let mut blockhashes = 0;
            reader.each("blockhashes with statuses", 48, |reader| {
                reader.check_len(blockhashes, BLOCKHASHES_MAX, "blockhashes with statuses")?;
                blockhashes += 1;
                reader.skip(32)?;
                let offset = reader.u64()?;
                let offset =
                    u8::try_from(offset).ok().filter(|it| usize::from(*it) < SIGNATURE_BYTES);
                let offset = offset.ok_or_else(|| {
                    reader.archive().damaged("a status key starts behind the end of signatures")
                })?;
                cache.offsets.insert(offset);
                reader.each("statuses", STATUS_KEY_BYTES as u64 + 4, |reader| {
                    let key: StatusKey = reader.bytes()?;
                    let result = read_result(reader, &mut known, &mut cache.results)?;
                    match result.filter(|_| cache.entries.len() < ENTRIES_MAX) {
                        Some(result) => {
                            cache.entries.insert(key, Position { slot: number, result });
                        }
                        None => cache.left_out += 1,
                    }
                    Ok(())
                })
            })
        })?;
        Ok(cache)
    }
}

/// Reads a result. Returns its index in `results`, or `None` if that is full; `known` has those of errors by their
/// bytes.
fn read_result(
    reader: &mut BincodeReader<'_, '_>,
    known: &mut HashMap<Vec<u8>, u32, RandomState>,
    results: &mut Vec<Result<(), TransactionError>>,
) -> Result<Option<u32>, SnapshotError> {
    match reader.u32()? {
        0 => return Ok(Some(0)),
        1 => {}
        other => {
            let reason = format!("the status of a transaction is {other}, not 0 or 1");
            return Err(reader.archive().damaged(reason));
        }
    }
    let bytes = read_error(reader)?;
    if let Some(index) = known.get(&bytes) {
        return Ok(Some(*index));
    }
    let err = bincode::deserialize::<TransactionError>(&bytes).map_err(|err| {
        reader
            .archive()
            .unsupported(format!("the error of a transaction that Agave 4.2 has not: {err}"))
    })?;
    if results.len() >= RESULTS_MAX {
        return Ok(None);
    }
    let index = results.len() as u32; // below RESULTS_MAX
    results.push(Err(err));
    known.insert(bytes, index);
    Ok(Some(index))
}

/// The bytes of a transaction's error as `TransactionError` reads them: without the text that Agave stores in one of
/// its variants.
fn read_error(reader: &mut BincodeReader<'_, '_>) -> Result<Vec<u8>, SnapshotError> {
    let variant = reader.u32()?;
    let mut bytes = variant.to_le_bytes().to_vec();
    match variant {
        DUPLICATE_INSTRUCTION | INSUFFICIENT_FUNDS_FOR_RENT | PROGRAM_RESTRICTED => {
            bytes.extend(reader.bytes::<1>()?);
        }
        INSTRUCTION_ERROR => {
            bytes.extend(reader.bytes::<1>()?);
            let variant = reader.u32()?;
            bytes.extend(variant.to_le_bytes());
            if variant == CUSTOM {
                bytes.extend(reader.bytes::<4>()?);
            } else if variant == BORSH_IO_ERROR {
                let len = reader.count("bytes of an error", 1)?;
                if len > TEXT_BYTES_MAX {
                    return Err(reader
                        .archive()
                        .damaged(format!("an error with {len} bytes of text")));
                }
                reader.skip(len)?;
            }
        }
        _ => {}
    }
    Ok(bytes)
}
