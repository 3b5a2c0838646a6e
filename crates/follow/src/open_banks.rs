//! The open banks that are prepared: their writes are in the ledger, in blocks that no tip leads to.
//!
//! Not here: what prepares and discards them (`writer`).

use feed::OpenId;

use crate::prepared_bank::PreparedBank;

/// What is prepared.
#[derive(Default)]
pub(crate) struct OpenBanks {
    pub(crate) prepared: Vec<(OpenId, PreparedBank)>,
    /// Preparing has failed. The next whole bank is written at once, and reports why if it fails again.
    pub(crate) is_off: bool,
}

impl OpenBanks {
    /// Estimated bytes, without what the feed's open banks hold.
    pub(crate) fn bytes(&self) -> usize {
        self.prepared.iter().map(|(_, prepared)| prepared.bytes()).sum()
    }
}
