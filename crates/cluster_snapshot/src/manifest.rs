//! The manifest of a snapshot: written last, it makes the snapshot exist.
//!
//! | bytes      | value                                                   |
//! |------------|---------------------------------------------------------|
//! | 4, 2       | magic `HYSM`, version                                   |
//! | n          | the fields of [`Manifest`], in their order, little-endian |
//! | 32         | BLAKE3 of all bytes before                              |
//!
//! Magic, version and digest are the same in every version, so a newer manifest is distinguished from a damaged one.

use chain_solana::wire::{BlockName, RecordDigest};
use lattice::{LT_HASH_BYTES, LtHash};
use ledger::Address;
use solana_epoch_schedule::{EpochSchedule, MINIMUM_SLOTS_PER_EPOCH};
use store::{ByteReader, ByteWriter, DecodeError};

use crate::error::ManifestError;
use crate::fields::ManifestFields;
use crate::final_digest::{FrameFault, append_digest, strip_magic_and_digest};
use crate::keys::{ManifestKey, part_key};
use crate::version::SNAPSHOT_VERSION;

/// Bytes of a manifest. That of a billion accounts has about 8 MB. A start has up to sixteen of them in memory.
pub const MANIFEST_BYTES_MAX: usize = 64 << 20;

/// Bytes of a part, before and after compression. Writers end a part at 16 MiB, after an account of at most 10 MiB. A
/// loader has three parts in memory for each of its threads.
pub(crate) const PART_BYTES_MAX: u64 = 128 << 20;

/// Slots of an epoch: 23 times those of mainnet, and as many as a local ledger may have.
const SLOTS_PER_EPOCH_MAX: u64 = 10_000_000;

const MAGIC: &[u8; 4] = b"HYSM";

/// A snapshot of a ledger.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The cluster, which names the log too.
    pub cluster: String,
    /// The generation of the log.
    pub generation: u64,
    /// Sequence of the last message of the block's record; reading continues after it. 0 for the snapshot that opens a
    /// generation.
    pub position: u64,
    /// The block, and the number of its record.
    pub block: BlockName,
    /// The digest of the block's record.
    pub block_digest: RecordDigest,
    /// The bank.
    pub fields: ManifestFields,
    /// Number of accounts.
    pub accounts: u64,
    /// Sum of the lamports of all accounts.
    pub lamports: u64,
    /// The sum over all accounts.
    pub lt_hash: LtHash,
    /// The parts, in the order of their addresses. No two overlap.
    pub parts: Vec<PartEntry>,
    /// The time in milliseconds since 1970.
    pub made_at_ms: u64,
}

/// A part of a snapshot: the accounts of a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartEntry {
    /// The key of the object.
    pub key: String,
    /// The first address.
    pub first: Address,
    /// The last address.
    pub last: Address,
    /// Number of accounts.
    pub accounts: u64,
    /// Sum of the lamports of the accounts.
    pub lamports: u64,
    /// Length of the object.
    pub bytes: u64,
    /// Length of the object before compression.
    pub unpacked_bytes: u64,
    /// BLAKE3 of the uncompressed bytes. Those of zstd depend on its release.
    pub digest: [u8; 32],
    /// The checksum of the lattice hash over the accounts.
    pub lattice: [u8; 32],
}

impl Manifest {
    /// Returns the key of the manifest's object.
    pub fn key(&self) -> String {
        self.manifest_key().key
    }

    pub(crate) fn manifest_key(&self) -> ManifestKey {
        let blockhash = self.fields.block.blockhash;
        ManifestKey::new(&self.cluster, self.block.slot, self.generation, blockhash)
    }

