//! Positional parameters, with Agave's rules and messages for invalid ones.
//!
//! In: the text of `params`. Out: a tuple of the types that the method takes; optional ones at the end may be
//! omitted. A valid request is parsed once, directly into these types. An invalid one is parsed again through
//! `Value`, which Agave's messages come from.
//! Bounds: the body limit, and [`NESTING_MAX`] levels (checked in `envelope`).

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;

use clients::ClientId;
use http_server::PageAccess;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::RpcError;

/// Maximum nesting of JSON in a request; the limit of `serde_json`.
pub const NESTING_MAX: usize = 127;

/// The parameters of one call, not parsed yet, the client that sent it with its access, and the form of its result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Params<'a> {
    /// The text of the `params` member: an array, an object or `null`. `None` if there was none.
    text: Option<&'a str>,
    client: ClientId,
    page_access: PageAccess,
    reached: Option<IpAddr>,
    wants_raw: bool,
}

/// `params` as Agave represents them; its `Debug` output is part of an error's data.
#[derive(Debug)]
enum RawParams {
    None,
    Array(Vec<Value>),
    Map(serde_json::Map<String, Value>),
}

impl<'a> Params<'a> {
    /// Parameters from the text of the `params` member.
    pub fn new(text: Option<&'a str>) -> Self {
        Self { text, ..Self::default() }
    }

    /// Sets the client, its access, and the address on which it reached the node.
    #[must_use]
    pub(crate) fn sent_by(
        self,
        client: ClientId,
        page_access: PageAccess,
        reached: Option<IpAddr>,
    ) -> Self {
        Self { client, page_access, reached, ..self }
    }

    /// Makes the params of a call whose result is raw bytes if `wants_raw` is set.
    #[must_use]
    pub(crate) fn with_raw(self, wants_raw: bool) -> Self {
        Self { wants_raw, ..self }
    }

    /// Whether the result is requested as raw bytes ([`crate::MethodOutput::raw`]): never by JSON-RPC.
    pub fn wants_raw(self) -> bool {
        self.wants_raw
    }

    /// The client that sent it: for methods that put something into a queue that clients share.
    pub fn client(self) -> ClientId {
        self.client
    }

    /// Whether the request may call dangerous methods: for a method that is dangerous with some parameters only.
    pub fn page_access(self) -> PageAccess {
        self.page_access
    }

    /// The address of the node on which the request arrived, if it came over a network: one that reaches the node from
    /// its client.
    pub fn reached(self) -> Option<IpAddr> {
        self.reached
    }

    /// The text, if there was any.
    pub fn text(self) -> Option<&'a str> {
        self.text
    }

    /// For a method without parameters. An empty array and `null` are accepted.
    pub fn none(self) -> Result<(), RpcError> {
        if matches!(self.text, None | Some("[]" | "null")) {
            return Ok(());
        }
        self.read()?.expect_none()
    }

    /// The parameters as the tuple `T`. The first `required` must be present, and the others are `Option`s that
    /// may be omitted.
    ///
    /// Example: `let (pubkey, config): (String, Option<RpcContextConfig>) = params.parse(1)?;`
    pub fn parse<T: PositionalParams>(self, required: usize) -> Result<T, RpcError> {
        self.parse_fast(required).map_or_else(|| self.parse_slowly(required), Ok)
    }

    /// Parses positional params. Returns `None` if anything is not valid.
    pub fn parse_fast<T: PositionalParams>(self, required: usize) -> Option<T> {
        T::read(self.text?, required).ok()
    }

    /// Agave's order of checks and its messages: the count first, then the types.
    #[cold]
    fn parse_slowly<T: PositionalParams>(self, required: usize) -> Result<T, RpcError> {
        let read = self.read()?;
        if required == T::COUNT {
            return from_value(read.into_value());
        }
        let mut values = match read {
            RawParams::None => Vec::new(),
            RawParams::Array(values) => values,
            RawParams::Map(_) => {
                return Err(RpcError::invalid_params("`params` should be an array"));
            }
        };
        if values.len() < required {
            let message = format!("`params` should have at least {required} argument(s)");
            return Err(RpcError::invalid_params(message));
        }
        if values.len() > T::COUNT {
            let message = format!("Expected from {required} to {} parameters.", T::COUNT);
            return Err(with_details(&message, &format!("Got: {}", values.len())));
        }
        values.resize(T::COUNT, Value::Null);
        from_value(Value::Array(values))
    }

    fn read(self) -> Result<RawParams, RpcError> {
        let Some(text) = self.text else { return Ok(RawParams::None) };
        match serde_json::from_str(text) {
            Ok(Value::Null) => Ok(RawParams::None),
            Ok(Value::Array(values)) => Ok(RawParams::Array(values)),
            Ok(Value::Object(members)) => Ok(RawParams::Map(members)),
            Ok(_) => Err(RpcError::malformed_request()),
            // Invalid JSON that the scan of the body does not find: half a surrogate pair, 1e999.
            Err(_) => Err(RpcError::parse_error()),
        }
    }
}

impl RawParams {
    fn expect_none(self) -> Result<(), RpcError> {
        match self {
            Self::None => Ok(()),
            Self::Array(values) if values.is_empty() => Ok(()),
            params => Err(with_details("No parameters were expected", &params)),
        }
    }

