//! Rules for names and prose: words of the glossary in CONTRIBUTING.md that no definition and no comment uses.
//!
//! In: `.rs` and Markdown files. Out: one complaint for each use, with file, line, word and replacement.
//! Checked as names: folders, files, and each struct, enum, union, trait, type, function, constant, static and
//! module that a file defines. Checked as prose: comments, doc comments and Markdown.
//! Not here: local variables, fields, variants, names of test functions, string literals.

use std::path::Path;

use super::source::Source;

/// Where the replacements are explained.
const GLOSSARY: &str = "CONTRIBUTING.md, \"Names and language\"";

/// The heading of the glossary's section. That section has to quote the words, so it is not checked.
const GLOSSARY_HEADING: &str = "## Names and language";

const FOR_PROGRAMS: &str = "it, the client, the caller, the writer";
const FOR_CALLERS: &str = "`RequestContext`, client, caller, owner";
const FOR_REPORTS: &str = "sent, reported, logged, notified";

/// Parts of names, and what to use instead.
const HOUSE_WORDS: &[(&str, &str)] = &[
    ("asked", "request, params, `*Params`, `*Config`"),
    ("asker", FOR_CALLERS),
    ("bare", "value only, unwrapped"),
    ("door", "transaction service; interface"),
    ("figures", "metrics"),
    ("given", "request, params, `*Params`, `*Config`"),
    ("held", "in use, reserved; `MemoryBudget`, `*Reservation`"),
    ("kept", "cached, `insert` (cache); retained (history, logs); unpacked (state)"),
    ("lane", "execution path, class queue, posting index, peer queue"),
    ("looked", "`lookup`, `poll`, `scan`"),
    ("nobody", FOR_PROGRAMS),
    ("outlet", "sink, response channel"),
    ("patience", "`*_BACKOFF`, `*_TIMEOUT`, `*_INTERVAL`, with the unit in the type"),
    ("shaper", "body transform"),
    ("somebody", FOR_PROGRAMS),
    ("spoken", "WebSocket; `WebSocketHandler`"),
    ("stamper", "validator, `ETag`"),
    ("told", "sent, reported, logged, notified; `ResponseMeta`, `Notification`"),
    ("whoever", FOR_PROGRAMS),
    ("wish", "`*Options`, `*Request`"),
];

/// Names that have such a part in the field's own sense, each with its reason.
const STANDARD_NAMES: &[(&str, &str)] = &[];

/// Words and phrases of prose, in lower case, and what to use instead.
const HOUSE_PHRASES: &[(&[&str], &str)] = &[
    (&["he"], FOR_PROGRAMS),
    (&["his"], FOR_PROGRAMS),
    (&["him"], FOR_PROGRAMS),
    (&["whoever"], FOR_PROGRAMS),
    (&["somebody"], FOR_PROGRAMS),
    (&["nobody"], FOR_PROGRAMS),
    (&["asker"], FOR_CALLERS),
    (&["who", "asks"], FOR_CALLERS),
    (&["is", "told"], FOR_REPORTS),
    (&["are", "told"], FOR_REPORTS),
];

/// Keywords that stand directly before the name that they define.
const DEFINING: &[&str] =
    &["struct", "enum", "union", "trait", "type", "fn", "const", "static", "mod"];

/// House words in a `.rs` file: in its path, in what it defines, in its comments.
pub(crate) fn check_rust(source: &Source) -> Vec<String> {
    let parts = Parts::new(&source.text);
    let mut complaints = check_path(&source.path);
    for (number, name) in definitions(&parts.code) {
        if let Some((word, instead)) = house_word(name) {
            complaints.push(format!(
                "{}:{number}: `{name}` has the part \"{word}\"; use {instead} ({GLOSSARY})",
                source.path.display()
            ));
        }
    }
    complaints.extend(check_prose(&source.path, &parts.comments));
    complaints
}

/// House words in a Markdown file. The changelog may quote old names in code spans.
pub(crate) fn check_markdown(source: &Source) -> Vec<String> {
    let text = without_fenced_blocks(&source.text);
    let prose = match source.path.to_str() {
        Some("CHANGELOG.md") => without_code_spans(&text),
        Some("CONTRIBUTING.md") => without_glossary(&text),
        _ => text,
    };
    check_prose(&source.path, &prose)
}

fn check_path(path: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    for component in path.with_extension("").iter().filter_map(|component| component.to_str()) {
        if let Some((word, instead)) = house_word(component) {
            complaints.push(format!(
                "{}: `{component}` has the part \"{word}\"; use {instead} ({GLOSSARY})",
                path.display()
            ));
        }
    }
    complaints
}

fn check_prose(path: &Path, text: &str) -> Vec<String> {
    let words = words(text);
    let mut complaints = Vec::new();
    for start in 0..words.len() {
        for (phrase, instead) in HOUSE_PHRASES {
            let Some(found) = words.get(start..start + phrase.len()) else { continue };
            let is_used = found.iter().zip(*phrase).all(|(word, expected)| {
                matches!(word, Some((_, word)) if word.eq_ignore_ascii_case(expected))
            });
            if let (true, Some(Some((number, _)))) = (is_used, found.first()) {
                complaints.push(format!(
                    "{}:{number}: \"{}\"; use {instead} ({GLOSSARY})",
                    path.display(),
                    phrase.join(" ")
                ));
            }
        }
    }
    complaints
}

