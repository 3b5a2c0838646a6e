//! Finds tuples that replace separate statements or a struct with a name.
//!
//! * `let (a, b) = (x, y);`: each binding is a `let` of its own.
//! * `fn f((a, b): (A, B))`: two parameters, or a struct.
//!
//! A `let` with a tuple that one expression returns is not a hit.

use super::hit::{Hits, Kind};
use super::rust_text::{Token, is_word, tokens};

pub(super) fn find(code: &str, hits: &mut Hits<'_>) {
    let tokens = tokens(code);
    for (at, token) in tokens.iter().enumerate() {
        let is_after_fn_bracket = matches!(token.text, "(" | ",");
        let Some(after) = tokens.get(at + 1..).and_then(skip_name_tuple) else { continue };
        if token.text == "let" && is_tuple_statement(after) {
            let message = "a tuple binds several values; write one `let` for each".to_owned();
            hits.push(Kind::TupleLet, token.line, message);
        } else if is_after_fn_bracket && starts_with(after, &[":", "("]) {
            let message =
                "a tuple as a parameter; name a struct, or pass several parameters".to_owned();
            hits.push(Kind::TupleParam, token.line, message);
        }
    }
}

/// Skips `(a, mut b)`. Returns `None` if a pattern is more than a name, or if there is only one.
fn skip_name_tuple<'a>(tokens: &'a [Token<'a>]) -> Option<&'a [Token<'a>]> {
    let length = bracketed_len(tokens)?;
    let (tuple, after) = tokens.split_at(length);
    let inside = tuple.get(1..length - 1)?;
    let has_comma = inside.iter().any(|token| token.text == ",");
    let is_simple = inside.iter().all(|token| token.text == "," || token.text.starts_with(is_word));
    (has_comma && is_simple && tuple.first()?.text == "(").then_some(after)
}

/// Whether the tokens are `= (x, y);`.
fn is_tuple_statement(tokens: &[Token<'_>]) -> bool {
    if !starts_with(tokens, &["=", "("]) {
        return false;
    }
    let Some(length) = bracketed_len(&tokens[1..]) else { return false };
    let mut depth = 0_usize;
    let mut has_comma = false;
    for token in &tokens[1..=length] {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," => has_comma |= depth == 1,
            _ => {}
        }
    }
    has_comma && starts_with(&tokens[length + 1..], &[";"])
}

fn starts_with(tokens: &[Token<'_>], expected: &[&str]) -> bool {
    tokens.len() >= expected.len()
        && tokens.iter().zip(expected).all(|(token, expected)| token.text == *expected)
}

/// Returns the number of tokens from an opening bracket to the one that closes it.
fn bracketed_len(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return (at > 0).then_some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn kinds(code: &str) -> Vec<Kind> {
        let mut hits = Hits::new(Path::new("x.rs"));
        find(code, &mut hits);
        hits.found.into_iter().map(|hit| hit.kind).collect()
    }

    #[test]
    fn a_tuple_that_binds_several_values_is_caught() {
        for code in ["let (a, b) = (x, y);", "let (mut a, b) = (\n f(1, 2),\n [3],\n);"] {
            assert_eq!(kinds(code), [Kind::TupleLet], "{code}");
        }
    }

    #[test]
    fn a_tuple_that_one_expression_returns_is_not_caught() {
        for code in [
            "let (a, b) = f(x, y);",
            "let (a, b) = (x, y).into();",
            "let (a, b) = (f(x, y));",
            "let (Some(a), b) = (x, y) else { return };",
            "let a = (x, y);",
        ] {
            assert_eq!(kinds(code), [], "{code}");
        }
    }

    #[test]
    fn a_tuple_as_a_parameter_is_caught() {
        assert_eq!(kinds("fn f((a, b): (u8, u8)) {}"), [Kind::TupleParam]);
        assert_eq!(kinds("fn f(&self, (a, b): (u8, u8)) {}"), [Kind::TupleParam]);
        assert_eq!(kinds("let (a, b): (u8, u8) = f(); |(a, b): (u8, u8)| a;"), []);
    }
}
