//! GOAWAY frames that the server writes itself (RFC 9113, 6.8): hyper has none with an error and a reason.
//!
//! In: the last stream, the error, the reason. Out: the bytes of the frame.
//! Bounds: a reason of up to [`REASON_BYTES_MAX`].
//! Not here: when a connection ends (`connection`), and the last frame of one that has started HTTP/2 (`socket`).

/// The last stream of a connection on which nothing was processed: its client may repeat all calls.
pub(crate) const NO_STREAM: u32 = 0;
/// The last stream of a connection on which any call may have been processed.
pub(crate) const ANY_STREAM: u32 = u32::MAX >> 1;

/// The client causes more load than it may (RFC 9113, 7).
pub(crate) const ENHANCE_YOUR_CALM: u32 = 0xb;
/// The client must use TLS (RFC 9113, 7).
pub(crate) const INADEQUATE_SECURITY: u32 = 0xc;

/// An empty SETTINGS frame (RFC 9113, 6.5), which precedes a GOAWAY frame if HTTP/2 has not started.
pub(crate) const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// The type of the frame.
const GOAWAY: u8 = 7;
/// Bytes of the last stream and the error.
const FIXED_BYTES: usize = 8;
/// Bytes of a reason: each client accepts frames of 16 KiB.
const REASON_BYTES_MAX: usize = (16 << 10) - FIXED_BYTES;

/// Returns the frame. The end of a longer reason is left out.
pub(crate) fn encode_go_away(last_stream: u32, error: u32, reason: &str) -> Vec<u8> {
    let reason = reason.as_bytes();
    let reason = reason.get(..REASON_BYTES_MAX).unwrap_or(reason);
    let [.., a, b] = (FIXED_BYTES + reason.len()).to_be_bytes();
    let mut frame = vec![0, a, b, GOAWAY, 0, 0, 0, 0, 0];
    frame.extend_from_slice(&last_stream.to_be_bytes());
    frame.extend_from_slice(&error.to_be_bytes());
    frame.extend_from_slice(reason);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_length_the_last_stream_the_error_and_the_reason() {
        let head = [0_u8, 0, 12, 7, 0, 0, 0, 0, 0];
        let expected = [&head[..], &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 11], b"slow"].concat();
        assert_eq!(encode_go_away(ANY_STREAM, ENHANCE_YOUR_CALM, "slow"), expected);
        let longest = encode_go_away(NO_STREAM, INADEQUATE_SECURITY, &"x".repeat(20_000));
        assert_eq!(longest.len(), 9 + (16 << 10));
        assert_eq!(longest[..3], [0, 0x40, 0]);
    }
}
