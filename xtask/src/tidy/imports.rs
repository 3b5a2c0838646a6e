//! The imports of a `.rs` file, read from its text: `use` declarations and the paths in its code.
//!
//! Input: the text of a file. Output: its imports, its paths, its words, and the modules that it declares for tests
//! only. Comments, strings and items under `#[cfg(test)]` are left out. Imports inside of a function count as the
//! file's.
//! Not here: which file a path leads to (`circles`), macros, `#[path]`.

use std::collections::BTreeSet;

/// All that a file says about other files.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct FileImports {
    pub(crate) imports: Vec<Import>,
    /// Paths of two or more segments in the code, such as `crate::view::scan`.
    pub(crate) paths: Vec<Vec<String>>,
    /// Identifiers in the code outside of `use` declarations.
    pub(crate) words: BTreeSet<String>,
    /// Modules that are declared outside of tests, with a file of their own.
    pub(crate) modules: Vec<String>,
    /// Modules that are declared under `#[cfg(test)]`.
    pub(crate) test_modules: Vec<String>,
}

/// One name that a `use` declaration brings in.
#[derive(Debug, PartialEq)]
pub(crate) struct Import {
    /// `None` for a glob import.
    pub(crate) name: Option<String>,
    pub(crate) path: Vec<String>,
    /// Whether it starts with `pub` of any kind: the name can be reached through this file.
    pub(crate) is_reexport: bool,
}

impl FileImports {
    pub(crate) fn parse(text: &str) -> Self {
        let (tokens, test_modules) = without_tests(&tokens(text));
        let mut file = Self { test_modules, ..Self::default() };
        let mut depth = 0;
        // The depths at which modules inside of this file were opened.
        let mut inline = Vec::new();
        let mut at = 0;
        while let Some(&token) = tokens.get(at) {
            let next = tokens.get(at + 1).copied().unwrap_or("");
            let previous = at.checked_sub(1).map_or("", |before| tokens[before]);
            at += 1;
            if token == "mod" && inline.is_empty() && tokens.get(at + 1) == Some(&";") {
                file.modules.push(next.to_owned());
            }
            match token {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    if inline.last() == Some(&depth) {
                        inline.pop();
                    }
                }
                "mod" if tokens.get(at + 1) == Some(&"{") => inline.push(depth),
                "use" if next != "<" => {
                    let end = find_item_end(&tokens, at, &[";"]);
                    let is_reexport = previous == "pub" || previous == ")";
                    let mut prefix = Vec::new();
                    let leaves = &mut Leaves { is_reexport, imports: &mut file.imports };
                    leaves.read_tree(&tokens[at..end], &mut prefix, inline.len());
                    at = end;
                }
                _ if is_identifier(token) && previous != "." && previous != "::" => {
                    file.words.insert(token.to_owned());
                    let mut path = vec![token.to_owned()];
                    while tokens.get(at) == Some(&"::")
                        && tokens.get(at + 1).is_some_and(|next| is_identifier(next))
                    {
                        path.push(tokens[at + 1].to_owned());
                        at += 2;
                    }
                    if path.len() > 1 {
                        file.paths.push(drop_inline_supers(path, inline.len()));
                    }
                }
                _ => {}
            }
        }
        file
    }
}

/// The names at the ends of one `use` declaration.
struct Leaves<'a> {
    is_reexport: bool,
    imports: &'a mut Vec<Import>,
}

impl Leaves<'_> {
    /// Reads `a::{b, c as d, e::*}`.
    fn read_tree(&mut self, tokens: &[&str], prefix: &mut Vec<String>, inline: usize) {
        let length_before = prefix.len();
        let mut at = 0;
        while let Some(&token) = tokens.get(at) {
            match token {
                "::" | ";" => {}
                "*" => return self.add(None, std::mem::take(prefix), inline),
                "{" => {
                    let inside = &tokens[at + 1..find_item_end(tokens, at, &[]) - 1];
                    for branch in split_at_commas(inside) {
                        let mut own = prefix.clone();
                        self.read_tree(branch, &mut own, inline);
                    }
                    prefix.truncate(length_before);
                    return;
                }
                "as" => {
                    let name = tokens.get(at + 1).copied().unwrap_or("_").to_owned();
                    return self.add(Some(name), std::mem::take(prefix), inline);
                }
                // `a::{self}` is `a`.
                "self" if !prefix.is_empty() => {}
                _ => prefix.push(token.to_owned()),
            }
            at += 1;
        }
        if let Some(name) = prefix.last().cloned() {
            self.add(Some(name), std::mem::take(prefix), inline);
        }
    }

    fn add(&mut self, name: Option<String>, path: Vec<String>, inline: usize) {
        let path = drop_inline_supers(path, inline);
        self.imports.push(Import { name, path, is_reexport: self.is_reexport });
    }
}

