//! Keys and numbers computed from a number, the same in every run.

use solana_pubkey::Pubkey;

/// SplitMix64's finish: a number's position in a random order of all numbers.
pub(crate) fn mixed(n: u64) -> u64 {
    let mut mixed = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

pub(crate) fn pubkey(n: u32) -> Pubkey {
    let mut bytes = [0; 32];
    for (at, part) in bytes.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&mixed(u64::from(n) << 2 | at as u64).to_le_bytes());
    }
    Pubkey::new_from_array(bytes)
}

/// The numbers of `bits` bits in another order, each once.
#[derive(Clone, Copy)]
pub(crate) struct Shuffled {
    pub(crate) bits: u32,
}

impl Shuffled {
    /// The `nth` of them. Multiplying by an odd number and folding the high half into the low one
    /// are both invertible, so no two results are equal.
    pub(crate) fn at(self, nth: u32) -> u32 {
        let mask = (1 << self.bits) - 1;
        [0x9e37_79b1, 0x85eb_ca6b, 0xc2b2_ae35].iter().fold(nth & mask, |number, odd| {
            let number = number.wrapping_mul(*odd) & mask;
            number ^ (number >> (self.bits / 2))
        })
    }
}

/// Random numbers below a bound.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 += 1;
        ((u128::from(mixed(self.0)) * u128::from(bound)) >> 64) as u32
    }
}
