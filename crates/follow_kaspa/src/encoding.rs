//! The encodings of wRPC. A kaspad has a port for each of them.

/// The encoding of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Binary messages.
    Borsh,
    /// Text messages.
    Json,
}