/// Rewrites a path inside of a module of the same file as the file itself would write it: each `super` that only leads
/// out of such a module is dropped.
fn drop_inline_supers(mut path: Vec<String>, inline: usize) -> Vec<String> {
    let supers = path.iter().take_while(|segment| *segment == "super").count();
    if inline > 0 && supers > 0 {
        path.drain(..supers.min(inline));
        if supers <= inline {
            path.insert(0, "self".to_owned());
        }
    }
    path
}

fn split_at_commas<'a, 't>(tokens: &'a [&'t str]) -> Vec<&'a [&'t str]> {
    let mut depth = 0;
    tokens
        .split(|token| {
            depth += i32::from(*token == "{") - i32::from(*token == "}");
            *token == "," && depth == 0
        })
        .collect()
}

/// Removes items under `#[cfg(test)]`. Returns the other tokens, and the modules that such items declare.
fn without_tests<'t>(tokens: &[&'t str]) -> (Vec<&'t str>, Vec<String>) {
    let mut code = Vec::new();
    let mut test_modules = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !tokens[at..].starts_with(&["#", "[", "cfg"]) {
            code.push(tokens[at]);
            at += 1;
            continue;
        }
        let end = find_item_end(tokens, at + 1, &[]);
        if !is_test(&tokens[at..end]) {
            code.extend_from_slice(&tokens[at..end]);
            at = end;
            continue;
        }
        at = end;
        while tokens[at..].starts_with(&["#", "["]) {
            at = find_item_end(tokens, at + 1, &[]);
        }
        if tokens.get(at) == Some(&"pub") {
            at += 1;
            if tokens.get(at) == Some(&"(") {
                at = find_item_end(tokens, at, &[]);
            }
        }
        if tokens.get(at) == Some(&"mod") && tokens.get(at + 2) == Some(&";") {
            test_modules.push(tokens[at + 1].to_owned());
        }
        let is_field = tokens.get(at + 1) == Some(&":");
        let ends: &[&str] = if is_field { &[","] } else { &[";", "}"] };
        at = find_item_end(tokens, at, ends);
    }
    (code, test_modules)
}

fn is_test(attribute: &[&str]) -> bool {
    attribute
        .iter()
        .enumerate()
        .any(|(at, token)| *token == "test" && !(at >= 2 && attribute[at - 2..at] == ["not", "("]))
}

/// Returns the index after one of `ends` outside of brackets. A closing brace among `ends` also ends it as the end of a
/// body; without `ends`, the end is that of the first pair of brackets. An enclosing bracket that closes ends it before
/// that bracket.
fn find_item_end(tokens: &[&str], start: usize, ends: &[&str]) -> usize {
    let mut depth = 0_i32;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        depth += match *token {
            "{" | "(" | "[" => 1,
            "}" | ")" | "]" => -1,
            _ => 0,
        };
        if depth < 0 {
            return at;
        }
        let is_end =
            if ends.is_empty() { matches!(*token, "}" | ")" | "]") } else { ends.contains(token) };
        if depth == 0 && is_end {
            return at + 1;
        }
    }
    tokens.len()
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Splits a text into identifiers, `::`, and other characters except spaces. Comments, strings, characters and
/// lifetimes are left out.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, is_token) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), false)
        } else if let Some(length) = string_length(rest) {
            (length, false)
        } else if first == '\'' {
            (quote_length(rest), false)
        } else if first.is_alphanumeric() || first == '_' {
            (word_length(rest), true)
        } else if rest.starts_with("::") {
            (2, true)
        } else {
            (first.len_utf8(), !first.is_whitespace())
        };
        let (token, after) = rest.split_at(length);
        if is_token {
            tokens.push(token);
        }
        rest = after;
    }
    tokens
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Returns the length of the string at the start of `text`, with its prefix and its quotes.
fn string_length(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let Some(rest) = text.strip_prefix(prefix) else { return false };
        let rest = if prefix.ends_with('r') { rest.trim_start_matches('#') } else { rest };
        rest.starts_with('"')
    })?;
    let rest = &text[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = rest.find('"')?;
        let close = format!("\"{}", &rest[..hashes]);
        let body = &rest[hashes + 1..];
        let end = body.find(&close).map_or(body.len(), |end| end + close.len());
        return Some(prefix.len() + hashes + 1 + end);
    }
    let mut is_escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    Some(prefix.len() + end.map_or(rest.len(), |(at, _)| at + 1))
}

