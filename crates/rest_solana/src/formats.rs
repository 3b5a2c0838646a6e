//! The formats of Solana's parameters.

use rest::{JsonFormat, TextFormat};
use serde_json::{Value, json};
use solana_pubkey::Pubkey;
use solana_signature::Signature;

/// 32 bytes in base58.
pub(crate) const ADDRESS: TextFormat = TextFormat {
    expected: "an address: base58 of 32 bytes",
    plural: "addresses",
    pattern: "^[1-9A-HJ-NP-Za-km-z]{32,44}$",
    placeholder: "32 bytes in base58",
    is_valid: |text| text.parse::<Pubkey>().is_ok(),
};

/// 64 bytes in base58.
pub(crate) const SIGNATURE: TextFormat = TextFormat {
    expected: "a signature: base58 of 64 bytes",
    plural: "signatures",
    pattern: "^[1-9A-HJ-NP-Za-km-z]{64,88}$",
    placeholder: "64 bytes in base58",
    is_valid: |text| text.parse::<Signature>().is_ok(),
};

/// A list of filters, as for getProgramAccounts.
pub(crate) const FILTERS: JsonFormat = JsonFormat { check: check_filters, schema: filters_schema };

/// Filters of a list, as for getProgramAccounts, and all values within them.
const FILTERS_MAX: usize = 4;
const FILTER_VALUES_MAX: usize = 1_024;

/// Checks the number of filters, which is that of the method, and of values, so that parsing them is short.
fn check_filters(value: &Value) -> Result<(), String> {
    let expected = || format!("must be a list of up to {FILTERS_MAX} filters");
    let list = value.as_array().ok_or_else(expected)?;
    if list.len() > FILTERS_MAX {
        return Err(format!("{}, not of {}", expected(), list.len()));
    }
    let values: usize = list.iter().map(values_len).sum();
    if values > FILTER_VALUES_MAX {
        return Err(format!("has {values} values, the maximum is {FILTER_VALUES_MAX}"));
    }
    Ok(())
}

/// The number of values within one, itself included. serde_json bounds their depth.
fn values_len(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(values_len).sum(),
        Value::Object(members) => members.values().map(values_len).sum(),
        _ => 0,
    }
}

fn filters_schema() -> Value {
    let items = rest::schema::reference("AccountFilter", "A filter.");
    json!({ "type": "array", "maxItems": 4, "items": items })
}

/// The schemas of a filter: an object or a word.
pub(crate) mod filters {
    use rest::schema::{object, one_of, reference, string, string_enum, uint};
    use serde_json::{Value, json};

    pub(crate) fn filter() -> Value {
        one_of(
            "A filter of accounts by their data.",
            [
                reference("AccountFilterObject", "By the length or the bytes."),
                string_enum("Only token accounts.", &["tokenAccountState"]),
            ],
        )
    }

    pub(crate) fn object_filter() -> Value {
        one_of(
            "A filter by length or bytes.",
            [
                reference("DataSizeFilter", "By the length."),
                reference("MemcmpFilter", "By the bytes."),
            ],
        )
    }

    pub(crate) fn data_size() -> Value {
        let size = uint(64, "Bytes of the data.");
        close_schema(object("Accounts whose data has this length.", [("dataSize", size)]))
    }

    pub(crate) fn memcmp() -> Value {
        let bytes = object(
            "Bytes and their place.",
            [
                ("offset", uint(64, "The place of the first byte.")),
                ("bytes", string("The bytes.")),
                ("encoding?", string_enum("Their encoding.", &["base58", "base64"])),
            ],
        );
        close_schema(object("Accounts whose data has these bytes.", [("memcmp", bytes)]))
    }

    /// Forbids further members in a schema.
    fn close_schema(mut schema: Value) -> Value {
        schema["additionalProperties"] = json!(false);
        schema
    }
}
