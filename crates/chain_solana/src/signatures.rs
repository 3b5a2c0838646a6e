//! Verification of transactions' Ed25519 signatures, with the results of every other node, at less cost.
//!
//! Rule: `Signature::verify` of the Solana crates, which is dalek's `verify_strict`: the equation holds without
//! cofactor, and neither the key nor R has a small order.
//! Shape: dalek decodes R to learn its order. That is a square root, a seventh of the whole check. But the equation is
//! checked by encoding the expected R: where it holds, R equals that encoding byte by byte. There are eight points of
//! small order, so eight encodings to compare with. Decoding the key costs as much, and most signers sign several
//! transactions: each thread caches decoded keys.
//! Bounds: [`KEY_CACHE_MAX`] keys for each verifying thread, 200 kB.

use std::cell::RefCell;

use ed25519_dalek::{Signature as EdSignature, Verifier, VerifyingKey};
use solana_transaction::versioned::VersionedTransaction;

/// Cached keys of a thread, direct-mapped: a key replaces another one.
const KEY_CACHE_MAX: usize = 1_024;

thread_local! {
    static KEY_CACHE: RefCell<Vec<Option<VerifyingKey>>> = RefCell::new(vec![None; KEY_CACHE_MAX]);
}

/// The sign bit in the last byte of an encoding: it selects one of two points.
const SIGN: u8 = 0x80;

/// The encodings of the points of order 8, 4, 2 and 1, without their signs.
const SMALL_ORDER: [[u8; 32]; 5] = [
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ],
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98,
        0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53,
        0xfc, 0x05,
    ],
    [0; 32],
    [
        0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0x7f,
    ],
    [
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0,
    ],
];

/// Whether each signature is valid for its key and `message`, the transaction's serialized message.
pub(crate) fn verify(transaction: &VersionedTransaction, message: &[u8]) -> bool {
    let keys = transaction.message.static_account_keys();
    let mut signed = transaction.signatures.iter().zip(keys);
    signed.all(|(signature, key)| verify_one(signature.as_array(), key.as_array(), message))
}

/// Whether a signature is valid for its key and message.
pub(crate) fn verify_one(signature: &[u8; 64], key: &[u8; 32], message: &[u8]) -> bool {
    let signature = EdSignature::from_bytes(signature);
    let Some(key) = decode_key(key) else { return false };
    !has_small_order(signature.r_bytes()) && key.verify(message, &signature).is_ok()
}

/// Decodes a key; `None` if it is invalid or has a small order.
fn decode_key(key: &[u8; 32]) -> Option<VerifyingKey> {
    let [.., high, low] = *key;
    let index = usize::from(u16::from_be_bytes([high, low])) % KEY_CACHE_MAX;
    let cached = KEY_CACHE.with_borrow(|keys| keys[index]);
    if let Some(cached) = cached.filter(|cached| cached.as_bytes() == key) {
        return Some(cached);
    }
    let new = VerifyingKey::from_bytes(key).ok().filter(|key| !key.is_weak())?;
    KEY_CACHE.with_borrow_mut(|keys| keys[index] = Some(new));
    Some(new)
}

/// Whether these bytes are the encoding of a point of small order.
fn has_small_order(point: &[u8; 32]) -> bool {
    let mut unsigned = *point;
    unsigned[31] &= !SIGN;
    SMALL_ORDER.contains(&unsigned)
}

#[cfg(test)]
mod tests {
    use std::iter;

    use curve25519_dalek::constants::EIGHT_TORSION;
    use curve25519_dalek::{EdwardsPoint, Scalar};
    use ed25519_dalek::{Sha512, Signer, SigningKey};
    use solana_signature::Signature;

    use super::*;

    /// Returns our result, and whether the equation holds regardless of orders. Asserts that our result is that of the
    /// Solana crates.
    fn check(signature: &[u8; 64], key: &[u8; 32], message: &[u8]) -> (bool, bool) {
        let ours = verify_one(signature, key, message);
        let theirs = Signature::from(*signature).verify(key, message);
        assert_eq!(ours, theirs, "{signature:?} {key:?} {message:?}");
        let equation = VerifyingKey::from_bytes(key)
            .is_ok_and(|key| key.verify(message, &EdSignature::from_bytes(signature)).is_ok());
        (ours, equation)
    }

