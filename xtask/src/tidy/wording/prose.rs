//! Finds phrases in comments and documents that the glossary replaces, or that read like a translation.
//!
//! A phrase may continue on the next line, but not over punctuation or an empty line.

use std::collections::HashMap;

use super::glossary::GLOSSARY;
use super::hit::{Hits, Kind};
use super::rust_text::is_word;

/// Phrases that are translated word by word, and the usual ones.
const GERMAN_PHRASES: &[(&str, &str)] = &[
    ("any more", "no longer, afterwards"),
    ("for ever", "forever"),
    ("from then on", "afterwards"),
    ("go on", "continue"),
    ("goes on", "continues"),
    ("going on", "continuing"),
    ("went on", "continued"),
    ("anew", "again"),
    ("else than", "other than"),
    ("so long as", "as long as, while"),
    ("of which", "a clause with `whose` or `that`, or a second sentence"),
    ("stands in", "is in"),
    ("stands at", "is at"),
    ("stands on", "is on"),
    ("stands there", "is there"),
    ("that is there", "existing"),
    ("that are there", "existing"),
    ("in one go", "at once"),
];

/// Standard phrases that contain one of those, or a phrase of the glossary.
const STANDARD_PHRASES: &[&str] = &[
    "kept alive",
    "stands in for",
    "one of which",
    "two of which",
    "three of which",
    "all of which",
    "any of which",
    "both of which",
    "each of which",
    "first of which",
    "last of which",
    "half of which",
    "many of which",
    "most of which",
    "none of which",
    "part of which",
    "parts of which",
    "some of which",
];

/// Words after "no" that make a usual phrase: "is no longer", "is no more than".
const USUAL_AFTER_NO: &[&str] =
    &["longer", "more", "such", "need", "way", "doubt", "reason", "room", "limit", "one"];

/// Starts of a sentence that only the sentence before it explains.
const FRAGMENT_STARTS: &[&str] = &["The same", "As `", "It.", "Likewise"];

/// Words of a text with their lines. `None` stands between words that do not make one phrase.
type Words<'a> = Vec<Option<(usize, &'a str)>>;

/// Phrases to find, by their first word.
type Phrases = HashMap<&'static str, Vec<Phrase>>;

struct Phrase {
    words: Vec<&'static str>,
    /// `None` for a standard phrase.
    hit: Option<(Kind, &'static str)>,
}

pub(super) fn find(text: &str, hits: &mut Hits<'_>) {
    find_phrases(&split_words(text), hits);
    for (number, line) in (1..).zip(text.lines()) {
        if is_fragment(line.trim_start().trim_start_matches(['/', '!', '*', '>']).trim()) {
            let message = "the sentence needs the one before it; name its subject".to_owned();
            hits.push(Kind::Fragment, number, message);
        }
    }
}

fn find_phrases(words: &Words<'_>, hits: &mut Hits<'_>) {
    let phrases = all_phrases();
    let mut at = 0;
    while at < words.len() {
        let rest = &words[at..];
        at += 1;
        let Some((line, first)) = rest[0] else { continue };
        find_is_no(words, at - 1, line, hits);
        let candidates = phrases.get(first.to_lowercase().as_str());
        let Some(phrase) =
            candidates.and_then(|list| list.iter().find(|one| starts_with(rest, &one.words)))
        else {
            continue;
        };
        let is_after_punctuation = at < 2 || words[at - 2].is_none();
        at += phrase.words.len() - 1;
        if phrase.words == ["of", "which"] && is_after_punctuation {
            continue; // "ten, of which two": a part of the noun before the comma.
        }
        if let Some((kind, instead)) = phrase.hit {
            hits.push(kind, line, format!("\"{}\"; use {instead}", phrase.words.join(" ")));
        }
    }
}

/// Pushes a hit for "no" and a noun after a form of "to be", except after "there" and in the usual phrases.
fn find_is_no(words: &Words<'_>, at: usize, line: usize, hits: &mut Hits<'_>) {
    let word = |at: usize| words.get(at).copied().flatten().map(|(_, word)| word.to_lowercase());
    let is_form_of_be = |word: &str| ["is", "are", "was", "were"].contains(&word);
    let Some(verb) = word(at).filter(|word| is_form_of_be(word)) else { return };
    let Some(object) = word(at + 2).filter(|_| word(at + 1).as_deref() == Some("no")) else {
        return;
    };
    let has_subject_there = at > 0 && word(at - 1).as_deref() == Some("there");
    let is_usual = USUAL_AFTER_NO.iter().any(|usual| object.starts_with(usual));
    if !has_subject_there && !is_usual {
        hits.push(
            Kind::IsNo,
            line,
            format!("\"{verb} no {object}\"; use \"{verb} not a {object}\""),
        );
    }
}

/// Returns all phrases. The longer one of two with the same start comes first.
fn all_phrases() -> Phrases {
    let mut phrases = Phrases::new();
    let mut insert = |text: &'static str, hit| {
        let words: Vec<&str> = text.split(' ').collect();
        phrases.entry(words[0]).or_default().push(Phrase { words, hit });
    };
    for entry in GLOSSARY {
        for text in entry.phrases {
            insert(text, Some((Kind::GlossaryProse, entry.but)));
        }
    }
    for (text, instead) in GERMAN_PHRASES {
        insert(text, Some((Kind::German, instead)));
    }
    for text in STANDARD_PHRASES {
        insert(text, None);
    }
    for list in phrases.values_mut() {
        list.sort_by_key(|phrase| std::cmp::Reverse(phrase.words.len()));
    }
    phrases
}

