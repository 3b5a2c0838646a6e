//! A parameter: its name, its location in a request, its type with the check and the JSON Schema.
//!
//! A type that only one ledger has, as an address, is a [`TextFormat`] or a [`JsonFormat`].
//! Not here: parsing a request (`parse_request`).

use serde_json::{Value, json};

/// Characters of an invalid value that an error message quotes.
pub(crate) const ERROR_VALUE_CHARS_MAX: usize = 96;

/// A parameter of a route's requests.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name of the parameter, as in a request.
    pub name: &'static str,
    /// Location of the parameter in a request.
    pub location: ParamLocation,
    /// Type of the parameter's value.
    pub kind: ParamType,
    /// Whether a request without it is refused.
    pub is_required: bool,
    /// A sentence about it, without characters that HTML would need to escape.
    pub doc: &'static str,
    /// A value that every node accepts, for the OpenAPI document and the forms.
    pub example: Option<fn() -> Value>,
}

impl Param {
    /// A parameter that is required only as a part of a path.
    pub const fn new(
        name: &'static str,
        location: ParamLocation,
        kind: ParamType,
        doc: &'static str,
    ) -> Self {
        let is_required = matches!(location, ParamLocation::Path);
        Self { name, location, kind, is_required, doc, example: None }
    }

    /// A parameter that is required.
    pub const fn required(
        name: &'static str,
        location: ParamLocation,
        kind: ParamType,
        doc: &'static str,
    ) -> Self {
        Self { name, location, kind, is_required: true, doc, example: None }
    }

    /// Returns the parameter with an example for the documentation.
    #[must_use]
    pub const fn with_example(self, example: fn() -> Value) -> Self {
        Self { example: Some(example), ..self }
    }
}

/// The location of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamLocation {
    /// The value is a segment of the path.
    Path,
    /// The value is in the query string.
    Query,
    /// The value is a member of the JSON body.
    Body,
}

/// The type of a parameter's value.
#[derive(Clone, Copy, Debug)]
pub enum ParamType {
    /// A string that has a given format.
    Text(&'static TextFormat),
    /// Several: separated by commas in a query, a list in a body.
    List(&'static TextFormat, MaxItems),
    /// An integer in this range, both ends included.
    Number(u64, u64),
    /// A boolean: `true` or `false`.
    Bool,
    /// One of a fixed list of words.
    OneOf(&'static [&'static str]),
    /// 1 to `n` characters of base58.
    Base58(usize),
    /// Bytes that are encoded in base64.
    Base64,
    /// A JSON value that has a given format.
    Json(&'static JsonFormat),
}

/// The format of a string, with its check.
#[derive(Debug)]
pub struct TextFormat {
    /// The format with an article, for errors: "an address: base58 of 32 bytes".
    pub expected: &'static str,
    /// Several of them: "addresses".
    pub plural: &'static str,
    /// The regular expression of the schema.
    pub pattern: &'static str,
    /// Placeholder of the field in the explorer's form.
    pub placeholder: &'static str,
    /// Returns whether a string has the format.
    pub is_valid: fn(&str) -> bool,
}

/// The format of a JSON value, with its check.
#[derive(Debug)]
pub struct JsonFormat {
    /// The check of a value. Its error continues the name of the parameter: "must be a list".
    pub check: fn(&Value) -> Result<(), String>,
    /// Returns the JSON Schema of the format.
    pub schema: fn() -> Value,
}

/// The maximum number of items in a list.
#[derive(Clone, Copy, Debug)]
pub enum MaxItems {
    /// The node's limit ([`Limits::items_max`]).
    Configured,
    /// A fixed limit, for every node.
    Fixed(usize),
}

/// Limits from the node's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of items in a list.
    pub items_max: usize,
    /// The setting that defines it, for errors.
    pub setting: &'static str,
}

/// The maximum number of items in one list.
#[derive(Clone, Copy)]
struct ListLimit {
    max: usize,
    /// The setting that defines it, as text for an error; empty if there is none.
    setting: &'static str,
}

impl Limits {
    fn list_limit(self, max: MaxItems) -> ListLimit {
        match max {
            MaxItems::Configured => ListLimit { max: self.items_max, setting: self.setting },
            MaxItems::Fixed(max) => ListLimit { max, setting: "" },
        }
    }
}

impl ListLimit {
    /// Returns the requirement on a list. The text continues the name of a parameter.
    fn describe_required(self, plural: &str) -> String {
        let Self { max, setting } = self;
        let setting = if setting.is_empty() { String::new() } else { format!(" ({setting})") };
        format!(" must be a list of 1 to {max} {plural}{setting}")
    }

    fn check(self, plural: &str, count: usize) -> Result<(), String> {
        if (1..=self.max).contains(&count) {
            return Ok(());
        }
        Err(format!("{}, not of {count}", self.describe_required(plural)))
    }
}

impl ParamType {
    /// Checks the number of items of a list, before it is split.
    ///
    /// Errors: a text that continues the name of the parameter.
    pub(crate) fn check_count(self, count: usize, limits: Limits) -> Result<(), String> {
        match self {
            Self::List(format, max) => limits.list_limit(max).check(format.plural, count),
            _ => Ok(()),
        }
    }

