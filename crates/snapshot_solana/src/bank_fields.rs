//! The bank's fields: the part of a snapshot besides its accounts.
//!
//! In: `snapshots/<slot>/<slot>`, in the order in which Agave 4.2 writes it. The stakes of epochs are read
//! (`epoch_stakes`); current stakes and votes are skipped: the accounts contain the same.
//! The bank hash covers the parent's hash, the number of signatures, the newest blockhash and the
//! hash over all accounts ([`BankFields::check`]); the accounts confirm slot and capitalization.
//! Height, counts, schedule, inflation, stakes of epochs and older blockhashes are not checked, as in a validator.

use std::collections::HashMap;
use std::sync::Arc;

use lattice::{BankHashInputs, HardFork, LT_HASH_BYTES, LtHash, crossed_hard_forks};
use solana::EpochStakes;
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_inflation::Inflation;

use crate::archive::Archive;
use crate::bincode_reader::{BincodeReader, PUBKEY};
use crate::epoch_stakes;
use crate::error::SnapshotError;
use crate::status_cache::StatusCache;

/// Maximum number of blockhashes; Agave stores 301.
const BLOCKHASHES_MAX: usize = 4_096;
/// Maximum number of storage files, as in Agave.
const STORAGES_MAX: usize = 5_000_000;
/// Maximum bytes of a storage file, as in Agave.
const STORAGE_BYTES_MAX: u64 = 16 << 30;
/// Maximum number of hard forks; mainnet has had fewer than ten.
const HARD_FORKS_MAX: usize = 65_536;

/// The fields of a bank, as they are read from an archive and written into one.
#[derive(Clone, Debug)]
pub struct BankFields {
    /// The slot of the snapshot.
    pub slot: u64,
    /// The parent's slot.
    pub parent_slot: u64,
    /// Number of blocks before it.
    pub block_height: u64,
    /// The hash of the bank, as in votes.
    pub bank_hash: Hash,
    /// The hash of the parent's bank.
    pub parent_hash: Hash,
    /// Transactions since genesis, votes included.
    pub transaction_count: u64,
    /// Signatures in the block.
    pub signature_count: u64,
    /// Lamports in all accounts.
    pub capitalization: u64,
    /// Time of genesis: seconds since 1970.
    pub genesis_unix_timestamp: i64,
    /// The epoch schedule.
    pub epoch_schedule: EpochSchedule,
    /// Nanoseconds of a slot.
    pub ns_per_slot: u128,
    /// The hashes that transactions may use, the oldest first; never empty.
    pub blockhashes: Vec<Hash>,
    /// Lamports that a signature costs with the newest blockhash.
    pub lamports_per_signature: u64,
    /// The parameters of inflation.
    pub inflation: Inflation,
    /// The stakes of this and of the next epoch, and of some before, in the order of epochs.
    pub epoch_stakes: Vec<EpochStakes>,
    /// The hard forks of the cluster.
    pub hard_forks: Vec<HardFork>,
    /// The hash over all accounts.
    pub lt_hash: Box<LtHash>,
    /// The transactions of the last slots.
    pub status_cache: Arc<StatusCache>,
    /// The storage file of each slot.
    pub(crate) storages: HashMap<u64, StorageFile>,
}

/// A storage file in the bank's fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageFile {
    pub(crate) id: u64,
    /// Bytes of it that are accounts.
    pub(crate) bytes: u64,
}

impl BankFields {
    /// The fields of no bank, for a caller that sets those of its own.
    pub fn empty() -> Self {
        Self {
            slot: 0,
            parent_slot: 0,
            block_height: 0,
            bank_hash: Hash::default(),
            parent_hash: Hash::default(),
            transaction_count: 0,
            signature_count: 0,
            capitalization: 0,
            genesis_unix_timestamp: 0,
            epoch_schedule: EpochSchedule::default(),
            ns_per_slot: 0,
            blockhashes: Vec::new(),
            lamports_per_signature: 0,
            inflation: Inflation::new_disabled(),
            epoch_stakes: Vec::new(),
            hard_forks: Vec::new(),
            lt_hash: Box::new(LtHash::EMPTY),
            status_cache: Arc::default(),
            storages: HashMap::new(),
        }
    }

    /// Reads the current entry of `archive` completely.
    pub(crate) fn read(archive: &mut Archive<'_>) -> Result<Self, SnapshotError> {
        let mut reader = BincodeReader::new(archive);
        let mut bank = read_bank(&mut reader)?;
        bank.storages = read_accounts_db(&mut reader, bank.slot)?;
        (bank.epoch_stakes, bank.lt_hash) = read_extra(&mut reader)?;
        match archive.remaining() {
            0 => Ok(bank),
            more => Err(archive.unsupported(format!("{more} bytes more than Agave 4.2 writes"))),
        }
    }

