//! Addresses as users write them: a prefix, a colon, and a payload in base 32 with a checksum.

use std::fmt;
use std::str::FromStr;

use ledger::Address;

use crate::network::Prefix;

/// Digits of base 32, in the order of their values.
const DIGITS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const NOT_A_DIGIT: u8 = 0xff;

/// The value of each ASCII character that is a digit.
const DIGIT_VALUES: [u8; 128] = {
    let mut values = [NOT_A_DIGIT; 128];
    let mut value = 0;
    while value < DIGITS.len() {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

const CHECKSUM_DIGITS: usize = 8;
/// Bytes of a version with its payload, the longer kind.
const VERSIONED_BYTES_MAX: usize = 34;
const PAYLOAD_DIGITS_MAX: usize = (VERSIONED_BYTES_MAX * 8).div_ceil(5);
/// The generator of the checksum's code.
const GENERATOR: [u64; 5] =
    [0x98_f2bc_8e61, 0x79_b76d_99e2, 0xf3_3e5f_b3c4, 0xae_2eab_e2a8, 0x1e_4f43_e470];

/// The key or the script that an address pays to. The number of each kind is its version in text and in Borsh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressPayload {
    /// A Schnorr public key. Version 0.
    PublicKey([u8; 32]),
    /// An ECDSA public key. Version 1.
    EcdsaPublicKey([u8; 33]),
    /// The BLAKE2b hash of a script. Version 8.
    ScriptHash([u8; 32]),
}

/// An address with the prefix of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KaspaAddress {
    /// The prefix. kaspad reads addresses with any of them.
    pub prefix: Prefix,
    /// The key or the script that the address pays to.
    pub payload: AddressPayload,
}

/// Text or bytes that are not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text has no colon.
    #[error("an address has a prefix and a colon, such as kaspa:")]
    MissingPrefix,
    /// No network has the prefix.
    #[error("the prefix is not kaspa, kaspatest, kaspasim or kaspadev")]
    UnknownPrefix,
    /// A character is not a digit of base 32, in lower case.
    #[error("the character at {at} does not belong into an address")]
    InvalidCharacter {
        /// Offset after the colon, in bytes.
        at: usize,
    },
    /// The checksum does not match the payload and the prefix.
    #[error("the checksum of the address is wrong")]
    WrongChecksum,
    /// No kind of address has the version.
    #[error("the address version is {version}, not 0, 1 or 8")]
    UnknownVersion {
        /// The version in the address.
        version: u8,
    },
    /// The payload is too short or too long for its version.
    #[error(
        "the payload of an address of version {version} has {bytes} bytes, which is the wrong number"
    )]
    PayloadLength {
        /// The version in the address.
        version: u8,
        /// Bytes of the payload.
        bytes: usize,
    },
    /// The text after the colon is too short or too long for any address.
    #[error("the address has {digits} characters after the colon, which is the wrong number")]
    Length {
        /// Characters after the colon.
        digits: usize,
    },
}

impl AddressPayload {
    /// Makes the payload from its version and its bytes.
    pub fn from_parts(version: u8, bytes: &[u8]) -> Result<Self, AddressError> {
        let wrong_length = |_| AddressError::PayloadLength { version, bytes: bytes.len() };
        match version {
            0 => bytes.try_into().map(Self::PublicKey).map_err(wrong_length),
            1 => bytes.try_into().map(Self::EcdsaPublicKey).map_err(wrong_length),
            8 => bytes.try_into().map(Self::ScriptHash).map_err(wrong_length),
            _ => Err(AddressError::UnknownVersion { version }),
        }
    }

    /// Returns the version of this kind.
    pub fn version(&self) -> u8 {
        match self {
            Self::PublicKey(_) => 0,
            Self::EcdsaPublicKey(_) => 1,
            Self::ScriptHash(_) => 8,
        }
    }

    /// Returns the bytes without the version.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::PublicKey(key) | Self::ScriptHash(key) => key,
            Self::EcdsaPublicKey(key) => key,
        }
    }

    /// Returns the address of the script's record in the ledger: 32 bytes for the most common kind, else the version
    /// first.
    pub fn ledger_address(&self) -> Address {
        if let Self::PublicKey(key) = self {
            return Address::from(*key);
        }
        let mut bytes = [0; VERSIONED_BYTES_MAX];
        let payload = self.as_bytes();
        bytes[0] = self.version();
        bytes[1..=payload.len()].copy_from_slice(payload);
        // At least 33 bytes, and at most the 34 of the array: a ledger's address has up to 36.
        Address::try_from(&bytes[..=payload.len()])
            .unwrap_or_else(|_| unreachable!("33 or 34 bytes"))
    }

    /// Returns the payload for which [`Self::ledger_address`] returned this address.
    pub fn from_ledger_address(address: &Address) -> Option<Self> {
        match *address.as_bytes() {
            [version @ (1 | 8), ref payload @ ..] if payload.len() >= 32 => {
                Self::from_parts(version, payload).ok()
            }
            _ => address.to_array().map(Self::PublicKey),
        }
    }
}

