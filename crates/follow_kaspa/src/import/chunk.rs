//! A chunk of UTXOs: its decoding, its checks, and its bytes in the file.
//!
//! A node sends its UTXOs in the order of its database: by the bytes of the transaction's id and of the index in
//! little-endian order. So a UTXO that is repeated is found without memory of the others.
//! Bounds: a chunk has at most [`CHUNK_UTXOS`], counted before they are decoded.
//! Not here: whether the set as a whole is right (`transfer`).

use bytes::{Buf, Bytes};
use kaspa::{Hash, Header, Outpoint, ScriptPublicKey, UtxoEntry};
use prost::Message;

use super::messages::{PeerHash, PeerUtxo};
use super::peer_error::PeerError;
use crate::snapshot_fields::{SCRIPT_BYTES_MAX, write_utxo};
use crate::utxo_hashing::Utxo;

/// UTXOs of each chunk but the last one.
pub(crate) const CHUNK_UTXOS: usize = 1_000;
/// The key of a UTXO in the encoded chunk: field 1, with a length.
const UTXO_KEY: u8 = 0x0a;

/// A position in the order of a node's database.
type OutpointKey = [u8; 36];

/// Checks chunks one after another.
pub(crate) struct ChunkChecker {
    /// The DAA score of the pruning point.
    daa_score_max: u64,
    last: Option<OutpointKey>,
    /// Whether a chunk was shorter than the others.
    has_ended: bool,
}

impl ChunkChecker {
    pub(crate) fn new(header: &Header) -> Self {
        Self { daa_score_max: header.daa_score, last: None, has_ended: false }
    }

    /// Returns the UTXOs of the next chunk.
    pub(crate) fn decode(&mut self, chunk: Bytes) -> Result<Vec<Utxo>, PeerError> {
        if self.has_ended {
            return Err(PeerError::ChunkAfterLast);
        }
        let utxos = decode_utxos(chunk)?;
        self.has_ended = utxos.len() < CHUNK_UTXOS;
        for (outpoint, entry) in &utxos {
            let outpoint = *outpoint;
            let key = outpoint_key(&outpoint);
            match &self.last {
                Some(last) if *last == key => return Err(PeerError::Repeated { outpoint }),
                Some(last) if *last > key => return Err(PeerError::OutOfOrder { outpoint }),
                _ => self.last = Some(key),
            }
            let score = entry.block_daa_score;
            if score > self.daa_score_max {
                let pruning_point_score = self.daa_score_max;
                return Err(PeerError::TooNew { outpoint, score, pruning_point_score });
            }
        }
        Ok(utxos)
    }

    /// Whether the last chunk has come.
    pub(crate) fn is_complete(&self) -> bool {
        self.has_ended
    }
}

/// Returns UTXOs as bytes of the snapshot file.
pub(crate) fn encode_utxos(utxos: &[Utxo]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(utxos.len() * 100);
    for (outpoint, entry) in utxos {
        // Writing to memory does not fail.
        let _ = write_utxo(&mut bytes, outpoint, entry);
    }
    bytes
}

fn outpoint_key(outpoint: &Outpoint) -> OutpointKey {
    let mut key = [0; 36];
    key[..32].copy_from_slice(&outpoint.transaction_id.0);
    key[32..].copy_from_slice(&outpoint.index.to_le_bytes());
    key
}

fn decode_utxos(mut chunk: Bytes) -> Result<Vec<Utxo>, PeerError> {
    let malformed = |field| PeerError::MalformedChunk { field };
    let mut utxos = Vec::new();
    while chunk.has_remaining() {
        if utxos.len() == CHUNK_UTXOS {
            return Err(PeerError::ChunkTooLong { utxos_max: CHUNK_UTXOS });
        }
        if chunk.get_u8() != UTXO_KEY {
            return Err(malformed("a field that is not a UTXO"));
        }
        let len = prost::decode_length_delimiter(&mut chunk);
        let len = len.map_err(|_| malformed("the length of a UTXO"))?;
        if len > chunk.remaining() {
            return Err(malformed("the length of a UTXO"));
        }
        let utxo = PeerUtxo::decode(chunk.split_to(len));
        utxos.push(convert_utxo(utxo.map_err(|_| malformed("a UTXO"))?)?);
    }
    Ok(utxos)
}

fn convert_utxo(utxo: PeerUtxo) -> Result<Utxo, PeerError> {
    let malformed = |field| PeerError::MalformedChunk { field };
    let outpoint = utxo.outpoint.ok_or_else(|| malformed("a UTXO without an outpoint"))?;
    let entry = utxo.entry.ok_or_else(|| malformed("a UTXO without an entry"))?;
    let transaction_id = outpoint.transaction_id.as_ref().and_then(convert_hash);
    let transaction_id = transaction_id.ok_or_else(|| malformed("the id of a transaction"))?;
    let script = entry.script_public_key.ok_or_else(|| malformed("a UTXO without a script"))?;
    let version = u16::try_from(script.version);
    let version = version.map_err(|_| malformed("the version of a script"))?;
    if script.script.len() > SCRIPT_BYTES_MAX as usize {
        return Err(malformed("the length of a script"));
    }
    let covenant_id = match &entry.covenant_id {
        Some(id) => Some(convert_hash(id).ok_or_else(|| malformed("the id of a covenant"))?),
        None => None,
    };
    let entry = UtxoEntry {
        amount: entry.amount,
        script_public_key: ScriptPublicKey { version, script: Box::from(&script.script[..]) },
        block_daa_score: entry.block_daa_score,
        is_coinbase: entry.is_coinbase,
        covenant_id,
    };
    Ok((Outpoint { transaction_id, index: outpoint.index }, entry))
}

