//! The facts of a bank in the head of its record: the inputs of the bank hash besides the accounts, and the identity of
//! the block.

use ledger::Slot;
use solana_hash::Hash;
use store::{ByteReader, ByteWriter, DecodeError};

use super::codec;
use crate::BankHashComponents;

/// The facts of one bank. They are part of the digest of its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BankFacts {
    pub(super) slot: Slot,
    pub(super) parent_slot: Slot,
    pub(super) parent_blockhash: Hash,
    pub(super) blockhash: Hash,
    pub(super) previous_blockhash: Hash,
    pub(super) bank_hash: Hash,
    pub(super) hash_components: BankHashComponents,
    pub(super) block_height: u64,
    pub(super) capitalization: u64,
    pub(super) clock_time: i64,
    pub(super) is_jump: bool,
}

impl BankFacts {
    pub(super) fn write(&self, out: &mut ByteWriter) {
        let Self {
            slot,
            parent_slot,
            parent_blockhash,
            blockhash,
            previous_blockhash,
            bank_hash,
            hash_components,
            block_height,
            capitalization,
            clock_time,
            is_jump,
        } = self;
        let BankHashComponents { parent_hash, signature_count, last_blockhash, lt_checksum } =
            hash_components;
        out.u64(*slot);
        out.u64(*parent_slot);
        out.key(parent_blockhash.as_bytes());
        out.key(blockhash.as_bytes());
        out.key(previous_blockhash.as_bytes());
        out.key(bank_hash.as_bytes());
        out.key(parent_hash.as_bytes());
        out.u64(*signature_count);
        out.key(last_blockhash.as_bytes());
        out.key(lt_checksum.as_bytes());
        out.u64(*block_height);
        out.u64(*capitalization);
        out.i64(*clock_time);
        out.u8(u8::from(*is_jump));
    }

    pub(super) fn read(from: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            slot: from.u64("slot")?,
            parent_slot: from.u64("parent slot")?,
            parent_blockhash: codec::hash(from, "parent's blockhash")?,
            blockhash: codec::hash(from, "blockhash")?,
            previous_blockhash: codec::hash(from, "previous blockhash")?,
            bank_hash: codec::hash(from, "bank hash")?,
            hash_components: BankHashComponents {
                parent_hash: codec::hash(from, "parent's bank hash")?,
                signature_count: from.u64("signature count")?,
                last_blockhash: codec::hash(from, "last blockhash")?,
                lt_checksum: codec::hash(from, "accounts checksum")?,
            },
            block_height: from.u64("height")?,
            capitalization: from.u64("capitalization")?,
            clock_time: from.i64("time of the clock")?,
            is_jump: from.bool("jump flag")?,
        })
    }

    /// Returns the hasher of the state's digest, which continues with the accounts.
    pub(super) fn hasher(&self) -> blake3::Hasher {
        let mut facts = ByteWriter::default();
        self.write(&mut facts);
        let mut hasher = blake3::Hasher::new_derive_key("hydrant log record 1 state of a block");
        hasher.update(&facts.0);
        hasher
    }
}

/// Returns the hasher of the digest of everything that no bank hash covers.
pub(super) fn rest_hasher() -> blake3::Hasher {
    blake3::Hasher::new_derive_key("hydrant log record 1 rest of a block")
}