    fn join_signature(r: &[u8; 32], s: &[u8; 32]) -> [u8; 64] {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(r);
        signature[32..].copy_from_slice(s);
        signature
    }

    fn encode_point(point: &EdwardsPoint) -> [u8; 32] {
        point.compress().to_bytes()
    }

    #[test]
    fn the_encodings_are_all_points_with_a_small_order() {
        assert!(EIGHT_TORSION.iter().all(|point| has_small_order(&encode_point(point))));
        for unsigned in SMALL_ORDER {
            for sign in [0, SIGN] {
                let mut point = unsigned;
                point[31] |= sign;
                assert!(VerifyingKey::from_bytes(&point).is_ok_and(|key| key.is_weak()));
            }
        }
    }

    #[test]
    fn a_signature_is_wrong_once_one_bit_changes() {
        let signer = SigningKey::from_bytes(&[7; 32]);
        let key = signer.verifying_key().to_bytes();
        let signature = signer.sign(b"message").to_bytes();
        assert_eq!(check(&signature, &key, b"message"), (true, true));
        assert_eq!(check(&signature, &key, b"massage"), (false, false));
        for bit in 0..512 {
            let mut wrong = signature;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(&wrong, &key, b"message"), (false, false));
        }
        for bit in 0..256 {
            let mut wrong = key;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(&signature, &wrong, b"message"), (false, false));
        }
    }

    #[test]
    fn a_key_with_a_small_order_signs_nothing() {
        let mut equations_held = 0;
        for key in &EIGHT_TORSION {
            for r in &EIGHT_TORSION {
                for message in 0..16_u8 {
                    let signature = join_signature(&encode_point(r), &[0; 32]);
                    let (right, equation) = check(&signature, &encode_point(key), &[message]);
                    assert!(!right);
                    equations_held += usize::from(equation);
                }
            }
        }
        assert!(equations_held > 0, "no equation held: nothing was tested");
    }

    #[test]
    fn an_r_with_a_small_order_is_refused_though_the_equation_holds() {
        let signer = SigningKey::from_bytes(&[7; 32]);
        let key = signer.verifying_key().to_bytes();
        let zero = encode_point(&EIGHT_TORSION[0]);
        let mut hashed: Vec<u8> = Vec::new();
        [&zero, &key].into_iter().for_each(|part| hashed.extend(part));
        hashed.extend(b"message");
        let challenge = Scalar::hash_from_bytes::<Sha512>(&hashed);
        let s = challenge * signer.to_scalar();
        let signature = join_signature(&zero, s.as_bytes());
        assert_eq!(check(&signature, &key, b"message"), (false, true));
    }

    #[test]
    fn bytes_that_encode_no_point_or_no_scalar_are_refused() {
        let signer = SigningKey::from_bytes(&[7; 32]);
        let key = signer.verifying_key().to_bytes();
        let right = signer.sign(b"message").to_bytes();
        let no_point = iter::once(2).chain(iter::repeat_n(0, 31)).collect::<Vec<u8>>();
        let no_point: [u8; 32] = no_point.try_into().expect("32 bytes");
        assert!(VerifyingKey::from_bytes(&no_point).is_err());
        assert_eq!(check(&right, &no_point, b"message"), (false, false));
        let mut wrong = right;
        wrong[..32].copy_from_slice(&no_point);
        assert_eq!(check(&wrong, &key, b"message"), (false, false));
        // Encodings that no encoder produces: p + y for y below 19.
        for y in 0xed..=0xff_u8 {
            let mut point = [0xff; 32];
            (point[0], point[31]) = (y, 0x7f);
            wrong[..32].copy_from_slice(&point);
            assert_eq!(check(&wrong, &key, b"message"), (false, false));
            assert!(!check(&right, &point, b"message").0);
        }
        let mut wrong = right;
        wrong[32..].fill(0xff);
        assert_eq!(check(&wrong, &key, b"message"), (false, false));
    }
}
