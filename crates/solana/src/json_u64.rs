//! A `u64` in JSON that another program wrote: a user's file, or the parameter of a cheat code.
//!
//! JavaScript has exact numbers up to 2^53 only: its `JSON` rounds `u64::MAX`, the rent epoch of every account that is
//! exempt from rent, to 18446744073709552000. Clients also write larger numbers as strings.
//! Not here: parameters of Agave's own methods, which are read as Agave reads them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// `u64::MAX` as a double: 2^64.
const MAX_AS_DOUBLE: f64 = u64::MAX as f64;

/// A number from 0 to `u64::MAX`, or a string that holds one. The rounded maximum of JavaScript is `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonU64(pub u64);

impl From<JsonU64> for u64 {
    fn from(JsonU64(value): JsonU64) -> Self {
        value
    }
}

impl<'de> Deserialize<'de> for JsonU64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrText).map(Self)
    }
}

struct NumberOrText;

impl Visitor<'_> for NumberOrText {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {}, or a text that holds one", u64::MAX)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<u64, E> {
        from_double(value).ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        from_text(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Converts a double that is a whole number in the range.
fn from_double(value: f64) -> Option<u64> {
    let is_whole = value.fract() == 0.0 && (0.0..=MAX_AS_DOUBLE).contains(&value);
    // The cast turns 2^64, the only double in the range that does not fit, into `u64::MAX`.
    is_whole.then_some(value as u64)
}

/// Parses decimal digits; larger numbers as JavaScript rounds them.
fn from_text(text: &str) -> Option<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().or_else(|| from_double(text.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<u64, String> {
        // Both ways in which JSON is read here: directly, and through a value.
        let direct = serde_json::from_str::<JsonU64>(json).map(u64::from);
        let value = serde_json::from_str(json).and_then(serde_json::from_value::<JsonU64>);
        assert_eq!(direct.as_ref().ok(), value.map(u64::from).as_ref().ok(), "{json}");
        direct.map_err(|err| err.to_string())
    }

    #[test]
    fn the_largest_number_survives_javascript() {
        for json in [
            "18446744073709551615",
            "18446744073709551616",
            "18446744073709552000",
            "1.8446744073709552e19",
            "\"18446744073709551615\"",
            "\"18446744073709552000\"",
        ] {
            assert_eq!(parse(json), Ok(u64::MAX), "{json}");
        }
    }

    #[test]
    fn numbers_are_exact_and_texts_may_hold_them() {
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("9007199254740993"), Ok(9_007_199_254_740_993));
        assert_eq!(parse("\"9007199254740993\""), Ok(9_007_199_254_740_993));
        assert_eq!(parse("1000000000.0"), Ok(1_000_000_000));
        assert_eq!(parse("1e9"), Ok(1_000_000_000));
    }

    #[test]
    fn what_is_no_such_number_is_refused_with_the_range() {
        for json in [
            "-1",
            "-0.5",
            "0.5",
            "1e30",
            "20000000000000000000",
            "18446744073709555712",
            "null",
            "true",
            "[]",
            "{}",
            "\"\"",
            "\"-1\"",
            "\"+1\"",
            "\"1.5\"",
            "\"1e9\"",
            "\"NaN\"",
            "\"20000000000000000000\"",
            "\"0x10\"",
            "\" 1\"",
        ] {
            let err = parse(json).expect_err(json);
            let range = "a whole number from 0 to 18446744073709551615, or a text that holds one";
            assert!(err.contains(range), "{json}: {err}");
        }
    }
}
