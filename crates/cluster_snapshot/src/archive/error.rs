//! Why a block was not archived, or not read.

use depot::DepotError;
use ledger::Slot;
use store::DecodeError;

/// Why a block was not archived, or not read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store failed, or an object is missing.
    #[error(transparent)]
    Depot(#[from] DepotError),
    /// The object is not an object of an archive, or its end is damaged or missing.
    #[error("{key}: is damaged: {what}")]
    Damaged {
        /// The object.
        key: String,
        /// The part of it.
        what: &'static str,
    },
    /// Another version of the program wrote it.
    #[error("{key}: has version {found}, this program reads {known}: upgrade readers first")]
    Version {
        /// The object.
        key: String,
        /// The version of the object.
        found: u16,
        /// The version that this program reads.
        known: u16,
    },
    /// A block of an object differs from the archived one.
    #[error("{key}: block {slot} is damaged: {what}")]
    Block {
        /// The object.
        key: String,
        /// The block.
        slot: Slot,
        /// The value that is wrong.
        what: &'static str,
    },
    /// A final block is missing before this one.
    #[error(
        "block {slot}, whose parent is {parent}, does not follow {last}: a final block is missing"
    )]
    Hole {
        /// The block.
        slot: Slot,
        /// The slot of its parent.
        parent: Slot,
        /// The last slot that was archived.
        last: Slot,
    },
    /// A block does not lead to the block at the end of a hole, so it does not fill the hole.
    #[error("block {slot} does not fill the hole before {end}: it is of another chain")]
    OtherChain {
        /// The block.
        slot: Slot,
        /// The last slot of the hole whose block is named.
        end: Slot,
    },
    /// A block cannot be compressed, or exceeds the limits of the format.
    #[error("block {slot}: {reason}")]
    Encode {
        /// The block.
        slot: Slot,
        /// The reason.
        reason: String,
    },
}

impl ArchiveError {
    pub(super) fn decode_error(key: &str) -> impl Fn(DecodeError) -> Self {
        |err| Self::Damaged { key: key.to_owned(), what: err.what }
    }
}
