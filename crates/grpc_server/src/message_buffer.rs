//! The bytes of a message while it is received, in blocks.
//!
//! Shape: a block never moves, so a message that grows does not copy the bytes before. A step on the polling thread
//! copies a frame and at most [`BLOCK_BYTES`], whatever the length of the message.
//! Bounds: the last block has space for at most as many bytes as it has, and for [`BLOCK_BYTES`]. Once it is taken out,
//! it has space for an eighth more than its bytes.
//! Not here: the limits of messages (`requests`).

use std::collections::VecDeque;

use clients::trim_spare_capacity;

/// Bytes of a block. A larger value copies more in one step; a smaller one allocates more often.
const BLOCK_BYTES: usize = 64 << 10;

/// The bytes that were received and not taken.
#[derive(Default)]
pub(crate) struct MessageBuffer {
    blocks: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl MessageBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Appends bytes. They are copied, because a short part of a frame may share the memory of a long one.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len();
        while !bytes.is_empty() {
            if self.blocks.back().is_none_or(|block| block.len() == BLOCK_BYTES) {
                self.blocks.push_back(Vec::new());
            }
            let Some(block) = self.blocks.back_mut() else { return };
            let (fitting, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - block.len()));
            let length = block.len() + fitting.len();
            if block.capacity() < length {
                let capacity = length.max(2 * block.capacity()).min(BLOCK_BYTES);
                block.reserve_exact(capacity - block.len());
            }
            block.extend_from_slice(fitting);
            bytes = rest;
        }
    }

    /// Returns the first bytes, if it has as many.
    pub(crate) fn first<const N: usize>(&self) -> Option<[u8; N]> {
        let mut first = [0; N];
        let mut bytes = self.blocks.iter().flatten();
        for byte in &mut first {
            *byte = *bytes.next()?;
        }
        Some(first)
    }

    /// Removes the first `length` bytes, or all of them.
    pub(crate) fn split_first(&mut self, length: usize) -> Blocks {
        let mut taken = Vec::new();
        let mut missing = length.min(self.bytes);
        self.bytes -= missing;
        while missing > 0
            && let Some(mut block) = self.blocks.pop_front()
        {
            if block.len() > missing {
                self.blocks.push_front(block.split_off(missing));
            }
            missing -= block.len();
            // The last block has space for more than its bytes, which are all that the client's share counts.
            taken.push(trim_spare_capacity(block));
        }
        Blocks(taken)
    }
}

/// Bytes of a message, in the blocks in which they were received.
pub struct Blocks(Vec<Vec<u8>>);

impl Blocks {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Returns whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes after the first `skipped` ones. Cost: a copy. Each block is freed once it is copied.
    pub fn into_bytes_after(self, skipped: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len().saturating_sub(skipped));
        let mut skipped = skipped;
        for block in self.0 {
            let start = skipped.min(block.len());
            skipped -= start;
            bytes.extend_from_slice(&block[start..]);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the longest frame that every client may send.
    const FRAME_BYTES: usize = 16 << 10;

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn a_long_message_is_received_without_moving_its_bytes() {
        let message = pattern((4 << 20) + 7);
        let mut buffer = MessageBuffer::default();
        let mut full: Vec<*const u8> = Vec::new();
        for frame in message.chunks(FRAME_BYTES) {
            buffer.push(frame);
            assert!(buffer.blocks.iter().all(|block| block.capacity() <= BLOCK_BYTES));
            let is_full = |block: &&Vec<u8>| block.len() == BLOCK_BYTES;
            let blocks = buffer.blocks.iter().filter(is_full).map(|block| block.as_ptr());
            let blocks: Vec<*const u8> = blocks.collect();
            assert!(blocks.starts_with(&full), "a full block has moved");
            full = blocks;
        }
        let taken = buffer.split_first(4 << 20);
        let blocks: Vec<*const u8> = taken.0.iter().map(|block| block.as_ptr()).collect();
        assert_eq!(blocks, full, "the blocks are given away as they are");
        assert_eq!((taken.len(), buffer.len()), (4 << 20, 7));
        assert!(taken.into_bytes_after(5) == message[5..4 << 20]);
        assert!(buffer.split_first(usize::MAX).into_bytes_after(0) == message[4 << 20..]);
        assert!(buffer.is_empty());
    }

    #[test]
    fn messages_are_split_anywhere() {
        let bytes = pattern(3 * BLOCK_BYTES + 100);
        for length in [1, 4, 5, 6, BLOCK_BYTES - 2, BLOCK_BYTES, BLOCK_BYTES + 1, bytes.len()] {
            let mut buffer = MessageBuffer::default();
            for part in bytes.chunks(FRAME_BYTES - 3) {
                buffer.push(part);
            }
            let taken = buffer.split_first(length).into_bytes_after(0);
            assert!(taken == bytes[..length], "{length}");
            let rest = &bytes[length..];
            assert_eq!(
                buffer.first::<5>().map(|first| first.to_vec()),
                rest.get(..5).map(<[u8]>::to_vec)
            );
            buffer.push(b"more");
            assert_eq!(buffer.len(), rest.len() + 4);
            let all = buffer.split_first(usize::MAX).into_bytes_after(0);
            assert!(all == [rest, b"more"].concat(), "{length}");
        }
    }

    #[test]
    fn a_taken_block_has_no_uncounted_capacity() {
        for (length, is_copied) in [(100, true), (40 << 10, true), (BLOCK_BYTES - 1, false)] {
            let mut buffer = MessageBuffer::default();
            buffer.push(&pattern(BLOCK_BYTES));
            let start = buffer.blocks[0].as_ptr();
            let taken = buffer.split_first(length);
            // `shrink_to_fit` would leave a long block where it is.
            assert_eq!((taken.len(), taken.0[0].as_ptr() != start), (length, is_copied));
        }
    }

    #[test]
    fn a_short_message_has_a_short_block() {
        let mut buffer = MessageBuffer::default();
        buffer.push(&[7; 100]);
        assert!(buffer.blocks.iter().all(|block| block.capacity() < 200));
        assert_eq!(buffer.first(), Some([7; 5]));
        assert_eq!(buffer.first::<101>(), None);
        assert_eq!(buffer.split_first(200).len(), 100);
    }
}
