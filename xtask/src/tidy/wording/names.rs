//! Finds glossary words in paths and definitions, and functions that are named by a participle alone.

use std::path::Path;

use super::glossary::{GLOSSARY, GLOSSARY_SECTION};
use super::hit::{Hits, Kind};
use super::rust_text::{is_word, tokens};

/// Names that have such a word in the field's own sense, each with its reason.
const STANDARD_NAMES: &[(&str, &str)] = &[
    ("BlueWork", "GHOSTDAG: the proof of work of blue blocks"),
    ("read_blue_work", "GHOSTDAG"),
    ("keep_alive", "HTTP keep-alive, RFC 9112"),
    ("KEEP_ALIVE_INTERVAL", "HTTP keep-alive, RFC 9112"),
    ("KEEP_ALIVE_MS", "HTTP keep-alive, RFC 9112"),
];

/// Participles that are the standard name of a function, each with its source.
const STANDARD_PARTICIPLES: &[(&str, &str)] = &[
    ("cancelled", "tokio_util::sync::CancellationToken"),
    ("changed", "tokio::sync::watch::Receiver"),
    ("closed", "tokio::sync::mpsc::Sender"),
    ("elapsed", "std::time::Instant"),
    ("notified", "tokio::sync::Notify"),
];

/// Participles without the ending of the regular ones.
const IRREGULAR_PARTICIPLES: &[&str] = &[
    "begun", "done", "gone", "held", "known", "left", "made", "seen", "shown", "taken", "written",
];

/// Nouns and verbs that end as a participle does.
const NOT_PARTICIPLES: &[&str] =
    &["bed", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "shred", "speed"];

/// Keywords that directly precede the name that they define.
const DEFINING: &[&str] =
    &["struct", "enum", "union", "trait", "type", "fn", "const", "static", "mod"];

/// A name that a file defines, and its keyword.
pub(crate) struct Definition<'a> {
    pub(crate) line: usize,
    pub(crate) keyword: &'a str,
    pub(crate) name: &'a str,
}

pub(super) fn find(path: &Path, code: &str, hits: &mut Hits<'_>) {
    for component in path.with_extension("").iter().filter_map(|component| component.to_str()) {
        find_in_name(path, &Definition { line: 1, keyword: "mod", name: component }, hits);
    }
    for definition in definitions(code) {
        find_in_name(path, &definition, hits);
        if definition.keyword == "fn" && is_participle(definition.name) {
            let message = format!(
                "`fn {}` is a participle alone; name a verb and its object",
                definition.name
            );
            hits.push(Kind::FnParticiple, definition.line, message);
        }
    }
}

/// Pushes the first rule that a name breaks.
fn find_in_name(path: &Path, definition: &Definition<'_>, hits: &mut Hits<'_>) {
    let name = definition.name;
    if STANDARD_NAMES.iter().any(|(allowed, _)| *allowed == name) {
        return;
    }
    let parts = name_parts(name);
    for entry in GLOSSARY.iter().filter(|entry| entry.applies_to(path)) {
        let part = entry.name_parts.iter().find(|word| parts.iter().any(|part| part == *word));
        let function =
            entry.functions.iter().find(|word| definition.keyword == "fn" && **word == name);
        let constant =
            entry.constants.iter().find(|word| definition.keyword == "const" && **word == name);
        if let Some(word) = part.or(function).or(constant) {
            let but = entry.but;
            let message = format!("`{name}` has \"{word}\"; use {but} ({GLOSSARY_SECTION})");
            hits.push(Kind::GlossaryName, definition.line, message);
            return;
        }
    }
}

fn is_participle(name: &str) -> bool {
    if STANDARD_PARTICIPLES.iter().any(|(standard, _)| *standard == name) {
        return false;
    }
    let is_regular =
        name.ends_with("ed") && !name.contains('_') && !NOT_PARTICIPLES.contains(&name);
    is_regular || IRREGULAR_PARTICIPLES.contains(&name)
}

/// Splits a name in snake_case, kebab-case, CamelCase or SCREAMING_CASE into its parts, in lower case.
fn name_parts(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().collect();
    let mut parts = vec![String::new()];
    for (at, &c) in chars.iter().enumerate() {
        let follows_lower = at > 0 && !chars[at - 1].is_uppercase();
        let precedes_lower = chars.get(at + 1).is_some_and(|next| next.is_lowercase());
        let is_separator = !c.is_alphanumeric();
        let is_hump = c.is_uppercase() && (follows_lower || precedes_lower);
        if is_separator || is_hump {
            parts.push(String::new());
        }
        if let (false, Some(part)) = (is_separator, parts.last_mut()) {
            part.extend(c.to_lowercase());
        }
    }
    parts
}

