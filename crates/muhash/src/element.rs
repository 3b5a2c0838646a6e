//! From the bytes of an element to its number.

use blake2b_simd::{Params, State};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::field::{NUMBER_BYTES, Number};

/// The number of one element, to add to or to remove from any [`crate::MuHash`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Element(pub(crate) Number);

/// Hashes the bytes of one element.
///
/// ```
/// use muhash::{Element, ElementHasher};
///
/// let mut hasher = ElementHasher::new();
/// hasher.update(b"in ").update(b"pieces");
/// assert!(hasher.finish() == Element::from_bytes(b"in pieces"));
/// ```
#[derive(Clone, Debug)]
pub struct ElementHasher(State);

impl Element {
    /// Hashes an element that is in one piece.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut hasher = ElementHasher::new();
        hasher.update(bytes);
        hasher.finish()
    }
}

impl ElementHasher {
    /// Creates a hasher that has read nothing.
    pub fn new() -> Self {
        Self(Params::new().hash_length(32).key(b"MuHashElement").to_state())
    }

    /// Reads the next bytes of the element.
    pub fn update(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(bytes);
        self
    }

    /// Expands the hash to the number of the element: ChaCha20's stream under the hash as key.
    pub fn finish(&self) -> Element {
        let mut seed = [0; 32];
        seed.copy_from_slice(self.0.finalize().as_bytes());
        let mut number = [0; NUMBER_BYTES];
        ChaCha20Rng::from_seed(seed).fill_bytes(&mut number);
        Element(Number::from_bytes(&number))
    }
}

impl Default for ElementHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Element(")?;
        self.0.to_bytes()[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("..)")
    }
}
