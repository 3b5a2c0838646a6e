//! The words that schemas are written with: a type, its bounds, and what it means.
//!
//! Each gives a JSON Schema as OpenAPI 3.1 has it (2020-12).

use serde_json::{Map, Value, json};

use crate::params::{self, Limits};
use crate::route::ParamType;

/// An object of these members. One whose name ends in `?` may be missing.
pub(super) fn object<const N: usize>(told: &str, members: [(&str, Value); N]) -> Value {
    let is_needed = |(name, _): &&(&str, Value)| !name.ends_with('?');
    let required: Vec<&str> = members.iter().filter(is_needed).map(|(name, _)| *name).collect();
    let properties: Map<String, Value> = members
        .iter()
        .map(|(name, schema)| (name.trim_end_matches('?').to_owned(), schema.clone()))
        .collect();
    json!({
        "type": "object", "description": told, "required": required, "properties": properties,
    })
}

/// A list, however long.
pub(super) fn array(told: &str, items: Value) -> Value {
    json!({ "type": "array", "description": told, "items": items })
}

/// A list of exactly those.
pub(super) fn tuple<const N: usize>(told: &str, items: [Value; N]) -> Value {
    json!({
        "type": "array", "description": told, "prefixItems": items.as_slice(), "minItems": N, "maxItems": N,
    })
}

/// One of these.
pub(super) fn any_of<const N: usize>(told: &str, of: [Value; N]) -> Value {
    json!({ "description": told, "anyOf": of.as_slice() })
}

/// The same, or null.
pub(super) fn nullable(mut schema: Value) -> Value {
    let told = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    if let Some(kind) = schema.get("type").and_then(Value::as_str) {
        schema["type"] = json!([kind, "null"]);
        if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
            words.push(Value::Null);
        }
    } else {
        schema = json!({ "anyOf": [schema, { "type": "null" }] });
    }
    if let Some(told) = told {
        schema["description"] = told;
    }
    schema
}

/// What has a name of its own, and what it is here.
pub(super) fn reference(name: &str, told: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}"), "description": told })
}

/// Any text.
pub(super) fn string(told: &str) -> Value {
    json!({ "type": "string", "description": told })
}

/// One of these words.
pub(super) fn string_enum(told: &str, of: &[&str]) -> Value {
    json!({ "type": "string", "description": told, "enum": of })
}

/// True or false.
pub(super) fn boolean(told: &str) -> Value {
    json!({ "type": "boolean", "description": told })
}

/// Whatever it may be.
pub(super) fn any(told: &str) -> Value {
    json!({ "description": told })
}

/// 32 bytes in base58: an address, or a hash.
pub(super) fn key(told: &str) -> Value {
    param_schema(ParamType::Address, told)
}

/// 64 bytes in base58.
pub(super) fn signature(told: &str) -> Value {
    param_schema(ParamType::Signature, told)
}

fn param_schema(kind: ParamType, told: &str) -> Value {
    // Neither depends on what a node allows.
    let mut schema = params::schema(kind, Limits { accounts_max: 0 });
    schema["description"] = told.into();
    schema
}

/// Bytes in base58, however many.
pub(super) fn base58(told: &str) -> Value {
    json!({ "type": "string", "description": told, "pattern": "^[1-9A-HJ-NP-Za-km-z]*$" })
}

/// A whole number of up to so many bits, from 0 on.
pub(super) fn uint(bits: u32, told: &str) -> Value {
    let max = u64::MAX >> (64 - bits);
    json!({
        "type": "integer", "format": format!("uint{bits}"), "description": told,
        "minimum": 0, "maximum": max,
    })
}

/// A whole number, below 0 too.
pub(super) fn int64(told: &str) -> Value {
    json!({ "type": "integer", "format": "int64", "description": told })
}

/// A number with a fraction.
pub(super) fn float(told: &str) -> Value {
    json!({ "type": "number", "format": "double", "description": told })
}

/// A whole number as text, for what JavaScript's numbers cannot hold.
pub(super) fn integer_string(told: &str) -> Value {
    json!({ "type": "string", "description": told, "pattern": "^[0-9]+$" })
}

pub(super) fn lamports(told: &str) -> Value {
    uint(64, &format!("{told} Lamports: 10^9 are one SOL."))
}

pub(super) fn slot(told: &str) -> Value {
    uint(64, told)
}

pub(super) fn unix_time(told: &str) -> Value {
    int64(&format!("{told} Seconds since 1970."))
}