/// The first house word in a name, and its replacement.
fn house_word(name: &str) -> Option<(&'static str, &'static str)> {
    if STANDARD_NAMES.iter().any(|(allowed, _)| *allowed == name) {
        return None;
    }
    let parts = name_parts(name);
    HOUSE_WORDS.iter().copied().find(|(word, _)| parts.iter().any(|part| part == word))
}

/// The parts of a name in snake_case, kebab-case, CamelCase or SCREAMING_CASE, in lower case.
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

/// The names that code defines, with their lines; not those of test functions.
fn definitions(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_test = false;
    for (number, line) in (1..).zip(code.lines()) {
        is_test |= is_test_attribute(line);
        let tokens = tokens(line);
        for (at, pair) in tokens.windows(2).enumerate() {
            let &[keyword, name] = pair else { continue };
            // `&'static T` and `*const T` define nothing.
            let is_type = at > 0 && ["'", "*"].contains(&tokens[at - 1]);
            if is_type || !DEFINING.contains(&keyword) || !name.starts_with(is_word) {
                continue;
            }
            if keyword == "fn" && std::mem::take(&mut is_test) {
                continue;
            }
            found.push((number, name));
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

/// The words of a line of code, and its other characters one by one. No whitespace.
fn tokens(line: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(word.max(first.len_utf8()));
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

/// The words of a text with their lines. `None` is where no phrase goes on: punctuation, or an empty line.
fn words(text: &str) -> Vec<Option<(usize, &str)>> {
    let mut words = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start().trim_start_matches(['/', '!', '*', '>']);
        if line.trim().is_empty() {
            words.push(None);
        }
        for (index, clause) in line.split(|c: char| !is_word(c) && !c.is_whitespace()).enumerate() {
            if index > 0 {
                words.push(None);
            }
            words.extend(clause.split_whitespace().map(|word| Some((number, word))));
        }
    }
    words
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Blanks what is between lines of three backticks: code, or what a program printed.
fn without_fenced_blocks(text: &str) -> String {
    let mut is_fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        prose.push_str(if is_fenced || is_fence { "" } else { line });
        prose.push('\n');
    }
    prose
}

/// Blanks what is between backticks.
fn without_code_spans(text: &str) -> String {
    let mut is_code = false;
    let blank = |c: char| {
        is_code ^= c == '`';
        if is_code && c != '\n' { '.' } else { c }
    };
    text.chars().map(blank).collect()
}

/// Blanks the section of the glossary.
fn without_glossary(text: &str) -> String {
    let mut is_glossary = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.starts_with("## ") {
            is_glossary = line == GLOSSARY_HEADING;
        }
        prose.push_str(if is_glossary { "" } else { line });
        prose.push('\n');
    }
    prose
}

/// One Rust text as two of the same lines and columns: its code, and its comments. String and character
/// literals are in neither.
struct Parts {
    code: String,
    comments: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    Code,
    Comment,
    Literal,
}

impl Parts {
    fn new(text: &str) -> Self {
        let mut parts = Self { code: String::new(), comments: String::new() };
        let mut rest = text;
        while !rest.is_empty() {
            let (kind, length) = first_token(rest);
            let (token, after) = rest.split_at(length);
            parts.code.extend(shown_if(kind == TokenKind::Code, token));
            parts.comments.extend(shown_if(kind == TokenKind::Comment, token));
            rest = after;
        }
        parts
    }
}

/// The characters of a token, or as many blanks. Line ends stay.
fn shown_if(is_shown: bool, token: &str) -> impl Iterator<Item = char> {
    token.chars().map(move |c| if is_shown || c == '\n' { c } else { ' ' })
}

/// The kind of a text's first token, and its length in bytes; not 0 unless the text is empty.
fn first_token(text: &str) -> (TokenKind, usize) {
    if text.starts_with("//") {
        return (TokenKind::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (TokenKind::Comment, block_comment_len(text));
    }
    if let Some(length) = raw_string_len(text).or_else(|| quoted_len(text)) {
        return (TokenKind::Literal, length);
    }
    let word = text.find(|c| !is_word(c)).unwrap_or(text.len());
    let first = text.chars().next().map_or(0, char::len_utf8);
    (TokenKind::Code, word.max(first))
}

/// The length of a block comment, which may have others in it.
fn block_comment_len(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(next) = text[at..].find(['/', '*']) {
        at += next;
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of `r"..."`, `br#"..."#` and the like, if the text starts with one.
fn raw_string_len(text: &str) -> Option<usize> {
    let unprefixed = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let opened = unprefixed.trim_start_matches('#');
    let end = format!("\"{}", "#".repeat(unprefixed.len() - opened.len()));
    let inside = opened.strip_prefix('"')?;
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(text.len() - inside.len() + length)
}

/// The length of `"..."` or `'c'`, if the text starts with one. A lifetime is neither.
fn quoted_len(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| ['"', '\''].contains(c))?;
    if quote == '\'' && !text[1..].starts_with('\\') {
        let after = text.char_indices().nth(2).filter(|(_, c)| *c == quote);
        return after.map(|(at, _)| at + 1);
    }
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return Some(at + 1);
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Vec<String> {
        check_rust(&Source { path: "crates/x/src/lib.rs".into(), text: text.to_owned() })
    }

    fn markdown(path: &str, text: &str) -> Vec<String> {
        check_markdown(&Source { path: path.into(), text: text.to_owned() })
    }

    #[test]
    fn a_house_word_in_what_a_file_defines_is_caught_whatever_the_case() {
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
        ] {
            assert_eq!(rust(&format!("//! X.\n{line}\n")).len(), 1, "{line}");
        }
        assert_eq!(
            rust("//! X.\nstruct Asker;\n"),
            [
                "crates/x/src/lib.rs:2: `Asker` has the part \"asker\"; use `RequestContext`, client, caller, owner \
                 (CONTRIBUTING.md, \"Names and language\")"
            ]
        );
    }

    #[test]
    fn a_house_word_that_is_only_used_or_only_similar_is_not_caught() {
        for line in [
            "let kept = told(asked);",
            "fn f(x: &'static Told, y: *const Kept) {}",
            "struct Planes { bareness: Outdoor }",
            "const TEXT: &str = \"struct Told;\";",
            "const RAW: &str = r#\"a \" struct Told;\"#;",
            "fn quote(c: char) -> bool { c == '\"' }",
        ] {
            assert_eq!(rust(&format!("//! X.\n{line}\n")), [""; 0], "{line}");
        }
    }

    #[test]
    fn names_of_test_functions_are_free_and_those_of_their_helpers_are_not() {
        let test = "//! X.\n#[test]\n#[ignore]\nfn a_client_is_told() {}\n";
        assert_eq!(rust(test), [""; 0]);
        assert_eq!(rust(&test.replace("test", "tokio::test(start_paused = true)")), [""; 0]);
        assert_eq!(rust(&format!("{test}fn told() {{}}\n")).len(), 1);
        assert_eq!(rust("//! X.\n#[cfg(test)]\nfn told() {}\n").len(), 1);
    }

    #[test]
    fn a_house_word_in_a_file_s_name_is_caught() {
        let source = |path: &str| Source { path: path.into(), text: "//! X.\n".to_owned() };
        assert_eq!(check_rust(&source("crates/x/src/kept/store.rs")).len(), 1);
        assert_eq!(check_rust(&source("crates/x/src/from_outlet.rs")).len(), 1);
        assert_eq!(check_rust(&source("crates/x/src/cached.rs")), [""; 0]);
    }

    #[test]
    fn a_person_in_a_comment_is_caught_and_one_in_a_string_is_not() {
        assert_eq!(
            rust("//! X.\nfn f() {} // He waits.\n"),
            ["crates/x/src/lib.rs:2: \"he\"; use it, the client, the caller, the writer \
                 (CONTRIBUTING.md, \"Names and language\")"]
        );
        assert_eq!(rust("//! X.\n/* a /* b */\nof his */ fn f() {}\n").len(), 1);
        assert_eq!(rust("//! X, the one here. She thinks of this.\n"), [""; 0]);
        assert_eq!(rust("//! X.\nfn f() { g(\"// he \\\" said\"); }\n"), [""; 0]);
    }

    #[test]
    fn a_phrase_is_caught_over_the_end_of_a_line_and_not_over_punctuation() {
        let complaints = rust("//! Sent to the client who\n//! asks. What it is\n/// told.\n");
        assert_eq!(complaints.len(), 2);
        assert!(complaints[0].contains("lib.rs:1: \"who asks\""), "{complaints:?}");
        assert!(complaints[1].contains("lib.rs:2: \"is told\""), "{complaints:?}");
        assert_eq!(rust("//! As it is, told twice.\n\n//! It is\n\n//! told.\n"), [""; 0]);
    }

    #[test]
    fn markdown_is_prose_but_for_fenced_blocks_code_in_the_changelog_and_the_glossary() {
        assert_eq!(markdown("docs/a.md", "Nobody waits.\n").len(), 1);
        assert_eq!(markdown("docs/a.md", "`asker`\n").len(), 1);
        assert_eq!(markdown("docs/a.md", "```text\nbeside nobody\n```\nhe\n").len(), 1);
        assert_eq!(markdown("CHANGELOG.md", "`asker` is gone\n"), [""; 0]);
        assert_eq!(markdown("CHANGELOG.md", "`a` asker `b`\n").len(), 1);
        let contributing = "## Begin\n## Names and language\n| he |\n## Commits\nhe\n";
        let complaints = markdown("CONTRIBUTING.md", contributing);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("CONTRIBUTING.md:5: \"he\""), "{complaints:?}");
    }
}
