//! The digest at the end of bytes: of manifests, and of the footers and holes of an archive.
//!
//! Input: bytes, followed by BLAKE3 of all of them. Output: the bytes before the digest, if it is theirs.
//! Not here: digests in other positions, such as those of parts and blocks (`part_reader`, `archive`).

/// Length of a digest.
const DIGEST_BYTES: usize = 32;

/// Why bytes between a magic and a digest cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameFault {
    /// The bytes do not start with the magic.
    Magic,
    /// The digest is missing, or is not that of the bytes.
    Digest,
}

/// Appends the digest of all bytes.
pub(crate) fn append_digest(bytes: &mut Vec<u8>) {
    let digest = blake3::hash(bytes);
    bytes.extend(digest.as_bytes());
}

/// Returns the bytes before the digest, or `None` if the digest is missing or not that of the bytes.
pub(crate) fn strip_digest(bytes: &[u8]) -> Option<&[u8]> {
    let (before, digest) = bytes.split_last_chunk::<DIGEST_BYTES>()?;
    (blake3::hash(before).as_bytes() == digest).then_some(before)
}

/// Returns the bytes between the magic at the start and the digest, which is that of the magic, too.
pub(crate) fn strip_magic_and_digest<'a>(
    bytes: &'a [u8],
    magic: &[u8],
) -> Result<&'a [u8], FrameFault> {
    if !bytes.starts_with(magic) {
        return Err(FrameFault::Magic);
    }
    strip_digest(bytes).and_then(|before| before.strip_prefix(magic)).ok_or(FrameFault::Digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_between_a_magic_and_their_digest_are_returned_and_no_others() {
        let mut bytes = b"MAGIcontent".to_vec();
        append_digest(&mut bytes);
        assert_eq!(strip_digest(&bytes), Some(&b"MAGIcontent"[..]));
        assert_eq!(strip_magic_and_digest(&bytes, b"MAGI"), Ok(&b"content"[..]));
        assert_eq!(strip_magic_and_digest(&bytes, b"OTHE"), Err(FrameFault::Magic));
        for at in 0..bytes.len() {
            let fault = if at < 4 { FrameFault::Magic } else { FrameFault::Digest };
            assert_eq!(strip_magic_and_digest(&bytes[..at], b"MAGI"), Err(fault), "cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(strip_digest(&damaged), None, "byte {at}");
            assert_eq!(strip_magic_and_digest(&damaged, b"MAGI"), Err(fault), "byte {at}");
        }
        let mut short = b"MA".to_vec();
        append_digest(&mut short);
        assert_eq!(strip_magic_and_digest(&short, b"MAGI"), Err(FrameFault::Magic));
    }
}