fn convert_hash(hash: &PeerHash) -> Option<Hash> {
    <[u8; 32]>::try_from(&hash.bytes[..]).ok().map(Hash)
}

#[cfg(test)]
mod tests {
    use kaspa::Network;

    use super::*;
    use crate::import::messages::{PeerOutpoint, PeerScript, PeerUtxoEntry};
    use crate::snapshot_fields::FieldReader;

    fn utxo(id: u8, index: u32) -> PeerUtxo {
        let script = PeerScript { script: Bytes::from_static(&[1, 2, 3]), version: 1 };
        PeerUtxo {
            outpoint: Some(PeerOutpoint {
                transaction_id: Some(PeerHash { bytes: Bytes::from(vec![id; 32]) }),
                index,
            }),
            entry: Some(PeerUtxoEntry {
                amount: 5,
                script_public_key: Some(script),
                block_daa_score: 7,
                is_coinbase: true,
                covenant_id: None,
            }),
        }
    }

    fn chunk(utxos: &[PeerUtxo]) -> Bytes {
        let mut bytes = Vec::new();
        for utxo in utxos {
            bytes.push(UTXO_KEY);
            bytes.extend(utxo.encode_length_delimited_to_vec());
        }
        bytes.into()
    }

    fn checker() -> ChunkChecker {
        ChunkChecker::new(&Header { daa_score: 7, ..Network::Simnet.genesis() })
    }

    fn refusal(utxos: &[PeerUtxo]) -> PeerError {
        checker().decode(chunk(utxos)).expect_err("it is refused")
    }

    /// Returns a UTXO with a changed entry.
    fn with_entry(change: impl FnOnce(&mut PeerUtxoEntry)) -> PeerUtxo {
        let mut utxo = utxo(1, 0);
        if let Some(entry) = &mut utxo.entry {
            change(entry);
        }
        utxo
    }

    #[test]
    fn utxos_are_decoded_in_order() {
        let utxos = [utxo(1, 0), utxo(1, 256), utxo(1, 1), utxo(2, 0)];
        let decoded = checker().decode(chunk(&utxos)).expect("a valid chunk");
        let indices: Vec<u32> = decoded.iter().map(|(outpoint, _)| outpoint.index).collect();
        assert_eq!(indices, [0, 256, 1, 0]);
        let (outpoint, entry) = &decoded[3];
        assert_eq!(outpoint.transaction_id, Hash([2; 32]));
        assert_eq!((entry.amount, entry.block_daa_score, entry.is_coinbase), (5, 7, true));
        assert_eq!(entry.script_public_key.version, 1);
        assert_eq!(&*entry.script_public_key.script, [1, 2, 3]);
        let bytes = encode_utxos(&decoded);
        let mut reader = FieldReader { source: bytes.as_slice() };
        for utxo in &decoded {
            assert_eq!(reader.utxo().expect("a UTXO"), *utxo);
        }
        assert!(reader.source.is_empty());
    }

    #[test]
    fn a_repeated_or_unordered_utxo_is_refused() {
        assert!(matches!(refusal(&[utxo(1, 3), utxo(1, 3)]), PeerError::Repeated { .. }));
        assert!(matches!(refusal(&[utxo(1, 1), utxo(1, 256)]), PeerError::OutOfOrder { .. }));
        assert!(matches!(refusal(&[utxo(2, 0), utxo(1, 0)]), PeerError::OutOfOrder { .. }));
    }

    #[test]
    fn chunks_follow_only_whole_ones() {
        let mut checker = checker();
        checker.decode(chunk(&[utxo(1, 0)])).expect("the last chunk");
        let after = checker.decode(chunk(&[utxo(2, 0)]));
        assert!(matches!(after, Err(PeerError::ChunkAfterLast)));
    }

    #[test]
    fn a_chunk_that_is_too_long_is_refused() {
        let utxos: Vec<PeerUtxo> = (0..=1_000).map(|id| utxo(1, id << 8)).collect();
        assert!(matches!(refusal(&utxos), PeerError::ChunkTooLong { utxos_max: 1_000 }));
    }

    #[test]
    fn malformed_fields_are_refused() {
        let long = Bytes::from(vec![0; 10_001]);
        let other_script =
            |script: PeerScript| with_entry(|entry| entry.script_public_key = Some(script));
        let short_hash = PeerHash { bytes: Bytes::from_static(&[1; 31]) };
        let malformed = [
            PeerUtxo { outpoint: None, ..utxo(1, 0) },
            PeerUtxo { entry: None, ..utxo(1, 0) },
            PeerUtxo {
                outpoint: Some(PeerOutpoint { transaction_id: None, index: 0 }),
                ..utxo(1, 0)
            },
            with_entry(|entry| entry.script_public_key = None),
            with_entry(|entry| entry.covenant_id = Some(short_hash.clone())),
            other_script(PeerScript { script: long, version: 0 }),
            other_script(PeerScript { script: Bytes::new(), version: 65_536 }),
        ];
        for utxo in malformed {
            let error = refusal(std::slice::from_ref(&utxo));
            assert!(matches!(error, PeerError::MalformedChunk { .. }), "{utxo:?}: {error}");
        }
        let newer = with_entry(|entry| entry.block_daa_score = 8);
        assert!(matches!(refusal(&[newer]), PeerError::TooNew { score: 8, .. }));
    }

    #[test]
    fn a_cut_chunk_is_refused() {
        let whole = chunk(&[utxo(1, 0)]);
        for len in 1..whole.len() {
            let cut = checker().decode(whole.slice(..len));
            assert!(matches!(cut, Err(PeerError::MalformedChunk { .. })), "{len}");
        }
        let huge = Bytes::from_static(&[UTXO_KEY, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert!(checker().decode(huge).is_err());
        assert!(checker().decode(Bytes::from_static(&[0x12, 0])).is_err());
    }
}
