//! Constructors of schemas: a type, its bounds and its description. An API describes its responses with them.
//!
//! Each returns a JSON Schema of the version that OpenAPI 3.1 uses (2020-12).

use serde_json::{Map, Value, json};

use crate::param::TextFormat;

/// An object with these members. A member with a name that ends in `?` may be missing.
pub fn object<const N: usize>(description: &str, members: [(&str, Value); N]) -> Value {
    let is_required = |(name, _): &&(&str, Value)| !name.ends_with('?');
    let required: Vec<&str> = members.iter().filter(is_required).map(|(name, _)| *name).collect();
    let properties: Map<String, Value> = members
        .iter()
        .map(|(name, schema)| (name.trim_end_matches('?').to_owned(), schema.clone()))
        .collect();
    json!({
        "type": "object", "description": description, "required": required, "properties": properties,
    })
}

/// Returns the schema of a list of any length.
pub fn array(description: &str, items: Value) -> Value {
    json!({ "type": "array", "description": description, "items": items })
}

/// A list of exactly these items.
pub fn tuple<const N: usize>(description: &str, items: [Value; N]) -> Value {
    json!({
        "type": "array", "description": description, "prefixItems": items.as_slice(), "minItems": N, "maxItems": N,
    })
}

/// Exactly one of these. Generators of clients make a type of each, so an object or a list among them must be a
/// [`reference()`]: inline it would have no name of its own. Objects differ by their required members, and are a
/// choice of their own next to values of other types.
pub fn one_of<const N: usize>(description: &str, schemas: [Value; N]) -> Value {
    json!({ "description": description, "oneOf": schemas.as_slice() })
}

/// Returns a schema that also allows null.
pub fn nullable(mut schema: Value) -> Value {
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    if let Some(kind) = schema.get("type").and_then(Value::as_str) {
        schema["type"] = json!([kind, "null"]);
        if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
            words.push(Value::Null);
        }
    } else {
        schema = json!({ "oneOf": [schema, { "type": "null" }] });
    }
    if let Some(description) = description {
        schema["description"] = description;
    }
    schema
}

/// A reference to a named schema, with its description at this point.
pub fn reference(name: &str, description: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}"), "description": description })
}

/// Returns the schema of any string.
pub fn string(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

/// Returns the schema of one of these strings.
pub fn string_enum(description: &str, values: &[&str]) -> Value {
    json!({ "type": "string", "description": description, "enum": values })
}

/// Returns the schema of a boolean.
pub fn boolean(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// Returns the schema of any JSON value.
pub fn any(description: &str) -> Value {
    json!({ "description": description })
}

/// A string in the format of a parameter.
pub fn text(format: &TextFormat, description: &str) -> Value {
    let mut schema = format.schema();
    schema["description"] = description.into();
    schema
}

/// Any number of bytes in base58.
pub fn base58(description: &str) -> Value {
    json!({ "type": "string", "description": description, "pattern": "^[1-9A-HJ-NP-Za-km-z]*$" })
}

/// An unsigned integer of up to `bits` bits. The format says its maximum: some generators refuse one of 64 bits.
pub fn uint(bits: u32, description: &str) -> Value {
    json!({
        "type": "integer", "format": format!("uint{bits}"), "description": description,
        "minimum": 0,
    })
}

/// Returns the schema of a signed 64-bit integer.
pub fn int64(description: &str) -> Value {
    json!({ "type": "integer", "format": "int64", "description": description })
}

/// Returns the schema of a floating-point number.
pub fn float(description: &str) -> Value {
    json!({ "type": "number", "format": "double", "description": description })
}

/// An integer as a string, since it may not fit into a number of JavaScript.
pub fn integer_string(description: &str) -> Value {
    json!({ "type": "string", "description": description, "pattern": "^[0-9]+$" })
}

/// Returns the schema of a time in Unix seconds.
pub fn unix_time(description: &str) -> Value {
    int64(&format!("{description} Unit: seconds since 1970."))
}