impl KaspaAddress {
    /// Appends the text of the address.
    pub fn encode_into(&self, text: &mut Vec<u8>) {
        let payload = self.payload.as_bytes();
        let mut versioned = [0; VERSIONED_BYTES_MAX];
        versioned[0] = self.payload.version();
        versioned[1..=payload.len()].copy_from_slice(payload);

        let mut values = [0; PAYLOAD_DIGITS_MAX];
        let values = regroup::<8, 5>(&versioned[..=payload.len()], &mut values);
        let checksum = checksum(self.prefix, values).to_be_bytes();
        let mut checksum_values = [0; CHECKSUM_DIGITS];
        let checksum_values = regroup::<8, 5>(&checksum[3..], &mut checksum_values);

        text.extend_from_slice(self.prefix.name().as_bytes());
        text.push(b':');
        let digits = values.iter().chain(checksum_values);
        text.extend(digits.map(|value| DIGITS[usize::from(*value)]));
    }
}

impl fmt::Display for KaspaAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(80);
        self.encode_into(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl FromStr for KaspaAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (prefix, digits) = text.split_once(':').ok_or(AddressError::MissingPrefix)?;
        let prefix = Prefix::from_name(prefix).ok_or(AddressError::UnknownPrefix)?;
        let length = AddressError::Length { digits: digits.len() };
        if !(CHECKSUM_DIGITS + 2..=CHECKSUM_DIGITS + PAYLOAD_DIGITS_MAX).contains(&digits.len()) {
            return Err(length);
        }
        let mut values = [0; CHECKSUM_DIGITS + PAYLOAD_DIGITS_MAX];
        let values = &mut values[..digits.len()];
        for (at, (value, digit)) in values.iter_mut().zip(digits.bytes()).enumerate() {
            *value = *DIGIT_VALUES.get(usize::from(digit)).unwrap_or(&NOT_A_DIGIT);
            if *value == NOT_A_DIGIT {
                return Err(AddressError::InvalidCharacter { at });
            }
        }
        let (values, checksum_values) = values.split_at(digits.len() - CHECKSUM_DIGITS);
        let mut expected = [0; CHECKSUM_DIGITS];
        let checksum = checksum(prefix, values).to_be_bytes();
        if regroup::<8, 5>(&checksum[3..], &mut expected) != checksum_values {
            return Err(AddressError::WrongChecksum);
        }
        let mut versioned = [0; PAYLOAD_DIGITS_MAX];
        // The bits left over at the end are not checked, as in kaspad. The checksum covers them.
        let whole_bytes = values.len() * 5 / 8;
        let versioned = &regroup::<5, 8>(values, &mut versioned)[..whole_bytes];
        let (version, payload) = versioned.split_first().ok_or(length)?;
        Ok(Self { prefix, payload: AddressPayload::from_parts(*version, payload)? })
    }
}

/// Returns the checksum over a prefix and a payload: 40 bits.
fn checksum(prefix: Prefix, payload: &[u8]) -> u64 {
    let prefix = prefix.name().bytes().map(|letter| letter & 0x1f);
    let values = prefix.chain([0]).chain(payload.iter().copied()).chain([0; CHECKSUM_DIGITS]);
    let code = values.fold(1, |code: u64, value| {
        let top = code >> 35;
        let shifted = (code & 0x07_ffff_ffff) << 5 ^ u64::from(value);
        let factors = GENERATOR.iter().enumerate().filter(|(bit, _)| top >> bit & 1 == 1);
        factors.fold(shifted, |code, (_, factor)| code ^ factor)
    });
    code ^ 1
}

