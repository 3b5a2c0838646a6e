//! Rules for one `.rs` file: its first line, its length, code that it must not have.
//!
//! Lines that are comments do not count. Some words are assembled here from halves, so that this file
//! does not break its own rules.

use std::path::Path;

use super::layers::LAST_NEUTRAL_LAYER;
use super::source::Source;

/// A longer file has a reason at its top: a line with [`LONG_REASON`].
const LINES_MAX: usize = 800;

/// The beginning of that reason.
const LONG_REASON: &str = "Long because";

/// The only files that may have unsafe code, each for the reason at its own top.
const UNSAFE_ALLOWED: &[&str] = &[];

/// The last layer without clock, socket, file or task.
const LAST_PURE_LAYER: usize = 1;

/// Names that [`LAST_PURE_LAYER`] and the layers below it must not use.
const IMPURE: &[&str] = &[
    "std::net",
    "std::fs",
    "std::process",
    "std::env",
    "thread::spawn",
    "Instant::now",
    "SystemTime::now",
];

/// Types that are constructed in one file only: type, file, how every other file gets one.
const CONSTRUCTED_ONCE: &[(&str, &str, &str)] =
    &[("SolanaApi", "crates/rpc_solana/src/solana_api_builder.rs", "SolanaApi::builder")];

/// The only file of a node that renames files: it syncs their directories too.
const RENAMES: &str = "crates/store/src/durable_file.rs";

/// The crates whose files need not survive a power failure.
const WITHOUT_DURABLE_FILES: &[&str] = &["crates/benchmarks", "crates/testkit"];

/// Checks the rules for every file.
pub(crate) fn check(source: &Source) -> Vec<String> {
    let path = source.path.display();
    let mut complaints = Vec::new();
    if !source.text.starts_with("//!") {
        complaints.push(format!(
            "{path}:1: does not open with `//!`: what, shape, bounds, what is not here"
        ));
    }
    let lines = source.text.lines().count();
    let has_reason = source
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .any(|line| line.contains(LONG_REASON));
    if lines > LINES_MAX && !has_reason {
        complaints.push(format!(
            "{path}: {lines} lines; split it by noun, or say `{LONG_REASON} ...` at its top"
        ));
    }
    for (number, line) in code_lines(&source.text) {
        for half in ["todo", "dbg", "unimplemented"] {
            if has_word(line, half) && line.contains(&format!("{half}!")) {
                complaints.push(format!("{path}:{number}: `{half}!`"));
            }
        }
        for (attribute, instead) in
            [("allow(", "#[expect(..., reason)]"), ("should_panic", "a check")]
        {
            if ["#[", "#!["].iter().any(|open| line.contains(&format!("{open}{attribute}"))) {
                complaints.push(format!("{path}:{number}: `#[{attribute}`; use {instead}"));
            }
        }
        if is_unsafe(line)
            && !UNSAFE_ALLOWED.iter().any(|allowed| source.path == Path::new(allowed))
        {
            complaints.push(format!(
                "{path}:{number}: unsafe code outside of UNSAFE_ALLOWED in xtask/src/tidy/sources.rs"
            ));
        }
        for (name, file, instead) in CONSTRUCTED_ONCE {
            if constructs(line, name) && source.path != Path::new(file) {
                complaints
                    .push(format!("{path}:{number}: constructs {name}; use {instead} ({file})"));
            }
        }
    }
    complaints.extend(check_renames(source));
    complaints
}

/// Finds renames that may be lost when the power fails. They do not apply to tests and tools.
fn check_renames(source: &Source) -> Vec<String> {
    let path = &source.path;
    let is_exempt = is_test(source)
        || !path.starts_with("crates")
        || WITHOUT_DURABLE_FILES.iter().any(|exempt| path.starts_with(exempt))
        || path == Path::new(RENAMES);
    if is_exempt {
        return Vec::new();
    }
    code_lines(before_tests(&source.text))
        .filter(|(_, line)| line.contains("fs::rename"))
        .map(|(number, _)| {
            let path = path.display();
            format!("{path}:{number}: `fs::rename`; use store::durable_file ({RENAMES})")
        })
        .collect()
}

fn is_test(source: &Source) -> bool {
    source.path.iter().any(|part| part == "tests" || part == "tests.rs")
}

/// Rules for the lowest layers. They do not apply to tests.
pub(crate) fn check_for_layer(source: &Source, layer: Option<usize>) -> Vec<String> {
    let Some(layer) = layer else { return Vec::new() };
    if layer > LAST_NEUTRAL_LAYER || is_test(source) {
        return Vec::new();
    }
    let path = source.path.display();
    let mut complaints = Vec::new();
    for (number, line) in code_lines(before_tests(&source.text)) {
        if has_word(line, "solana") || line.contains("solana_") {
            complaints.push(format!("{path}:{number}: L{layer} knows a chain: `{}`", line.trim()));
        }
        for impure in IMPURE.iter().filter(|impure| line.contains(**impure)) {
            if layer <= LAST_PURE_LAYER {
                complaints.push(format!(
                    "{path}:{number}: L{layer} uses {impure}; take it as an argument"
                ));
            }
        }
    }
    complaints
}

/// Returns the lines that are not comments, with their numbers.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(number, line)| (number, line.split(" // ").next().unwrap_or(line)))
}

