//! Receive buffers that are used again: handles, each of which gets its memory back when the last slice of
//! it is gone.
//!
//! Shape: handles whose slices may still be held stand in a line, oldest first; those known to be free lie
//! on a stack. Each take looks at the head of the line, and uses what was freed last: so the buffers in use
//! are as few as are held at once, and stay in the processor's cache however many a burst has left.
//! Bounds: `len_max` handles are kept; beyond that a buffer goes when the last slice of it does. One buffer
//! holds one datagram (or one joined transaction), so that a slice that is kept for long pins no more than
//! that.
//! Invariant: nothing is allocated while slices are dropped as fast as buffers are taken.

use std::collections::VecDeque;

use bytes::BytesMut;

/// How many handles are looked at before a buffer is made.
const RECLAIM_ATTEMPTS_MAX: usize = 4;
/// One take in so many looks at a second handle, so that the line gets shorter after a burst.
const TAKES_PER_EXTRA_RECLAIM: usize = 4;

/// Buffers of one size.
pub(crate) struct BufferPool {
    /// Given back, with slices that may live on.
    in_use: VecDeque<BytesMut>,
    /// Nobody else holds anything of these.
    free: Vec<BytesMut>,
    /// The fewest free ones since the last [`BufferPool::shrink`].
    free_min: usize,
    buffer_bytes: usize,
    len_max: usize,
    /// Buffers made.
    pub(crate) made: u64,
    /// Buffers taken since the last [`BufferPool::shrink`].
    taken: usize,
}

impl BufferPool {
    pub(crate) fn new(buffer_bytes: usize, len_max: usize) -> Self {
        Self {
            in_use: VecDeque::new(),
            free: Vec::new(),
            free_min: 0,
            buffer_bytes,
            len_max,
            made: 0,
            taken: 0,
        }
    }

    /// An empty buffer with room for `buffer_bytes`.
    pub(crate) fn take_buffer(&mut self) -> BytesMut {
        self.taken += 1;
        self.reclaim_oldest();
        if self.taken.is_multiple_of(TAKES_PER_EXTRA_RECLAIM) {
            self.reclaim_oldest();
        }
        for _ in 0..RECLAIM_ATTEMPTS_MAX {
            if !self.free.is_empty() {
                break;
            }
            self.reclaim_oldest();
        }
        match self.free.pop() {
            Some(handle) => {
                self.free_min = self.free_min.min(self.free.len());
                handle
            }
            None => {
                self.free_min = 0;
                self.made += 1;
                BytesMut::with_capacity(self.buffer_bytes)
            }
        }
    }

    /// Looks whether the oldest handle has its memory back.
    fn reclaim_oldest(&mut self) {
        let Some(mut handle) = self.in_use.pop_front() else { return };
        if handle.try_reclaim(self.buffer_bytes) {
            self.free.push(handle);
        } else {
            // Still held somewhere: it gets another turn.
            self.in_use.push_back(handle);
        }
    }

    /// Gives a buffer back; slices split off from it may live on.
    pub(crate) fn release(&mut self, handle: BytesMut) {
        if self.len() < self.len_max {
            self.in_use.push_back(handle);
        }
    }

    /// Copies `bytes` into a buffer of their own.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> BytesMut {
        let mut handle = self.take_buffer();
        handle.extend_from_slice(bytes);
        let copied = handle.split();
        self.release(handle);
        copied
    }

    /// Lets go of three quarters of what was not needed since the last call.
    pub(crate) fn shrink(&mut self) {
        if self.taken < self.in_use.len() {
            // Too quiet for takes to find out who is free.
            (0..self.in_use.len()).for_each(|_| self.reclaim_oldest());
        }
        let idle = self.free_min.min(self.free.len());
        self.free.truncate(self.free.len() - (idle * 3).div_ceil(4));
        if self.in_use.capacity() > 64 && self.in_use.len() < self.in_use.capacity() / 4 {
            self.in_use.shrink_to(self.in_use.len() * 2);
        }
        if self.free.capacity() > 64 && self.free.len() < self.free.capacity() / 4 {
            self.free.shrink_to(self.free.len() * 2);
        }
        self.free_min = self.free.len();
        self.taken = 0;
    }

    fn len(&self) -> usize {
        self.in_use.len() + self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_slice_frees_its_buffer() {
        let mut ring = BufferPool::new(64, 8);
        for round in 0..100u8 {
            let copied = ring.copy(&[round; 64]).freeze();
            assert_eq!(copied, vec![round; 64]);
        }
        assert_eq!((ring.made, ring.len()), (1, 1));
    }

    #[test]
    fn after_a_burst_only_as_many_are_in_use_as_have_live_slices() {
        let mut ring = BufferPool::new(64, 1_000);
        let burst: Vec<_> = (0..1_000).map(|_| ring.copy(b"x")).collect();
        assert_eq!(ring.made, 1_000);
        drop(burst);
        let mut held = VecDeque::new();
        for round in 0..10_000 {
            held.push_back(ring.copy(b"x"));
            if round >= 10 {
                held.pop_front();
            }
        }
        assert_eq!((ring.made, ring.len()), (1_000, 1_000));
        assert!(ring.in_use.len() < 40, "{} are in use", ring.in_use.len());
    }

    #[test]
    fn a_live_slice_pins_its_own_buffer_only_and_the_pool_stays_bounded() {
        let mut ring = BufferPool::new(64, 8);
        let held: Vec<_> = (0..100u8).map(|n| ring.copy(&[n; 10]).freeze()).collect();
        assert!(ring.len() <= 8);
        assert!(held.iter().enumerate().all(|(n, bytes)| bytes == &vec![n as u8; 10]));
    }

    #[test]
    fn an_idle_pool_shrinks_to_nothing() {
        let mut ring = BufferPool::new(64, 100);
        let held: Vec<_> = (0..100).map(|_| ring.copy(b"x")).collect();
        assert_eq!(ring.len(), 100);
        drop(held);
        for _ in 0..30 {
            ring.shrink();
        }
        assert_eq!(ring.len(), 0);
    }
}
