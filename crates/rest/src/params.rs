//! From a request to the parameters of its route. Each is checked, and unknown ones are refused.
//!
//! Bounds: those of `rpc_solana::Config` for the URI and the body. The parameters of a query (up to [`PARAMS_MAX`]) and
//! the addresses of a list are counted before they are parsed.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use rpc_solana::SolanaServer;
use serde_json::{Map, Value, json};
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::error::ApiError;
use crate::route::{MaxItems, Param, ParamLocation, ParamType, RequestBody, Route};

/// Characters of an invalid value that an error message quotes.
const ERROR_VALUE_CHARS_MAX: usize = 96;

/// Parameters of a query, which is more than any route has.
const PARAMS_MAX: usize = 32;

/// Filters of a list, as for getProgramAccounts, and all values within them.
const FILTERS_MAX: usize = 4;
const FILTER_VALUES_MAX: usize = 1_024;

/// Limits from the node's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Addresses in one list of accounts: `rpc.multiple_accounts_max`.
    pub(crate) accounts_max: usize,
}

/// The parameters of a route, within the limits of this node.
#[derive(Clone, Copy)]
struct ParamRules<'a> {
    route: &'a Route,
    limits: Limits,
}

/// The maximum number of addresses in a list.
#[derive(Clone, Copy)]
struct AddressLimit {
    max: usize,
    /// The setting that defines it, as text for an error; empty if there is none.
    setting: &'static str,
}

impl Limits {
    /// The limits of a node.
    pub(crate) fn from_node(server: &SolanaServer) -> Self {
        Self { accounts_max: server.api.config.multiple_accounts_max }
    }

    /// The limit of a list of addresses.
    fn addresses_max(self, max: MaxItems) -> AddressLimit {
        match max {
            MaxItems::Accounts => {
                AddressLimit { max: self.accounts_max, setting: " (rpc.multiple_accounts_max)" }
            }
            MaxItems::Fixed(max) => AddressLimit { max, setting: "" },
        }
    }
}

/// The parameters of a request by name. Each value has the type of its parameter.
#[derive(Debug, Default)]
pub(crate) struct Params {
    values: Map<String, Value>,
    is_posted: bool,
}

impl Params {
    /// Parses the path, the query and the body of a request.
    pub(crate) fn parse(
        route: &Route,
        uri: &Uri,
        content_type: Option<&HeaderValue>,
        body: &[u8],
        limits: Limits,
    ) -> Result<Self, ApiError> {
        let mut params = Self { is_posted: route.body != RequestBody::None, ..Self::default() };
        let rules = ParamRules { route, limits };
        for (name, text) in route.matches(uri.path()).unwrap_or_default() {
            params.insert_text(rules, ParamLocation::Path, name, &percent_decode(text, false)?)?;
        }
        let query = uri.query().unwrap_or_default();
        let pairs = 1 + query.bytes().filter(|byte| *byte == b'&').count();
        if pairs > PARAMS_MAX {
            let message = format!("the query has {pairs} parameters, the maximum is {PARAMS_MAX}");
            return Err(ApiError::invalid(message));
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, text) = (percent_decode(name, true)?, percent_decode(text, true)?);
            params.insert_text(rules, ParamLocation::Query, &name, &text)?;
        }
        params.read_body(rules, content_type, body)?;
        let missing =
            route.params.iter().find(|param| param.is_required && params.get(param.name).is_none());
        match missing {
            Some(param) => Err(ApiError::invalid(format!("{} is missing", param.name))),
            None => Ok(params),
        }
    }

    /// The value of a parameter, if the request has it.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// The value of a parameter, or null.
    pub(crate) fn json(&self, name: &str) -> Value {
        self.get(name).cloned().unwrap_or(Value::Null)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// Sets or replaces the value of a parameter.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    /// Whether the route has a body.
    pub(crate) fn is_posted(&self) -> bool {
        self.is_posted
    }

    fn read_body(
        &mut self,
        rules: ParamRules<'_>,
        content_type: Option<&HeaderValue>,
        body: &[u8],
    ) -> Result<(), ApiError> {
        let ParamRules { route, limits } = rules;
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match route.body {
            RequestBody::None => return Ok(()),
            RequestBody::JsonOrTransaction
                if media.eq_ignore_ascii_case("application/octet-stream") =>
            {
                self.set("transaction", BASE64_STANDARD.encode(body).into());
                return Ok(());
            }
            RequestBody::JsonOrTransaction if !media.eq_ignore_ascii_case("application/json") => {
                return Err(ApiError::unsupported_media_type(
                    "application/json or application/octet-stream",
                ));
            }
            RequestBody::Json if !media.eq_ignore_ascii_case("application/json") => {
                return Err(ApiError::unsupported_media_type("application/json"));
            }
            RequestBody::Json | RequestBody::JsonOrTransaction => {}
        }
        let members: Result<Map<String, Value>, _> = serde_json::from_slice(body);
        let members = members.map_err(|err| ApiError::invalid(format!("invalid body: {err}")))?;
        for (name, value) in members {
            let param = find_param(route, ParamLocation::Body, &name)?;
            check_type(param, &value, limits)?;
            self.insert(&name, value)?;
        }
        Ok(())
    }

    fn insert_text(
        &mut self,
        rules: ParamRules<'_>,
        location: ParamLocation,
        name: &str,
        text: &str,
    ) -> Result<(), ApiError> {
        let ParamRules { route, limits } = rules;
        let param = find_param(route, location, name)?;
        let value = match param.kind {
            ParamType::Number(..) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse::<u64>().map_or(Value::Null, Value::from)
            }
            ParamType::Number(..) => Value::Null,
            ParamType::Bool => match text {
                "true" => true.into(),
                "false" => false.into(),
                _ => Value::Null,
            },
            ParamType::Addresses(max) => {
                let count = 1 + text.bytes().filter(|byte| *byte == b',').count();
                check_count(name, count, limits.addresses_max(max))?;
                text.split(',').collect()
            }
            _ => text.into(),
        };
        check_type(param, &value, limits)?;
        self.insert(name, value)
    }

    fn insert(&mut self, name: &str, value: Value) -> Result<(), ApiError> {
        match self.values.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(ApiError::invalid(format!("{name} occurs twice"))),
        }
    }
}

