//! How many bytes the answers hold that are kept, or made to be kept, and how many they may.
//!
//! Counted for as long as they are there: while an answer is collected, while the cache has it, and, once it
//! is given up or forgotten, until its client has read it.
//! Bounds: those that are collected, or given up and not sent, a quarter of the cache's; all, the cache's and
//! that quarter; each exceeded by a piece at most for each thread. What finds no room is streamed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

/// Room for the answers of one cache. Copies are the same room.
#[derive(Clone)]
pub(crate) struct Room(Arc<Counted>);

struct Counted {
    held: AtomicU64,
    held_max: u64,
    collected: AtomicU64,
    collected_max: u64,
}

impl Room {
    /// For a cache of so many bytes.
    pub(crate) fn new(cache_bytes_max: u64) -> Self {
        let collected_max = cache_bytes_max / 4;
        let held_max = cache_bytes_max.saturating_add(collected_max);
        let (held, collected) = (AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(Counted { held, held_max, collected, collected_max }))
    }

    /// Whether there is room for more.
    pub(crate) fn is_left(&self) -> bool {
        let Counted { held, held_max, collected, collected_max } = &*self.0;
        held.load(Ordering::Relaxed) < *held_max
            && collected.load(Ordering::Relaxed) < *collected_max
    }

    /// What all answers hold.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed)
    }

    /// The bytes, counted for as long as they or a part of them are somewhere.
    pub(crate) fn hold(&self, mut bytes: Vec<u8>) -> Bytes {
        // What is not used of it would be held as well.
        if bytes.capacity() - bytes.len() > bytes.len() / 4 {
            bytes.shrink_to_fit();
        }
        self.0.held.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Bytes::from_owner(Held { bytes, room: self.clone() })
    }
}

struct Held {
    bytes: Vec<u8>,
    room: Room,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.0.held.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

/// Parts of one answer that are not in the cache, in order.
pub(crate) struct Collected {
    room: Room,
    parts: VecDeque<Bytes>,
    bytes: u64,
}

impl Collected {
    pub(crate) fn new(room: &Room) -> Self {
        Self { room: room.clone(), parts: VecDeque::new(), bytes: 0 }
    }

    pub(crate) fn push(&mut self, part: Vec<u8>) {
        let bytes = part.len() as u64;
        self.bytes += bytes;
        self.room.0.collected.fetch_add(bytes, Ordering::Relaxed);
        self.parts.push_back(self.room.hold(part));
    }

    /// The next of them: all of a part, or `bytes_max` of a much longer one.
    pub(crate) fn pop(&mut self, bytes_max: usize) -> Option<Bytes> {
        let part = self.parts.front_mut()?;
        let bytes = if part.len() > 2 * bytes_max {
            part.split_to(bytes_max)
        } else {
            self.parts.pop_front()?
        };
        self.bytes -= bytes.len() as u64;
        self.room.0.collected.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
        Some(bytes)
    }

    /// How many bytes there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    pub(crate) fn first(&self) -> &[u8] {
        self.parts.front().map_or(&[], |part| part)
    }

    /// Leaves out the first bytes, which are in the first part.
    pub(crate) fn skip(&mut self, bytes: usize) {
        if let Some(part) = self.parts.front_mut() {
            let bytes = bytes.min(part.len());
            drop(part.split_to(bytes));
            self.bytes -= bytes as u64;
            self.room.0.collected.fetch_sub(bytes as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        self.room.0.collected.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_for_as_long_as_a_part_of_them_is_there() {
        let room = Room::new(400);
        let mut collected = Collected::new(&room);
        collected.push(vec![1; 60]);
        assert!(room.is_left());
        collected.push(vec![2; 60]);
        assert!(!room.is_left(), "a quarter is collected");
        collected.skip(10);
        let parts: Vec<_> = std::iter::from_fn(|| collected.pop(20)).collect();
        assert_eq!(parts.iter().map(Bytes::len).collect::<Vec<_>>(), [20, 30, 20, 40]);
        assert!(collected.is_empty() && room.is_left());
        assert_eq!(room.held_bytes(), 120, "somebody has them still");
        let kept = parts[0].slice(3..4);
        drop(parts);
        assert_eq!(room.held_bytes(), 60);
        drop(kept);
        assert_eq!(room.held_bytes(), 0);
        let full: Vec<_> = (0..5).map(|_| room.hold(vec![0; 100])).collect();
        assert!(!room.is_left(), "all of it is held");
        drop(full);
        assert!(room.is_left());
    }
}