/// Returns the names that code defines, except those of test functions.
pub(crate) fn definitions(code: &str) -> Vec<Definition<'_>> {
    let mut found = Vec::new();
    let mut is_test = false;
    for (number, line) in (1..).zip(code.lines()) {
        is_test |= is_test_attribute(line);
        let tokens = tokens(line);
        for (at, pair) in tokens.windows(2).enumerate() {
            let keyword = pair[0].text;
            let name = pair[1].text;
            // `&'static T` and `*const T` define nothing.
            let is_type = at > 0 && ["'", "*"].contains(&tokens[at - 1].text);
            if is_type || !DEFINING.contains(&keyword) || !name.starts_with(is_word) {
                continue;
            }
            if keyword == "fn" && std::mem::take(&mut is_test) {
                continue;
            }
            found.push(Definition { line: number, keyword, name });
        }
    }
    found
}

/// Whether a line is `#[test]`, `#[tokio::test(...)]` or the like.
fn is_test_attribute(line: &str) -> bool {
    let Some(attribute) = line.trim_start().strip_prefix("#[") else { return false };
    let path = attribute.split(|c| !is_word(c) && c != ':').next().unwrap_or(attribute);
    path.rsplit("::").next() == Some("test")
}

#[cfg(test)]
mod tests {
    use super::super::find_in_rust;
    use super::*;
    use crate::tidy::source::Source;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: path.into(), text: format!("//! X.\n{text}\n") };
        find_in_rust(&source)
            .into_iter()
            .map(|hit| format!("{}: {}", hit.line, hit.message))
            .collect()
    }

    fn rust(text: &str) -> Vec<String> {
        messages("crates/x/src/lib.rs", text)
    }

    #[test]
    fn a_glossary_word_in_a_definition_is_caught_whatever_the_case() {
        for line in [
            "pub struct KeptAnswer;",
            "enum HTTPTold {",
            "    pub(crate) async fn look_asked(&self) {",
            "const DOOR_PATIENCE: u8 = 1;",
            "static BARE: u8 = 1;",
            "    type Outlet = u8;",
            "trait Wish {}",
            "mod figures;",
            "const fn is_held() -> bool {",
            "fn of(text: &str) -> Self {",
            "fn take(&self) {",
            "const REST: u64 = 1;",
            "struct Jobs;",
            "fn has_begun() -> bool {",
        ] {
            assert_eq!(rust(line).len(), 1, "{line}");
        }
        assert_eq!(
            rust("struct Asker;"),
            ["2: `Asker` has \"asker\"; use `RequestContext`, client, caller, owner \
              (CONTRIBUTING.md, \"Names and language\")"]
        );
    }

    #[test]
    fn a_glossary_word_that_is_only_used_or_only_similar_is_not_caught() {
        for line in [
            "let kept = told(asked);",
            "fn f(x: &'static Told, y: *const Kept) {}",
            "struct Planes { bareness: Outdoor }",
            "const TEXT: &str = \"struct Told;\";",
            "const RAW: &str = r#\"a \" struct Told;\"#;",
            "fn quote(c: char) -> bool { c == '\"' }",
            "fn keep_alive() {}",
            "trait Rest { fn take_permit(&self); }",
        ] {
            assert_eq!(rust(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn a_word_with_a_directory_is_free_elsewhere() {
        assert_eq!(messages("crates/cpu_pool/src/lib.rs", "struct Step;").len(), 1);
        assert_eq!(rust("struct Step;"), [""; 0]);
    }

    #[test]
    fn test_names_are_free_and_helper_names_are_not() {
        let test = "#[test]\n#[ignore]\nfn a_client_is_told() {}";
        assert_eq!(rust(test), [""; 0]);
        assert_eq!(rust(&test.replace("test", "tokio::test(start_paused = true)")), [""; 0]);
        assert_eq!(rust(&format!("{test}\nfn told() {{}}")).len(), 1);
        assert_eq!(rust("#[cfg(test)]\nfn told() {}").len(), 1);
    }

    #[test]
    fn a_glossary_word_in_a_path_is_caught() {
        assert_eq!(messages("crates/x/src/kept/store.rs", "").len(), 1);
        assert_eq!(messages("crates/x/src/from_outlet.rs", "").len(), 1);
        assert_eq!(messages("crates/x/src/cached.rs", ""), [""; 0]);
    }

    #[test]
    fn a_function_named_by_a_participle_alone_is_caught() {
        for name in ["merged", "shown", "done"] {
            assert!(is_participle(name), "{name}");
        }
        for name in ["merge_positions", "is_merged", "elapsed", "seed", "merged_positions"] {
            assert!(!is_participle(name), "{name}");
        }
    }
}