    /// Encodes the manifest. The same manifest has the same bytes in every process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::default();
        out.0.extend(MAGIC);
        out.u16(SNAPSHOT_VERSION);
        out.str(&self.cluster);
        out.u64(self.generation);
        out.u64(self.position);
        out.u64(self.block.slot);
        out.u64(self.block.number);
        out.key(&self.block_digest.0);
        self.fields.write(&mut out);
        out.u64(self.accounts);
        out.u64(self.lamports);
        out.bytes(&self.lt_hash.to_bytes());
        out.list(&self.parts, write_part);
        out.u64(self.made_at_ms);
        append_digest(&mut out.0);
        out.0
    }

    /// Returns the digest by which a record of the log names the manifest: BLAKE3 of all its bytes.
    pub fn digest(&self) -> [u8; 32] {
        *blake3::hash(&self.to_bytes()).as_bytes()
    }

    /// Decodes a manifest and checks that its parts are disjoint, add up, are not too long, and are objects of its own.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, of another version, or contradict each other.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ManifestError> {
        let body = strip_magic_and_digest(bytes, MAGIC).map_err(|fault| match fault {
            FrameFault::Magic => ManifestError::Magic,
            FrameFault::Digest => ManifestError::Digest,
        })?;
        let mut from = ByteReader::new(body);
        let found = from.u16("version")?;
        if found != SNAPSHOT_VERSION {
            return Err(ManifestError::Version { found });
        }
        let manifest = Self {
            cluster: from.str("cluster")?,
            generation: from.u64("generation of the log")?,
            position: from.u64("position in the log")?,
            block: BlockName { slot: from.u64("slot")?, number: from.u64("record number")? },
            block_digest: RecordDigest(from.key("digest of the block's record")?),
            fields: ManifestFields::read(&mut from)?,
            accounts: from.u64("number of accounts")?,
            lamports: from.u64("lamports")?,
            lt_hash: read_lt_hash(&mut from)?,
            parts: from.list("parts", read_part)?,
            made_at_ms: from.u64("time")?,
        };
        from.end()?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), ManifestError> {
        let contradiction = |what| Err(ManifestError::Contradiction(what));
        if self.fields.block.id.slot != self.block.slot {
            return contradiction("slot");
        }
        if self.fields.capitalization != self.lamports {
            return contradiction("capitalization");
        }
        if self.fields.bank.lattice.as_ref().is_some_and(|row| row.lt_hash != self.lt_hash) {
            return contradiction("sum over all accounts");
        }
        if !is_valid_schedule(&self.fields.chain.epoch_schedule) {
            return contradiction("epoch schedule");
        }
        let is_ordered = self.parts.is_sorted_by(|part, next| part.last < next.first)
            && self.parts.iter().all(|part| part.first <= part.last);
        if !is_ordered {
            return contradiction("order of parts");
        }
        if self.parts.iter().any(|part| part.unpacked_bytes > PART_BYTES_MAX) {
            return contradiction("unpacked length of a part");
        }
        if self.parts.iter().any(|part| part.bytes > PART_BYTES_MAX) {
            return contradiction("length of a part");
        }
        // A copy of the snapshot creates and replaces these objects.
        let named = self.manifest_key();
        if self.parts.iter().any(|part| part.key != part_key(named.dir(), &part.digest)) {
            return contradiction("key of a part");
        }
        let sum = |value: fn(&PartEntry) -> u64| {
            self.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(value(part)))
        };
        if sum(|part| part.accounts) != Some(self.accounts) {
            return contradiction("number of accounts");
        }
        if sum(|part| part.lamports) != Some(self.lamports) {
            return contradiction("lamports");
        }
        Ok(())
    }
}

/// Whether a genesis can have this schedule. Each epoch has a list of its leaders in memory.
fn is_valid_schedule(schedule: &EpochSchedule) -> bool {
    let EpochSchedule { slots_per_epoch, leader_schedule_slot_offset, warmup, .. } = *schedule;
    (MINIMUM_SLOTS_PER_EPOCH..=SLOTS_PER_EPOCH_MAX).contains(&slots_per_epoch)
        && EpochSchedule::custom(slots_per_epoch, leader_schedule_slot_offset, warmup) == *schedule
}

fn write_part(out: &mut ByteWriter, part: &PartEntry) {
    let PartEntry { key, first, last, accounts, lamports, bytes, unpacked_bytes, digest, lattice } =
        part;
    out.str(key);
    out.bytes(first.as_bytes());
    out.bytes(last.as_bytes());
    for number in [accounts, lamports, bytes, unpacked_bytes] {
        out.u64(*number);
    }
    out.key(digest);
    out.key(lattice);
}

fn read_part(from: &mut ByteReader<'_>) -> Result<PartEntry, DecodeError> {
    Ok(PartEntry {
        key: from.str("key of a part")?,
        first: read_address(from)?,
        last: read_address(from)?,
        accounts: from.u64("accounts of a part")?,
        lamports: from.u64("lamports of a part")?,
        bytes: from.u64("length of a part")?,
        unpacked_bytes: from.u64("unpacked length of a part")?,
        digest: from.key("digest of a part")?,
        lattice: from.key("sum of a part")?,
    })
}

fn read_address(from: &mut ByteReader<'_>) -> Result<Address, DecodeError> {
    let what = "address of a part";
    Address::try_from(from.bytes(what)?).map_err(|_| DecodeError { what })
}

fn read_lt_hash(from: &mut ByteReader<'_>) -> Result<LtHash, DecodeError> {
    let what = "sum over all accounts";
    let bytes: &[u8; LT_HASH_BYTES] =
        from.bytes(what)?.try_into().map_err(|_| DecodeError { what })?;
    Ok(LtHash::from_bytes(bytes))
}