    /// The bank hash that follows from the fields and from a hash over all accounts.
    pub fn computed_hash(&self, lt_hash: &LtHash) -> Hash {
        let last = self.blockhashes.last().copied().unwrap_or_default();
        let inputs = BankHashInputs {
            parent_hash: self.parent_hash.to_bytes(),
            signature_count: self.signature_count,
            last_blockhash: last.to_bytes(),
            lt_hash,
            hard_forks: crossed_hard_forks(&self.hard_forks, self.parent_slot, self.slot),
        };
        Hash::new_from_array(inputs.hash())
    }

    /// Computes the bank hash and compares it.
    pub(crate) fn check(&self, archive: &Archive<'_>) -> Result<(), SnapshotError> {
        let found = self.computed_hash(&self.lt_hash);
        if found != self.bank_hash {
            let claimed_by = "the bank";
            return Err(SnapshotError::checksum_mismatch(
                archive.name(),
                "the bank hash",
                found,
                claimed_by,
                self.bank_hash,
            ));
        }
        if self.slot > 0 && self.parent_slot >= self.slot || self.block_height > self.slot {
            return Err(archive.damaged(format!(
                "slot {} at height {} has parent {}",
                self.slot, self.block_height, self.parent_slot
            )));
        }
        Ok(())
    }
}

fn read_bank(reader: &mut BincodeReader<'_, '_>) -> Result<BankFields, SnapshotError> {
    let (blockhashes, lamports_per_signature) = read_blockhashes(reader)?;
    reader.skip_list("ancestors", 16)?;
    let bank_hash = reader.hash()?;
    let parent_hash = reader.hash()?;
    let parent_slot = reader.u64()?;
    let hard_forks = read_hard_forks(reader)?;
    let transaction_count = reader.u64()?;
    reader.skip(8)?; // tick height
    let signature_count = reader.u64()?;
    let capitalization = reader.u64()?;
    reader.skip(8)?; // max tick height
    reader.option("hashes per tick", BincodeReader::u64)?;
    reader.skip(8)?; // ticks per slot
    let ns_per_slot = u128::from_le_bytes(reader.bytes()?);
    let genesis_unix_timestamp = reader.i64()?;
    reader.skip(16)?; // slots per year, bytes of all accounts' data
    let slot = reader.u64()?;
    reader.skip(8)?; // epoch
    let block_height = reader.u64()?;
    reader.skip(PUBKEY + 16)?; // leader, collected fees, fee calculator
    reader.skip(4 * 8 + 1)?; // how fees change
    reader.skip(8)?; // collected rent
    reader.skip(8)?; // rent collector: epoch
    read_epoch_schedule(reader)?;
    reader.skip(8 + 8 + 8 + 1)?; // rent collector: slots per year, rent
    let epoch_schedule = read_epoch_schedule(reader)?;
    let inflation = read_inflation(reader)?;
    epoch_stakes::skip_current(reader)?;
    reader.skip_list("unused accounts", PUBKEY)?;
    reader.skip_list("unused accounts", PUBKEY)?;
    reader.skip_list("unused accounts", PUBKEY + 8)?;
    if reader.u64()? != 0 {
        return Err(reader.archive().unsupported("epoch stakes where Agave 4 has none"));
    }
    reader.bool("whether anything changed")?;
    Ok(BankFields {
        slot,
        parent_slot,
        block_height,
        bank_hash,
        parent_hash,
        transaction_count,
        signature_count,
        capitalization,
        genesis_unix_timestamp,
        epoch_schedule,
        ns_per_slot,
        blockhashes,
        lamports_per_signature,
        inflation,
        epoch_stakes: Vec::new(),
        hard_forks,
        lt_hash: Box::new(LtHash::EMPTY),
        status_cache: Arc::default(),
        storages: HashMap::new(),
    })
}

/// Reads the blockhashes in order of age, and the fee of the newest. It must be the last registered one.
fn read_blockhashes(reader: &mut BincodeReader<'_, '_>) -> Result<(Vec<Hash>, u64), SnapshotError> {
    reader.skip(8)?; // index of the last
    let last = reader.option("last blockhash", BincodeReader::hash)?;
    let mut hashes: Vec<(u64, Hash, u64)> = Vec::new();
    reader.each("blockhashes", PUBKEY + 24, |reader| {
        let hash = reader.hash()?;
        let fee = reader.u64()?;
        let index = reader.u64()?;
        reader.skip(8)?; // timestamp
        reader.check_len(hashes.len(), BLOCKHASHES_MAX, "blockhashes")?;
        hashes.push((index, hash, fee));
        Ok(())
    })?;
    reader.skip(8)?; // maximum age
    hashes.sort_unstable();
    let newest = hashes.last().copied();
    let hashes: Vec<Hash> = hashes.into_iter().map(|(_, hash, _)| hash).collect();
    match newest {
        Some((_, hash, fee)) if last == Some(hash) => Ok((hashes, fee)),
        _ => Err(reader.archive().damaged("the newest blockhash is not the last one registered")),
    }
}

