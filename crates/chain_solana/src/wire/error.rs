//! The reasons why a block cannot be encoded and why a record is refused.

use ledger::Slot;
use solana_pubkey::Pubkey;

use super::record_chain::ChainFault;

/// The reason why a block has no record.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The block is larger than a record can be.
    #[error(
        "the block of slot {slot} has more than {limit} bytes of accounts or of transactions; a \
         record has at most that many"
    )]
    TooLong {
        /// The slot of the block.
        slot: Slot,
        /// [`super::RECORD_UNPACKED_BYTES_MAX`].
        limit: usize,
    },
    /// The block needs more messages than a log takes at once.
    #[error(
        "the block of slot {slot} needs more than {limit} messages; a record has at most that many"
    )]
    TooManyMessages {
        /// The slot of the block.
        slot: Slot,
        /// [`super::RECORD_MESSAGES_MAX`].
        limit: usize,
    },
    /// The block has two writes of one account.
    #[error("the block of slot {slot} writes account {pubkey} twice")]
    RepeatedAccount {
        /// The slot of the block.
        slot: Slot,
        /// The account.
        pubkey: Pubkey,
    },
    /// The compressor failed, which it does only without memory.
    #[error("the block of slot {slot} cannot be compressed: {cause}")]
    Compression {
        /// The slot of the block.
        slot: Slot,
        /// The message of the compressor.
        cause: String,
    },
}

/// The reason why a record is refused. The messages of the log after it cannot be read with the same reader.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A newer release wrote the record.
    #[error(
        "the record has version {found}, and this release reads up to version {known}; upgrade the \
         readers of a log first, then its writers"
    )]
    Version {
        /// The version of the record.
        found: u16,
        /// [`super::RECORD_VERSION`].
        known: u16,
    },
    /// A body is damaged, or is not the one that follows.
    #[error("record {record}: body {index} of {count} ({section}): {fault}")]
    Body {
        /// The number of the record.
        record: u64,
        /// The position of the body in the record, from 1 on.
        index: u16,
        /// Number of bodies of the record.
        count: u16,
        /// The section that the body belongs to.
        section: &'static str,
        /// The damage.
        fault: BodyFault,
    },
    /// Undamaged parts are not those of this record, or do not fit together.
    #[error("{what} has another digest than the head says")]
    Digest {
        /// The record and its part.
        what: String,
    },
    /// A head or a section is damaged.
    #[error(transparent)]
    Decode(DamagedValue),
    /// The record does not follow the one before it.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// A message of a record is missing, doubled, or out of order.
    #[error("found {found} instead of {expected}")]
    Unexpected {
        /// The message that came.
        found: String,
        /// The message that follows.
        expected: String,
    },
    /// A length or a count is above its limit.
    #[error("{what}: {found}, at most {limit}")]
    TooLong {
        /// The value, with its record if that is known.
        what: String,
        /// The number that is too large.
        found: u64,
        /// The limit.
        limit: u64,
    },
}

/// A value that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: cannot read its {what}")]
pub struct DamagedValue {
    /// The message or the record, with its number if that is known.
    pub place: String,
    /// The value.
    pub what: &'static str,
}

impl WireError {
    /// Names of all errors, as in metrics and in the output of `hydrant log-check`.
    pub const NAMES: [&'static str; 9] =
        ["version", "body", "digest", "value", "number", "chain", "term", "order", "length"];

    /// Returns the name of the error.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Version { .. } => "version",
            Self::Body { .. } => "body",
            Self::Digest { .. } => "digest",
            Self::Decode(_) => "value",
            Self::Chain(fault) => fault.name(),
            Self::Unexpected { .. } => "order",
            Self::TooLong { .. } => "length",
        }
    }

    /// Creates the error of a value of `place` that cannot be read.
    pub(super) fn damaged_value(place: impl Into<String>, what: &'static str) -> Self {
        Self::Decode(DamagedValue { place: place.into(), what })
    }
}

/// The damage of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// The message has another length.
    #[error("{found} bytes, expected {expected}")]
    Length {
        /// Bytes of the message.
        found: usize,
        /// Bytes that the head announces.
        expected: u32,
    },
    /// The bytes differ from those that were written.
    #[error("checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// Checksum of the message.
        found: u32,
        /// Checksum that the head announces.
        expected: u32,
    },
    /// The message cannot be decompressed to the announced number of bytes.
    #[error("cannot be decompressed to {expected} bytes")]
    Compression {
        /// Bytes that the head announces.
        expected: u32,
    },
}
