//! The encodings of wRPC. A node has a port for each of them.

/// The encoding of a connection's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Borsh, in binary messages.
    #[default]
    Borsh,
    /// JSON, in text messages.
    Json,
}

impl Encoding {
    /// Both encodings, Borsh first.
    pub const ALL: [Self; 2] = [Self::Borsh, Self::Json];
}
