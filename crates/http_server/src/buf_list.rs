//! Several `Bytes` of a body that are written to the socket in one call, without a copy.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// A sequence of `Bytes`.
#[derive(Default)]
pub struct BufList {
    /// Never empty while `rest` is not.
    first: Bytes,
    rest: VecDeque<Bytes>,
    /// Total length.
    len: usize,
}

impl BufList {
    /// Appends bytes, which are not copied.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.len += bytes.len();
        if self.first.is_empty() {
            self.first = bytes;
        } else if !bytes.is_empty() {
            self.rest.push_back(bytes);
        }
    }

    /// Removes `count` bytes from the front, or all; they are not copied.
    pub(crate) fn split_to(&mut self, count: usize) -> Self {
        let mut front = Self::default();
        while front.len < count && self.len > 0 {
            let part = self.first.split_to(self.first.len().min(count - front.len));
            self.len -= part.len();
            front.push(part);
            if self.first.is_empty() {
                self.first = self.rest.pop_front().unwrap_or_default();
            }
        }
        front
    }
}

impl From<Bytes> for BufList {
    fn from(bytes: Bytes) -> Self {
        Self { len: bytes.len(), first: bytes, rest: VecDeque::new() }
    }
}

impl Buf for BufList {
    fn remaining(&self) -> usize {
        self.len
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        if self.len == 0 {
            return 0;
        }
        let parts = std::iter::once(&self.first).chain(&self.rest);
        into.iter_mut().zip(parts).map(|(slice, part)| *slice = IoSlice::new(part)).count()
    }

    fn advance(&mut self, mut count: usize) {
        self.len -= count;
        while count >= self.first.len() {
            count -= self.first.len();
            match self.rest.pop_front() {
                Some(next) => self.first = next,
                None => {
                    self.first.clear();
                    return;
                }
            }
        }
        self.first.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_order_for_any_step() {
        for step in 1..=9 {
            let mut list = BufList::default();
            for part in ["", "ab", "", "cde", "f", "ghi"] {
                list.push(Bytes::from_static(part.as_bytes()));
            }
            let mut taken = Vec::new();
            let mut front = list.split_to(step);
            assert_eq!((front.remaining(), list.remaining()), (step, 9 - step));
            taken.extend_from_slice(&front.copy_to_bytes(step));
            while list.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 8];
                let count = list.chunks_vectored(&mut slices);
                let seen: Vec<u8> = slices[..count].iter().flat_map(|it| it.to_vec()).collect();
                assert_eq!(seen.len(), list.remaining());
                let step = step.min(seen.len());
                taken.extend_from_slice(&seen[..step]);
                list.advance(step);
            }
            assert_eq!(taken, b"abcdefghi");
            assert_eq!(list.chunks_vectored(&mut [IoSlice::new(&[])]), 0);
        }
    }
}
