//! Numbers modulo the prime 2^3072 - 1,103,717.

use crypto_bigint::{Limb, NonZero, Odd, U3072};

/// Bytes of a number.
pub(crate) const NUMBER_BYTES: usize = 384;

/// The distance of the prime from 2^3072.
const PRIME_DISTANCE: u32 = 1_103_717;

/// The modulus of all numbers: 2^3072 - 1103717.
const PRIME: Odd<U3072> = U3072::ZERO
    .wrapping_sub(&U3072::from_u32(PRIME_DISTANCE))
    .to_odd()
    .expect_copied("a prime above 2 is odd");

/// A number modulo the prime. It may be larger than the prime until it is multiplied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number(U3072);

impl Number {
    pub(crate) const ONE: Self = Self(U3072::ONE);

    pub(crate) fn from_bytes(bytes: &[u8; NUMBER_BYTES]) -> Self {
        Self(U3072::from_le_slice(bytes))
    }

    pub(crate) fn to_bytes(self) -> [u8; NUMBER_BYTES] {
        let mut bytes = [0; NUMBER_BYTES];
        bytes.copy_from_slice(self.0.to_le_bytes().as_ref());
        bytes
    }

    /// Multiplies by another number. The result is below the prime, whatever the factors are.
    pub(crate) fn multiply(&mut self, factor: &Self) {
        self.0 = self.0.mul_mod_special(&factor.0, Limb::from_u32(PRIME_DISTANCE));
    }

    /// Returns the number that makes one when it is multiplied by this one. Zero has none, and the result is zero.
    pub(crate) fn invert(&self) -> Self {
        Self(self.0.invert_odd_mod_vartime(&PRIME).into_option().unwrap_or(U3072::ZERO))
    }

    /// Whether the number is above zero and below the prime.
    pub(crate) fn is_unit(&self) -> bool {
        NonZero::new(self.0).is_some().into() && self.0 < *PRIME.as_ref()
    }
}
