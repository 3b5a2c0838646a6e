//! The row with the expected contents of a ledger on disk.
//!
//! Not here: accounts and blocks as bytes (`chain_solana::wire::codec`), header and checksum of a value
//! ([`store::RowCodec`]).

use ledger::Slot;
use store::{ByteReader, ByteWriter, DecodeError};

/// The expected contents of the ledger on disk: written with every block, checked when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Slot of the newest block.
    pub(crate) slot: Slot,
    /// Slot of the oldest stored block.
    pub(crate) first_slot: Slot,
    pub(crate) accounts: u64,
    /// The sum of the fingerprints of all account values, which detects missing and outdated ones.
    pub(crate) fingerprints: u64,
}

impl Head {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let Self { slot, first_slot, accounts, fingerprints } = self;
        let mut out = ByteWriter::default();
        [slot, first_slot, accounts, fingerprints].into_iter().for_each(|number| out.u64(number));
        out.0
    }

    pub(crate) fn from_bytes(body: &[u8]) -> Result<Self, DecodeError> {
        let mut from = ByteReader::new(body);
        let head = Self {
            slot: from.u64("slot")?,
            first_slot: from.u64("first slot")?,
            accounts: from.u64("number of accounts")?,
            fingerprints: from.u64("fingerprints")?,
        };
        from.end().map(|()| head)
    }
}
