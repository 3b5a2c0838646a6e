//! The reasons why a message of a source is refused.

/// The reason why a message of a source is refused. Fix: use another source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A field that every message has is not there.
    #[error("the message has no {0}")]
    Missing(&'static str),
    /// A field has another length than its type.
    #[error("{field} has {bytes} bytes, not {expected}")]
    Length {
        /// Name of the protobuf field.
        field: &'static str,
        /// Length of the field in bytes.
        bytes: usize,
        /// Length of the field's type in bytes.
        expected: usize,
    },
    /// A number is too large for its field.
    #[error("{field} is {value}, which is too large")]
    Range {
        /// Name of the protobuf field.
        field: &'static str,
        /// The value of the field.
        value: u64,
    },
    /// A hash is not base58 of 32 bytes.
    #[error("{field} is no hash: {text:?}")]
    Hash {
        /// Name of the protobuf field.
        field: &'static str,
        /// The text of the field.
        text: String,
    },
    /// The reason of a failed transaction is not one of Agave's.
    #[error("the reason of a failed transaction does not parse: {0}")]
    TransactionError(String),
    /// A commission is not a number of percent or basis points.
    #[error("the commission {0:?} is not a number of percent or basis points")]
    Commission(String),
}
