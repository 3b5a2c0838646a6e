//! The UTXOs of an address, page by page. An entry has the shape of getUtxosByAddresses.
//!
//! Invariant: a final UTXO that stays unspent while all pages are read is on exactly one of them, whatever is added and
//! spent meanwhile.

use chain_kaspa::{UtxoCursor, page_script_utxos};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult};
use kaspa::{AddressUtxo, KaspaAddress, ScriptPublicKey, StoredUtxo};
use query::Cursor;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::kaspa_api::KaspaApi;
use super::options::{At, page_entries, parse_address};
use super::position::{Position, Positioned};

/// The text of a cursor after the UTXOs inside of the script's record.
const INSIDE: &str = "0";
/// Hexadecimal digits of another cursor.
const CURSOR_DIGITS: usize = 2 * Cursor::BYTES;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PageOptions {
    at: At,
    limit: Option<usize>,
    after: Option<String>,
}

#[derive(Serialize)]
struct UtxoEntries {
    utxos: Vec<Box<RawValue>>,
    next: Option<String>,
}

/// Runs `getUtxos address [{at, limit, after}]`.
pub(super) fn get_utxos(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (address, options): (String, Option<PageOptions>) = params.parse(1)?;
    let address = parse_address(&address)?;
    let PageOptions { at, limit, after } = options.unwrap_or_default();
    let entries = page_entries(limit)?;
    let after = after.map(|after| parse_cursor("after", &after)).transpose()?;
    let view = api.chain.utxos.view(at.commitment());
    let script = address.payload.ledger_address();
    let page = page_script_utxos(&view, &script, after, entries);
    let page = page.map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let address = KaspaAddress { prefix: api.prefix(), ..address };
    let utxos = page.utxos.iter().map(|utxo| encode_utxo(address, utxo)).collect::<Result<_, _>>();
    let value = UtxoEntries { utxos: utxos?, next: page.next.map(encode_cursor) };
    MethodOutput::json(&Positioned { position: Position::new(view.meta()), value })
}

fn encode_utxo(address: KaspaAddress, utxo: &StoredUtxo) -> Result<Box<RawValue>, RpcError> {
    let script = ScriptPublicKey::from_payload(&address.payload);
    let utxo = AddressUtxo {
        address: Some(address),
        outpoint: utxo.outpoint,
        entry: utxo.to_entry(script),
    };
    let mut text = Vec::with_capacity(400);
    utxo.encode_json_into(&mut text);
    let text = String::from_utf8(text).map_err(|_| RpcError::internal())?;
    RawValue::from_string(text).map_err(|_| RpcError::internal())
}

pub(super) fn encode_cursor(cursor: UtxoCursor) -> String {
    match cursor {
        UtxoCursor::Inside => INSIDE.to_owned(),
        UtxoCursor::Outside(cursor) => {
            cursor.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
        }
    }
}

/// Reads the token of a page from a parameter of this name.
pub(super) fn parse_cursor(parameter: &str, text: &str) -> Result<UtxoCursor, RpcError> {
    if text == INSIDE {
        return Ok(UtxoCursor::Inside);
    }
    let number = (text.len() == CURSOR_DIGITS).then(|| u128::from_str_radix(text, 16));
    let error = || {
        let text = format!("Invalid params: {parameter}: not the token of a page");
        RpcError::invalid_params(text)
    };
    let number = number.ok_or_else(error)?.map_err(|_| error())?;
    let bytes = number.to_be_bytes();
    let bytes = bytes.last_chunk().ok_or_else(error)?;
    Ok(UtxoCursor::Outside(Cursor::from_bytes(*bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_are_written() {
        let cursor = Cursor::from_bytes([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255]);
        for cursor in [UtxoCursor::Inside, UtxoCursor::Outside(cursor)] {
            assert_eq!(parse_cursor("after", &encode_cursor(cursor)).ok(), Some(cursor));
        }
        for text in ["", "1", "00", &"0".repeat(23), &"g".repeat(24), &"é".repeat(12)] {
            let error = parse_cursor("page", text).expect_err(text);
            assert!(error.message.contains(" page: not the token"), "{}", error.message);
        }
    }
}