fn find_param(
    route: &Route,
    location: ParamLocation,
    name: &str,
) -> Result<&'static Param, ApiError> {
    let mut candidates = route.params.iter().filter(|param| param.location == location);
    candidates.find(|param| param.name == name).ok_or_else(|| {
        let known: Vec<_> = route.params.iter().map(|param| param.name).collect();
        let known = known.join(", ");
        ApiError::invalid(format!("unknown parameter {name:?}; the route has: {known}"))
    })
}

/// Checks the type of a value, except for what the method checks.
fn check_type(param: &Param, value: &Value, limits: Limits) -> Result<(), ApiError> {
    let Param { name, kind, .. } = param;
    let (is_valid, expected) = match *kind {
        ParamType::Address => return check_key(name, value, ADDRESS),
        ParamType::Signature => return check_key(name, value, SIGNATURE),
        ParamType::Addresses(max) => {
            return check_addresses(name, value, limits.addresses_max(max));
        }
        ParamType::Base64 => (value.is_string(), "bytes in base64".to_owned()),
        ParamType::Base58(max) => (
            value.as_str().is_some_and(|text| (1..=max).contains(&text.len())),
            format!("1 to {max} characters of base58"),
        ),
        ParamType::Number(min, max) => (
            value.as_u64().is_some_and(|number| (min..=max).contains(&number)),
            format!("an integer from {min} to {max}"),
        ),
        ParamType::Bool => (value.is_boolean(), "true or false".to_owned()),
        ParamType::OneOf(words) => (
            value.as_str().is_some_and(|text| words.contains(&text)),
            format!("one of {}", words.join(", ")),
        ),
        ParamType::Filters => return check_filters(name, value),
    };
    if is_valid { Ok(()) } else { Err(ApiError::invalid(format!("{name} must be {expected}"))) }
}