    /// Checks the type of a value, without the checks of the method.
    ///
    /// Errors: a text that continues the name of the parameter, with the index of an item, from 0.
    pub(crate) fn check(self, value: &Value, limits: Limits) -> Result<(), String> {
        let (is_valid, expected) = match self {
            Self::Text(format) => {
                return format.check(value).map_err(|err| format!(" {err}"));
            }
            Self::List(format, max) => return check_list(format, limits.list_limit(max), value),
            Self::Json(format) => return (format.check)(value).map_err(|err| format!(" {err}")),
            Self::Base64 => (value.is_string(), "bytes in base64".to_owned()),
            Self::Base58(max) => (
                value.as_str().is_some_and(|text| (1..=max).contains(&text.len())),
                format!("1 to {max} characters of base58"),
            ),
            Self::Number(min, max) => (
                value.as_u64().is_some_and(|number| (min..=max).contains(&number)),
                format!("an integer from {min} to {max}"),
            ),
            Self::Bool => (value.is_boolean(), "true or false".to_owned()),
            Self::OneOf(words) => (
                value.as_str().is_some_and(|text| words.contains(&text)),
                format!("one of {}", words.join(", ")),
            ),
        };
        if is_valid { Ok(()) } else { Err(format!(" must be {expected}")) }
    }

    /// The JSON Schema of the type.
    pub(crate) fn schema(self, limits: Limits) -> Value {
        match self {
            Self::Text(format) => format.schema(),
            Self::List(format, max) => json!({
                "type": "array", "items": format.schema(), "minItems": 1,
                "maxItems": limits.list_limit(max).max,
            }),
            Self::Number(min, u64::MAX) => {
                json!({ "type": "integer", "format": "uint64", "minimum": min })
            }
            Self::Number(min, max) => {
                json!({ "type": "integer", "format": "uint64", "minimum": min, "maximum": max })
            }
            Self::Bool => json!({ "type": "boolean" }),
            Self::OneOf(words) => json!({ "type": "string", "enum": words }),
            Self::Base58(max) => {
                json!({ "type": "string", "pattern": format!("^[1-9A-HJ-NP-Za-km-z]{{1,{max}}}$") })
            }
            Self::Base64 => json!({ "type": "string", "contentEncoding": "base64" }),
            Self::Json(format) => (format.schema)(),
        }
    }
}

impl TextFormat {
    /// The JSON Schema of a string in this format.
    pub fn schema(&self) -> Value {
        json!({ "type": "string", "pattern": self.pattern })
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        let actual = match value.as_str() {
            Some(text) if (self.is_valid)(text) => return Ok(()),
            Some(text) => match text.char_indices().nth(ERROR_VALUE_CHARS_MAX) {
                Some((end, _)) => format!("{:?}… of {} bytes", &text[..end], text.len()),
                None => format!("{text:?}"),
            },
            None => "a value that is not a string".to_owned(),
        };
        Err(format!("must be {}, not {actual}", self.expected))
    }
}

fn check_list(format: &TextFormat, limit: ListLimit, value: &Value) -> Result<(), String> {
    let Some(list) = value.as_array() else {
        return Err(limit.describe_required(format.plural));
    };
    limit.check(format.plural, list.len())?;
    let mut items = list.iter().enumerate();
    items.try_for_each(|(index, item)| format.check(item).map_err(|err| format!("[{index}] {err}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: TextFormat = TextFormat {
        expected: "a word: lower case",
        plural: "words",
        pattern: "^[a-z]+$",
        placeholder: "lower case",
        is_valid: |text| text.bytes().all(|byte| byte.is_ascii_lowercase()),
    };
    const LIMITS: Limits = Limits { items_max: 2, setting: "rest.words_max" };

    fn check(kind: ParamType, value: Value) -> String {
        kind.check(&value, LIMITS).err().map(|err| format!("x{err}")).unwrap_or_default()
    }

    #[test]
    fn an_error_continues_the_name_of_the_parameter() {
        let word = ParamType::Text(&WORD);
        let words = ParamType::List(&WORD, MaxItems::Configured);
        for (kind, value, expected) in [
            (word, json!("a"), ""),
            (word, json!("A"), "x must be a word: lower case, not \"A\""),
            (word, json!(1), "x must be a word: lower case, not a value that is not a string"),
            (words, json!(["a", "b"]), ""),
            (words, json!("a"), "x must be a list of 1 to 2 words (rest.words_max)"),
            (words, json!([]), "x must be a list of 1 to 2 words (rest.words_max), not of 0"),
            (words, json!(["a", "B"]), "x[1] must be a word: lower case, not \"B\""),
            (ParamType::Number(1, 5), json!(6), "x must be an integer from 1 to 5"),
            (ParamType::Bool, json!("true"), "x must be true or false"),
            (ParamType::OneOf(&["a", "b"]), json!("c"), "x must be one of a, b"),
        ] {
            assert_eq!(check(kind, value), expected);
        }
        let fixed = ParamType::List(&WORD, MaxItems::Fixed(3));
        assert_eq!(fixed.check_count(3, LIMITS), Ok(()));
        let err = " must be a list of 1 to 3 words, not of 4";
        assert_eq!(fixed.check_count(4, LIMITS), Err(err.to_owned()));
    }
}