    fn into_value(self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Array(values) => Value::Array(values),
            Self::Map(members) => Value::Object(members),
        }
    }
}

fn with_details(message: &str, details: &dyn fmt::Debug) -> RpcError {
    RpcError::invalid_params(format!("Invalid parameters: {message}"))
        .with_data(Value::String(format!("{details:?}")))
}

fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, RpcError> {
    serde_json::from_value(value)
        .map_err(|err| RpcError::invalid_params(format!("Invalid params: {err}.")))
}

/// Tuples that [`Params::parse`] can return, with one to four members.
pub trait PositionalParams: DeserializeOwned {
    /// Number of members.
    const COUNT: usize;

    /// Parses an array of `required` to `COUNT` elements.
    fn read(text: &str, required: usize) -> serde_json::Result<Self>;
}

/// An element, or the default of one that was omitted.
fn element<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(
    array: &mut A,
    index: usize,
    required: usize,
) -> Result<T, A::Error> {
    struct Seed<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Seed<T> {
        type Value = T;
        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
            T::deserialize(deserializer)
        }
    }
    match array.next_element_seed(Seed(PhantomData))? {
        Some(element) => Ok(element),
        None if index >= required => T::deserialize(serde::de::value::UnitDeserializer::new()),
        None => Err(A::Error::custom("too few")),
    }
}

macro_rules! positional {
    ($count:literal: $($index:literal $name:ident),+) => {
        impl<$($name: DeserializeOwned),+> PositionalParams for ($($name,)+) {
            const COUNT: usize = $count;

            fn read(text: &str, required: usize) -> serde_json::Result<Self> {
                struct Tuple<$($name),+>(usize, PhantomData<($($name,)+)>);
                impl<'de, $($name: Deserialize<'de>),+> Visitor<'de> for Tuple<$($name),+> {
                    type Value = ($($name,)+);

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an array")
                    }

                    fn visit_seq<S: SeqAccess<'de>>(self, mut array: S) -> Result<Self::Value, S::Error> {
                        Ok(($(element::<S, $name>(&mut array, $index, self.0)?,)+))
                    }
                }
                let mut reader = serde_json::Deserializer::from_str(text);
                let read = reader.deserialize_seq(Tuple(required, PhantomData))?;
                reader.end()?;
                Ok(read)
            }
        }
    };
}

positional!(1: 0 A);
positional!(2: 0 A, 1 B);
positional!(3: 0 A, 1 B, 2 C);
positional!(4: 0 A, 1 B, 2 C, 3 D);

#[cfg(test)]
mod tests {
    use super::*;

    type Two = (String, Option<u64>);

    fn two(text: &str) -> Result<Two, String> {
        Params::new(Some(text)).parse::<Two>(1).map_err(|err| err.message)
    }

    fn one(text: Option<&str>) -> Result<(u64,), String> {
        Params::new(text).parse::<(u64,)>(1).map_err(|err| err.message)
    }

    #[test]
    fn trailing_options_may_be_left_out_or_null() {
        assert_eq!(two(r#"["a"]"#), Ok(("a".into(), None)));
        assert_eq!(two(r#"["a", null]"#), Ok(("a".into(), None)));
        assert_eq!(two(r#"["a", 7]"#), Ok(("a".into(), Some(7))));
    }

    #[test]
    fn what_does_not_fit_is_refused_in_agaves_words() {
        let err = |text: &str| two(text).err().unwrap_or_default();
        assert_eq!(err("{}"), "`params` should be an array");
        assert_eq!(err("[]"), "`params` should have at least 1 argument(s)");
        assert_eq!(err("null"), "`params` should have at least 1 argument(s)");
        assert_eq!(err(r#"["a",1,2]"#), "Invalid parameters: Expected from 1 to 2 parameters.");
        assert_eq!(err("[5]"), "Invalid params: invalid type: integer `5`, expected a string.");
        assert_eq!(
            err(r#"["a","b"]"#),
            r#"Invalid params: invalid type: string "b", expected u64."#
        );
        assert_eq!(err(r#"["a", 1e999]"#), "Parse error");
    }

    #[test]
    fn a_method_without_options_answers_as_a_tuple_would() {
        let err = |text| one(text).err().unwrap_or_default();
        assert_eq!(err(None), "Invalid params: invalid type: null, expected a tuple of size 1.");
        assert_eq!(
            err(Some("{}")),
            "Invalid params: invalid type: map, expected a tuple of size 1."
        );
        assert_eq!(
            err(Some("[]")),
            "Invalid params: invalid length 0, expected a tuple of size 1."
        );
        assert_eq!(
            err(Some("[1,2]")),
            "Invalid params: invalid length 2, expected fewer elements in array."
        );
    }

    #[test]
    fn a_method_that_takes_nothing_takes_an_empty_array() {
        assert_eq!(Params::new(Some(" [ ] ")).none(), Ok(()));
        assert_eq!(Params::default().none(), Ok(()));
        let err = Params::new(Some("[1]")).none().err();
        assert_eq!(
            err.map(|err| (err.code, err.message, err.data)),
            Some((
                -32602,
                "Invalid parameters: No parameters were expected".into(),
                Some(Value::String("Array([Number(1)])".into()))
            ))
        );
    }
}
