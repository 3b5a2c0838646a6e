//! The facts about a block of the ledger, and the types of its state.

use std::sync::Arc;

use kaspa::{Hash, Header, KaspaRecord};

/// A reader of the UTXO set of a ledger.
pub type Reader = query::Reader<KaspaRecord, BlockInfo>;
/// The UTXO set at one block.
pub type View = query::View<KaspaRecord, BlockInfo>;
/// The writer of a UTXO set.
pub(crate) type Ledger = query::Ledger<KaspaRecord, BlockInfo>;

/// The facts about a block of the ledger: of a chain block, or of the virtual block above the sink.
#[derive(Clone, Debug)]
pub struct BlockInfo {
    /// The hash of the chain block. For a virtual block, that of the chain block below it.
    pub hash: Hash,
    /// The header of that chain block.
    pub header: Arc<Header>,
    /// The DAA score of the block itself.
    pub daa_score: u64,
    /// Whether it is a virtual block. No commitment covers its UTXO set, so it is not proven.
    pub is_virtual: bool,
    /// The sum of all UTXOs.
    pub supply: Supply,
}

/// Sums over all UTXOs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supply {
    /// The amount in sompi.
    pub sompi: u64,
    /// The number of UTXOs.
    pub utxos: u64,
}

impl BlockInfo {
    /// Returns whether the UTXO set was computed from the start and equals the commitment of the block's header. The
    /// work of the header is not checked.
    pub fn is_proven(&self) -> bool {
        !self.is_virtual
    }
}

impl Supply {
    /// Returns the sums with one more UTXO. `None` if the amount is too large.
    pub(crate) fn with_added(self, sompi: u64) -> Option<Self> {
        Some(Self { sompi: self.sompi.checked_add(sompi)?, utxos: self.utxos.checked_add(1)? })
    }

    /// Returns the sums with one UTXO less. `None` if it was not in them.
    pub(crate) fn with_removed(self, sompi: u64) -> Option<Self> {
        Some(Self { sompi: self.sompi.checked_sub(sompi)?, utxos: self.utxos.checked_sub(1)? })
    }
}
