//! The SHA-256 of a key. The node does not store the key itself.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// Bytes of a key that a client sends. A longer one is refused before it is hashed.
pub const KEY_BYTES_MAX: usize = 256;

/// The SHA-256 of an API key.
#[derive(Clone, Copy, Debug)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Returns the hash of the bytes of a key.
    pub fn of_key(key: &[u8]) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// Returns the first bytes, by which a table finds its entry. They reveal nothing of the key.
    pub(crate) fn prefix(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

/// Takes the same time wherever two hashes differ.
impl PartialEq for KeyHash {
    fn eq(&self, other: &Self) -> bool {
        let differences = self.0.iter().zip(&other.0).fold(0, |all, (one, two)| all | (one ^ two));
        std::hint::black_box(differences) == 0
    }
}

impl Eq for KeyHash {}

/// 64 hexadecimal digits, as `sha256sum` prints them.
impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("64 hexadecimal digits are expected: the SHA-256 of the key, not the key")]
pub struct NotAHash;

impl FromStr for KeyHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let digits = text.as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() {
            return Err(NotAHash);
        }
        let value = |digit: u8| char::from(digit).to_digit(16).ok_or(NotAHash);
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let high = value(pair[0])?;
            let low = value(pair[1])?;
            *byte = (high << 4 | low) as u8;
        }
        Ok(Self(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_what_sha256sum_prints() {
        let hash = KeyHash::of_key(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse(), Ok(hash));
        assert_eq!(text.to_uppercase().parse(), Ok(hash));
        assert_ne!(hash, KeyHash::of_key(b"abd"));
        for bad in ["", "abc", &text[1..], &text.replace('b', "g"), &format!("{text}00")] {
            assert_eq!(bad.parse::<KeyHash>(), Err(NotAHash), "{bad}");
        }
    }
}
