//! The caller's own rows: bytes that the ledger stores and does not interpret.

/// The rows that a ledger stores for its caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerRows {
    /// Written once, when the ledger is created.
    pub genesis: Vec<u8>,
    /// The state of epochs, written at times with a block.
    pub epochs: Option<Vec<u8>>,
    /// What the newest block has besides its record and its accounts.
    pub bank: Option<Vec<u8>>,
}
