//! Receive buffers that are used again: a ring of handles, each of which gets its memory back when the
//! last slice of it is gone.
//!
//! Bounds: `len_max` handles are kept; a buffer that is still held somewhere when its turn comes is let
//! go of and replaced. One buffer holds one datagram (or one joined transaction), so that a slice that
//! is kept for long pins no more than that.
//! Invariant: nothing is allocated while slices are dropped before the ring comes round.

use std::collections::VecDeque;

use bytes::BytesMut;

/// How many handles are looked at before a buffer is made.
const TRIES: usize = 4;

/// A ring of buffers of one size.
pub(crate) struct Ring {
    handles: VecDeque<BytesMut>,
    buffer_bytes: usize,
    len_max: usize,
    /// Buffers made.
    pub(crate) made: u64,
    /// Buffers taken since the last [`Ring::shrink`].
    taken: usize,
}

impl Ring {
    pub(crate) fn new(buffer_bytes: usize, len_max: usize) -> Self {
        Self { handles: VecDeque::new(), buffer_bytes, len_max, made: 0, taken: 0 }
    }

    /// An empty buffer with room for `buffer_bytes`.
    pub(crate) fn take(&mut self) -> BytesMut {
        self.taken += 1;
        for _ in 0..TRIES.min(self.handles.len()) {
            let Some(mut handle) = self.handles.pop_front() else { break };
            if handle.try_reclaim(self.buffer_bytes) {
                return handle;
            }
            // Still held somewhere. While there is room it stays, and gets another turn.
            if self.handles.len() + 1 < self.len_max {
                self.handles.push_back(handle);
            }
        }
        self.made += 1;
        BytesMut::with_capacity(self.buffer_bytes)
    }

    /// Gives a buffer back; slices split off from it may live on.
    pub(crate) fn give(&mut self, handle: BytesMut) {
        if self.handles.len() < self.len_max {
            self.handles.push_back(handle);
        }
    }

    /// Copies `bytes` into a buffer of their own.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> BytesMut {
        let mut handle = self.take();
        handle.extend_from_slice(bytes);
        let copied = handle.split();
        self.give(handle);
        copied
    }

    /// Lets go of half of what was not needed since the last call.
    pub(crate) fn shrink(&mut self) {
        let idle = self.handles.len().saturating_sub(self.taken);
        self.handles.truncate(self.handles.len() - idle.div_ceil(2));
        if self.handles.is_empty() {
            self.handles = VecDeque::new();
        }
        self.taken = 0;
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.handles.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_slice_gives_its_buffer_back() {
        let mut ring = Ring::new(64, 8);
        for round in 0..100u8 {
            let copied = ring.copy(&[round; 64]).freeze();
            assert_eq!(copied, vec![round; 64]);
        }
        assert_eq!((ring.made, ring.len()), (1, 1));
    }

    #[test]
    fn a_held_slice_pins_its_own_buffer_only_and_the_ring_stays_bounded() {
        let mut ring = Ring::new(64, 8);
        let held: Vec<_> = (0..100u8).map(|n| ring.copy(&[n; 10]).freeze()).collect();
        assert!(ring.len() <= 8);
        assert!(held.iter().enumerate().all(|(n, bytes)| bytes == &vec![n as u8; 10]));
    }

    #[test]
    fn an_idle_ring_shrinks_to_nothing() {
        let mut ring = Ring::new(64, 100);
        let held: Vec<_> = (0..100).map(|_| ring.copy(b"x")).collect();
        assert_eq!(ring.len(), 100);
        drop(held);
        for _ in 0..30 {
            ring.shrink();
        }
        assert_eq!(ring.len(), 0);
    }
}
