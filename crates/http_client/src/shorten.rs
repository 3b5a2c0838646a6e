//! Texts of strangers in messages of ours.

use std::error::Error;

/// Characters of a stranger's text in an error or in a line of the log. A larger value lets a hostile server fill logs,
/// a smaller one cuts real error messages.
pub const MESSAGE_CHARS_MAX: usize = 300;

/// Characters of an error that may quote strangers, with its sources.
const ERROR_CHARS_MAX: usize = 1_000;

/// Returns the text without control characters, and at most [`MESSAGE_CHARS_MAX`] characters of it.
pub fn shorten_message(text: &str) -> String {
    take_printable(text, MESSAGE_CHARS_MAX)
}

/// Returns an error and its sources as one text of at most 1,000 characters, because it may quote strangers.
pub fn describe_error(err: &dyn Error) -> String {
    let mut text = take_printable(&err.to_string(), ERROR_CHARS_MAX);
    let mut source = err.source();
    while let Some(err) = source {
        text = take_printable(&format!("{text}: {err}"), ERROR_CHARS_MAX);
        source = err.source();
    }
    text
}

fn take_printable(text: &str, chars_max: usize) -> String {
    text.chars().filter(|char| !char.is_control()).take(chars_max).collect()
}

/// Returns the text if it has at most `bytes_max` bytes, or else its beginning, the number of bytes that are left out,
/// and its end.
pub fn shorten_middle(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(bytes_max / 2);
    let tail = text.ceil_char_boundary(text.len() - bytes_max / 2);
    let left_out = tail - head;
    format!("{} ... ({left_out} bytes) ... {}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HttpClientError;

    #[test]
    fn a_message_has_no_control_characters_and_a_bounded_length() {
        assert_eq!(shorten_message("a\r\nb\u{7}"), "ab");
        assert_eq!(shorten_message(&"x".repeat(1_000)).len(), MESSAGE_CHARS_MAX);
    }

    #[test]
    fn an_error_is_described_with_its_sources() {
        let io = |text: &str| std::io::Error::other(text.to_owned());
        let err = HttpClientError::Broken(io("no more"));
        let described = describe_error(&err);
        assert!(described.ends_with("its response was complete: no more"), "{described}");
        let long = HttpClientError::Broken(io(&"x".repeat(5_000)));
        assert_eq!(describe_error(&long).len(), ERROR_CHARS_MAX);
    }

    #[test]
    fn a_long_text_is_cut_in_its_middle() {
        assert_eq!(shorten_middle("short", 5), "short");
        let text = format!("at line 1{}too deep", "[".repeat(1_000_000));
        let cut = shorten_middle(&text, 100);
        assert!(cut.starts_with("at line 1[") && cut.ends_with("[too deep"), "{cut}");
        assert!(cut.len() < 140 && cut.contains("bytes) ..."), "{cut}");
        let cut = shorten_middle(&"ä".repeat(100), 51);
        assert!(cut.len() < 80, "{cut}");
    }
}
