//! Addresses that every cluster has.

/// The token program: its accounts have owners, mints and delegates.
pub(crate) const TOKEN_PROGRAM: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

/// The mint of wrapped SOL.
pub(crate) const NATIVE_MINT: &str = "So11111111111111111111111111111111111111112";
