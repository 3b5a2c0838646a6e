//! Decodes a part, and checks everything that its entry in the manifest says.

use chain_solana::wire::codec;
use lattice::LtHash;
use ledger::{Address, Slot};
use solana::{Account, lt_hash};
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use store::{ByteReader, DecodeError};
use zstd::bulk::Decompressor;

use crate::error::PartError;
use crate::manifest::PartEntry;
use crate::part_writer::{FRAME_BYTES, MAGIC};
use crate::version::SNAPSHOT_VERSION;

/// Unpacked bytes of a frame: what ends one, and an account of the largest size.
const FRAME_BYTES_MAX: usize = FRAME_BYTES + (11 << 20);

/// An account of a snapshot.
pub struct SnapshotAccount {
    /// The address.
    pub pubkey: Pubkey,
    /// The slot of the account's last write.
    pub slot: Slot,
    /// The account.
    pub account: Account,
}

/// The accounts of a part, checked.
pub struct PartReader {
    /// In the order of their addresses.
    pub accounts: Vec<SnapshotAccount>,
    /// Sum of the lamports of the accounts.
    pub lamports: u64,
    /// The sum over the accounts.
    pub lt_hash: LtHash,
}

impl PartReader {
    /// Decodes a whole part. Memory: that of its accounts, and one frame. Fails before it exceeds the unpacked length of
    /// the entry.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, of another version, or not those that the entry describes.
    pub fn read(body: &[u8], entry: &PartEntry) -> Result<Self, PartError> {
        let found = body.len() as u64;
        if found != entry.bytes {
            return Err(PartError::Length { found, expected: entry.bytes });
        }
        let frames = body.strip_prefix(MAGIC).ok_or(PartError::Magic)?;
        let mut frames = ByteReader::new(frames);
        let version = frames.u16("version").map_err(|_| PartError::Magic)?;
        if version != SNAPSHOT_VERSION {
            return Err(PartError::Version { found: version });
        }
        let decompressor = Decompressor::new();
        let mut decompressor =
            decompressor.map_err(|err| PartError::Compressor(err.to_string()))?;
        let mut hasher = blake3::Hasher::new();
        let mut decoder = PartDecoder {
            entry,
            accounts: Vec::new(),
            last: None,
            lamports: 0,
            unpacked_bytes: 0,
            lt_hash: LtHash::EMPTY,
        };
        let mut number = 0;
        while !frames.is_empty() {
            let damaged = |_| PartError::Frame { frame: number };
            let frame = read_frame(&mut frames, &mut decompressor).map_err(damaged)?;
            hasher.update(&frame);
            decoder.read_frame(&frame)?;
            number += 1;
        }
        decoder.finish(hasher.finalize().as_bytes())
    }
}

/// Reads the lengths of a frame and unpacks it.
fn read_frame(
    from: &mut ByteReader<'_>,
    decompressor: &mut Decompressor<'_>,
) -> Result<Vec<u8>, DecodeError> {
    let damaged = DecodeError { what: "frame" };
    let unpacked_bytes = from.u32("frame")? as usize;
    if unpacked_bytes > FRAME_BYTES_MAX {
        return Err(damaged);
    }
    let packed = from.bytes("frame")?;
    match decompressor.decompress(packed, unpacked_bytes) {
        Ok(frame) if frame.len() == unpacked_bytes => Ok(frame),
        _ => Err(damaged),
    }
}

/// The accounts of a part so far.
struct PartDecoder<'a> {
    entry: &'a PartEntry,
    accounts: Vec<SnapshotAccount>,
    last: Option<Address>,
    lamports: u64,
    unpacked_bytes: u64,
    lt_hash: LtHash,
}

impl PartDecoder<'_> {
    /// Decodes the accounts of a frame.
    fn read_frame(&mut self, frame: &[u8]) -> Result<(), PartError> {
        self.unpacked_bytes += frame.len() as u64;
        // At once: a short object can unpack to any length.
        if self.unpacked_bytes > self.entry.unpacked_bytes {
            return Err(PartError::Sum("unpacked length"));
        }
        let mut from = ByteReader::new(frame);
        while !from.is_empty() {
            let number = self.accounts.len() as u64;
            let invalid = |err: DecodeError| PartError::Account { account: number, what: err.what };
            let pubkey = from.key("address").map(Pubkey::new_from_array).map_err(invalid)?;
            let body = from.bytes("length").map_err(invalid)?;
            let (slot, account) = codec::read_account(body).map_err(invalid)?;
            let address = Address::from(pubkey.to_bytes());
            if self.last.is_some_and(|last| last >= address) {
                return Err(PartError::Order(address));
            }
            if number == 0 && address != self.entry.first {
                return Err(PartError::Order(address));
            }
            let lamports = self.lamports.checked_add(account.0.lamports());
            self.lamports = lamports.ok_or(PartError::Sum("sum of lamports"))?;
            self.lt_hash.mix_in(&lt_hash(&pubkey, &account.0));
            self.last = Some(address);
            self.accounts.push(SnapshotAccount { pubkey, slot, account });
        }
        Ok(())
    }

    /// Compares the sums with those of the manifest.
    fn finish(self, digest: &[u8; 32]) -> Result<PartReader, PartError> {
        let Self { entry, accounts, last, lamports, unpacked_bytes, lt_hash } = self;
        let differences = [
            ("digest", *digest != entry.digest),
            ("last address", last != Some(entry.last)),
            ("number of accounts", accounts.len() as u64 != entry.accounts),
            ("sum of lamports", lamports != entry.lamports),
            ("unpacked length", unpacked_bytes != entry.unpacked_bytes),
            ("lattice sum", lt_hash.checksum() != entry.lattice),
        ];
        match differences.iter().find(|(_, differs)| *differs) {
            Some((what, _)) => Err(PartError::Sum(what)),
            None => Ok(PartReader { accounts, lamports, lt_hash }),
        }
    }
}

#[cfg(test)]
mod tests {
    use solana_account::AccountSharedData;

    use super::*;
    use crate::part_writer::PartWriter;

    /// A part with an account for each frame.
    fn encode_part(frames: u8) -> (Vec<u8>, PartEntry) {
        let mut writer = PartWriter::new().expect("a compressor");
        for index in 0..frames {
            let account = AccountSharedData::new(1, FRAME_BYTES, &Pubkey::default());
            let pushed = writer.push(&Pubkey::new_from_array([index; 32]), 1, &Account(account));
            pushed.expect("it is in order");
        }
        let part = writer.finish("d").expect("it is encoded").expect("it has accounts");
        (part.body.to_vec(), part.entry)
    }

    #[test]
    fn a_part_is_refused_when_it_exceeds_its_unpacked_length() {
        let (body, entry) = encode_part(20);
        assert!(body.len() < FRAME_BYTES, "it is packed well");
        let read = PartReader::read(&body, &entry).expect("it is intact");
        assert_eq!(read.accounts.len(), 20);
        let short = PartEntry { unpacked_bytes: entry.unpacked_bytes / 20, ..entry };
        // The digest is compared after the last frame.
        let error = PartReader::read(&body, &short).err();
        assert_eq!(error, Some(PartError::Sum("unpacked length")));
    }
}
