//! MuHash: the hash of a set, from which elements are removed as cheaply as they are added.
//!
//! Shape: an [`Element`] is a number below a prime of 3,072 bits, and a [`MuHash`] is a product of them. Elements that
//! were removed are the denominator of a fraction. Only [`MuHash::finalize`] and [`MuHash::to_bytes`] divide.
//! Invariant: a product does not depend on the order of its factors. So threads hash parts of a set apart, and an
//! element that is added and removed leaves nothing behind.
//! Cost on a server of 2026: 1.5 µs for an element, 3.2 µs for each change with it, 0.3 ms for each division.
//! Not here: the elements of a chain, which are bytes for this crate.
#![forbid(unsafe_code)]

mod element;
mod field;
mod mu_hash;

pub use element::{Element, ElementHasher};
pub use mu_hash::{EMPTY_HASH, InvalidProduct, MU_HASH_BYTES, MuHash};
