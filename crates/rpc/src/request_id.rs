//! What names a request in the log and to its client: his own `x-request-id` if it is fit for that, else
//! one that is made of numbers, and written only if somebody wants to read it.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// Where it comes and goes.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The longest that is taken from a client: a UUID has 36 characters, a trace's id 55.
const BYTES_MAX: usize = 64;

/// A request's name. Cheap to copy, made without memory.
#[derive(Clone, Copy)]
pub struct RequestId(IdKind);

#[derive(Clone, Copy)]
enum IdKind {
    /// The connection of all that there were, and the request of all on it.
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
    pub(crate) fn from_headers(headers: &HeaderMap, connection: u64, number: u64) -> Self {
        let given = headers.get(HEADER).map(HeaderValue::as_bytes).filter(|id| is_fit(id));
        Self(match given {
            None => IdKind::Generated { connection, number },
            Some(given) => {
                let mut bytes = [0; BYTES_MAX];
                bytes[..given.len()].copy_from_slice(given);
                IdKind::Supplied { len: given.len() as u8, bytes }
            }
        })
    }

    /// Whether it is the client's own.
    pub(crate) fn is_supplied(&self) -> bool {
        matches!(self.0, IdKind::Supplied { .. })
    }

    /// It as a header.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(self.to_string()).ok()
    }
}

impl Default for RequestId {
    fn default() -> Self {
        Self(IdKind::Generated { connection: 0, number: 0 })
    }
}

/// Nothing that a log or a shell could take for something else.
fn is_fit(id: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=BYTES_MAX).contains(&id.len()) && id.iter().all(fits)
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Tells processes apart.
        static PROCESS: LazyLock<u32> =
            LazyLock::new(|| RandomState::new().build_hasher().finish() as u32);
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

    fn id(given: &[u8]) -> RequestId {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_bytes(given).expect("a header"));
        RequestId::from_headers(&headers, 10, 11)
    }

    #[test]
    fn a_fit_id_stays_and_any_other_is_made() {
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        assert_eq!(id(uuid.as_bytes()).to_string(), uuid);
        let longest = "a".repeat(BYTES_MAX);
        assert_eq!(id(longest.as_bytes()).to_string(), longest);
        let too_long = "a".repeat(BYTES_MAX + 1);
        for unfit in [&b""[..], b"a b", b"a\"b", b"a{b}", "ä".as_bytes(), too_long.as_bytes()] {
            let made = id(unfit);
            assert!(!made.is_supplied() && made.to_string().ends_with("-a-b"), "{made}");
        }
        let made = RequestId::from_headers(&HeaderMap::new(), 10, 11);
        assert_eq!(made.to_string(), id(b"").to_string());
        assert_eq!(made.header().expect("a header").as_bytes(), made.to_string().as_bytes());
    }
}
