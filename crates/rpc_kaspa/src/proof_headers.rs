//! The headers about the proof, on each response over HTTP.

use chain_kaspa::{ChainStatus, VirtualMode};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// The newest chain block with a proven UTXO set.
const PROVEN_BLOCK: HeaderName = HeaderName::from_static("hydrant-proven-block");
/// The DAA score of that block.
const PROVEN_DAA_SCORE: HeaderName = HeaderName::from_static("hydrant-proven-daa-score");
/// The state of the virtual UTXO set: `exact`, `joining` or `off`.
const VIRTUAL_STATE: HeaderName = HeaderName::from_static("hydrant-virtual-state");

/// Writes `Hydrant-Proven-Block`, the newest chain block with a proven UTXO set, `Hydrant-Proven-Daa-Score`, its DAA score,
/// and `Hydrant-Virtual-State`: `exact`, `joining` or `off`.
pub fn write_proof_headers(status: &ChainStatus, headers: &mut HeaderMap) {
    if let Ok(hash) = HeaderValue::try_from(status.sink.hash.to_string()) {
        headers.insert(PROVEN_BLOCK, hash);
    }
    headers.insert(PROVEN_DAA_SCORE, status.sink.daa_score.into());
    let mode = match status.virtual_state.mode {
        VirtualMode::Off => "off",
        VirtualMode::Joining => "joining",
        VirtualMode::Exact => "exact",
    };
    headers.insert(VIRTUAL_STATE, HeaderValue::from_static(mode));
}
