//! The bank's fields: what a snapshot says beside its accounts.
//!
//! In: `snapshots/<slot>/<slot>`, in the order in which Agave 4.2 writes it. Stakes and votes are passed
//! over: the accounts say the same.
//! The bank hash covers the parent's hash, the count of signatures, the newest blockhash and the hash over
//! all accounts ([`BankFields::check`]); the accounts confirm slot and capitalization. Height, counts,
//! schedule and older blockhashes are taken at their word, as a validator takes them.

use std::collections::HashMap;

use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_sha256_hasher::hashv;

use crate::archive::Archive;
use crate::bincode_reader::BincodeReader;
use crate::error::SnapshotError;
use crate::lt_hash::{LT_HASH_BYTES, LtHash};

/// Blockhashes that are kept at most: Agave keeps 301.
const BLOCKHASHES_MAX: usize = 4_096;
/// Storage files that there are at most, as for Agave.
const STORAGES_MAX: usize = 5_000_000;
/// Bytes that a storage file has at most, as for Agave.
const STORAGE_BYTES_MAX: u64 = 16 << 30;
/// Hard forks that there are at most; mainnet has had fewer than ten.
const HARD_FORKS_MAX: usize = 65_536;
const PUBKEY: u64 = 32;
/// Who it is delegated to, how much, from and to which epoch, and eight bytes without use.
const DELEGATION: u64 = PUBKEY + 8 * 4;
/// An epoch and three amounts.
const STAKE_HISTORY_ENTRY: u64 = 8 * 4;

/// What a snapshot says of its bank.
#[derive(Clone, Debug)]
pub struct BankFields {
    /// The slot of the snapshot.
    pub slot: u64,
    /// The slot that its block was built on.
    pub parent_slot: u64,
    /// How many blocks precede it.
    pub block_height: u64,
    /// The hash of the bank, as votes name it.
    pub bank_hash: Hash,
    /// The hash of the parent's bank.
    pub parent_hash: Hash,
    /// Transactions since genesis, votes included.
    pub transaction_count: u64,
    /// Signatures in the block.
    pub signature_count: u64,
    /// Lamports in all accounts.
    pub capitalization: u64,
    /// When genesis was made: seconds since 1970.
    pub genesis_unix_timestamp: i64,
    /// How slots make epochs.
    pub epoch_schedule: EpochSchedule,
    /// Nanoseconds of a slot.
    pub ns_per_slot: u128,
    /// The hashes that transactions may name, the oldest first; never empty.
    pub blockhashes: Vec<Hash>,
    hard_forks: Vec<(u64, u64)>,
    pub(crate) accounts_hash: LtHashBytes,
    /// Which storage file there is for a slot.
    pub(crate) storages: HashMap<u64, StorageFile>,
}

/// The lattice hash, as the bank has it written down.
#[derive(Clone)]
pub(crate) struct LtHashBytes(Box<[u8; LT_HASH_BYTES]>);

impl std::fmt::Debug for LtHashBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.hash().checksum())
    }
}

impl LtHashBytes {
    pub(crate) fn hash(&self) -> LtHash {
        LtHash::from_bytes(&self.0)
    }
}

/// One storage file, as the bank's fields list it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageFile {
    pub(crate) id: u64,
    /// How many bytes of it are accounts.
    pub(crate) bytes: u64,
}

impl BankFields {
    /// Reads the present entry of `archive`, all of it.
    pub(crate) fn read(archive: &mut Archive<'_>) -> Result<Self, SnapshotError> {
        let mut fields = BincodeReader::new(archive);
        let mut bank = read_bank(&mut fields)?;
        bank.storages = read_accounts_db(&mut fields, bank.slot)?;
        bank.accounts_hash = read_extra(&mut fields)?;
        match archive.remaining() {
            0 => Ok(bank),
            more => Err(archive.unsupported(format!("{more} bytes more than Agave 4.2 writes"))),
        }
    }

