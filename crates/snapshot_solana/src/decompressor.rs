//! Unpacks the stream of an archive. The first bytes of the file decide how, not its name.
//!
//! In: a file that is compressed with Zstandard or LZ4, as Agave writes archives. Out: the tar archive in it. A stream
//! that ends too early is an error of the kind `UnexpectedEof`.
//! Bounds: Zstandard's window (at most 128 MiB, 2 MiB as Agave compresses), or the blocks of LZ4 (at most 12 MiB, 192
//! KiB as Agave compresses).

use std::io::{self, BufRead, ErrorKind, Read};

use lz4_flex::frame::FrameDecoder;
use zstd::stream::read::Decoder;

const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const LZ4_MAGIC: &[u8] = &[0x04, 0x22, 0x4d, 0x18];
/// The first bytes of other formats, for the error.
const OTHER_FORMATS: &[(&[u8], &str)] = &[
    (b"BZh", "compressed with bzip2"),
    (&[0x1f, 0x8b], "compressed with gzip"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "compressed with xz"),
    (&[0x02, 0x21, 0x4c, 0x18], "in LZ4's legacy format"),
];
/// The first bytes of a skippable frame, after one byte from 0x50 to 0x5f. LZ4 and Zstandard have the same.
const SKIPPABLE_MAGIC_END: &[u8] = &[0x2a, 0x4d, 0x18];
/// Bytes at the start of a file that identify its format.
pub(crate) const MAGIC_BYTES: usize = 4;

/// The decompressor of an archive.
pub(crate) enum Decompressor<R: BufRead> {
    Zstd(Decoder<'static, R>),
    Lz4(Lz4Frame<R>),
}

impl<R: BufRead> Decompressor<R> {
    /// Chooses the decompressor for the next bytes of `input`, which has at least [`MAGIC_BYTES`].
    ///
    /// Errors: the kind `Unsupported` if the format is another one.
    pub(crate) fn new(mut input: R) -> io::Result<Self> {
        let first = input.fill_buf()?;
        if first.starts_with(ZSTD_MAGIC) {
            return Ok(Self::Zstd(Decoder::with_buffer(input)?));
        }
        if first.starts_with(LZ4_MAGIC) {
            return Ok(Self::Lz4(Lz4Frame::new(input)));
        }
        let format = other_format(first);
        let reason = format!("{format}; Zstandard (tar.zst) and LZ4 (tar.lz4) are read");
        Err(io::Error::new(ErrorKind::Unsupported, reason))
    }
}

/// The name of a format that is not read.
fn other_format(first: &[u8]) -> &'static str {
    if let [0x50..=0x5f, rest @ ..] = first
        && rest.starts_with(SKIPPABLE_MAGIC_END)
    {
        return "starts with a skippable frame of LZ4 or Zstandard, which is not supported";
    }
    let format = OTHER_FORMATS.iter().find(|(magic, _)| first.starts_with(magic));
    format.map_or("not compressed", |(_, format)| format)
}

impl<R: BufRead> Read for Decompressor<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Zstd(decoder) => decoder.read(buf),
            Self::Lz4(frame) => frame.read(buf),
        }
    }
}

/// One frame of LZ4. The decoder alone reads a truncated frame, and a frame with an empty block, as one that has ended.
pub(crate) struct Lz4Frame<R: BufRead> {
    decoder: FrameDecoder<FrameInput<R>>,
    is_finished: bool,
}

impl<R: BufRead> Lz4Frame<R> {
    fn new(input: R) -> Self {
        let input = FrameInput { input, is_at_end: false, probe: None };
        Self { decoder: FrameDecoder::new(input), is_finished: false }
    }

    /// Whether the decoder has read the end mark of the frame. It then expects the magic number of another frame, and
    /// before that the length of a block: the bytes of [`PROBE`] are an error as a length, and no frame at the end of
    /// the input.
    fn has_end_mark(&mut self) -> bool {
        self.decoder.get_mut().probe = Some(PROBE);
        let probed = self.decoder.read(&mut [0]);
        self.decoder.get_mut().probe = None;
        matches!(probed, Ok(0))
    }

    /// Checks that nothing follows the frame.
    fn finish(&mut self) -> io::Result<()> {
        if !self.decoder.get_mut().input.fill_buf()?.is_empty() {
            let reason = "something follows the end of the LZ4 frame";
            return Err(io::Error::new(ErrorKind::InvalidData, reason));
        }
        self.is_finished = true;
        Ok(())
    }
}

impl<R: BufRead> Read for Lz4Frame<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while !self.is_finished && !buf.is_empty() {
            let read = self.decoder.read(buf)?;
            if read > 0 {
                return Ok(read);
            }
            // The decoder reads no byte after the end mark and the checksum of a frame.
            if self.decoder.get_ref().is_at_end {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            // Otherwise it has read an empty block, and the next block follows.
            if self.has_end_mark() {
                self.finish()?;
            }
        }
        Ok(0)
    }
}

/// The start of neither a block nor a frame: as the length of a block it is too large.
const PROBE: &[u8] = &[0xff; 4];

