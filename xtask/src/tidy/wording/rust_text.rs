//! Separates the text of a `.rs` file into code and comments, and splits code into tokens.
//!
//! Invariant: both parts have the lines and columns of the file. String and character literals are in neither.

/// The code and the comments of a `.rs` file.
pub(super) struct RustText {
    pub(super) code: String,
    pub(super) comments: String,
}

/// A word or another character of code, with the number of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) line: usize,
    pub(super) text: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    Literal,
}

impl RustText {
    pub(super) fn new(text: &str) -> Self {
        let mut parts = Self { code: String::new(), comments: String::new() };
        let mut rest = text;
        while !rest.is_empty() {
            let (part, length) = first_part(rest);
            let (piece, after) = rest.split_at(length);
            parts.code.extend(show_if(part == Part::Code, piece));
            parts.comments.extend(show_if(part == Part::Comment, piece));
            rest = after;
        }
        parts
    }
}

/// Splits code into tokens. Whitespace only separates them.
pub(super) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (line, mut rest) in (1..).zip(code.lines().map(str::trim_start)) {
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (text, after) = rest.split_at(word.max(first.len_utf8()));
            tokens.push(Token { line, text });
            rest = after.trim_start();
        }
    }
    tokens
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the characters of `piece`, or as many blanks. Line ends remain.
fn show_if(is_shown: bool, piece: &str) -> impl Iterator<Item = char> {
    piece.chars().map(move |c| if is_shown || c == '\n' { c } else { ' ' })
}

/// Returns the part that the first piece of a text belongs to, and its length in bytes: not 0 unless the text is empty.
fn first_part(text: &str) -> (Part, usize) {
    if text.starts_with("//") {
        return (Part::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Part::Comment, block_comment_len(text));
    }
    if let Some(length) = raw_string_len(text).or_else(|| quoted_len(text)) {
        return (Part::Literal, length);
    }
    let word = text.find(|c| !is_word(c)).unwrap_or(text.len());
    let first = text.chars().next().map_or(0, char::len_utf8);
    (Part::Code, word.max(first))
}

/// Returns the length of a block comment, including nested ones.
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

/// Returns the length of `r"..."`, `br#"..."#` and the like, if the text starts with one.
fn raw_string_len(text: &str) -> Option<usize> {
    let unprefixed = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let opened = unprefixed.trim_start_matches('#');
    let end = format!("\"{}", "#".repeat(unprefixed.len() - opened.len()));
    let inside = opened.strip_prefix('"')?;
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(text.len() - inside.len() + length)
}

/// Returns the length of `"..."` or `'c'`, if the text starts with one. A lifetime is neither.
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
