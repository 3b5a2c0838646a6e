//! The product of a set's elements.

use std::fmt;

use blake2b_simd::Params;

use crate::element::Element;
use crate::field::{NUMBER_BYTES, Number};

/// Bytes of a serialized product.
pub const MU_HASH_BYTES: usize = NUMBER_BYTES;

/// The hash of the empty set.
pub const EMPTY_HASH: [u8; 32] = [
    0x54, 0x4e, 0xb3, 0x14, 0x2c, 0x00, 0x0f, 0x0a, 0xd2, 0xc7, 0x6a, 0xc4, 0x1f, 0x42, 0x22, 0xab,
    0xba, 0xba, 0xbe, 0xd8, 0x30, 0xee, 0xaf, 0xee, 0x4b, 0x6d, 0xc5, 0x6b, 0x52, 0xd5, 0xca, 0xc0,
];

/// The product over a set of elements, or over the difference of two sets.
#[derive(Clone)]
pub struct MuHash {
    added: Number,
    removed: Number,
}

/// Bytes that are not the product of any elements: zero, or at least the prime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {MU_HASH_BYTES} bytes are not a product of elements: zero, or not below the prime 2^3072 - 1103717"
)]
pub struct InvalidProduct;

impl MuHash {
    /// The product over the empty set.
    pub const EMPTY: Self = Self { added: Number::ONE, removed: Number::ONE };

    /// Reads a product from its bytes, in little-endian order.
    pub fn from_bytes(bytes: &[u8; MU_HASH_BYTES]) -> Result<Self, InvalidProduct> {
        let added = Number::from_bytes(bytes);
        if added.is_unit() { Ok(Self { added, removed: Number::ONE }) } else { Err(InvalidProduct) }
    }

    /// Returns the bytes of the product. It divides, unless nothing was removed.
    pub fn to_bytes(&self) -> [u8; MU_HASH_BYTES] {
        self.quotient().to_bytes()
    }

    /// Returns the hash of the set. It divides, unless nothing was removed.
    pub fn finalize(&self) -> [u8; 32] {
        let hash = Params::new().hash_length(32).key(b"MuHashFinalize").hash(&self.to_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hash.as_bytes());
        bytes
    }

    /// Adds an element to the set. Cost: one multiplication of numbers of 3,072 bits.
    pub fn add(&mut self, element: &Element) {
        self.added.multiply(&element.0);
    }

    /// Removes an element. It may be added later.
    pub fn remove(&mut self, element: &Element) {
        self.removed.multiply(&element.0);
    }

    /// Adds what another product has added, and removes what that one has removed.
    pub fn mix_in(&mut self, other: &Self) {
        self.added.multiply(&other.added);
        self.removed.multiply(&other.removed);
    }

    /// Removes what another product has added, and adds what that one has removed.
    pub fn mix_out(&mut self, other: &Self) {
        self.added.multiply(&other.removed);
        self.removed.multiply(&other.added);
    }

    /// Divides now, so that the next [`Self::finalize`] does not have to unless more is removed.
    pub fn normalize(&mut self) {
        *self = Self { added: self.quotient(), removed: Number::ONE };
    }

    fn quotient(&self) -> Number {
        let mut quotient = self.added;
        if self.removed != Number::ONE {
            quotient.multiply(&self.removed.invert());
        }
        quotient
    }
}

