//! Compressing a message of a response, a part at a time, and decompressing a request.
//!
//! Bounds: a step reads [`STEP_BYTES`], a millisecond or so. The message and its written bytes are counted. A request
//! becomes no larger than a request may be.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tonic::Status;
use tonic::codegen::http::HeaderMap;
use tonic::metadata::MetadataValue;

use crate::queue::Message;

/// Bytes before a message: a flag, then the length.
pub(crate) const HEAD_BYTES: usize = 5;
/// Bytes of a message that one step compresses.
const STEP_BYTES: usize = 64 << 10;
/// A shorter message is sent as it is: its flag says so.
pub(crate) const COMPRESSED_BYTES_MIN: usize = 256;
/// The header that names the compression of the messages that follow.
pub(crate) const ENCODING_HEADER: &str = "grpc-encoding";
/// The header with the compressions that the sender can read.
pub(crate) const ACCEPT_ENCODING_HEADER: &str = "grpc-accept-encoding";

/// The compression of the messages of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Gzip, Self::Zstd].into_iter().find(|it| it.name() == name)
    }

    /// That of the requests of a call.
    pub(crate) fn from_request(headers: &HeaderMap) -> Result<Option<Self>, Status> {
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

    /// The client's first choice for the messages of the response.
    pub(crate) fn from_accepted(headers: &HeaderMap) -> Option<Self> {
        let accepted = headers.get(ACCEPT_ENCODING_HEADER)?.to_str().ok()?;
        accepted.split(',').find_map(|name| Self::from_name(name.trim()))
    }

    /// The content of a compressed message.
    pub(crate) fn decompress(self, message: &[u8], bytes_max: usize) -> Result<Vec<u8>, Status> {
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

/// A message that is being compressed.
pub(crate) struct Compressing {
    message: Message,
    /// Bytes of the message that are compressed.
    done: usize,
    encoder: MessageEncoder,
}

enum MessageEncoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Compressing {
    pub(crate) fn new(compression: Compression, message: Message) -> io::Result<Self> {
        let head = vec![0; HEAD_BYTES];
        let encoder = match compression {
            Compression::Gzip => {
                MessageEncoder::Gzip(GzEncoder::new(head, flate2::Compression::default()))
            }
            Compression::Zstd => {
                let level = zstd::DEFAULT_COMPRESSION_LEVEL;
                MessageEncoder::Zstd(zstd::stream::write::Encoder::new(head, level)?)
            }
        };
        Ok(Self { message, done: 0, encoder })
    }

    /// Compresses a part. False if it was the last.
    pub(crate) fn step(&mut self) -> io::Result<bool> {
        let part = self.message.bytes.get(self.done..).unwrap_or_default();
        let part = part.get(..STEP_BYTES).unwrap_or(part);
        let written = match &mut self.encoder {
            MessageEncoder::Gzip(encoder) => {
                encoder.write_all(part)?;
                encoder.get_ref().capacity()
            }
            MessageEncoder::Zstd(encoder) => {
                encoder.write_all(part)?;
                encoder.get_ref().capacity()
            }
        };
        self.done += part.len();
        self.message.count.resize(self.message.bytes.len() + written);
        Ok(self.done < self.message.bytes.len())
    }

    /// The head and the compressed message.
    pub(crate) fn finish(self) -> io::Result<Bytes> {
        let mut out = match self.encoder {
            MessageEncoder::Gzip(encoder) => encoder.finish()?,
            MessageEncoder::Zstd(encoder) => encoder.finish()?,
        };
        let length = out.len() - HEAD_BYTES;
        out[..HEAD_BYTES].copy_from_slice(&head(true, length)?);
        let mut count = self.message.count;
        count.resize(out.capacity());
        Ok(count.attach(out))
    }
}

/// Returns the prefix of a message.
pub(crate) fn head(is_compressed: bool, length: usize) -> io::Result<[u8; HEAD_BYTES]> {
    let length = u32::try_from(length)
        .map_err(|_| io::Error::other("a message has more bytes than its head can say"))?;
    let [a, b, c, d] = length.to_be_bytes();
    Ok([u8::from(is_compressed), a, b, c, d])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::budget::QueueBudget;
    use crate::sending::Sending;

    #[test]
    fn a_message_is_compressed_in_steps_and_counted_as_what_it_becomes() {
        let budget = Arc::new(QueueBudget::new(1 << 20));
        let sending = Arc::new(Sending::new(Arc::clone(&budget)));
        let content: Vec<u8> = (0..200_000_u32).map(|n| (n / 7) as u8).collect();
        for compression in [Compression::Gzip, Compression::Zstd] {
            let count = sending.try_count(content.len()).expect("space");
            let message = Message { bytes: content.clone().into(), count };
            let mut compressing = Compressing::new(compression, message).expect("an encoder");
            let mut steps = 1;
            while compressing.step().expect("memory") {
                assert!(sending.bytes() > content.len());
                steps += 1;
            }
            assert_eq!(steps, 4);
            let sent = compressing.finish().expect("memory");
            assert!(sending.bytes() >= sent.len() && sending.bytes() < content.len());
            assert_eq!(sent[..HEAD_BYTES], head(true, sent.len() - HEAD_BYTES).expect("short"));
            let compressed = &sent[HEAD_BYTES..];
            let read = compression.decompress(compressed, content.len()).expect("compressed");
            assert!(read == content);
            let err = compression.decompress(compressed, content.len() - 1).expect_err("too large");
            assert_eq!(err.code(), tonic::Code::ResourceExhausted);
            drop(sent);
            assert_eq!(budget.used_bytes(), 0);
        }
    }
}
