//! The index against plain sets, under epochs, and against readers on threads.

mod model;
mod readers;

use ledger::{AddressId, Facet, Key};

/// SplitMix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % u64::from(bound)) as u32
    }
}

pub(crate) fn key(n: u32) -> Key {
    Key { facet: Facet((n % 3) as u8), id: AddressId(n / 3) }
}