impl Default for MuHash {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Two products are equal if their sets are: both sides are multiplied crosswise, without a division.
impl PartialEq for MuHash {
    fn eq(&self, other: &Self) -> bool {
        let mut left = self.added;
        left.multiply(&other.removed);
        let mut right = other.added;
        right.multiply(&self.removed);
        left == right
    }
}

impl Eq for MuHash {}

impl fmt::Debug for MuHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MuHash(")?;
        self.finalize().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Three UTXOs of Kaspa's own test vectors: bytes, the hash of each alone, and the hash of it and those before it.
    const VECTORS: [[&str; 3]; 3] = [
        [
            "982051fd1e4ba744bbbe680e1fee14677ba1a3c3540bf7b1cdb606e857233e0e00000000010000000100f2052a0100000043410496\
             b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52da7589379515d4e0a604f8141781e62294721166bf62\
             1e73a82cbf2342c858eeac",
            "2c379620fdf4ec0ac253cbe4ba82c2bbdc0fedac7fe0e452957d93757bbff5c1",
            "2c379620fdf4ec0ac253cbe4ba82c2bbdc0fedac7fe0e452957d93757bbff5c1",
        ],
        [
            "d5fdcc541e25de1c7a5addedf24858b8bb665c9f36ef744ee42c316022c90f9b00000000020000000100f2052a0100000043410472\
             11a824f55b505228e4c3d5194c1fcfaa15a456abdf37f9b9d97a4040afc073dee6c89064984f03385237d92167c13e236446b417ab\
             79a0fcae412ae3316b77ac",
            "668bb292ef152c54db0f5714bf45ff8da7b1d41c0c5026ad655b2f9e1be67e21",
            "b15bd1124a6b52e64eda3c3023c587e455a79e748c8c954dd7411d0dbd973863",
        ],
        [
            "44f672226090d85db9a9f2fbfe5f0f9609b387af7be5b7fbb7a1767c831c9e9900000000030000000100f2052a0100000043410494\
             b9d3e76c5b1629ecf97fff95d7a4bbdac87cc26099ada28066c6ff1eb9191223cd897194a08d0c2726c5747f1db49e8cf90e75dc3e\
             3550ae9b30086f3cd5aaac",
            "f40b20bdc43ef2f01a173b767cb9c6b8db5602eb535fcb9827385f9b0e3afaf4",
            "e69c6e050410761648ce6276a81c8044b9efb1715ea6f6fb9f8cf7a8c1e80396",
        ],
    ];

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn vector_elements() -> [Element; 3] {
        VECTORS.map(|[bytes, ..]| {
            let digits = bytes.as_bytes().as_chunks::<2>().0.iter();
            let digits = digits.map(|pair| std::str::from_utf8(pair).expect("digits are ASCII"));
            let bytes: Vec<u8> =
                digits.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")).collect();
            Element::from_bytes(&bytes)
        })
    }

    /// An element of 32 bytes, all of them zero but the first.
    fn short_element(first: u8) -> Element {
        let mut bytes = [0; 32];
        bytes[0] = first;
        Element::from_bytes(&bytes)
    }

    fn product<'a>(elements: impl IntoIterator<Item = &'a Element>) -> MuHash {
        let mut product = MuHash::EMPTY;
        elements.into_iter().for_each(|element| product.add(element));
        product
    }

    #[test]
    fn official_vectors_are_matched() {
        assert_eq!(MuHash::EMPTY.finalize(), EMPTY_HASH);
        let elements = vector_elements();
        let mut sum = MuHash::EMPTY;
        for (element, [_, alone, cumulative]) in elements.iter().zip(VECTORS) {
            assert_eq!(hex(&product([element]).finalize()), alone);
            sum.add(element);
            assert_eq!(hex(&sum.finalize()), cumulative);
        }
        for at in (0..elements.len()).rev() {
            sum.remove(&elements[at]);
            if at > 0 {
                assert_eq!(hex(&sum.finalize()), VECTORS[at - 1][2]);
            }
        }
        assert_eq!(sum.finalize(), EMPTY_HASH);

        let mut mixed = product(&[short_element(0), short_element(1)]);
        mixed.remove(&short_element(2));
        let expected = "b557f7cfc13cf9abc31374832715e7bff2cf5859897523337a0ead9dde012974";
        assert_eq!(hex(&mixed.finalize()), expected);
    }