    /// Compares the bank's hash with what it is the hash of.
    pub(crate) fn check(&self, archive: &Archive<'_>) -> Result<(), SnapshotError> {
        let last = self.blockhashes.last().copied().unwrap_or_default();
        let signatures = self.signature_count.to_le_bytes();
        let mut found = hashv(&[self.parent_hash.as_ref(), &signatures, last.as_ref()]);
        found = hashv(&[found.as_ref(), self.accounts_hash.0.as_slice()]);
        let forks = self.hard_forks.iter();
        let crossed = forks.filter(|(slot, _)| self.parent_slot < *slot && self.slot >= *slot);
        let crossed = crossed.fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        if crossed > 0 {
            found = hashv(&[found.as_ref(), &crossed.to_le_bytes()]);
        }
        if found != self.bank_hash {
            let says = "the bank";
            return Err(SnapshotError::checksum_mismatch(
                archive.name(),
                "the bank hash",
                found,
                says,
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

fn read_bank(fields: &mut BincodeReader<'_, '_>) -> Result<BankFields, SnapshotError> {
    let blockhashes = read_blockhashes(fields)?;
    fields.skip_list("ancestors", 16)?;
    let bank_hash = fields.hash()?;
    let parent_hash = fields.hash()?;
    let parent_slot = fields.u64()?;
    let hard_forks = read_hard_forks(fields)?;
    let transaction_count = fields.u64()?;
    fields.skip(8)?; // tick height
    let signature_count = fields.u64()?;
    let capitalization = fields.u64()?;
    fields.skip(8)?; // max tick height
    fields.option("hashes per tick", BincodeReader::u64)?;
    fields.skip(8)?; // ticks per slot
    let ns_per_slot = u128::from_le_bytes(fields.bytes()?);
    let genesis_unix_timestamp = fields.i64()?;
    fields.skip(16)?; // slots per year, bytes of all accounts' data
    let slot = fields.u64()?;
    fields.skip(8)?; // epoch
    let block_height = fields.u64()?;
    fields.skip(PUBKEY + 16)?; // leader, collected fees, fee calculator
    fields.skip(4 * 8 + 1)?; // how fees change
    fields.skip(8)?; // collected rent
    fields.skip(8)?; // rent collector: epoch
    read_epoch_schedule(fields)?;
    fields.skip(8 + 8 + 8 + 1)?; // rent collector: slots per year, rent
    let epoch_schedule = read_epoch_schedule(fields)?;
    fields.skip(6 * 8)?; // inflation
    skip_stakes(fields, DELEGATION)?;
    fields.skip_list("accounts without use", PUBKEY)?;
    fields.skip_list("accounts without use", PUBKEY)?;
    fields.skip_list("accounts without use", PUBKEY + 8)?;
    if fields.u64()? != 0 {
        return Err(fields.archive().unsupported("epoch stakes where Agave 4 has none"));
    }
    fields.bool("whether anything changed")?;
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
        hard_forks,
        accounts_hash: LtHashBytes(Box::new([0; LT_HASH_BYTES])),
        storages: HashMap::new(),
    })
}

/// The queue of blockhashes, in order of age. Its newest must be the last one registered.
fn read_blockhashes(fields: &mut BincodeReader<'_, '_>) -> Result<Vec<Hash>, SnapshotError> {
    fields.skip(8)?; // index of the last
    let last = fields.option("last blockhash", BincodeReader::hash)?;
    let mut hashes: Vec<(u64, Hash)> = Vec::new();
    fields.each("blockhashes", PUBKEY + 24, |fields| {
        let hash = fields.hash()?;
        fields.skip(8)?; // fee
        let index = fields.u64()?;
        fields.skip(8)?; // when
        bounded(fields, hashes.len(), BLOCKHASHES_MAX, "blockhashes")?;
        hashes.push((index, hash));
        Ok(())
    })?;
    fields.skip(8)?; // how many are kept
    hashes.sort_unstable();
    let hashes: Vec<Hash> = hashes.into_iter().map(|(_, hash)| hash).collect();
    match last {
        Some(last) if hashes.last() == Some(&last) => Ok(hashes),
        _ => Err(fields.archive().damaged("the newest blockhash is not the last one registered")),
    }
}

fn read_hard_forks(fields: &mut BincodeReader<'_, '_>) -> Result<Vec<(u64, u64)>, SnapshotError> {
    let mut forks = Vec::new();
    fields.each("hard forks", 16, |fields| {
        bounded(fields, forks.len(), HARD_FORKS_MAX, "hard forks")?;
        forks.push((fields.u64()?, fields.u64()?));
        Ok(())
    })?;
    Ok(forks)
}

fn read_epoch_schedule(fields: &mut BincodeReader<'_, '_>) -> Result<EpochSchedule, SnapshotError> {
    Ok(EpochSchedule {
        slots_per_epoch: fields.u64()?,
        leader_schedule_slot_offset: fields.u64()?,
        warmup: fields.bool("whether epochs warm up")?,
        first_normal_epoch: fields.u64()?,
        first_normal_slot: fields.u64()?,
    })
}

/// Vote accounts, delegations, and the history of stakes.
fn skip_stakes(
    fields: &mut BincodeReader<'_, '_>,
    delegation_bytes: u64,
) -> Result<(), SnapshotError> {
    let vote_account = PUBKEY + 8 + 8 + 8 + PUBKEY + 1 + 8;
    fields.each("vote accounts", vote_account, |fields| {
        fields.skip(PUBKEY + 8 + 8)?; // address, stake, lamports
        fields.skip_list("bytes of a vote account", 1)?;
        fields.skip(PUBKEY + 1 + 8) // owner, executable, rent epoch
    })?;
    fields.skip_list("delegations", PUBKEY + delegation_bytes)?;
    fields.skip(16)?; // without use, epoch
    fields.skip_list("epochs of stake history", STAKE_HISTORY_ENTRY)
}

fn read_accounts_db(
    fields: &mut BincodeReader<'_, '_>,
    bank_slot: u64,
) -> Result<HashMap<u64, StorageFile>, SnapshotError> {
    let mut storages = HashMap::new();
    fields.each("storage files", 16, |fields| {
        let slot = fields.u64()?;
        let files = fields.count("files of a slot", 16)?;
        if files != 1 {
            let reason = format!("slot {slot} has {files} storage files, and Agave 4 writes one");
            return Err(fields.archive().unsupported(reason));
        }
        let file = StorageFile { id: fields.u64()?, bytes: fields.u64()? };
        bounded(fields, storages.len(), STORAGES_MAX, "storage files")?;
        if file.bytes > STORAGE_BYTES_MAX {
            let reason = format!("a storage file of {} bytes for slot {slot}", file.bytes);
            return Err(fields.archive().damaged(reason));
        }
        if slot > bank_slot || storages.insert(slot, file).is_some() {
            return Err(fields.archive().damaged(format!("a storage file of slot {slot}")));
        }
        Ok(())
    })?;
    fields.skip(8)?; // write version
    let slot = fields.u64()?;
    if slot != bank_slot {
        let reason = format!("the accounts are of slot {slot}, the bank of slot {bank_slot}");
        return Err(fields.archive().damaged(reason));
    }
    fields.skip(2 * PUBKEY + 5 * 8)?; // hashes without use, statistics
    fields.skip_list("roots", 8)?;
    fields.skip_list("roots with hashes", 8 + PUBKEY)?;
    Ok(storages)
}

/// What later versions wrote behind the rest; the hash over all accounts is there.
fn read_extra(fields: &mut BincodeReader<'_, '_>) -> Result<LtHashBytes, SnapshotError> {
    fields.skip(8)?; // lamports per signature
    if fields.bool("incremental persistence")? {
        fields.skip(8 + PUBKEY + 8 + PUBKEY + 8)?;
    }
    if fields.bool("epoch accounts hash")? {
        fields.skip(PUBKEY)?;
    }
    fields.each("epochs with stakes", 12, |fields| {
        fields.skip(8)?; // epoch
        if fields.u32()? != 0 {
            return Err(fields
                .archive()
                .unsupported("epoch stakes of a kind that Agave 4.2 has not"));
        }
        skip_stakes(fields, DELEGATION + 8)?; // with the credits of each
        fields.skip(8)?; // total
        fields.each("nodes with votes", PUBKEY + 8 + 8, |fields| {
            fields.skip(PUBKEY)?;
            fields.skip_list("vote accounts of a node", PUBKEY)?;
            fields.skip(8)
        })?;
        fields.skip_list("authorized voters", 2 * PUBKEY)
    })?;
    let Some(hash) = fields.option("accounts hash", BincodeReader::bytes::<LT_HASH_BYTES>)? else {
        return Err(fields.archive().unsupported("no hash over the accounts"));
    };
    if fields.archive().remaining() > 0 {
        fields.option("block id", BincodeReader::hash)?;
    }
    Ok(LtHashBytes(Box::new(hash)))
}

fn bounded(
    fields: &BincodeReader<'_, '_>,
    count: usize,
    max: usize,
    what: &str,
) -> Result<(), SnapshotError> {
    if count < max {
        return Ok(());
    }
    Err(fields.archive().damaged(format!("more than {max} {what}")))
}
