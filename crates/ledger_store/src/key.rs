//! The tables of a ledger on disk, and the keys of their rows.
//!
//! | table    | key            | value                                              |
//! |----------|----------------|----------------------------------------------------|
//! | meta     | `genesis`      | the caller's bytes, written once                   |
//! | meta     | `head`         | the newest block, and sums over the other tables   |
//! | meta     | `epochs`       | the caller's bytes, written at times with a block  |
//! | meta     | `bank`         | the caller's bytes of the newest block             |
//! | blocks   | slot, 8 B BE   | one whole block with its transactions              |
//! | accounts | pubkey, 32 B   | the account as of the newest block                 |
//!
//! Blocks are written once and never changed, so their values are stored separately from their keys. Accounts are
//! rewritten often, so their values are stored inline.
//! Not here: the encoding of the records (`head`, `chain_solana::wire::codec`), header and checksum of a value
//! ([`store::RowCodec`]).

use std::fmt;

use ledger::Slot;
use solana_pubkey::Pubkey;
use store::{Table, ValueLayout};

/// A handful of rows about the ledger as a whole.
pub(crate) const META: Table =
    Table { name: "meta", layout: ValueLayout::Inline, reports_replaced: false };
/// Whole blocks with their transactions, by slot.
pub(crate) const BLOCKS: Table =
    Table { name: "blocks", layout: ValueLayout::Separate, reports_replaced: false };
/// Accounts by pubkey. The sums in the head follow from the values that are replaced.
pub(crate) const ACCOUNTS: Table =
    Table { name: "accounts", layout: ValueLayout::Inline, reports_replaced: true };
/// Every table of a ledger, as the engine opens them.
pub(crate) const TABLES: [Table; 3] = [META, BLOCKS, ACCOUNTS];

/// The key of a row, which also selects its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The caller's bytes from the creation of the ledger.
    Genesis,
    /// The head, with the newest slot.
    Head,
    /// The caller's state of epochs.
    Epochs,
    /// The caller's state of the newest block.
    Bank,
    /// The block of a slot, with its transactions.
    Block(Slot),
    /// The account with this address.
    Account(Pubkey),
}

impl Key {
    /// Decodes a key of `table`. Returns `None` if the bytes are not a key of the table.
    pub(crate) fn from_bytes(table: Table, bytes: &[u8]) -> Option<Self> {
        match table {
            META if bytes == b"genesis" => Some(Self::Genesis),
            META if bytes == b"head" => Some(Self::Head),
            META if bytes == b"epochs" => Some(Self::Epochs),
            META if bytes == b"bank" => Some(Self::Bank),
            BLOCKS => Some(Self::Block(Slot::from_be_bytes(bytes.try_into().ok()?))),
            ACCOUNTS => Some(Self::Account(Pubkey::new_from_array(bytes.try_into().ok()?))),
            _ => None,
        }
    }
}

impl store::Key for Key {
    fn table(&self) -> Table {
        match self {
            Self::Genesis | Self::Head | Self::Epochs | Self::Bank => META,
            Self::Block(_) => BLOCKS,
            Self::Account(_) => ACCOUNTS,
        }
    }

    fn with_bytes<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Genesis => f(b"genesis"),
            Self::Head => f(b"head"),
            Self::Epochs => f(b"epochs"),
            Self::Bank => f(b"bank"),
            Self::Block(slot) => f(&slot.to_be_bytes()),
            Self::Account(pubkey) => f(pubkey.as_array()),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Genesis => f.write_str("genesis"),
            Self::Head => f.write_str("head"),
            Self::Epochs => f.write_str("epochs"),
            Self::Bank => f.write_str("bank"),
            Self::Block(slot) => write!(f, "block {slot}"),
            Self::Account(pubkey) => write!(f, "account {pubkey}"),
        }
    }
}
