//! Rules for names, prose and statements: the glossary of CONTRIBUTING.md, and habits that read like a translation.
//!
//! Input: `.rs` and Markdown files. Output: one [`Hit`] for each use, with file, line, kind and replacement.
//! `budgets` compares the number of hits of each crate with the number that the crate is still allowed.
//! Checked as names: folders, files, and each struct, enum, union, trait, type, function, constant, static and
//! module that a file defines. Checked as prose: comments, doc comments and Markdown. Checked as statements: code.
//! Not here: local variables, fields, variants, names of test functions, string literals.

pub(crate) mod budgets;
mod glossary;
mod hit;
mod names;
mod prose;
mod rust_text;
mod tuples;

pub(crate) use self::glossary::check_table;
pub(crate) use self::hit::Hit;
use self::hit::Hits;
pub(crate) use self::names::{Definition, definitions};
use self::rust_text::RustText;
use super::source::Source;

/// Returns the code of a `.rs` file without comments and literals, in the same lines.
pub(crate) fn code(text: &str) -> String {
    RustText::new(text).code
}

/// Finds the hits in a `.rs` file: in its path, its definitions, its statements and its comments.
pub(crate) fn find_in_rust(source: &Source) -> Vec<Hit> {
    let text = RustText::new(&source.text);
    let mut hits = Hits::new(&source.path);
    names::find(&source.path, &text.code, &mut hits);
    tuples::find(&text.code, &mut hits);
    prose::find(&text.comments, &mut hits);
    hits.found
}

/// Finds the hits in a Markdown file. The changelog may quote old names in code spans.
pub(crate) fn find_in_markdown(source: &Source) -> Vec<Hit> {
    let text = prose::without_fenced_blocks(&source.text);
    let text = match source.path.to_str() {
        Some("CHANGELOG.md") => prose::without_code_spans(&text),
        Some("CONTRIBUTING.md") => glossary::without_glossary(&text),
        _ => text,
    };
    let mut hits = Hits::new(&source.path);
    prose::find(&text, &mut hits);
    hits.found
}
