//! Whether a request comes from a browser that loads a page.

use hyper::header::{self, HeaderMap};

/// Returns whether `Accept` lists HTML by its name. `*/*` alone is not enough: programs send it, and they get the
/// response that they got before there was a page.
pub(crate) fn accepts_html(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|range| {
        let (media, params) = range.split_once(';').unwrap_or((range, ""));
        // An invalid weight counts as 1, as in REST.
        let weight = http_server::parse_qvalue(params).unwrap_or(1_000);
        media.trim().eq_ignore_ascii_case("text/html") && weight > 0
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn only_a_client_that_names_html_gets_the_page() {
        for (accept, is_browser) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("TEXT/HTML", true),
            ("application/json, text/html;q=0.1", true),
            ("text/html;q=0, */*", false),
            ("*/*", false),
            ("text/*", false),
            ("application/json", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(accepts_html(&headers), is_browser, "{accept}");
        }
        assert!(!accepts_html(&HeaderMap::new()));
    }
}