/// The input of the decoder. It records whether its end was reached.
struct FrameInput<R> {
    input: R,
    is_at_end: bool,
    /// Bytes that are read instead of the input, then an end.
    probe: Option<&'static [u8]>,
}

impl<R: Read> Read for FrameInput<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(probe) = &mut self.probe {
            return probe.read(buf);
        }
        let read = self.input.read(buf)?;
        self.is_at_end |= read == 0 && !buf.is_empty();
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

    use super::*;

    /// The frame of Agave's encoder: linked blocks of 64 KiB, and a checksum of the content.
    fn pack(content: &[u8]) -> Vec<u8> {
        pack_with(FrameInfo::new().block_mode(BlockMode::Linked).content_checksum(true), content)
    }

    fn pack_with(info: FrameInfo, content: &[u8]) -> Vec<u8> {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(content).expect("compress");
        encoder.finish().expect("compress")
    }

    fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        Decompressor::new(packed)?.read_to_end(&mut content)?;
        Ok(content)
    }

    /// Text that repeats in part.
    fn content() -> Vec<u8> {
        (0..40_000_u32).flat_map(|n| format!("{} {n}, ", n % 97).into_bytes()).collect()
    }

    #[test]
    fn every_kind_of_lz4_frame_is_unpacked() {
        let content = content();
        for mode in [BlockMode::Independent, BlockMode::Linked] {
            for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
                for has_sums in [false, true] {
                    let info = FrameInfo::new().block_mode(mode).block_size(size);
                    let info = info.content_checksum(has_sums).block_checksums(has_sums);
                    let packed = pack_with(info, &content);
                    assert!(unpack(&packed).expect("a whole frame") == content);
                }
            }
        }
        assert_eq!(unpack(&pack(b"")).expect("an empty frame"), b"");
    }

    #[test]
    fn a_truncated_lz4_frame_is_refused_at_every_length() {
        let packed = pack(&content()[..3_000]);
        for len in MAGIC_BYTES..packed.len() {
            let err = unpack(&packed[..len]).expect_err("it is cut off");
            assert_eq!(err.kind(), ErrorKind::UnexpectedEof, "{len} of {}: {err}", packed.len());
        }
    }

    /// A frame whose last block is empty.
    fn pack_with_empty_block(content: &[u8], has_sums: bool) -> Vec<u8> {
        let info = FrameInfo::new().block_mode(BlockMode::Linked);
        let mut packed = pack_with(info.content_checksum(has_sums), content);
        let mark = packed.len() - if has_sums { 8 } else { 4 };
        // A block that is not compressed, of no bytes.
        packed.splice(mark..mark, [0, 0, 0, 0x80]);
        packed
    }

    #[test]
    fn an_empty_block_does_not_end_an_lz4_frame() {
        for content in [&content()[..3_000], b""] {
            for has_sums in [false, true] {
                let packed = pack_with_empty_block(content, has_sums);
                assert!(unpack(&packed).expect("a whole frame") == content);
                for len in MAGIC_BYTES..packed.len() {
                    let err = unpack(&packed[..len]).expect_err("it is cut off");
                    let bytes = packed.len();
                    assert_eq!(err.kind(), ErrorKind::UnexpectedEof, "{len} of {bytes}: {err}");
                }
            }
        }
    }

    #[test]
    fn an_altered_lz4_frame_is_refused_at_every_byte() {
        let packed = pack(&content()[..3_000]);
        for at in 0..packed.len() {
            let mut altered = packed.clone();
            altered[at] ^= 1 << (at % 8);
            assert!(unpack(&altered).is_err(), "byte {at}");
        }
    }

    #[test]
    fn what_follows_an_lz4_frame_is_refused() {
        let packed = pack(b"one");
        let err = unpack(&[&packed[..], &packed[..]].concat()).expect_err("two frames");
        assert_eq!(err.to_string(), "something follows the end of the LZ4 frame");
    }

    #[test]
    fn a_block_that_claims_to_be_large_takes_no_memory() {
        let mut packed = pack(b"");
        // The end mark becomes the length of a block: 2 GiB less a byte.
        let mark = packed.len() - 8;
        packed[mark..mark + 4].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
        assert_eq!(unpack(&packed).expect_err("too large").kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn another_format_is_named() {
        const SKIPPABLE: &str =
            "starts with a skippable frame of LZ4 or Zstandard, which is not supported";
        for (first, expected) in [
            (&b"BZh91AY&SY"[..], "compressed with bzip2"),
            (&[0x1f, 0x8b, 8, 0], "compressed with gzip"),
            (&[0xfd, b'7', b'z', b'X', b'Z', 0], "compressed with xz"),
            (&[0x02, 0x21, 0x4c, 0x18], "in LZ4's legacy format"),
            (b"version\0", "not compressed"),
            (&[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0], SKIPPABLE),
            (&[0x5f, 0x2a, 0x4d, 0x18], SKIPPABLE),
            (&[0x60, 0x2a, 0x4d, 0x18], "not compressed"),
        ] {
            let err = unpack(first).expect_err(expected);
            assert_eq!(err.kind(), ErrorKind::Unsupported);
            assert!(err.to_string().starts_with(&format!("{expected}; ")), "{err}");
        }
    }
}