/// Regroups values of `FROM` bits into values of `TO` bits, the last one filled up with zeros. `out` is long enough for
/// them.
fn regroup<'a, const FROM: u32, const TO: u32>(values: &[u8], out: &'a mut [u8]) -> &'a [u8] {
    let mut bits = 0_u32;
    let mut bit_count = 0;
    let mut len = 0;
    let mut push = |value: u32| {
        out[len] = (value & ((1 << TO) - 1)) as u8;
        len += 1;
    };
    for value in values {
        bits = bits << FROM | u32::from(*value);
        bit_count += FROM;
        while bit_count >= TO {
            bit_count -= TO;
            push(bits >> bit_count);
        }
        bits &= (1 << bit_count) - 1;
    }
    if bit_count > 0 {
        push(bits << (TO - bit_count));
    }
    &out[..len]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn payload() -> impl Strategy<Value = AddressPayload> {
        prop_oneof![
            any::<[u8; 32]>().prop_map(AddressPayload::PublicKey),
            proptest::array::uniform(any::<u8>()).prop_map(AddressPayload::EcdsaPublicKey),
            any::<[u8; 32]>().prop_map(AddressPayload::ScriptHash),
        ]
    }

    #[test]
    fn addresses_of_other_programs_are_read() {
        // Test vectors of Kaspa's own crate.
        let key = *b"\x5f\xff\x3c\x4d\xa1\x8f\x45\xad\xcd\xd4\x99\xe4\x46\x11\xe9\xff\
                     \xf1\x48\xba\x69\xdb\x3c\x4e\xa2\xdd\xd9\x55\xfc\x46\xa5\x95\x22";
        let ecdsa_key = *b"\xba\x01\xfc\x5f\x4e\x9d\x98\x79\x59\x9c\x69\xa3\xda\xfd\xb8\x35\
                           \xa7\x25\x5e\x5f\x2e\x93\x4e\x93\x22\xec\xd3\xaf\x19\x0a\xb0\xf6\x0e";
        let vectors = [
            (
                Prefix::Mainnet,
                AddressPayload::PublicKey([0; 32]),
                "kaspa:qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqkx9awp4e",
            ),
            (
                Prefix::Mainnet,
                AddressPayload::PublicKey(key),
                "kaspa:qp0l70zd5x85ttwd6jv7g3s3a8llzj96d8dncn4zmhv4tlzx5k2jyqh70xmfj",
            ),
            (
                Prefix::Testnet,
                AddressPayload::EcdsaPublicKey([0; 33]),
                "kaspatest:qyqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqhe837j2d",
            ),
            (
                Prefix::Testnet,
                AddressPayload::EcdsaPublicKey(ecdsa_key),
                "kaspatest:qxaqrlzlf6wes72en3568khahq66wf27tuhfxn5nytkd8tcep2c0vrse6gdmpks",
            ),
        ];
        for (prefix, payload, text) in vectors {
            let address = KaspaAddress { prefix, payload };
            assert_eq!(address.to_string(), text);
            assert_eq!(text.parse(), Ok(address));
        }
    }

    #[test]
    fn text_that_is_not_an_address_is_refused() {
        let good = "kaspa:qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqkx9awp4e";
        assert!(good.parse::<KaspaAddress>().is_ok());
        let refused = |text: &str| text.parse::<KaspaAddress>().expect_err(text);
        assert_eq!(refused(""), AddressError::MissingPrefix);
        assert_eq!(refused(&good["kaspa:".len()..]), AddressError::MissingPrefix);
        assert_eq!(refused(&good.replace("kaspa", "KASPA")), AddressError::UnknownPrefix);
        assert_eq!(refused(&good.replace("kaspa", "kaspasim")), AddressError::WrongChecksum);
        assert_eq!(refused(&good.replace("4e", "4E")), AddressError::InvalidCharacter { at: 60 });
        assert_eq!(refused(&good.replace("4e", "4é")), AddressError::InvalidCharacter { at: 60 });
        assert_eq!(refused(&good.replace("4e", "4b")), AddressError::InvalidCharacter { at: 60 });
        assert_eq!(refused("kaspa:"), AddressError::Length { digits: 0 });
        assert_eq!(
            refused(&format!("kaspa:{}", "q".repeat(1_000))),
            AddressError::Length { digits: 1_000 }
        );
        for at in 6..good.len() {
            let mut wrong = good.as_bytes().to_vec();
            wrong[at] = if wrong[at] == b'p' { b'z' } else { b'p' };
            let wrong = String::from_utf8(wrong).expect("ASCII");
            assert_eq!(refused(&wrong), AddressError::WrongChecksum);
        }
    }

    #[test]
    fn a_version_has_its_length() {
        assert_eq!(
            AddressPayload::from_parts(0, &[0; 33]),
            Err(AddressError::PayloadLength { version: 0, bytes: 33 })
        );
        assert_eq!(
            AddressPayload::from_parts(1, &[0; 32]),
            Err(AddressError::PayloadLength { version: 1, bytes: 32 })
        );
        assert_eq!(
            AddressPayload::from_parts(2, &[0; 32]),
            Err(AddressError::UnknownVersion { version: 2 })
        );
    }

    proptest! {
        #[test]
        fn an_address_is_read_as_it_was_written(payload in payload(), prefix in 0..4_usize) {
            let address = KaspaAddress { prefix: Prefix::ALL[prefix], payload };
            prop_assert_eq!(address.to_string().parse(), Ok(address));
            let ledger = payload.ledger_address();
            prop_assert_eq!(AddressPayload::from_ledger_address(&ledger), Some(payload));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,90}", tail in "[qpzry9x8gf2tvdw0s3jn54khce6mua7l]{0,70}") {
            let _ = text.parse::<KaspaAddress>();
            let _ = format!("kaspa:{tail}").parse::<KaspaAddress>();
        }
    }
}