/// Returns the length of the character or the lifetime at the start of `text`.
fn quote_length(text: &str) -> usize {
    let mut rest = text.char_indices().skip(1);
    let Some((_, first)) = rest.next() else { return 1 };
    if first == '\\' {
        // The character after the backslash may itself be a quote.
        let close = rest.skip(1).find(|(_, c)| *c == '\'');
        return close.map_or(text.len(), |(at, _)| at + 1);
    }
    match rest.next() {
        Some((at, '\'')) => at + 1,
        _ => 1 + word_length(&text[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats the imports of a text as lines: `name = path`, with `pub` before a re-export.
    fn imports(text: &str) -> Vec<String> {
        let line = |import: &Import| {
            let visible = if import.is_reexport { "pub " } else { "" };
            let name = import.name.as_deref().unwrap_or("*");
            format!("{visible}{name} = {}", import.path.join("::"))
        };
        FileImports::parse(text).imports.iter().map(line).collect()
    }

    fn paths(text: &str) -> Vec<String> {
        FileImports::parse(text).paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn a_nested_import_becomes_one_path_a_name() {
        assert_eq!(
            imports(
                "use crate::{a::{self, B, C as D}, e::*};\npub(crate) use f::G;\npub use ::h::I;"
            ),
            [
                "a = crate::a",
                "B = crate::a::B",
                "D = crate::a::C",
                "* = crate::e",
                "pub G = f::G",
                "pub I = h::I",
            ]
        );
    }

    #[test]
    fn paths_in_code_count_and_fields_and_methods_do_not() {
        let text = "fn f() -> crate::a::B { super::c::d(x.e::<F>()); G::h() }";
        assert_eq!(paths(text), ["crate::a::B", "super::c::d", "G::h"]);
    }

    #[test]
    fn comments_strings_and_characters_are_left_out() {
        let text = r##"
            // crate::a::A
            /* crate::b::B */
            fn f<'long>(x: &'long str) { g("crate::c::\"C", r#"crate::d::"D"#, '"', '\'', b"crate::e"); crate::h::I }
        "##;
        assert_eq!(paths(text), ["crate::h::I"]);
    }

    #[test]
    fn what_is_for_tests_only_is_left_out() {
        let text = "
            #[cfg(test)]
            mod tests;
            #[cfg(all(test, not(loom)))]
            #[rustfmt::skip]
            pub(crate) fn f<A, B>(a: [A; 2]) { crate::a::A }
            struct S { #[cfg(test)] x: crate::b::B, y: crate::c::C }
            #[cfg(not(test))]
            fn g() { crate::d::D }
            #[cfg(test)]
            mod inside { use crate::e::E; }
        ";
        assert_eq!(paths(text), ["crate::c::C", "crate::d::D"]);
        assert_eq!(imports(text), [""; 0]);
        assert_eq!(FileImports::parse(text).test_modules, ["tests"]);
    }

    #[test]
    fn an_inline_module_imports_from_its_file() {
        let text = "mod a { use super::B; use super::super::c::D; } use super::e::F;";
        assert_eq!(imports(text), ["B = self::B", "D = super::c::D", "F = super::e::F"]);
    }
}
