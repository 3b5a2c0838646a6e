//! Decoders of a peer's chunks and of a snapshot file's header, without a connection or a file: for fuzzing.

use bytes::Bytes;
use kaspa::{Header, Network};

use crate::import::chunk::{ChunkChecker, encode_utxos};
use crate::snapshot_fields::{FieldReader, write_header};
use crate::utxo_hashing::Utxo;

/// The DAA score of the pruning point whose set a chunk belongs to.
const DAA_SCORE_MAX: u64 = 1_000;

/// Decodes the first chunk of a UTXO set, as a peer sends it. Returns the number of its UTXOs; `None` if it is refused.
///
/// Panics if the UTXOs break a rule, or if they differ after they were stored and read again.
pub fn decode_chunk(bytes: &[u8]) -> Option<usize> {
    let header = Header { daa_score: DAA_SCORE_MAX, ..Network::Simnet.genesis() };
    let utxos = ChunkChecker::new(&header).decode(Bytes::copy_from_slice(bytes)).ok()?;
    let position = |(outpoint, _): &Utxo| (outpoint.transaction_id.0, outpoint.index.to_le_bytes());
    assert!(utxos.is_sorted_by(|first, second| position(first) < position(second)), "out of order");
    let is_old = |(_, entry): &Utxo| entry.block_daa_score <= DAA_SCORE_MAX;
    assert!(utxos.iter().all(is_old), "above the pruning point");
    let stored = encode_utxos(&utxos);
    let mut reader = FieldReader { source: stored.as_slice() };
    for utxo in &utxos {
        assert_eq!(reader.utxo().as_ref().ok(), Some(utxo), "another UTXO was stored");
    }
    assert!(reader.source.is_empty(), "more was stored");
    Some(utxos.len())
}

/// Reads the header of a snapshot file. Returns the number of its bytes; `None` if it is refused.
///
/// Panics if the header is written with other bytes than were read.
pub fn read_header(bytes: &[u8]) -> Option<usize> {
    let mut reader = FieldReader { source: bytes };
    let header = reader.header().ok()?;
    let read = &bytes[..bytes.len() - reader.source.len()];
    let mut written = Vec::new();
    assert!(write_header(&mut written, &header).is_ok() && written == read, "other bytes");
    // The hash is the next step with a header. It must end, whatever the levels of parents are.
    let _ = header.hash();
    Some(read.len())
}
