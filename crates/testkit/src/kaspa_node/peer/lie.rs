//! Faults of a model peer on request.

use kaspa::Hash;

/// A fault of a model peer, in all later connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerLie {
    /// It is of another network.
    Network(&'static str),
    /// It has another version of the protocol.
    ProtocolVersion(u32),
    /// It refuses the connection for a reason.
    Rejection(&'static str),
    /// It sends nothing in the handshake.
    SilentHandshake,
    /// It sends this many chunks, and then nothing more.
    SilentAfter(usize),
    /// It sends this many chunks, and then ends the stream.
    CutAfter(usize),
    /// A bit of an amount is flipped: that of the UTXO with this number.
    Amount(usize),
    /// A chunk is left out.
    MissingChunk(usize),
    /// The UTXO with this number comes twice.
    RepeatedUtxo(usize),
    /// The set is that of another block.
    OtherBlock(Hash),
    /// The set never ends.
    EndlessSet,
    /// Each chunk has this many bytes.
    LongMessage(usize),
    /// The first chunk has a UTXO more than others.
    LongChunk,
    /// The last byte of each chunk is missing.
    CutChunk,
    /// The requested block is not the pruning point, whatever it is.
    OtherPruningPoint,
}
