//! From a request to the parameters of its route: each checked, nothing that is not known let through.
//!
//! Bounds: those of `rpc::Config` for the URI and the body. [`PARAMS_MAX`] parameters of a query, and the addresses
//! of a list, are counted before they are taken apart.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use rpc::Node;
use serde_json::{Map, Value, json};
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::error::ApiError;
use crate::route::{MaxItems, Param, ParamLocation, ParamType, RequestBody, Route};

/// How much of a wrong text is told back.
const ERROR_VALUE_CHARS_MAX: usize = 96;

/// Parameters of a query: more than any route has.
const PARAMS_MAX: usize = 32;

/// Filters of a list, as getProgramAccounts has it, and all values within them.
const FILTERS_MAX: usize = 4;
const FILTER_VALUES_MAX: usize = 1_024;

/// What a node allows: how much may be given is said by its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Addresses in one list of accounts: `rpc.multiple_accounts_max`.
    pub(crate) accounts_max: usize,
}

impl Limits {
    /// Those of a node.
    pub(crate) fn from_node(node: &Node) -> Self {
        Self { accounts_max: node.config.multiple_accounts_max }
    }

    /// Addresses in a list, and the knob that says so, if one does.
    fn addresses_max(self, most: MaxItems) -> (usize, &'static str) {
        match most {
            MaxItems::Accounts => (self.accounts_max, " (rpc.multiple_accounts_max)"),
            MaxItems::Fixed(max) => (max, ""),
        }
    }
}

/// The parameters of a request, by name; each is of its kind.
#[derive(Debug, Default)]
pub(crate) struct Params {
    values: Map<String, Value>,
    is_posted: bool,
}

impl Params {
    /// Reads everything that a request says.
    pub(crate) fn parse(
        route: &Route,
        uri: &Uri,
        content_type: Option<&HeaderValue>,
        body: &[u8],
        limits: Limits,
    ) -> Result<Self, ApiError> {
        let mut args = Self { is_posted: route.body != RequestBody::None, ..Self::default() };
        for (name, text) in route.matches(uri.path()).unwrap_or_default() {
            args.insert_text(
                (route, limits),
                ParamLocation::Path,
                name,
                &percent_decode(text, false)?,
            )?;
        }
        let query = uri.query().unwrap_or_default();
        let params = 1 + query.bytes().filter(|byte| *byte == b'&').count();
        if params > PARAMS_MAX {
            let message = format!("a query of {params} parameters, at most {PARAMS_MAX} are read");
            return Err(ApiError::invalid(message));
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, text) = (percent_decode(name, true)?, percent_decode(text, true)?);
            args.insert_text((route, limits), ParamLocation::Query, &name, &text)?;
        }
        args.read_body((route, limits), content_type, body)?;
        let missing =
            route.params.iter().find(|param| param.is_required && args.get(param.name).is_none());
        match missing {
            Some(param) => Err(ApiError::invalid(format!("{} is missing", param.name))),
            None => Ok(args),
        }
    }

    /// What was given; `None` if nothing was.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// The same as JSON, null if nothing was given.
    pub(crate) fn json(&self, name: &str) -> Value {
        self.get(name).cloned().unwrap_or(Value::Null)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// Puts something in place of what was given.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    /// Whether some of them came in a body.
    pub(crate) fn is_posted(&self) -> bool {
        self.is_posted
    }

    fn read_body(
        &mut self,
        (route, limits): (&Route, Limits),
        content_type: Option<&HeaderValue>,
        body: &[u8],
    ) -> Result<(), ApiError> {
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
        let read: Result<Map<String, Value>, _> = serde_json::from_slice(body);
        let read = read.map_err(|err| ApiError::invalid(format!("the body: {err}")))?;
        for (name, value) in read {
            let param = find_param(route, ParamLocation::Body, &name)?;
            check_type(param, &value, limits)?;
            self.insert(&name, value)?;
        }
        Ok(())
    }

    fn insert_text(
        &mut self,
        (route, limits): (&Route, Limits),
        place: ParamLocation,
        name: &str,
        text: &str,
    ) -> Result<(), ApiError> {
        let param = find_param(route, place, name)?;
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
            ParamType::Addresses(most) => {
                let count = 1 + text.bytes().filter(|byte| *byte == b',').count();
                check_count(name, count, limits.addresses_max(most))?;
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
            Some(_) => Err(ApiError::invalid(format!("{name} is given twice"))),
        }
    }
}

fn find_param(route: &Route, place: ParamLocation, name: &str) -> Result<&'static Param, ApiError> {
    let mut of_place = route.params.iter().filter(|param| param.location == place);
    of_place.find(|param| param.name == name).ok_or_else(|| {
        let known: Vec<_> = route.params.iter().map(|param| param.name).collect();
        ApiError::invalid(format!("no parameter {name:?} here; there are: {}", known.join(", ")))
    })
}

