//! The formats of messages: the two encodings of wRPC, and the protobuf of gRPC.
//!
//! A request in protobuf is handled as the same request in JSON ([`kaspa::ProtobufRequest`]). So only replies and
//! notifications have three formats.

use kaspa::Encoding;

/// The format of a connection's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MessageFormat {
    /// wRPC in Borsh.
    #[default]
    Borsh,
    /// wRPC in JSON.
    Json,
    /// gRPC: each message is a `KaspadResponse` with the prefix of gRPC.
    Protobuf,
}

/// The format of a reply, with the parts of the request that the format needs besides the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyFormat {
    Borsh,
    Json,
    Protobuf {
        /// The number of the reply in `KaspadResponse`.
        field: u32,
    },
}

impl MessageFormat {
    /// All formats, in the order of their counters.
    pub const ALL: [Self; 3] = [Self::Borsh, Self::Json, Self::Protobuf];
}

impl From<Encoding> for MessageFormat {
    fn from(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Borsh => Self::Borsh,
            Encoding::Json => Self::Json,
        }
    }
}

impl From<ReplyFormat> for MessageFormat {
    fn from(reply: ReplyFormat) -> Self {
        match reply {
            ReplyFormat::Borsh => Self::Borsh,
            ReplyFormat::Json => Self::Json,
            ReplyFormat::Protobuf { .. } => Self::Protobuf,
        }
    }
}
