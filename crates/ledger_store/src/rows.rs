//! The caller's own rows: bytes that the ledger stores and does not interpret.

/// The rows that a ledger stores for its caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerRows {
    /// Row that is written once, when the ledger is created.
    pub genesis: Vec<u8>,
    /// The state of epochs, written at times with a block.
    pub epochs: Option<Vec<u8>>,
    /// State of the newest block in addition to its record and its accounts.
    pub bank: Option<Vec<u8>>,
}
