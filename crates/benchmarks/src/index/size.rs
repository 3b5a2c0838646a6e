//! The size of the measurements of `index`.

use super::hot_key;

/// The size of the measurements.
pub(crate) struct Size {
    pub(crate) addresses: u32,
    /// Accounts of mainnet's shape.
    pub(crate) accounts: u32,
    pub(crate) keys: [u32; 2],
    pub(crate) entries: u32,
    pub(crate) hot_key: hot_key::Size,
    pub(crate) heap_bytes_max: usize,
}

impl Size {
    pub(crate) fn new(is_toy: bool, heap_bytes_max: usize) -> Self {
        if is_toy {
            Self {
                addresses: 50_000,
                accounts: 20_000,
                keys: [2_000, 20_000],
                entries: 20_000,
                hot_key: hot_key::TOY,
                heap_bytes_max,
            }
        } else {
            Self {
                addresses: 10_000_000,
                accounts: 10_000_000,
                keys: [1_000_000, 10_000_000],
                entries: 5_000_000,
                hot_key: hot_key::FULL,
                heap_bytes_max,
            }
        }
    }
}