fn before_tests(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn is_unsafe(line: &str) -> bool {
    let keyword = ["un", "safe"].concat();
    let Some((_, rest)) = line.split_once(&keyword) else { return false };
    let rest = rest.trim_start();
    has_word(line, &keyword)
        && ["{", "fn", "impl", "extern"].iter().any(|next| rest.starts_with(next))
}

/// Whether `line` begins a literal of the struct `name`. Its definition, its `impl` blocks and the patterns that take it
/// apart are not literals, nor is the body of a function that returns it.
fn constructs(line: &str, name: &str) -> bool {
    let literal = format!("{name} {{");
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(&literal).any(|(at, _)| {
        let before = line[..at].trim_end_matches(|c| is_part(c) || c == ':').trim_end();
        let is_whole_word = !line[..at].ends_with(is_part);
        let defines = ["struct", "enum", "impl", "for", "let", "->", ">"];
        is_whole_word && !defines.iter().any(|end| before.ends_with(end))
    })
}

/// Whether `line` has `word` with no letter, digit or underscore next to it.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { path: "crates/x/src/lib.rs".into(), text: text.to_owned() }
    }

    #[test]
    fn a_file_without_a_header_is_caught() {
        let complaints = check(&source("use std::fmt;\n"));
        assert_eq!(
            complaints,
            [
                "crates/x/src/lib.rs:1: does not open with `//!`: what, shape, bounds, what is not here"
            ]
        );
    }

    #[test]
    fn a_long_file_is_caught_unless_it_says_why() {
        let long = format!("//! A table.\n{}", "fn f() {}\n".repeat(800));
        assert_eq!(check(&source(&long)).len(), 1);
        let with_reason = format!("//! A table.\n//! Long because a table is.\n{long}");
        assert_eq!(check(&source(&with_reason)), [""; 0]);
    }

    #[test]
    fn unfinished_code_is_caught_and_a_comment_on_it_is_not() {
        for half in ["todo", "dbg", "unimplemented"] {
            let text = format!("//! X.\nfn f() {{ {half}!() }}\n");
            assert_eq!(check(&source(&text)), [format!("crates/x/src/lib.rs:2: `{half}!`")]);
            let comment = format!("//! X.\n// no {half}! here\n");
            assert_eq!(check(&source(&comment)), [""; 0]);
        }
    }

    #[test]
    fn a_lint_that_is_allowed_and_an_expected_panic_are_caught() {
        let open = "#[";
        let complaints = check(&source(&format!("//! X.\n{open}allow(dead_code)]\n")));
        assert_eq!(
            complaints,
            [format!("crates/x/src/lib.rs:2: `{open}allow(`; use {open}expect(..., reason)]")]
        );
        assert_eq!(check(&source(&format!("//! X.\n{open}should_panic]\n"))).len(), 1);
        assert_eq!(check(&source("//! X.\n#[expect(dead_code, reason = \"y\")]\n")), [""; 0]);
    }

    #[test]
    fn unsafe_code_is_caught_and_the_lint_named_like_it_is_not() {
        let keyword = ["un", "safe"].concat();
        for code in ["{ *p }", "fn f() {}", "impl Send for X {}", "extern \"C\" {}"] {
            let text = format!("//! X.\n{keyword} {code}\n");
            assert_eq!(check(&source(&text)).len(), 1, "{text}");
        }
        let lint = format!("//! X.\n#![forbid({keyword}_code)]\n");
        assert_eq!(check(&source(&lint)), [""; 0]);
    }

    #[test]
    fn a_second_literal_of_the_api_is_caught() {
        let name = CONSTRUCTED_ONCE[0].0;
        for code in ["let api = {} {", "Ok({} {", "Self::start(rpc_solana::{} { pool, ..api })"] {
            let text = format!("//! X.\n{}\n", code.replacen("{}", name, 1));
            assert_eq!(check(&source(&text)).len(), 1, "{text}");
            let builder = Source { path: CONSTRUCTED_ONCE[0].1.into(), text };
            assert_eq!(check(&builder), [""; 0]);
        }
        for code in [
            "pub struct {} {",
            "impl {} {",
            "impl Api for {} {",
            "fn api() -> {} {",
            "let {} { pool, .. } = api;",
            "My{} { pool }",
            "// {} { pool }",
        ] {
            let text = format!("//! X.\n{}\n", code.replacen("{}", name, 1));
            assert_eq!(check(&source(&text)), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_rename_without_a_sync_is_caught_in_the_crates_of_a_node() {
        let text = "//! X.\nfs::rename(from, to)?;\n#[cfg(test)]\nfs::rename(a, b);\n";
        let at = |path: &str| check(&Source { path: path.into(), text: text.to_owned() });
        let complaint = "crates/x/src/lib.rs:2: `fs::rename`; use store::durable_file (crates/store/src/durable_file.rs)";
        assert_eq!(at("crates/x/src/lib.rs"), [complaint]);
        for path in [RENAMES, "crates/x/tests/it/a.rs", "crates/testkit/src/a.rs", "xtask/src/a.rs"]
        {
            assert_eq!(at(path), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_chain_in_a_neutral_layer_is_caught_in_code_and_allowed_in_tests_and_comments() {
        let use_line = source("//! X.\nuse solana_pubkey::Pubkey;\n");
        assert_eq!(check_for_layer(&use_line, Some(2)).len(), 1);
        assert_eq!(check_for_layer(&use_line, Some(3)), [""; 0]);
        let comment = source("//! As in solana.\n// solana\n#[cfg(test)]\nuse solana_pubkey;\n");
        assert_eq!(check_for_layer(&comment, Some(1)), [""; 0]);
    }

    #[test]
    fn a_clock_or_a_file_in_a_pure_layer_is_caught() {
        let clock = source("//! X.\nlet now = Instant::now();\nlet f = std::fs::read(p);\n");
        assert_eq!(check_for_layer(&clock, Some(1)).len(), 2);
        assert_eq!(check_for_layer(&clock, Some(2)), [""; 0]);
    }
}