fn starts_with(words: &[Option<(usize, &str)>], phrase: &[&str]) -> bool {
    words.len() >= phrase.len()
        && words.iter().zip(phrase).all(|(word, expected)| {
            matches!(word, Some((_, word)) if word.eq_ignore_ascii_case(expected))
        })
}

/// Whether a line starts as a sentence without a subject of its own: "The same ...", "Its owner."
fn is_fragment(line: &str) -> bool {
    let is_possessive = line
        .strip_prefix("Its ")
        .or_else(|| line.strip_prefix("Their "))
        .and_then(|rest| rest.split_once('.'))
        .is_some_and(|(noun, _)| noun.chars().all(is_word));
    is_possessive || FRAGMENT_STARTS.iter().any(|start| line.starts_with(start))
}

/// Splits a text into words, with the numbers of their lines.
fn split_words(text: &str) -> Words<'_> {
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

/// Blanks the lines between two lines of three backticks: code, or the output of a program.
pub(super) fn without_fenced_blocks(text: &str) -> String {
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

/// Blanks the text between backticks.
pub(super) fn without_code_spans(text: &str) -> String {
    let mut is_code = false;
    let blank = |c: char| {
        is_code ^= c == '`';
        if is_code && c != '\n' { '.' } else { c }
    };
    text.chars().map(blank).collect()
}

#[cfg(test)]
mod tests {
    use super::super::hit::Hit;
    use super::super::{find_in_markdown, find_in_rust};
    use super::*;
    use crate::tidy::source::Source;

    fn rust(text: &str) -> Vec<Hit> {
        let text = format!("//! X.\n{text}\n");
        find_in_rust(&Source { path: "crates/x/src/lib.rs".into(), text })
    }

    fn markdown(path: &str, text: &str) -> Vec<Hit> {
        find_in_markdown(&Source { path: path.into(), text: text.to_owned() })
    }

    #[test]
    fn a_person_in_a_comment_is_caught_and_one_in_a_string_is_not() {
        let hits = rust("fn f() {} // He waits.");
        assert_eq!(hits.len(), 1);
        assert_eq!((hits[0].kind, hits[0].line), (Kind::GlossaryProse, 2));
        assert_eq!(rust("/* a /* b */\nof his */ fn f() {}").len(), 1);
        assert_eq!(rust("//! X, the one here. She thinks of this."), []);
        assert_eq!(rust("fn f() { g(\"// he \\\" said\"); }"), []);
    }

    #[test]
    fn a_phrase_may_span_lines_but_not_punctuation() {
        let hits = rust("//! Sent to the client who\n//! asks. What it is\n/// told.");
        let lines: Vec<usize> = hits.iter().map(|hit| hit.line).collect();
        assert_eq!(lines, [2, 4]);
        assert_eq!(rust("//! For which so. Many of them.\n\n//! So\n\n//! long."), []);
    }

    #[test]
    fn a_standard_phrase_that_contains_another_one_is_not_caught() {
        assert_eq!(
            rust("// A connection that is kept alive, and one of which nothing is known."),
            []
        );
        assert_eq!(rust("// Ten nodes, of which two are old."), []);
        assert_eq!(rust("// It is kept, the slot of which is newer.").len(), 2);
    }

    #[test]
    fn is_no_is_caught_unless_there_is_nothing_or_the_phrase_is_usual() {
        assert_eq!(rust("// The text is no hash.")[0].kind, Kind::IsNo);
        assert_eq!(
            rust("// There is no hash, it is no longer needed, and it is no more than 3."),
            []
        );
    }

    #[test]
    fn a_translated_phrase_is_caught() {
        assert_eq!(rust("// Whatever happens, the node goes on.")[0].kind, Kind::German);
    }

    #[test]
    fn a_sentence_without_its_own_subject_is_caught() {
        for line in ["The same with other settings.", "As `open`, and hidden.", "Its owner.", "It."]
        {
            assert!(is_fragment(line), "{line}");
        }
        for line in ["Its owner has two keys.", "It waits.", "As long as it waits.", "Theirs."] {
            assert!(!is_fragment(line), "{line}");
        }
    }

    #[test]
    fn markdown_code_and_the_glossary_are_not_prose() {
        assert_eq!(markdown("docs/a.md", "Nobody waits.\n").len(), 1);
        assert_eq!(markdown("docs/a.md", "`asker`\n").len(), 1);
        assert_eq!(markdown("docs/a.md", "```text\nbeside nobody\n```\nhe\n").len(), 1);
        assert_eq!(markdown("CHANGELOG.md", "`asker` is gone\n"), []);
        assert_eq!(markdown("CHANGELOG.md", "`a` asker `b`\n").len(), 1);
        let contributing = "## Begin\n## Names and language\n| he |\n## Commits\nhe\n";
        let hits = markdown("CONTRIBUTING.md", contributing);
        assert_eq!(hits.iter().map(|hit| hit.line).collect::<Vec<_>>(), [5]);
    }
}
