//! From a request to the parameters of its route. Each is checked, and unknown ones are refused.
//!
//! Bounds: those of `http_server` for the URI and the body. The parameters of a query (up to [`PARAMS_MAX`]) and the
//! items of a list are counted before they are parsed.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::param::{ERROR_VALUE_CHARS_MAX, Limits, Param, ParamLocation, ParamType};
use crate::params::Params;
use crate::route::{RequestBody, Route};

/// Parameters of a query, which is more than any route has.
const PARAMS_MAX: usize = 32;

/// The parameters of a route, within the limits of this node.
#[derive(Clone, Copy)]
struct ParamRules<'a> {
    route: &'a Route,
    limits: Limits,
}

impl Params {
    /// Parses the path, the query and the body of a request to a route.
    pub fn parse(
        route: &Route,
        uri: &Uri,
        content_type: Option<&HeaderValue>,
        body: &[u8],
        limits: Limits,
    ) -> Result<Self, ApiError> {
        let mut params = Self::new(route.body != RequestBody::None);
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
            let name = percent_decode(name, true)?;
            let text = percent_decode(text, true)?;
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
            RequestBody::JsonOrRaw(name)
                if media.eq_ignore_ascii_case("application/octet-stream") =>
            {
                self.insert(name, BASE64_STANDARD.encode(body).into());
                return Ok(());
            }
            RequestBody::JsonOrRaw(_) if !media.eq_ignore_ascii_case("application/json") => {
                return Err(ApiError::unsupported_media_type(
                    "application/json or application/octet-stream",
                ));
            }
            RequestBody::Json if !media.eq_ignore_ascii_case("application/json") => {
                return Err(ApiError::unsupported_media_type("application/json"));
            }
            RequestBody::Json | RequestBody::JsonOrRaw(_) => {}
        }
        let members: Result<Map<String, Value>, _> = serde_json::from_slice(body);
        let members = members.map_err(|err| ApiError::invalid(format!("invalid body: {err}")))?;
        for (name, value) in members {
            let param = find_param(route, ParamLocation::Body, &name)?;
            let checked = param.kind.check(&value, limits);
            checked.map_err(|err| refuse(param, &value.to_string(), &err))?;
            self.insert_once(param, value)?;
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
            ParamType::List(..) => {
                let count = 1 + text.bytes().filter(|byte| *byte == b',').count();
                let counted = param.kind.check_count(count, limits);
                counted.map_err(|err| refuse(param, text, &err))?;
                text.split(',').collect()
            }
            _ => text.into(),
        };
        let checked = param.kind.check(&value, limits);
        checked.map_err(|err| refuse(param, text, &err))?;
        self.insert_once(param, value)
    }

    fn insert_once(&mut self, param: &Param, value: Value) -> Result<(), ApiError> {
        let name = param.name;
        if self.insert(name, value) {
            return Ok(());
        }
        Err(ApiError::invalid(format!("{name} occurs twice")))
    }
}

/// The error of an invalid value. `err` continues the name of the parameter.
fn refuse(param: &Param, input: &str, err: &str) -> ApiError {
    let Param { name, location, .. } = *param;
    let end = input.char_indices().nth(ERROR_VALUE_CHARS_MAX).map_or(input.len(), |(end, _)| end);
    ApiError::invalid_param(location, name, input[..end].to_owned(), format!("{name}{err}"))
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