    #[test]
    fn official_bytes_of_a_product_are_matched() {
        let bytes = product(&[short_element(1), short_element(2)]).to_bytes();
        let expected = "320549a6c6d21fca2540dbde399e795943bcd349d9fbfab287c427fa7aca38e492e9f9104409ff9e9854a8927951b53c608d721a7f8c\
            a45a57bb1804bb97875b09f9677c5b3748ca2bf1c4f3c9ed8d9ea67db91ac9e850480307f89874942cfa6ca7af3d809f30941cf7169e\
            2882299a5db8c7b100aad49f3de983f31011f684721f9b2519616b0b6411173d0cdab081ad94dd06989d706a5a05d700858529f1d9ed\
            06ca6afcc4f4d18ddcec28dddb7ade601bbd3c45967c1d4ecef992b3bf0bbbb230727f9b4a898c6db658c078478dc55db2b3fefca7fb\
            f54d70bad81eef93a84359600e66a5bba3e8334d7586a0fe59c939714c896365e9232ed57c26f70c7dcbdc367244f2c06bd8e28c424e\
            41a6ff040259f7b8cc913669d2d1c3f83fcfc7dafd5c96bed4d81779120e1b23bfcb32ee0abec02fd2643a26c967c73b204825dd6857\
            78de3d906b6b721b9858e87161b84574113bf597638ca7552f1c33c68ce9155cd34f0144d9832513056b33db8d6d9bc4b7941071e38d\
            cad7bf32f1f4";
        assert_eq!(hex(&bytes), expected);
        let restored = MuHash::from_bytes(&bytes).expect("a product");
        assert_eq!(restored.to_bytes(), bytes);
    }

    #[test]
    fn bytes_that_are_not_a_product_are_refused() {
        let bytes = |start: &[u8], rest: u8| {
            let mut bytes = [rest; MU_HASH_BYTES];
            bytes[..start.len()].copy_from_slice(start);
            bytes
        };
        assert_eq!(MuHash::from_bytes(&[0xff; MU_HASH_BYTES]), Err(InvalidProduct));
        assert_eq!(MuHash::from_bytes(&[0; MU_HASH_BYTES]), Err(InvalidProduct));
        // The prime itself, and the number before it.
        assert_eq!(MuHash::from_bytes(&bytes(&[155, 40, 239], 0xff)), Err(InvalidProduct));
        assert!(MuHash::from_bytes(&bytes(&[154, 40, 239], 0xff)).is_ok());
    }

    #[test]
    fn a_difference_is_mixed_in_and_out() {
        let [a, b, c] = vector_elements();
        let mut block = MuHash::EMPTY;
        block.remove(&a);
        block.add(&c);
        let before = product(&[a, b]);
        let mut after = before.clone();
        after.mix_in(&block);
        assert_eq!(after, product(&[c, b]));
        after.mix_out(&block);
        assert_eq!(after, before);
        assert_eq!(after.finalize(), before.finalize());
    }

    /// A change of a small set: the number of its element, and whether the element is removed.
    fn changes() -> impl Strategy<Value = Vec<(u8, bool)>> {
        proptest::collection::vec((0..6_u8, any::<bool>()), 0..12)
    }

    fn apply(changes: &[(u8, bool)]) -> MuHash {
        let mut product = MuHash::EMPTY;
        for (number, is_removed) in changes {
            let element = short_element(*number);
            if *is_removed { product.remove(&element) } else { product.add(&element) }
        }
        product
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn order_does_not_matter(changes in changes(), seed in any::<u64>(), cut in 0..12_usize) {
            let ordered = apply(&changes);
            let mut shuffled = changes;
            fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
            prop_assert_eq!(apply(&shuffled).finalize(), ordered.finalize());
            let parts = shuffled.split_at(cut.min(shuffled.len()));
            let mut sum = apply(parts.0);
            sum.normalize();
            sum.mix_in(&apply(parts.1));
            prop_assert_eq!(sum.to_bytes(), ordered.to_bytes());
            prop_assert_eq!(sum, ordered);
        }

        #[test]
        fn adding_and_removing_leaves_the_empty_set(changes in changes()) {
            let mut undone = changes.clone();
            undone.extend(changes.iter().map(|(number, is_removed)| (*number, !is_removed)));
            prop_assert_eq!(apply(&undone).finalize(), EMPTY_HASH);
            prop_assert_eq!(apply(&undone), MuHash::EMPTY);
        }

        #[test]
        fn another_set_has_another_hash(changes in changes(), number in 0..6_u8) {
            let product = apply(&changes);
            let mut more = product.clone();
            more.add(&short_element(number));
            prop_assert_ne!(more.finalize(), product.finalize());
            prop_assert_ne!(more, product);
        }
    }
}
