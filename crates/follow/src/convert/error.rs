//! Why a message of a source is no update.

/// Why a message of a source is no update. Fix: another source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A field that every message has is not there.
    #[error("the message has no {0}")]
    Missing(&'static str),
    /// A field has another length than its type.
    #[error("{field} has {bytes} bytes, not {expected}")]
    Length {
        /// The field.
        field: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The bytes of its type.
        expected: usize,
    },
    /// A number is too large for its field.
    #[error("{field} is {value}, which is too large")]
    Range {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A hash is not base58 of 32 bytes.
    #[error("{field} is no hash: {text:?}")]
    Hash {
        /// The field.
        field: &'static str,
        /// Its text.
        text: String,
    },
    /// The reason of a failed transaction is not one of Agave's.
    #[error("the reason of a failed transaction does not parse: {0}")]
    TransactionError(String),
    /// A commission is no percentage.
    #[error("the commission {0:?} is no percentage")]
    Commission(String),
}
