//! The JSON shapes of errors: the shape of this interface, and that of services that clients of a chain know.

use serde_json::{Value, json};

use crate::error_codes::{ErrorCode, OTHER_NAMES, all_codes};
use crate::param::ParamLocation;

/// The JSON shape of an API's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorFormat {
    /// `{"error": {"code", "name", "message", "data"}}`.
    Coded,
    /// `{"detail": "…"}`, as FastAPI. For an invalid parameter it is a list with one entry: `loc`, `msg`, `type` and
    /// `input`.
    Detail,
}

/// The parts of an error that its JSON may have.
pub(crate) struct ErrorParts<'a> {
    pub(crate) code: i64,
    pub(crate) name: &'static str,
    pub(crate) message: &'a str,
    pub(crate) data: Option<Value>,
    pub(crate) param: Option<&'a InvalidParam>,
}

/// The parameter that is the reason of an error.
#[derive(Debug)]
pub(crate) struct InvalidParam {
    pub(crate) location: ParamLocation,
    pub(crate) name: &'static str,
    /// The value as the client sent it, in part if it is long.
    pub(crate) input: String,
}

impl ErrorFormat {
    /// Returns the body of an error.
    pub(crate) fn body(self, parts: ErrorParts<'_>) -> Value {
        let ErrorParts { code, name, message, data, param } = parts;
        match (self, param) {
            (Self::Coded, _) => {
                let mut error = json!({ "code": code, "name": name, "message": message });
                if let Some(data) = data {
                    error["data"] = data;
                }
                json!({ "error": error })
            }
            (Self::Detail, None) => json!({ "detail": message }),
            (Self::Detail, Some(param)) => json!({ "detail": [{
                "loc": [location_name(param.location), param.name],
                "msg": message,
                "type": "value_error",
                "input": param.input,
            }] }),
        }
    }

    /// The schema of an error of an API with these codes.
    pub(crate) fn schema(self, codes: &[ErrorCode]) -> Value {
        match self {
            Self::Coded => coded_schema(codes),
            Self::Detail => detail_schema(),
        }
    }
}

fn location_name(location: ParamLocation) -> &'static str {
    match location {
        ParamLocation::Path => "path",
        ParamLocation::Query => "query",
        ParamLocation::Body => "body",
    }
}

fn coded_schema(codes: &[ErrorCode]) -> Value {
    let mut names: Vec<&str> = all_codes(codes).map(|known| known.name).collect();
    names.extend(OTHER_NAMES);
    names.sort_unstable();
    names.dedup();
    json!({
        "type": "object",
        "description": "An error response.",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "description": "The error.",
            "required": ["code", "name", "message"],
            "properties": {
                "code": { "type": "integer", "format": "int64",
                    "description": "The code of JSON-RPC, or -32044 where JSON-RPC would return null." },
                "name": { "type": "string", "enum": names,
                    "description": "A stable name, for programs." },
                "message": { "type": "string", "description": "A message for people." },
                "data": { "description": "Details, in a shape that depends on the code. A 404 without \
                    details in JSON-RPC has `{\"slot\", \"commitment\"}`, at which the object does not exist." },
            },
        } },
    })
}

fn detail_schema() -> Value {
    json!({
        "type": "object",
        "description": "An error response.",
        "required": ["detail"],
        "properties": { "detail": {
            "type": ["string", "array"],
            "description": "A message for people, or the invalid parameter: its location, a message and the value.",
            "items": { "type": "object" },
        } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_a_text_or_names_a_parameter() {
        let param =
            InvalidParam { location: ParamLocation::Query, name: "limit", input: "0".to_owned() };
        let parts = |param| ErrorParts { code: 1, name: "n", message: "m", data: None, param };
        assert_eq!(ErrorFormat::Detail.body(parts(None)), json!({ "detail": "m" }));
        let entry = json!({
            "loc": ["query", "limit"], "msg": "m", "type": "value_error", "input": "0",
        });
        assert_eq!(ErrorFormat::Detail.body(parts(Some(&param))), json!({ "detail": [entry] }));
        let coded = json!({ "error": { "code": 1, "name": "n", "message": "m" } });
        assert_eq!(ErrorFormat::Coded.body(parts(Some(&param))), coded);
    }
}
