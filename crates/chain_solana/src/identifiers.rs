//! Numbers by which nodes of a cluster recognize each other.

use solana_hash::Hash;

/// Returns the identifier of the features that the node knows, as in `getVersion`. It is the same for every ledger.
pub fn feature_set() -> u32 {
    let [first, second, third, fourth, ..] = solana_feature_set::ID.to_bytes();
    u32::from_le_bytes([first, second, third, fourth])
}

/// Returns the shred version of a genesis hash: its 16-bit words combined by XOR, never 0.
pub fn shred_version(genesis: &Hash) -> u16 {
    let folded = genesis
        .as_ref()
        .chunks_exact(2)
        .fold(0, |acc, pair| acc ^ u16::from_be_bytes([pair[0], pair[1]]));
    folded.saturating_add(1)
}
