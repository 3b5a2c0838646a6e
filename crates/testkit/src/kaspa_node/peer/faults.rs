//! Faults of a model peer on request.

use std::time::Duration;

use kaspa::Hash;

/// The faults of a model peer, in all later connections. Without a fault it behaves like kaspad.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerFaults {
    /// The name of its network, instead of that of simnet.
    pub network: Option<&'static str>,
    /// Its version of the protocol, instead of that of kaspad.
    pub protocol_version: Option<u32>,
    /// The reason for which it refuses the connection.
    pub rejection: Option<&'static str>,
    /// Whether it sends nothing in the handshake.
    pub has_silent_handshake: bool,
    /// Whether the requested block is not its pruning point, whatever the block is.
    pub has_other_pruning_point: bool,
    /// Number of chunks after which it sends nothing more. A set has at least as many.
    pub silent_after: Option<usize>,
    /// Number of chunks after which it ends the stream. A set has at least as many.
    pub cut_after: Option<usize>,
    /// Time that it waits before each chunk.
    pub chunk_delay: Option<Duration>,
    /// The number of the UTXO whose amount has a flipped bit.
    pub flipped_amount: Option<usize>,
    /// The number of the UTXO that is sent twice.
    pub repeated_utxo: Option<usize>,
    /// The block of the set that it sends, instead of the requested one.
    pub other_block: Option<Hash>,
    /// Whether it sends chunks without an end.
    pub has_endless_set: bool,
    /// The number of the chunk that is left out.
    pub missing_chunk: Option<usize>,
    /// Whether the last chunk is left out, which is shorter than the others.
    pub has_no_last_chunk: bool,
    /// Whether the first chunk has a UTXO more than others.
    pub has_long_chunk: bool,
    /// Whether the last byte of each chunk is missing.
    pub has_cut_chunks: bool,
    /// Bytes of each chunk, which are not UTXOs.
    pub chunk_bytes: Option<usize>,
}
