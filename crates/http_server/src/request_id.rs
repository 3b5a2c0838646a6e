//! The id of a request in the log and for its client: the client's own `x-request-id` if that is valid;
//! otherwise a generated one, which is formatted only when it is needed.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// Header of the request and of the response.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is accepted from a client: a UUID has 36 characters, a trace id 55.
const BYTES_MAX: usize = 64;

/// Id of a request. Cheap to copy; needs no allocation.
#[derive(Clone, Copy)]
pub struct RequestId(IdKind);

#[derive(Clone, Copy)]
enum IdKind {
    /// Number of the connection, and of the request on it.
    Generated {
        connection: u64,
        number: u64,
    },
    Supplied {
        len: u8,
        bytes: [u8; BYTES_MAX],
    },
}

impl RequestId {
    /// The id of a request on a connection.
    pub fn from_headers(headers: &HeaderMap, connection: u64, number: u64) -> Self {
        let supplied = headers.get(HEADER).map(HeaderValue::as_bytes).filter(|id| is_valid(id));
        Self(match supplied {
            None => IdKind::Generated { connection, number },
            Some(supplied) => {
                let mut bytes = [0; BYTES_MAX];
                bytes[..supplied.len()].copy_from_slice(supplied);
                IdKind::Supplied { len: supplied.len() as u8, bytes }
            }
        })
    }

    /// Whether the client supplied it.
    pub fn is_supplied(&self) -> bool {
        matches!(self.0, IdKind::Supplied { .. })
    }

    /// The value of the header.
    pub fn header(&self) -> Option<HeaderValue> {
        match &self.0 {
            IdKind::Generated { connection, number } => {
                let len = 8 + 1 + hex_len(*connection) + 1 + hex_len(*number);
                // Exactly: a vector with space left becomes a header by another allocation.
                let mut text = Vec::with_capacity(len);
                push_hex(&mut text, u64::from(*PROCESS), 8);
                for part in [*connection, *number] {
                    text.push(b'-');
                    push_hex(&mut text, part, hex_len(part));
                }
                HeaderValue::try_from(text).ok()
            }
            IdKind::Supplied { len, bytes } => {
                HeaderValue::from_bytes(&bytes[..usize::from(*len)]).ok()
            }
        }
    }
}

/// Differs between processes.
static PROCESS: LazyLock<u32> = LazyLock::new(|| RandomState::new().build_hasher().finish() as u32);

/// Returns the number of digits of a number in hexadecimal.
fn hex_len(number: u64) -> usize {
    number.checked_ilog2().map_or(1, |log| log as usize / 4 + 1)
}

/// Appends the last `digits` digits of a number in hexadecimal. `fmt` takes ten times as long.
fn push_hex(text: &mut Vec<u8>, number: u64, digits: usize) {
    for at in (0..digits).rev() {
        let digit = (number >> (4 * at) & 15) as u8;
        text.push(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    }
}

impl Default for RequestId {
    fn default() -> Self {
        Self(IdKind::Generated { connection: 0, number: 0 })
    }
}

/// Allows only characters without a meaning for logs and shells.
fn is_valid(id: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=BYTES_MAX).contains(&id.len()) && id.iter().all(is_allowed)
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            IdKind::Generated { connection, number } => {
                write!(f, "{:08x}-{connection:x}-{number:x}", *PROCESS)
            }
            IdKind::Supplied { len, bytes } => {
                f.write_str(std::str::from_utf8(&bytes[..usize::from(*len)]).unwrap_or_default())
            }
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(supplied: &[u8]) -> RequestId {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_bytes(supplied).expect("a header"));
        RequestId::from_headers(&headers, 10, 11)
    }

    #[test]
    fn the_header_has_the_text_of_the_log() {
        let headers = HeaderMap::new();
        for (connection, number) in [(0, 0), (1, 15), (16, 255), (u64::MAX, 1 << 63), (0xabc, 9)] {
            let id = RequestId::from_headers(&headers, connection, number);
            let header = id.header().expect("hexadecimal");
            assert_eq!(header.to_str().ok(), Some(id.to_string().as_str()));
        }
        assert_eq!(id(b"of-the-client").header().expect("it is valid"), "of-the-client");
    }

    #[test]
    fn a_valid_id_is_used_and_any_other_is_replaced() {
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        assert_eq!(id(uuid.as_bytes()).to_string(), uuid);
        let longest = "a".repeat(BYTES_MAX);
        assert_eq!(id(longest.as_bytes()).to_string(), longest);
        let too_long = "a".repeat(BYTES_MAX + 1);
        for invalid in [&b""[..], b"a b", b"a\"b", b"a{b}", "ä".as_bytes(), too_long.as_bytes()] {
            let generated = id(invalid);
            assert!(
                !generated.is_supplied() && generated.to_string().ends_with("-a-b"),
                "{generated}"
            );
        }
        let generated = RequestId::from_headers(&HeaderMap::new(), 10, 11);
        assert_eq!(generated.to_string(), id(b"").to_string());
        assert_eq!(
            generated.header().expect("a header").as_bytes(),
            generated.to_string().as_bytes()
        );
    }
}
