//! Scripts that outputs pay to, and the addresses that stand for the common ones.

use ledger::Address;

use crate::address::{AddressPayload, KaspaAddress};
use crate::hash::{Blake2b, FieldHasher, Hash};
use crate::hex::{self, HexError};
use crate::network::Prefix;

/// Operations of the common scripts.
mod op {
    pub(super) const DATA_32: u8 = 0x20;
    pub(super) const DATA_33: u8 = 0x21;
    pub(super) const EQUAL: u8 = 0x87;
    pub(super) const BLAKE2B: u8 = 0xaa;
    pub(super) const CHECK_SIG_ECDSA: u8 = 0xab;
    pub(super) const CHECK_SIG: u8 = 0xac;
}

/// The version of the scripts that have addresses, and the newest one.
const ADDRESS_SCRIPT_VERSION: u16 = 0;
/// Hexadecimal digits of the version in JSON, and the fewest of a script.
const VERSION_DIGITS: usize = 4;
/// The first byte of the ledger's address of a script without an [`AddressPayload`].
const HASHED_SCRIPT_TAG: u8 = 0xff;

/// A script with its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScriptPublicKey {
    /// The version of the script language.
    pub version: u16,
    /// The program: operations and data.
    pub script: Box<[u8]>,
}

impl ScriptPublicKey {
    /// Returns the script that an address stands for.
    pub fn from_payload(payload: &AddressPayload) -> Self {
        let data = payload.as_bytes();
        let script = match payload {
            AddressPayload::PublicKey(_) => [&[op::DATA_32], data, &[op::CHECK_SIG]].concat(),
            AddressPayload::EcdsaPublicKey(_) => {
                [&[op::DATA_33], data, &[op::CHECK_SIG_ECDSA]].concat()
            }
            AddressPayload::ScriptHash(_) => {
                [&[op::BLAKE2B, op::DATA_32], data, &[op::EQUAL]].concat()
            }
        };
        Self { version: ADDRESS_SCRIPT_VERSION, script: script.into() }
    }

    /// Returns the payload of the address of this script. `None` if the script has no address.
    pub fn payload(&self) -> Option<AddressPayload> {
        if self.version != ADDRESS_SCRIPT_VERSION {
            return None;
        }
        match *self.script {
            [op::DATA_32, ref key @ .., op::CHECK_SIG] => {
                key.try_into().ok().map(AddressPayload::PublicKey)
            }
            [op::DATA_33, ref key @ .., op::CHECK_SIG_ECDSA] => {
                key.try_into().ok().map(AddressPayload::EcdsaPublicKey)
            }
            [op::BLAKE2B, op::DATA_32, ref hash @ .., op::EQUAL] => {
                hash.try_into().ok().map(AddressPayload::ScriptHash)
            }
            _ => None,
        }
    }

    /// Reads the form in JSON: the version as four hexadecimal digits, then the script.
    pub fn from_hex(text: &str) -> Result<Self, HexError> {
        let bytes = hex::decode(text)?;
        let error = HexError::Length { digits: text.len(), expected: VERSION_DIGITS };
        let (version, script) = bytes.split_first_chunk().ok_or(error)?;
        Ok(Self { version: u16::from_be_bytes(*version), script: script.into() })
    }

    /// Appends the form that [`Self::from_hex`] reads.
    pub fn encode_hex_into(&self, text: &mut Vec<u8>) {
        hex::encode_into(&self.version.to_be_bytes(), text);
        hex::encode_into(&self.script, text);
    }

    /// Returns the address of this script on a network. `None` if the script has no address.
    pub fn address(&self, prefix: Prefix) -> Option<KaspaAddress> {
        self.payload().map(|payload| KaspaAddress { prefix, payload })
    }

    /// Returns the address of this script's record in the ledger. Scripts without an address are hashed: a tag, then
    /// BLAKE2b over version and script.
    pub fn ledger_address(&self) -> Address {
        if let Some(payload) = self.payload() {
            return payload.ledger_address();
        }
        let mut hasher = Blake2b::with_key(b"HydrantScript");
        hasher.write_u16(self.version);
        hasher.write(&self.script);
        let Hash(hash) = hasher.finish();
        let mut bytes = [HASHED_SCRIPT_TAG; 33];
        bytes[1..].copy_from_slice(&hash);
        Address::try_from(&bytes[..]).unwrap_or_else(|_| unreachable!("33 bytes, at most 36"))
    }

    /// Returns the script for which [`Self::ledger_address`] returned this address. `None` if that was a hash.
    pub fn from_ledger_address(address: &Address) -> Option<Self> {
        AddressPayload::from_ledger_address(address).map(|payload| Self::from_payload(&payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(version: u16, script: &[u8]) -> ScriptPublicKey {
        ScriptPublicKey { version, script: script.into() }
    }

    #[test]
    fn each_kind_of_address_has_its_script() {
        let payloads = [
            (AddressPayload::PublicKey([7; 32]), 34, 32),
            (AddressPayload::EcdsaPublicKey([8; 33]), 35, 34),
            (AddressPayload::ScriptHash([9; 32]), 35, 33),
        ];
        for (payload, script_bytes, address_bytes) in payloads {
            let script = ScriptPublicKey::from_payload(&payload);
            assert_eq!(script.script.len(), script_bytes);
            assert_eq!(script.payload(), Some(payload));
            let address = script.ledger_address();
            assert_eq!(address.as_bytes().len(), address_bytes);
            assert_eq!(ScriptPublicKey::from_ledger_address(&address), Some(script));
        }
    }

    #[test]
    fn the_version_comes_first_in_json() {
        let script = script(0xc0de, &[0, 1, 2]);
        let mut text = Vec::new();
        script.encode_hex_into(&mut text);
        assert_eq!(text, b"c0de000102");
        assert_eq!(ScriptPublicKey::from_hex("c0de000102"), Ok(script));
        assert_eq!(
            ScriptPublicKey::from_hex("c0"),
            Err(HexError::Length { digits: 2, expected: 4 })
        );
        assert!(ScriptPublicKey::from_hex("c0de0").is_err());
    }

    #[test]
    fn scripts_without_an_address_are_hashed() {
        let p2pk = ScriptPublicKey::from_payload(&AddressPayload::PublicKey([7; 32]));
        let mut near = p2pk.script.to_vec();
        near[0] = op::DATA_33;
        let scripts = [
            script(1, &p2pk.script),
            script(0, &near),
            script(0, &p2pk.script[..33]),
            script(0, &[]),
            script(0, &[op::DATA_32]),
            script(0, &[op::BLAKE2B, op::DATA_32]),
            script(0, &[7; 10_000]),
        ];
        let mut addresses: Vec<Address> = Vec::new();
        for script in &scripts {
            assert_eq!(script.address(Prefix::Simnet), None);
            let address = script.ledger_address();
            assert_eq!(address.as_bytes().len(), 33);
            assert_eq!(ScriptPublicKey::from_ledger_address(&address), None);
            assert!(!addresses.contains(&address));
            addresses.push(address);
        }
    }
}
