//! The fee of a signature.

/// Lamports that each signature costs.
pub const LAMPORTS_PER_SIGNATURE: u64 = 5_000;
