//! The addresses of a request in JSON, read in parts: a request may have a million of them.

use serde::Deserialize;
use serde::de::Error;
use serde_json::value::RawValue;

use super::frame::JsonRequest;
use crate::address::KaspaAddress;
use crate::operation::Operation;

/// A position in the addresses of a request: of getUtxosByAddresses, getBalancesByAddresses, addressesSubscribe, or a
/// subscription's scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonAddresses {
    /// Offset in the message: of the next address, or of the comma and spaces before it.
    at: usize,
}

#[derive(Deserialize)]
struct AddressesParams<'a> {
    #[serde(borrow)]
    addresses: &'a RawValue,
}

#[derive(Deserialize)]
enum ScopeParams<'a> {
    #[serde(borrow)]
    UtxosChanged(AddressesParams<'a>),
}

impl JsonAddresses {
    /// Finds the addresses of a request. `message` is the text that the request was parsed from.
    pub fn find(message: &str, request: &JsonRequest<'_>) -> Result<Self, serde_json::Error> {
        let params = request.params.get();
        let AddressesParams { addresses } = match request.operation {
            Operation::Method(_) | Operation::Own(_) => serde_json::from_str(params)?,
            _ => {
                let ScopeParams::UtxosChanged(params) = serde_json::from_str(params)?;
                params
            }
        };
        let list = addresses.get();
        // The list is a part of the message.
        let offset = list.as_ptr().addr().checked_sub(message.as_ptr().addr());
        let offset = offset.filter(|offset| {
            list.starts_with('[') && message.get(*offset..).is_some_and(|it| it.starts_with(list))
        });
        let at = offset.ok_or_else(|| Error::custom("the addresses are a list"))?;
        Ok(Self { at: at + 1 })
    }

    /// Reads up to `count_max` addresses of the same message. Returns none if all have been read.
    pub fn read(
        &mut self,
        message: &str,
        count_max: usize,
    ) -> Result<Vec<KaspaAddress>, serde_json::Error> {
        let mut addresses = Vec::new();
        while addresses.len() < count_max
            && let Some(address) = self.read_next(message)?
        {
            addresses.push(address);
        }
        Ok(addresses)
    }

    /// Reads the next element. The list is known to be JSON.
    fn read_next(&mut self, message: &str) -> Result<Option<KaspaAddress>, serde_json::Error> {
        let rest = message.as_bytes().get(self.at..).unwrap_or_default();
        let is_separator = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',');
        let start = self.at + rest.iter().take_while(is_separator).count();
        self.at = start;
        match message.as_bytes().get(start) {
            None | Some(b']') => return Ok(None),
            Some(b'"') => {}
            Some(_) => return Err(Error::custom("an address is a string")),
        }
        let end = find_string_end(message.as_bytes(), start);
        let literal = message.get(start..end).unwrap_or_default();
        self.at = end;
        match literal.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(text) if !text.contains('\\') => text.parse().map(Some).map_err(Error::custom),
            _ => serde_json::from_str(literal).map(Some),
        }
    }
}

/// Returns the offset after the string that starts at an offset.
fn find_string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        at += if *byte == b'\\' { 2 } else { 1 };
        if *byte == b'"' {
            break;
        }
    }
    at.min(bytes.len())
}
