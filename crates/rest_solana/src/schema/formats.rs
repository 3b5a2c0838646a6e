//! Schemas of values that only Solana has.

use rest::schema::{text, uint};
use serde_json::Value;

use crate::formats::{ADDRESS, SIGNATURE};

/// 32 bytes in base58: an address, or a hash.
pub(super) fn key(description: &str) -> Value {
    text(&ADDRESS, description)
}

/// 64 bytes in base58.
pub(super) fn signature(description: &str) -> Value {
    text(&SIGNATURE, description)
}

pub(super) fn lamports(description: &str) -> Value {
    uint(64, &format!("{description} Unit: lamports, 10^9 per SOL."))
}

pub(super) fn slot(description: &str) -> Value {
    uint(64, description)
}
