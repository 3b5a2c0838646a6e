//! The addresses of one message, read in chunks: a message may have tens of thousands.
//!
//! In: a binary message, or the text of a JSON array of base58. Out: up to `count` addresses at a time.
//! Bounds: the message. Not here: what they are for (`address_sets`).

use std::fmt;
use std::str::FromStr;

use jsonrpc::error::RpcError;
use ledger::Address;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use solana_pubkey::Pubkey;
use tokio_tungstenite::tungstenite::Bytes;

/// The most characters of an address in base58.
const BASE58_MAX: usize = 44;

/// The addresses of a message that have not been read.
pub(super) enum AddressList {
    /// 32 bytes each.
    Binary(Bytes),
    /// A JSON array, and the bytes of it that have been read.
    Text(Box<RawValue>, usize),
}

impl AddressList {
    /// A list without addresses.
    pub(super) fn empty() -> Self {
        Self::Binary(Bytes::new())
    }

    /// The addresses of a JSON array.
    pub(super) fn from_json(list: Box<RawValue>) -> Self {
        Self::Text(list, 0)
    }

    /// The addresses of a binary message after its header. `None` if the last is incomplete.
    pub(super) fn from_binary(addresses: Bytes) -> Option<Self> {
        addresses.len().is_multiple_of(32).then_some(Self::Binary(addresses))
    }

    /// The next addresses, up to `count`; none if all have been read.
    ///
    /// Errors: an invalid address, in the words of every other parameter.
    pub(super) fn next_addresses(&mut self, count: usize) -> Result<Vec<Address>, RpcError> {
        match self {
            Self::Binary(rest) => {
                let chunk = rest.split_to(rest.len().min(count * 32));
                let (addresses, _) = chunk.as_chunks::<32>();
                Ok(addresses.iter().map(|bytes| Address::from(*bytes)).collect())
            }
            Self::Text(list, read) => {
                let mut addresses = Vec::with_capacity(count.min(list.get().len() / 34));
                while addresses.len() < count {
                    match next_address(list.get(), read) {
                        Some(NextAddress::Address(address)) => addresses.push(address),
                        Some(NextAddress::End) => break,
                        None => {
                            // Invalid, or valid in an unusual form. In the latter case some addresses come twice.
                            *read = list.get().len();
                            return parse_whole_list(list.get());
                        }
                    }
                }
                Ok(addresses)
            }
        }
    }
}

enum NextAddress {
    Address(Address),
    End,
}

/// The next address of a JSON array, whose text is known to be JSON. `None` for anything else.
fn next_address(list: &str, read: &mut usize) -> Option<NextAddress> {
    let bytes = list.as_bytes();
    if *read == 0 {
        bytes.first().filter(|first| **first == b'[')?;
        *read = 1;
    }
    let is_between = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',');
    let Some(gap) = bytes[*read..].iter().position(|byte| !is_between(byte)) else {
        return Some(NextAddress::End);
    };
    let start = *read + gap;
    match bytes[start] {
        b']' => {
            *read = bytes.len();
            Some(NextAddress::End)
        }
        b'"' => {
            let text = &bytes[start + 1..bytes.len().min(start + 2 + BASE58_MAX)];
            let end = start + 1 + text.iter().position(|byte| *byte == b'"')?;
            let pubkey = Pubkey::from_str(list.get(start + 1..end)?).ok()?;
            *read = end + 1;
            Some(NextAddress::Address(Address::from(pubkey.to_bytes())))
        }
        _ => None,
    }
}

/// Reads the list at once, as every other parameter is read, with the same error messages.
#[cold]
fn parse_whole_list(list: &str) -> Result<Vec<Address>, RpcError> {
    let value = serde_json::from_str::<Value>(list);
    let read = value.and_then(serde_json::from_value::<Vec<Base58>>);
    let read = read.map_err(|err| RpcError::invalid_params(format!("Invalid params: {err}.")))?;
    Ok(read.into_iter().map(|address| address.0).collect())
}

/// An address in base58, read without a copy of its text.
struct Base58(Address);

impl<'de> Deserialize<'de> for Base58 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Base58;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address in base58")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Base58, E> {
                let pubkey = Pubkey::from_str(text)
                    .map_err(|_| E::custom(format_args!("`{text}` is no address")))?;
                Ok(Base58(Address::from(pubkey.to_bytes())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str, count: usize) -> Result<Vec<Address>, RpcError> {
        let list = RawValue::from_string(list.to_owned()).expect("JSON");
        let mut addresses = AddressList::from_json(list);
        let mut all = Vec::new();
        loop {
            let chunk = addresses.next_addresses(count)?;
            if chunk.is_empty() {
                return Ok(all);
            }
            all.extend(chunk);
        }
    }

    #[test]
    fn chunks_of_any_size_give_the_same_addresses_in_any_form_of_json() {
        let keys: Vec<Pubkey> = (0..50).map(|n| Pubkey::new_from_array([n; 32])).collect();
        let expected: Vec<Address> = keys.iter().map(|key| Address::from(key.to_bytes())).collect();
        let quoted: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
        for text in [format!("[{}]", quoted.join(",")), format!("[ {} ]", quoted.join(" ,\n\t"))] {
            for count in [1, 7, 50, 1_000] {
                assert_eq!(read(&text, count).ok(), Some(expected.clone()), "{count}");
            }
        }
        // The first character is an escape: the addresses before it may come twice.
        let escaped = format!("[{},\"\\u0031{}\"]", quoted[7], &quoted[0][2..33]);
        let all = read(&escaped, 1).expect("addresses");
        assert!(all.ends_with(&[expected[7], expected[0]]));
        assert_eq!(read("[]", 9).ok(), Some(Vec::new()));
        let mut binary = AddressList::from_binary(Bytes::from(vec![3; 96])).expect("three");
        assert_eq!(binary.next_addresses(2).map(|some| some.len()).ok(), Some(2));
        assert_eq!(binary.next_addresses(2).map(|some| some.len()).ok(), Some(1));
        assert_eq!(binary.next_addresses(2).map(|some| some.len()).ok(), Some(0));
        assert!(AddressList::from_binary(Bytes::from(vec![3; 95])).is_none());
    }

    #[test]
    fn an_invalid_list_is_refused_with_the_usual_message() {
        let key = Pubkey::new_from_array([9; 32]);
        let long = format!("[\"{key}{key}\"]");
        for (text, words) in [
            ("\"abc\"", "expected a sequence"),
            ("null", "expected a sequence"),
            ("[5]", "expected an address in base58"),
            ("[[]]", "expected an address in base58"),
            ("[\"abc\"]", "`abc` is no address"),
            (&long, "is no address"),
        ] {
            let err = read(text, 2).expect_err(text);
            assert!(err.message.contains(words), "{}", err.message);
            assert!(err.message.starts_with("Invalid params: "), "{}", err.message);
        }
    }
}