fn read_hard_forks(reader: &mut BincodeReader<'_, '_>) -> Result<Vec<HardFork>, SnapshotError> {
    let mut forks = Vec::new();
    reader.each("hard forks", 16, |reader| {
        reader.check_len(forks.len(), HARD_FORKS_MAX, "hard forks")?;
        forks.push(HardFork { slot: reader.u64()?, count: reader.u64()? });
        Ok(())
    })?;
    Ok(forks)
}

fn read_epoch_schedule(reader: &mut BincodeReader<'_, '_>) -> Result<EpochSchedule, SnapshotError> {
    Ok(EpochSchedule {
        slots_per_epoch: reader.u64()?,
        leader_schedule_slot_offset: reader.u64()?,
        warmup: reader.bool("whether epochs warm up")?,
        first_normal_epoch: reader.u64()?,
        first_normal_slot: reader.u64()?,
    })
}

/// Reads the parameters of inflation. Each must be a number.
fn read_inflation(reader: &mut BincodeReader<'_, '_>) -> Result<Inflation, SnapshotError> {
    let mut rate = || {
        let rate = f64::from_le_bytes(reader.bytes()?);
        match rate.is_finite() {
            true => Ok(rate),
            false => Err(reader.archive().damaged(format!("{rate} as a rate of inflation"))),
        }
    };
    let mut inflation = Inflation::new_disabled();
    (inflation.initial, inflation.terminal) = (rate()?, rate()?);
    (inflation.taper, inflation.foundation) = (rate()?, rate()?);
    inflation.foundation_term = rate()?;
    reader.skip(8)?; // unused
    Ok(inflation)
}

fn read_accounts_db(
    reader: &mut BincodeReader<'_, '_>,
    bank_slot: u64,
) -> Result<HashMap<u64, StorageFile>, SnapshotError> {
    let mut storages = HashMap::new();
    reader.each("storage files", 16, |reader| {
        let slot = reader.u64()?;
        let files = reader.count("files of a slot", 16)?;
        if files != 1 {
            let reason = format!("slot {slot} has {files} storage files, and Agave 4 writes one");
            return Err(reader.archive().unsupported(reason));
        }
        let file = StorageFile { id: reader.u64()?, bytes: reader.u64()? };
        reader.check_len(storages.len(), STORAGES_MAX, "storage files")?;
        if file.bytes > STORAGE_BYTES_MAX {
            let reason = format!("a storage file of {} bytes for slot {slot}", file.bytes);
            return Err(reader.archive().damaged(reason));
        }
        if slot > bank_slot || storages.insert(slot, file).is_some() {
            return Err(reader.archive().damaged(format!("a storage file of slot {slot}")));
        }
        Ok(())
    })?;
    reader.skip(8)?; // write version
    let slot = reader.u64()?;
    if slot != bank_slot {
        let reason = format!("the accounts are of slot {slot}, the bank of slot {bank_slot}");
        return Err(reader.archive().damaged(reason));
    }
    reader.skip(2 * PUBKEY + 5 * 8)?; // unused hashes, statistics
    reader.skip_list("roots", 8)?;
    reader.skip_list("roots with hashes", 8 + PUBKEY)?;
    Ok(storages)
}

/// The fields that later versions added. The stakes of epochs and the hash over all accounts are among them.
fn read_extra(
    reader: &mut BincodeReader<'_, '_>,
) -> Result<(Vec<EpochStakes>, Box<LtHash>), SnapshotError> {
    reader.skip(8)?; // lamports per signature
    if reader.bool("incremental persistence")? {
        reader.skip(8 + PUBKEY + 8 + PUBKEY + 8)?;
    }
    if reader.bool("epoch accounts hash")? {
        reader.skip(PUBKEY)?;
    }
    let epoch_stakes = epoch_stakes::read_all(reader)?;
    let Some(hash) = reader.option("accounts hash", BincodeReader::bytes::<LT_HASH_BYTES>)? else {
        return Err(reader.archive().unsupported("no hash over the accounts"));
    };
    if reader.archive().remaining() > 0 {
        reader.option("block id", BincodeReader::hash)?;
    }
    Ok((epoch_stakes, Box::new(LtHash::from_bytes(&hash))))
}
