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

use crate::error::Problem;
use crate::route::{Body, Kind, Most, Param, Place, Route};

/// How much of a wrong text is told back.
const TOLD_CHARS_MAX: usize = 96;

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
    pub(crate) fn of(node: &Node) -> Self {
        Self { accounts_max: node.config.multiple_accounts_max }
    }

    /// Addresses in a list, and the knob that says so, if one does.
    fn addresses(self, most: Most) -> (usize, &'static str) {
        match most {
            Most::Accounts => (self.accounts_max, " (rpc.multiple_accounts_max)"),
            Most::Fixed(max) => (max, ""),
        }
    }
}

/// The parameters of a request, by name; each is of its kind.
#[derive(Debug, Default)]
pub(crate) struct Args {
    given: Map<String, Value>,
    is_posted: bool,
}

impl Args {
    /// Reads everything that a request says.
    pub(crate) fn read(
        route: &Route,
        uri: &Uri,
        content_type: Option<&HeaderValue>,
        body: &[u8],
        limits: Limits,
    ) -> Result<Self, Problem> {
        let mut args = Self { is_posted: route.body != Body::None, ..Self::default() };
        for (name, text) in route.matches(uri.path()).unwrap_or_default() {
            args.take_text((route, limits), Place::Path, name, &decoded(text, false)?)?;
        }
        let query = uri.query().unwrap_or_default();
        let params = 1 + query.bytes().filter(|byte| *byte == b'&').count();
        if params > PARAMS_MAX {
            let message = format!("a query of {params} parameters, at most {PARAMS_MAX} are read");
            return Err(Problem::invalid(message));
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, text) = (decoded(name, true)?, decoded(text, true)?);
            args.take_text((route, limits), Place::Query, &name, &text)?;
        }
        args.read_body((route, limits), content_type, body)?;
        let missing =
            route.params.iter().find(|param| param.is_required && args.of(param.name).is_none());
        match missing {
            Some(param) => Err(Problem::invalid(format!("{} is missing", param.name))),
            None => Ok(args),
        }
    }

    /// What was given; `None` if nothing was.
    pub(crate) fn of(&self, name: &str) -> Option<&Value> {
        self.given.get(name)
    }

    /// The same as JSON, null if nothing was given.
    pub(crate) fn json(&self, name: &str) -> Value {
        self.of(name).cloned().unwrap_or(Value::Null)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.of(name)?.as_str()
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.of(name)?.as_u64()
    }

    /// Puts something in place of what was given.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.given.insert(name.to_owned(), value);
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
    ) -> Result<(), Problem> {
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match route.body {
            Body::None => return Ok(()),
            Body::JsonOrTransaction if media.eq_ignore_ascii_case("application/octet-stream") => {
                self.set("transaction", BASE64_STANDARD.encode(body).into());
                return Ok(());
            }
            Body::JsonOrTransaction if !media.eq_ignore_ascii_case("application/json") => {
                return Err(Problem::media_type("application/json or application/octet-stream"));
            }
            Body::Json if !media.eq_ignore_ascii_case("application/json") => {
                return Err(Problem::media_type("application/json"));
            }
            Body::Json | Body::JsonOrTransaction => {}
        }
        let read: Result<Map<String, Value>, _> = serde_json::from_slice(body);
        let read = read.map_err(|err| Problem::invalid(format!("the body: {err}")))?;
        for (name, value) in read {
            let param = param(route, Place::Body, &name)?;
            check(param, &value, limits)?;
            self.put(&name, value)?;
        }
        Ok(())
    }

    fn take_text(
        &mut self,
        (route, limits): (&Route, Limits),
        place: Place,
        name: &str,
        text: &str,
    ) -> Result<(), Problem> {
        let param = param(route, place, name)?;
        let value = match param.kind {
            Kind::Number(..) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse::<u64>().map_or(Value::Null, Value::from)
            }
            Kind::Number(..) => Value::Null,
            Kind::Bool => match text {
                "true" => true.into(),
                "false" => false.into(),
                _ => Value::Null,
            },
            Kind::Addresses(most) => {
                let count = 1 + text.bytes().filter(|byte| *byte == b',').count();
                check_count(name, count, limits.addresses(most))?;
                text.split(',').collect()
            }
            _ => text.into(),
        };
        check(param, &value, limits)?;
        self.put(name, value)
    }

    fn put(&mut self, name: &str, value: Value) -> Result<(), Problem> {
        match self.given.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(Problem::invalid(format!("{name} is given twice"))),
        }
    }
}

fn param(route: &Route, place: Place, name: &str) -> Result<&'static Param, Problem> {
    let mut of_place = route.params.iter().filter(|param| param.place == place);
    of_place.find(|param| param.name == name).ok_or_else(|| {
        let known: Vec<_> = route.params.iter().map(|param| param.name).collect();
        Problem::invalid(format!("no parameter {name:?} here; there are: {}", known.join(", ")))
    })
}

