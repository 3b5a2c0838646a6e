//! The media type of a response, by the request's `Accept` header.

use hyper::header::{self, HeaderMap};

/// Media type of raw bytes.
pub(crate) const RAW: &str = "application/octet-stream";

/// The media type of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    /// That of the route: JSON, or a text.
    Main,
    Raw,
}

/// The client's preferred media type: that of the route, unless `Accept` names raw bytes with at least the same quality.
/// `None` if it accepts no available type.
pub(crate) fn negotiate_media(
    headers: &HeaderMap,
    main_media: &str,
    has_raw: bool,
) -> Option<Media> {
    let ranges: Vec<&str> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|range| !range.is_empty())
        .collect();
    if ranges.is_empty() {
        return Some(Media::Main);
    }
    let main = MediaQuality::for_media(&ranges, main_media);
    let raw = if has_raw { MediaQuality::for_media(&ranges, RAW) } else { MediaQuality::default() };
    let is_raw = raw.q > main.q
        || (raw.q > 0
            && raw.q == main.q
            && raw.is_named
            && (!main.is_named || raw.position < main.position));
    match (is_raw, main.q > 0) {
        (true, _) => Some(Media::Raw),
        (false, true) => Some(Media::Main),
        (false, false) => None,
    }
}

/// The quality of a media type in an `Accept` header.
#[derive(Default)]
struct MediaQuality {
    /// The quality value in thousandths.
    q: u16,
    /// Whether it is listed by its full name, not by a range.
    is_named: bool,
    position: usize,
}

impl MediaQuality {
    fn for_media(ranges: &[&str], media: &str) -> Self {
        let kind = media.split('/').next().unwrap_or_default();
        let mut best = (0, Self::default());
        for (position, range) in ranges.iter().enumerate() {
            let (name, params) = range.split_once(';').unwrap_or((range, ""));
            let name = name.trim();
            let exactness = if name.eq_ignore_ascii_case(media) {
                3
            } else if name.strip_suffix("/*").is_some_and(|it| it.eq_ignore_ascii_case(kind)) {
                2
            } else {
                u8::from(name == "*/*")
            };
            if exactness > best.0 {
                // An invalid weight counts as 1.
                let q = http_server::parse_qvalue(params).unwrap_or(1_000);
                best = (exactness, Self { q, is_named: exactness == 3, position });
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;
    use crate::headers::JSON_MEDIA;

    #[test]
    fn the_media_type_with_the_highest_quality_is_chosen() {
        let json = Some(Media::Main);
        let raw = Some(Media::Raw);
        for (accept, has_raw, expected) in [
            ("", true, json),
            ("*/*", true, json),
            ("application/*", true, json),
            ("application/json", true, json),
            ("application/octet-stream", true, raw),
            ("application/octet-stream", false, None),
            ("application/octet-stream, */*;q=0.1", false, json),
            ("application/octet-stream, application/json", true, raw),
            ("application/json, application/octet-stream", true, json),
            ("application/json;q=0.5, APPLICATION/OCTET-STREAM;q=0.8", true, raw),
            ("text/html,application/xhtml+xml,*/*;q=0.8", true, json),
            ("text/html", true, None),
            ("*/*;q=0", true, None),
            ("application/json;q=0, */*", true, raw),
            ("application/json;q=0, */*", false, None),
            ("application/json;Q=0.2, application/octet-stream ; level=1; q=0.3", true, raw),
            ("application/json;charset=utf-8;q=0", true, None),
            ("application/json;q=all", true, json),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(
                negotiate_media(&headers, JSON_MEDIA, has_raw),
                expected,
                "{accept} {has_raw}"
            );
        }
        assert_eq!(negotiate_media(&HeaderMap::new(), JSON_MEDIA, true), json);
        let accept = HeaderValue::from_static("text/*");
        let headers = HeaderMap::from_iter([(header::ACCEPT, accept)]);
        assert_eq!(negotiate_media(&headers, "text/plain", false), Some(Media::Main));
        assert_eq!(negotiate_media(&headers, JSON_MEDIA, false), None);
    }
}
