//! The table against plain maps, and against readers on threads.

mod model;
mod readers;

use ledger::Address;

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

/// The address of that number; of 10, seven have 32 bytes.
pub(crate) fn address(n: u32) -> Address {
    let mut bytes = [b'p'; 36];
    bytes[..4].copy_from_slice(&n.to_le_bytes());
    let len = match n % 10 {
        7 => 4 + n as usize % 28,
        8 => 33,
        9 => 36,
        _ => 32,
    };
    Address::try_from(&bytes[..len]).expect("4 to 36 bytes are an address")
}