/// The expected form of a base58 string, and its check.
type Key = (&'static str, fn(&str) -> bool);

const ADDRESS: Key = ("an address: base58 of 32 bytes", |text| text.parse::<Pubkey>().is_ok());
const SIGNATURE: Key =
    ("a signature: base58 of 64 bytes", |text| text.parse::<Signature>().is_ok());

/// Checks that a value is such a key. In a list, `name` includes the index, from 0.
fn check_key(name: &str, value: &Value, (expected, is_valid): Key) -> Result<(), ApiError> {
    let actual = match value.as_str() {
        Some(text) if is_valid(text) => return Ok(()),
        Some(text) => match text.char_indices().nth(ERROR_VALUE_CHARS_MAX) {
            Some((end, _)) => format!("{:?}… of {} bytes", &text[..end], text.len()),
            None => format!("{text:?}"),
        },
        None => "a value that is not a string".to_owned(),
    };
    Err(ApiError::invalid(format!("{name} must be {expected}, not {actual}")))
}

/// Checks the number of filters, which is that of the method, and of values, so that parsing them is short.
fn check_filters(name: &str, value: &Value) -> Result<(), ApiError> {
    let expected = || format!("{name} must be a list of up to {FILTERS_MAX} filters");
    let list = value.as_array().ok_or_else(|| ApiError::invalid(expected()))?;
    if list.len() > FILTERS_MAX {
        return Err(ApiError::invalid(format!("{}, not of {}", expected(), list.len())));
    }
    let values: usize = list.iter().map(values_len).sum();
    if values > FILTER_VALUES_MAX {
        let message = format!("{name} has {values} values, the maximum is {FILTER_VALUES_MAX}");
        return Err(ApiError::invalid(message));
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

fn expected_addresses(name: &str, limit: AddressLimit) -> String {
    let AddressLimit { max, setting } = limit;
    format!("{name} must be a list of 1 to {max} addresses{setting}")
}

fn check_count(name: &str, count: usize, limit: AddressLimit) -> Result<(), ApiError> {
    if (1..=limit.max).contains(&count) {
        return Ok(());
    }
    Err(ApiError::invalid(format!("{}, not of {count}", expected_addresses(name, limit))))
}

fn check_addresses(name: &str, value: &Value, limit: AddressLimit) -> Result<(), ApiError> {
    let Some(list) = value.as_array() else {
        return Err(ApiError::invalid(expected_addresses(name, limit)));
    };
    check_count(name, list.len(), limit)?;
    let mut addresses = list.iter().enumerate();
    addresses.try_for_each(|(index, value)| check_key(&format!("{name}[{index}]"), value, ADDRESS))
}

/// The JSON Schema of a type.
pub(crate) fn schema(kind: ParamType, limits: Limits) -> Value {
    let base58 = |min: usize, max: usize| format!("^[1-9A-HJ-NP-Za-km-z]{{{min},{max}}}$");
    let address = || json!({ "type": "string", "pattern": base58(32, 44) });
    match kind {
        ParamType::Address => address(),
        ParamType::Addresses(max) => json!({
            "type": "array", "items": address(), "minItems": 1,
            "maxItems": limits.addresses_max(max).max,
        }),
        ParamType::Signature => json!({ "type": "string", "pattern": base58(64, 88) }),
        ParamType::Number(min, max) => {
            json!({ "type": "integer", "format": "uint64", "minimum": min, "maximum": max })
        }
        ParamType::Bool => json!({ "type": "boolean" }),
        ParamType::OneOf(words) => json!({ "type": "string", "enum": words }),
        ParamType::Base58(max) => json!({ "type": "string", "pattern": base58(1, max) }),
        ParamType::Base64 => json!({ "type": "string", "contentEncoding": "base64" }),
        ParamType::Filters => json!({
            "type": "array",
            "maxItems": 4,
            "items": { "anyOf": [
                { "type": "object", "required": ["dataSize"], "additionalProperties": false,
                  "properties": { "dataSize": { "type": "integer", "minimum": 0 } } },
                { "type": "object", "required": ["memcmp"], "additionalProperties": false,
                  "properties": { "memcmp": {
                    "type": "object", "required": ["offset", "bytes"],
                    "properties": {
                        "offset": { "type": "integer", "minimum": 0 },
                        "bytes": { "type": "string" },
                        "encoding": { "enum": ["base58", "base64"] },
                    } } } },
                { "const": "tokenAccountState" },
            ] },
        }),
    }
}

/// A percent-decoded part of a URI.
fn percent_decode(text: &str, plus_is_space: bool) -> Result<String, ApiError> {
    let invalid = || ApiError::invalid("the URI has invalid percent-encoding");
    let mut bytes = Vec::with_capacity(text.len());
    let mut input = text.bytes();
    while let Some(byte) = input.next() {
        bytes.push(match byte {
            b'+' if plus_is_space => b' ',
            b'%' => {
                let mut digit = || (input.next()? as char).to_digit(16);
                let (high, low) = digit().zip(digit()).ok_or_else(invalid)?;
                (high * 16 + low) as u8 // two digits of 16
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_decoded_or_refused() {
        let decode = |text: &str| percent_decode(text, true).ok();
        assert_eq!(decode("a%20b+c%C3%A4").as_deref(), Some("a b cä"));
        for invalid in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decode(invalid), None, "{invalid}");
        }
        assert_eq!(percent_decode("a+b", false).ok().as_deref(), Some("a+b"));
    }
}
