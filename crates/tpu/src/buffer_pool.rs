//! Reusable receive buffers. The pool holds a handle of each buffer; a handle gets its memory back
//! when the last slice of it is dropped.
//!
//! Shape: handles that may still have live slices are in a queue, oldest first; free handles are on a
//! stack. Each take checks the head of the queue and uses the buffer that was freed last. So the
//! number of buffers in use is that of live slices, and they stay in the processor's cache, however
//! many buffers a burst left.
//! Bounds: `len_max` handles are retained. Beyond that a buffer is freed with its last slice. One
//! buffer holds one datagram (or one joined transaction), so that a long-lived slice pins only
//! that.
//! Invariant: nothing is allocated while slices are dropped as fast as buffers are taken.

use std::collections::VecDeque;

use bytes::BytesMut;

/// Maximum handles that are checked before a buffer is allocated.
const RECLAIM_ATTEMPTS_MAX: usize = 4;
/// One take in `TAKES_PER_EXTRA_RECLAIM` checks a second handle, so that the queue shrinks after a
/// burst.
const TAKES_PER_EXTRA_RECLAIM: usize = 4;

/// Reusable buffers of one size.
pub(crate) struct BufferPool {
    /// Released buffers that may still have live slices.
    in_use: VecDeque<BytesMut>,
    /// Buffers without live slices.
    free: Vec<BytesMut>,
    /// Minimum length of `free` since the last [`BufferPool::shrink`].
    free_min: usize,
    buffer_bytes: usize,
    len_max: usize,
    /// Number of buffers that were allocated.
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

    /// Takes an empty buffer with a capacity of `buffer_bytes`.
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

    /// Checks whether the oldest handle has its memory back.
    fn reclaim_oldest(&mut self) {
        let Some(mut handle) = self.in_use.pop_front() else { return };
        if handle.try_reclaim(self.buffer_bytes) {
            self.free.push(handle);
        } else {
            // It still has live slices: check it again later.
            self.in_use.push_back(handle);
        }
    }

    /// Releases a buffer. Slices split off from it may live on.
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

    /// Frees three quarters of the buffers that were not needed since the last call.
    pub(crate) fn shrink(&mut self) {
        if self.taken < self.in_use.len() {
            // There were too few takes to check all handles.
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
        let mut pool = BufferPool::new(64, 8);
        for round in 0..100u8 {
            let copied = pool.copy(&[round; 64]).freeze();
            assert_eq!(copied, vec![round; 64]);
        }
        assert_eq!((pool.made, pool.len()), (1, 1));
    }

    #[test]
    fn after_a_burst_only_as_many_are_in_use_as_have_live_slices() {
        let mut pool = BufferPool::new(64, 1_000);
        let burst: Vec<_> = (0..1_000).map(|_| pool.copy(b"x")).collect();
        assert_eq!(pool.made, 1_000);
        drop(burst);
        let mut slices = VecDeque::new();
        for round in 0..10_000 {
            slices.push_back(pool.copy(b"x"));
            if round >= 10 {
                slices.pop_front();
            }
        }
        assert_eq!((pool.made, pool.len()), (1_000, 1_000));
        assert!(pool.in_use.len() < 40, "{} are in use", pool.in_use.len());
    }

    #[test]
    fn a_live_slice_pins_its_own_buffer_only_and_the_pool_stays_bounded() {
        let mut pool = BufferPool::new(64, 8);
        let slices: Vec<_> = (0..100u8).map(|n| pool.copy(&[n; 10]).freeze()).collect();
        assert!(pool.len() <= 8);
        assert!(slices.iter().enumerate().all(|(n, bytes)| bytes == &vec![n as u8; 10]));
    }

    #[test]
    fn an_idle_pool_shrinks_to_nothing() {
        let mut pool = BufferPool::new(64, 100);
        let slices: Vec<_> = (0..100).map(|_| pool.copy(b"x")).collect();
        assert_eq!(pool.len(), 100);
        drop(slices);
        for _ in 0..30 {
            pool.shrink();
        }
        assert_eq!(pool.len(), 0);
    }
}
