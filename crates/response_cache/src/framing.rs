//! Frames bytes around an encoded value without compressing them: as blocks of the same gzip member or zstd
//! frame.
//!
//! Bounds: those of the formats for one block.
//! Not here: the content of the bytes (`entry`).

/// Bytes of one stored block of deflate: its length has 16 bits.
const STORED_BYTES_MAX: usize = 65_535;

/// Bytes of one zstd block, by the format: the window is never smaller.
const RAW_BYTES_MAX: usize = 128 * 1024;

pub(crate) fn gzip_frame(
    (body, body_bytes): (&crc32fast::Hasher, u64),
    head: &[u8],
    tail: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let mut crc = crc32fast::Hasher::new();
    crc.update(head);
    crc.combine(body);
    let mut tail_crc = crc32fast::Hasher::new();
    tail_crc.update(tail);
    crc.combine(&tail_crc);
    let bytes = body_bytes + (head.len() + tail.len()) as u64;
    let bytes = bytes as u32; // the format wants the low half
    let begin = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255][..], &stored_blocks(head, false)].concat();
    let end = [&stored_blocks(tail, true)[..], &crc.finalize().to_le_bytes(), &bytes.to_le_bytes()];
    (begin, end.concat())
}

/// Returns `bytes` as stored deflate blocks.
fn stored_blocks(bytes: &[u8], ends: bool) -> Vec<u8> {
    split_blocks(bytes, STORED_BYTES_MAX, ends, |out, bytes, is_last| {
        let len = bytes.len() as u16; // at most STORED_BYTES_MAX
        out.push(u8::from(is_last));
        out.extend([len.to_le_bytes(), (!len).to_le_bytes()].concat());
    })
}

/// Returns `bytes` as raw zstd blocks.
pub(crate) fn zstd_raw_blocks(bytes: &[u8], ends: bool) -> Vec<u8> {
    split_blocks(bytes, RAW_BYTES_MAX, ends, |out, bytes, is_last| {
        let header = u32::from(is_last) | (bytes.len() as u32) << 3;
        out.extend(&header.to_le_bytes()[..3]);
    })
}

/// Returns blocks of bytes, each after its header; at least one block. The last one ends the stream if `ends`.
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
