//! The trace that a request belongs to, as its client says: the header `traceparent` of W3C Trace Context.
//!
//! Source: <https://www.w3.org/TR/trace-context/>, level 1. A header of a later version is read as one of version 0.

use hyper::header::HeaderMap;

const HEADER: &str = "traceparent";
/// Bytes of a header of version 0: `00-TRACE-PARENT-FLAGS`.
const BYTES: usize = 55;
/// The version that is not allowed.
const INVALID_VERSION: u8 = 0xff;
/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// A trace that is recorded, and the span in it that a request is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Id of the trace.
    pub trace_id: [u8; 16],
    /// Id of the client's span.
    pub span_id: [u8; 8],
}

impl TraceParent {
    /// The trace of a request. `None`: the header is absent or invalid, or the trace is not recorded.
    pub(crate) fn sampled_in(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers.get(HEADER)?.as_bytes())
    }

    fn parse(header: &[u8]) -> Option<Self> {
        let (known, later) = header.split_at_checked(BYTES)?;
        let is_separated = [2, 35, 52].into_iter().all(|at| known[at] == b'-');
        let [version] = hex(&known[..2])?;
        let has_end = later.is_empty() || (version > 0 && later[0] == b'-');
        let trace_id = hex(&known[3..35])?;
        let span_id = hex(&known[36..52])?;
        let [flags] = hex(&known[53..])?;
        let is_valid = is_separated
            && has_end
            && version != INVALID_VERSION
            && trace_id != [0; 16]
            && span_id != [0; 8];
        (is_valid && flags & SAMPLED != 0).then_some(Self { trace_id, span_id })
    }
}

/// Parses bytes from hexadecimal digits with lowercase letters.
fn hex<const BYTES: usize>(digits: &[u8]) -> Option<[u8; BYTES]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    fn parse(header: &str) -> Option<TraceParent> {
        TraceParent::parse(header.as_bytes())
    }

    #[test]
    fn a_recorded_trace_is_read_also_from_a_later_version() {
        let parent = parse(&format!("00-{TRACE}-{SPAN}-01")).expect("it is valid");
        assert_eq!((parent.trace_id[0], parent.trace_id[15]), (0x0a, 0x9c));
        assert_eq!((parent.span_id[0], parent.span_id[7]), (0xb7, 0x31));
        assert_eq!(parse(&format!("cc-{TRACE}-{SPAN}-03-more")), Some(parent));
    }

    #[test]
    fn a_trace_that_is_not_recorded_or_not_valid_is_none() {
        let zeros = "0".repeat(32);
        for header in [
            format!("00-{TRACE}-{SPAN}-00"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("cc-{TRACE}-{SPAN}-01more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00_{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}"),
            String::new(),
        ] {
            assert_eq!(parse(&header), None, "{header}");
        }
    }
}