/// Whether a value is of its kind, as far as the method does not look by itself.
fn check(param: &Param, value: &Value, limits: Limits) -> Result<(), Problem> {
    let Param { name, kind, .. } = param;
    let (is_good, wanted) = match *kind {
        Kind::Address => return check_key(name, value, ADDRESS),
        Kind::Signature => return check_key(name, value, SIGNATURE),
        Kind::Addresses(most) => return check_addresses(name, value, limits.addresses(most)),
        Kind::Base64 => (value.is_string(), "bytes in base64".to_owned()),
        Kind::Base58(max) => (
            value.as_str().is_some_and(|text| (1..=max).contains(&text.len())),
            format!("1 to {max} characters of base58"),
        ),
        Kind::Number(min, max) => (
            value.as_u64().is_some_and(|number| (min..=max).contains(&number)),
            format!("a whole number from {min} to {max}"),
        ),
        Kind::Bool => (value.is_boolean(), "true or false".to_owned()),
        Kind::OneOf(words) => (
            value.as_str().is_some_and(|text| words.contains(&text)),
            format!("one of {}", words.join(", ")),
        ),
        Kind::Filters => return check_filters(name, value),
    };
    if is_good { Ok(()) } else { Err(Problem::invalid(format!("{name} is to be {wanted}"))) }
}

/// What a text in base58 is to be, and whether it is.
type Key = (&'static str, fn(&str) -> bool);

const ADDRESS: Key = ("an address: base58 of 32 bytes", |text| text.parse::<Pubkey>().is_ok());
const SIGNATURE: Key =
    ("a signature: base58 of 64 bytes", |text| text.parse::<Signature>().is_ok());

/// Whether a value is such a key. The name says which of a list it is, from 0.
fn check_key(name: &str, value: &Value, (wanted, is_one): Key) -> Result<(), Problem> {
    let given = match value.as_str() {
        Some(text) if is_one(text) => return Ok(()),
        Some(text) => match text.char_indices().nth(TOLD_CHARS_MAX) {
            Some((at, _)) => format!("{:?}… of {} bytes", &text[..at], text.len()),
            None => format!("{text:?}"),
        },
        None => "something that is no text".to_owned(),
    };
    Err(Problem::invalid(format!("{name} is to be {wanted}, not {given}")))
}

/// As many as the method takes, so that what becomes of them is short.
fn check_filters(name: &str, value: &Value) -> Result<(), Problem> {
    let wanted = || format!("{name} is to be a list of at most {FILTERS_MAX} filters");
    let list = value.as_array().ok_or_else(|| Problem::invalid(wanted()))?;
    if list.len() > FILTERS_MAX {
        return Err(Problem::invalid(format!("{}, not of {}", wanted(), list.len())));
    }
    let values: usize = list.iter().map(values_len).sum();
    if values > FILTER_VALUES_MAX {
        let message =
            format!("{name} has {values} values, at most {FILTER_VALUES_MAX} may it have");
        return Err(Problem::invalid(message));
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

fn addresses_wanted(name: &str, (max, knob): (usize, &str)) -> String {
    format!("{name} is to be a list of 1 to {max} addresses{knob}")
}

fn check_count(name: &str, count: usize, limit: (usize, &str)) -> Result<(), Problem> {
    if (1..=limit.0).contains(&count) {
        return Ok(());
    }
    Err(Problem::invalid(format!("{}, not of {count}", addresses_wanted(name, limit))))
}

fn check_addresses(name: &str, value: &Value, limit: (usize, &str)) -> Result<(), Problem> {
    let Some(list) = value.as_array() else {
        return Err(Problem::invalid(addresses_wanted(name, limit)));
    };
    check_count(name, list.len(), limit)?;
    let mut all = list.iter().enumerate();
    all.try_for_each(|(nth, one)| check_key(&format!("{name}[{nth}]"), one, ADDRESS))
}

/// A kind as JSON Schema tells it.
pub(crate) fn schema(kind: Kind, limits: Limits) -> Value {
    let base58 = |min: usize, max: usize| format!("^[1-9A-HJ-NP-Za-km-z]{{{min},{max}}}$");
    let address = || json!({ "type": "string", "pattern": base58(32, 44) });
    match kind {
        Kind::Address => address(),
        Kind::Addresses(most) => json!({
            "type": "array", "items": address(), "minItems": 1,
            "maxItems": limits.addresses(most).0,
        }),
        Kind::Signature => json!({ "type": "string", "pattern": base58(64, 88) }),
        Kind::Number(min, max) => {
            json!({ "type": "integer", "format": "uint64", "minimum": min, "maximum": max })
        }
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::OneOf(words) => json!({ "type": "string", "enum": words }),
        Kind::Base58(max) => json!({ "type": "string", "pattern": base58(1, max) }),
        Kind::Base64 => json!({ "type": "string", "contentEncoding": "base64" }),
        Kind::Filters => json!({
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
fn decoded(text: &str, plus_is_space: bool) -> Result<String, Problem> {
    let wrong = || Problem::invalid("the URI has percent signs that are no UTF-8");
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
        let read = |text: &str| decoded(text, true).ok();
        assert_eq!(read("a%20b+c%C3%A4").as_deref(), Some("a b cä"));
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(decoded("a+b", false).ok().as_deref(), Some("a+b"));
    }
}
