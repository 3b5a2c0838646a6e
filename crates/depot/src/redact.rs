//! Text of other programs in our errors: shortened, and without the user and query of URLs.

/// Characters of a reason. A response of a store may be a page.
const REASON_CHARS_MAX: usize = 400;

/// Returns the text of an error and of its causes, shortened and redacted.
pub(crate) fn reason(err: &(dyn std::error::Error + 'static)) -> String {
    let mut text = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        let part = err.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = err.source();
    }
    redact(&text).chars().take(REASON_CHARS_MAX).collect()
}

/// Removes user, password and query of each URL in a text.
pub(crate) fn redact(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        redacted.push_str(before);
        let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ')');
        let (url, behind) = after.split_at(after.find(is_end).unwrap_or(after.len()));
        let without_user = match url.split_once(['/', '?']) {
            Some((authority, _)) => &url[authority.rfind('@').map_or(0, |user| user + 1)..],
            None => &url[url.rfind('@').map_or(0, |user| user + 1)..],
        };
        redacted.push_str(without_user.split_once('?').map_or(without_user, |(path, _)| path));
        rest = behind;
    }
    redacted.push_str(rest);
    redacted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_queries_of_urls_are_removed() {
        for (text, redacted) in [
            ("no URL", "no URL"),
            ("at http://user:secret@host:1/a?key=secret: x", "at http://host:1/a x"),
            ("(s3://u@b) and https://h/p@q", "(s3://b) and https://h/p@q"),
            ("http://u:a@b@host", "http://host"),
            ("http://h?x=secret", "http://h"),
        ] {
            assert_eq!(redact(text), redacted);
        }
    }

    #[test]
    fn a_reason_has_its_causes_and_an_end() {
        let err = std::io::Error::other("x".repeat(10_000));
        assert_eq!(reason(&err).len(), REASON_CHARS_MAX);
    }
}
