//! Compressing a message of a response, a part at a time.
//!
//! Bounds: a step reads [`STEP_BYTES`], a millisecond or so. The message and its written bytes are counted.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::GzEncoder;
use grpc_server::{Compression, HEAD_BYTES, encode_head};

use crate::queue::Message;

/// Bytes of a message that one step compresses.
const STEP_BYTES: usize = 64 << 10;
/// A shorter message is sent as it is: its flag says so.
pub(crate) const COMPRESSED_BYTES_MIN: usize = 256;

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
        out[..HEAD_BYTES].copy_from_slice(&encode_head(true, length)?);
        let mut count = self.message.count;
        count.resize(out.capacity());
        Ok(count.attach(out))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use grpc_server::{QueueBudget, Sending};

    use super::*;

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
            assert_eq!(
                sent[..HEAD_BYTES],
                encode_head(true, sent.len() - HEAD_BYTES).expect("short")
            );
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
