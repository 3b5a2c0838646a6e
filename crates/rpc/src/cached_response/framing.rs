//! Bytes that are put around what is coded already, without coding them: blocks of the same member or frame.
//!
//! Bounds: those of the formats for one block.
//! Not here: what the bytes say ([`super::answer`]).

/// Bytes of one stored block of deflate: its length has 16 bits.
const STORED_BYTES_MAX: usize = 65_535;

/// Bytes of one block of zstd, by its format: its window is never smaller.
const RAW_BYTES_MAX: usize = 128 * 1024;

pub(super) fn gzip_frame(
    (body, body_bytes): (&crc32fast::Hasher, u64),
    head: &[u8],
    tail: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let mut crc = crc32fast::Hasher::new();
    crc.update(head);
    crc.combine(body);
    let mut of_tail = crc32fast::Hasher::new();
    of_tail.update(tail);
    crc.combine(&of_tail);
    let bytes = body_bytes + (head.len() + tail.len()) as u64;
    let bytes = bytes as u32; // by the format, the low half
    let begin = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255][..], &stored_blocks(head, false)].concat();
    let end = [&stored_blocks(tail, true)[..], &crc.finalize().to_le_bytes(), &bytes.to_le_bytes()];
    (begin, end.concat())
}

/// Deflate blocks of bytes as they are.
fn stored_blocks(bytes: &[u8], ends: bool) -> Vec<u8> {
    split_blocks(bytes, STORED_BYTES_MAX, ends, |out, bytes, is_last| {
        let len = bytes.len() as u16; // as many as STORED_BYTES_MAX at most
        out.push(u8::from(is_last));
        out.extend([len.to_le_bytes(), (!len).to_le_bytes()].concat());
    })
}

/// Zstd blocks of bytes as they are.
pub(super) fn zstd_raw_blocks(bytes: &[u8], ends: bool) -> Vec<u8> {
    split_blocks(bytes, RAW_BYTES_MAX, ends, |out, bytes, is_last| {
        let header = u32::from(is_last) | (bytes.len() as u32) << 3;
        out.extend(&header.to_le_bytes()[..3]);
    })
}

/// Bytes behind headers, at least one; the last ends the stream, if that `ends` here.
fn split_blocks(
    bytes: &[u8],
    bytes_max: usize,
    ends: bool,
    header: impl Fn(&mut Vec<u8>, &[u8], bool),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 8);
    let mut rest = bytes;
    loop {
        let (block, after) = rest.split_at(rest.len().min(bytes_max));
        header(&mut out, block, ends && after.is_empty());
        out.extend_from_slice(block);
        rest = after;
        if rest.is_empty() {
            return out;
        }
    }
}
