//! The compression of the messages of one direction: its headers, and decompressing a request.
//!
//! Bounds: a request becomes no larger than a request may be. A decoder in parts allocates at most
//! [`WINDOW_LOG_MAX`] before its first part.

use std::io::{self, Cursor, Read};

use flate2::read::GzDecoder;
use tonic::Status;
use tonic::codegen::http::HeaderMap;
use tonic::metadata::MetadataValue;

/// Bytes before a message: a flag, then the length.
pub const HEAD_BYTES: usize = 5;
/// The logarithm of the window that a decoder in parts may have: 8 MiB, which RFC 8878 (3.1.1.1.2) recommends.
const WINDOW_LOG_MAX: u32 = 23;
/// The header that names the compression of the messages that follow.
pub const ENCODING_HEADER: &str = "grpc-encoding";
/// The header with the compressions that the sender can read.
pub(crate) const ACCEPT_ENCODING_HEADER: &str = "grpc-accept-encoding";

/// The compression of the messages of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// `gzip` in headers.
    Gzip,
    /// Zstandard, `zstd` in headers.
    Zstd,
}

impl Compression {
    /// Returns the name in headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Gzip, Self::Zstd].into_iter().find(|it| it.name() == name)
    }

    /// Returns the compression of a call's requests; `None` if they are not compressed.
    ///
    /// Errors: `UNIMPLEMENTED` for an unknown one.
    pub fn from_request(headers: &HeaderMap) -> Result<Option<Self>, Status> {
        let Some(name) = headers.get(ENCODING_HEADER) else { return Ok(None) };
        let name = name.to_str().unwrap_or("unknown");
        if name == "identity" {
            return Ok(None);
        }
        Self::from_name(name).map(Some).ok_or_else(|| {
            let mut status = Status::unimplemented(format!("the encoding {name:?} is not served"));
            let served = MetadataValue::from_static("gzip,zstd,identity");
            status.metadata_mut().insert(ACCEPT_ENCODING_HEADER, served);
            status
        })
    }

    /// Returns the client's first choice for the messages of the response.
    pub fn from_accepted(headers: &HeaderMap) -> Option<Self> {
        let accepted = headers.get(ACCEPT_ENCODING_HEADER)?.to_str().ok()?;
        accepted.split(',').find_map(|name| Self::from_name(name.trim()))
    }

    /// Returns a reader that decompresses a message as it is read, for a content that is not needed as a whole. It does
    /// not limit the content.
    ///
    /// Errors: the decoder cannot allocate its memory.
    pub fn decoder(self, message: Vec<u8>) -> io::Result<Box<dyn Read + Send>> {
        let message = Cursor::new(message);
        Ok(match self {
            Self::Gzip => Box::new(GzDecoder::new(message)),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(message)?;
                decoder.window_log_max(WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        })
    }

    /// Returns the content of a compressed message.
    ///
    /// Errors: `INTERNAL` for a message that is not compressed in this way, `RESOURCE_EXHAUSTED` for a content of more
    /// than `bytes_max`.
    pub fn decompress(self, message: &[u8], bytes_max: usize) -> Result<Vec<u8>, Status> {
        let invalid =
            |err: io::Error| Status::internal(format!("a request cannot be decompressed: {err}"));
        let mut content = Vec::new();
        let limit = bytes_max as u64 + 1;
        match self {
            Self::Gzip => GzDecoder::new(message).take(limit).read_to_end(&mut content),
            Self::Zstd => zstd::stream::read::Decoder::new(message)
                .and_then(|decoder| decoder.take(limit).read_to_end(&mut content)),
        }
        .map_err(invalid)?;
        if content.len() > bytes_max {
            return Err(Status::resource_exhausted(format!(
                "a request has more than {bytes_max} bytes when it is decompressed \
                 (grpc.request_bytes_max)"
            )));
        }
        Ok(content)
    }
}

/// Encodes the prefix of a message of `length` bytes.
///
/// Errors: the length has more than 32 bits.
pub fn encode_head(is_compressed: bool, length: usize) -> io::Result<[u8; HEAD_BYTES]> {
    let length = u32::try_from(length)
        .map_err(|_| io::Error::other("a message has more bytes than its head can say"))?;
    let [a, b, c, d] = length.to_be_bytes();
    Ok([u8::from(is_compressed), a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a frame of Zstandard whose head asks for a window, and whose only block is empty.
    fn read_frame(window_log: u8) -> io::Result<Vec<u8>> {
        const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
        const LAST_BLOCK: [u8; 3] = [1, 0, 0];
        let frame = [&MAGIC[..], &[0, (window_log - 10) << 3], &LAST_BLOCK].concat();
        let mut content = Vec::new();
        Compression::Zstd.decoder(frame)?.read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn a_window_beyond_the_bound_is_not_allocated() {
        assert_eq!(read_frame(23).ok(), Some(Vec::new()));
        for window_log in [24, 27, 31] {
            assert!(read_frame(window_log).is_err(), "{window_log}");
        }
    }
}
