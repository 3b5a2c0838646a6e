//! Encodes the accounts of a range of addresses as one object.
//!
//! | bytes   | value                                                                            |
//! |---------|----------------------------------------------------------------------------------|
//! | 4, 2    | magic `HYSP`, version                                                            |
//! | 4, 4, n | each frame: unpacked length, length, zstd of whole accounts, about 1 MiB of them |
//!
//! An account is its address, a length, and slot and account in the codec of the log.

use bytes::Bytes;
use chain_solana::wire::codec;
use lattice::LtHash;
use ledger::{Address, Slot};
use solana::{Account, lt_hash};
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use store::ByteWriter;
use zstd::bulk::Compressor;

use crate::error::PartError;
use crate::keys::part_key;
use crate::manifest::PartEntry;
use crate::version::SNAPSHOT_VERSION;

pub(crate) const MAGIC: &[u8; 4] = b"HYSP";

/// Unpacked bytes of a frame, after which it ends. An account of 10 MiB makes a longer one.
pub(crate) const FRAME_BYTES: usize = 1 << 20;

/// The fastest level. Higher ones take several times longer and save little.
const LEVEL: i32 = 1;

/// Encodes one part.
pub struct PartWriter {
    frame: ByteWriter,
    body: ByteWriter,
    compressor: Compressor<'static>,
    hasher: blake3::Hasher,
    range: Option<AddressRange>,
    accounts: u64,
    lamports: u64,
    unpacked_bytes: u64,
    lt_hash: LtHash,
}

struct AddressRange {
    first: Address,
    last: Address,
}

/// A part that was encoded.
pub struct EncodedPart {
    /// The content of the object.
    pub body: Bytes,
    /// The entry of the manifest.
    pub entry: PartEntry,
    /// The sum over the accounts.
    pub lt_hash: LtHash,
}

impl PartWriter {
    /// Starts a part.
    ///
    /// # Errors
    ///
    /// The compressor cannot allocate memory.
    pub fn new() -> Result<Self, PartError> {
        let mut body = ByteWriter::default();
        body.0.extend(MAGIC);
        body.u16(SNAPSHOT_VERSION);
        let compressor = Compressor::new(LEVEL);
        Ok(Self {
            frame: ByteWriter::default(),
            body,
            compressor: compressor.map_err(|err| PartError::Compressor(err.to_string()))?,
            hasher: blake3::Hasher::new(),
            range: None,
            accounts: 0,
            lamports: 0,
            unpacked_bytes: 0,
            lt_hash: LtHash::EMPTY,
        })
    }

    /// Appends an account, whose address is above those before.
    ///
    /// # Errors
    ///
    /// The address is not above those before, the sum of lamports overflows, or the compressor fails.
    pub fn push(
        &mut self,
        pubkey: &Pubkey,
        slot: Slot,
        account: &Account,
    ) -> Result<(), PartError> {
        let address = Address::from(pubkey.to_bytes());
        match &mut self.range {
            None => self.range = Some(AddressRange { first: address, last: address }),
            Some(range) if range.last < address => range.last = address,
            Some(_) => return Err(PartError::Order(address)),
        }
        self.accounts += 1;
        let lamports = self.lamports.checked_add(account.0.lamports());
        self.lamports = lamports.ok_or(PartError::Sum("lamports"))?;
        self.lt_hash.mix_in(&lt_hash(pubkey, &account.0));
        self.frame.key(pubkey.as_array());
        self.frame.bytes(&codec::write_account(slot, account));
        if self.frame.0.len() >= FRAME_BYTES { self.end_frame() } else { Ok(()) }
    }

    /// Bytes so far, before compression.
    pub fn unpacked_bytes(&self) -> u64 {
        self.unpacked_bytes + self.frame.0.len() as u64
    }

    /// Ends the part. Returns `None` if it has no account. `dir` is the directory of the snapshot.
    ///
    /// # Errors
    ///
    /// The compressor fails.
    pub fn finish(mut self, dir: &str) -> Result<Option<EncodedPart>, PartError> {
        self.end_frame()?;
        let Some(AddressRange { first, last }) = self.range else { return Ok(None) };
        let digest = *self.hasher.finalize().as_bytes();
        let entry = PartEntry {
            key: part_key(dir, &digest),
            first,
            last,
            accounts: self.accounts,
            lamports: self.lamports,
            bytes: self.body.0.len() as u64,
            unpacked_bytes: self.unpacked_bytes,
            digest,
            lattice: self.lt_hash.checksum(),
        };
        Ok(Some(EncodedPart { body: self.body.0.into(), entry, lt_hash: self.lt_hash }))
    }

    fn end_frame(&mut self) -> Result<(), PartError> {
        if self.frame.0.is_empty() {
            return Ok(());
        }
        self.hasher.update(&self.frame.0);
        let packed = self.compressor.compress(&self.frame.0);
        let packed = packed.map_err(|err| PartError::Compressor(err.to_string()))?;
        self.body.u32(self.frame.0.len() as u32);
        self.body.bytes(&packed);
        self.unpacked_bytes += self.frame.0.len() as u64;
        self.frame.0.clear();
        Ok(())
    }
}