/// Whether a value is of its kind, as far as the method does not look by itself.
fn check_type(param: &Param, value: &Value, limits: Limits) -> Result<(), ApiError> {
    let Param { name, kind, .. } = param;
    let (is_good, wanted) = match *kind {
        ParamType::Address => return check_key(name, value, ADDRESS),
        ParamType::Signature => return check_key(name, value, SIGNATURE),
        ParamType::Addresses(most) => {
            return check_addresses(name, value, limits.addresses_max(most));
        }
        ParamType::Base64 => (value.is_string(), "bytes in base64".to_owned()),
        ParamType::Base58(max) => (
            value.as_str().is_some_and(|text| (1..=max).contains(&text.len())),
            format!("1 to {max} characters of base58"),
        ),
        ParamType::Number(min, max) => (
            value.as_u64().is_some_and(|number| (min..=max).contains(&number)),
            format!("a whole number from {min} to {max}"),
        ),
        ParamType::Bool => (value.is_boolean(), "true or false".to_owned()),
        ParamType::OneOf(words) => (
            value.as_str().is_some_and(|text| words.contains(&text)),
            format!("one of {}", words.join(", ")),
        ),
        ParamType::Filters => return check_filters(name, value),
    };
    if is_good { Ok(()) } else { Err(ApiError::invalid(format!("{name} is to be {wanted}"))) }
}

/// What a text in base58 is to be, and whether it is.
type Key = (&'static str, fn(&str) -> bool);

const ADDRESS: Key = ("an address: base58 of 32 bytes", |text| text.parse::<Pubkey>().is_ok());
const SIGNATURE: Key =
    ("a signature: base58 of 64 bytes", |text| text.parse::<Signature>().is_ok());

/// Whether a value is such a key. The name says which of a list it is, from 0.
fn check_key(name: &str, value: &Value, (wanted, is_one): Key) -> Result<(), ApiError> {
    let given = match value.as_str() {
        Some(text) if is_one(text) => return Ok(()),
        Some(text) => match text.char_indices().nth(ERROR_VALUE_CHARS_MAX) {
            Some((at, _)) => format!("{:?}… of {} bytes", &text[..at], text.len()),
            None => format!("{text:?}"),
        },
        None => "something that is no text".to_owned(),
    };
    Err(ApiError::invalid(format!("{name} is to be {wanted}, not {given}")))
}

/// As many as the method takes, so that what becomes of them is short.
fn check_filters(name: &str, value: &Value) -> Result<(), ApiError> {
    let wanted = || format!("{name} is to be a list of at most {FILTERS_MAX} filters");
    let list = value.as_array().ok_or_else(|| ApiError::invalid(wanted()))?;
    if list.len() > FILTERS_MAX {
        return Err(ApiError::invalid(format!("{}, not of {}", wanted(), list.len())));
    }
    let values: usize = list.iter().map(values_len).sum();
    if values > FILTER_VALUES_MAX {
        let message =
            format!("{name} has {values} values, at most {FILTER_VALUES_MAX} may it have");
        return Err(ApiError::invalid(message));
    }
    Ok(())
}

/// How many values there are in one, itself included. serde_json bounds how deep they are.
fn values_len(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(values_len).sum(),
        Value::Object(members) => members.values().map(values_len).sum(),
        _ => 0,
    }
}

fn expected_addresses(name: &str, (max, knob): (usize, &str)) -> String {
    format!("{name} is to be a list of 1 to {max} addresses{knob}")
}

fn check_count(name: &str, count: usize, limit: (usize, &str)) -> Result<(), ApiError> {
    if (1..=limit.0).contains(&count) {
        return Ok(());
    }
    Err(ApiError::invalid(format!("{}, not of {count}", expected_addresses(name, limit))))
}

fn check_addresses(name: &str, value: &Value, limit: (usize, &str)) -> Result<(), ApiError> {
    let Some(list) = value.as_array() else {
        return Err(ApiError::invalid(expected_addresses(name, limit)));
    };
    check_count(name, list.len(), limit)?;
    let mut all = list.iter().enumerate();
    all.try_for_each(|(nth, one)| check_key(&format!("{name}[{nth}]"), one, ADDRESS))
}

/// A kind as JSON Schema tells it.
pub(crate) fn schema(kind: ParamType, limits: Limits) -> Value {
    let base58 = |min: usize, max: usize| format!("^[1-9A-HJ-NP-Za-km-z]{{{min},{max}}}$");
    let address = || json!({ "type": "string", "pattern": base58(32, 44) });
    match kind {
        ParamType::Address => address(),
        ParamType::Addresses(most) => json!({
            "type": "array", "items": address(), "minItems": 1,
            "maxItems": limits.addresses_max(most).0,
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

/// A part of a URI as text.
fn percent_decode(text: &str, plus_is_space: bool) -> Result<String, ApiError> {
    let wrong = || ApiError::invalid("the URI has percent signs that are no UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut given = text.bytes();
    while let Some(byte) = given.next() {
        bytes.push(match byte {
            b'+' if plus_is_space => b' ',
            b'%' => {
                let mut digit = || (given.next()? as char).to_digit(16);
                let (high, low) = digit().zip(digit()).ok_or_else(wrong)?;
                (high * 16 + low) as u8 // two digits of 16
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_decoded_or_refused() {
        let read = |text: &str| percent_decode(text, true).ok();
        assert_eq!(read("a%20b+c%C3%A4").as_deref(), Some("a b cä"));
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(percent_decode("a+b", false).ok().as_deref(), Some("a+b"));
    }
}
