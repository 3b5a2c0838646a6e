//! How many bytes the answers hold that are kept, or made to be kept, and how many they may.
//!
//! Counted for as long as they are there: while an answer is collected, while the cache has it, and, once it
//! is given up or forgotten, until its client has read it.
//! Bounds: those that are collected, or given up and not sent, a quarter of the cache's; all, the cache's and
//! that quarter; each exceeded by a piece at most for each thread. When all of it is held the cache forgets. An
//! answer has at most a share of what others leave ([`Room::share`]), and so has a client; what finds no room is
//! streamed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use pool::ClientId;

/// Room for the answers of one cache. Copies are the same room.
#[derive(Clone)]
pub(crate) struct Room(Arc<Counted>);

struct Counted {
    cache_max: u64,
    held: AtomicU64,
    held_max: u64,
    collected: Mutex<CollectedBytes>,
    collected_max: u64,
}

/// What is collected, or given up and not sent.
#[derive(Default)]
struct CollectedBytes {
    all: u64,
    /// Never 0.
    of: HashMap<ClientId, u64>,
}

impl Room {
    /// For a cache of so many bytes.
    pub(crate) fn new(cache_bytes_max: u64) -> Self {
        let collected_max = cache_bytes_max / 4;
        let held_max = cache_bytes_max.saturating_add(collected_max);
        let (held, collected) = (AtomicU64::new(0), Mutex::default());
        let cache_max = cache_bytes_max;
        Self(Arc::new(Counted { cache_max, held, held_max, collected, collected_max }))
    }

    /// Whether all that there is room for is held.
    pub(crate) fn is_full(&self) -> bool {
        self.held_bytes() >= self.0.held_max
    }

    /// How long an answer of `client` may become of which `own` bytes are collected, while the cache has
    /// `kept` bytes. Each takes a share of what others leave, so that no number of answers that are not read
    /// leaves nothing.
    pub(crate) fn share(&self, client: ClientId, own: u64, kept: u64) -> u64 {
        let Counted { collected, collected_max, cache_max, .. } = &*self.0;
        let (all, of_client) = {
            let collected = collected.lock();
            (collected.all, collected.of.get(&client).copied().unwrap_or_default())
        };
        // A client has half of what other clients leave, an answer half of what his others leave.
        let of_others = all.saturating_sub(of_client);
        let of_his = of_client.saturating_sub(own);
        let collecting = (collected_max.saturating_sub(of_others) / 2).saturating_sub(of_his) / 2;
        // In the cache an answer has a sixteenth of what those leave that are kept no more and still read.
        let unread = self.held_bytes().saturating_sub(kept.saturating_add(all));
        collecting.min(cache_max.saturating_sub(unread) / 16)
    }

    fn collect(&self, client: ClientId, bytes: u64) {
        let mut collected = self.0.collected.lock();
        collected.all += bytes;
        *collected.of.entry(client).or_default() += bytes;
    }

    fn let_go(&self, client: ClientId, bytes: u64) {
        let mut collected = self.0.collected.lock();
        collected.all -= bytes;
        if let Some(of_client) = collected.of.get_mut(&client) {
            *of_client -= bytes;
            if *of_client == 0 {
                collected.of.remove(&client);
            }
        }
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
    client: ClientId,
    parts: VecDeque<Bytes>,
    bytes: u64,
}

impl Collected {
    pub(crate) fn new(room: &Room, client: ClientId) -> Self {
        Self { room: room.clone(), client, parts: VecDeque::new(), bytes: 0 }
    }

    /// Others of the same client.
    pub(crate) fn another(&self) -> Self {
        Self::new(&self.room, self.client)
    }

    /// How long all of it may become, while the cache has `kept` bytes.
    pub(crate) fn share(&self, kept: u64) -> u64 {
        self.room.share(self.client, self.bytes, kept)
    }

    pub(crate) fn push(&mut self, part: Vec<u8>) {
        let bytes = part.len() as u64;
        self.bytes += bytes;
        self.room.collect(self.client, bytes);
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
        self.room.let_go(self.client, bytes.len() as u64);
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
            self.room.let_go(self.client, bytes as u64);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        self.room.let_go(self.client, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ClientId = ClientId(1);

    #[test]
    fn bytes_are_counted_for_as_long_as_a_part_of_them_is_there() {
        let room = Room::new(400);
        let mut collected = Collected::new(&room, ONE);
        collected.push(vec![1; 60]);
        collected.push(vec![2; 60]);
        assert!(collected.share(0) < collected.bytes());
        collected.skip(10);
        let parts: Vec<_> = std::iter::from_fn(|| collected.pop(20)).collect();
        assert_eq!(parts.iter().map(Bytes::len).collect::<Vec<_>>(), [20, 30, 20, 40]);
        assert!(collected.is_empty() && room.0.collected.lock().of.is_empty());
        assert_eq!(room.held_bytes(), 120, "somebody has them still");
        let kept = parts[0].slice(3..4);
        drop(parts);
        assert_eq!(room.held_bytes(), 60);
        drop(kept);
        assert_eq!((room.held_bytes(), room.share(ONE, 0, 0)), (0, 25));
        let full: Vec<_> = (0..5).map(|_| room.hold(vec![0; 100])).collect();
        assert!(room.is_full(), "all of it is held");
        drop(full);
        assert!(!room.is_full());
    }

    #[test]
    fn whoever_does_not_read_leaves_most_to_others() {
        const MIB: u64 = 1 << 20;
        let room = Room::new(256 * MIB);
        assert_eq!(room.share(ONE, 0, 0), 16 * MIB);
        // One client, as much as he can.
        let mut unsent = Vec::new();
        let take = |client: ClientId, unsent: &mut Vec<Collected>| {
            let mut collected = Collected::new(&room, client);
            while collected.bytes() < collected.share(0) {
                collected.push(vec![0; MIB as usize / 8]);
            }
            unsent.push(collected);
        };
        (0..50).for_each(|_| take(ONE, &mut unsent));
        assert!(room.share(ONE, 0, 0) < MIB / 8, "he has had his share");
        assert!(room.share(ClientId(2), 0, 0) >= 7 * MIB, "{}", room.share(ClientId(2), 0, 0));
        (2..=4).for_each(|n| take(ClientId(n), &mut unsent));
        assert!(room.share(ClientId(9), 0, 0) >= 3 * MIB);
        assert!(room.held_bytes() <= 64 * MIB);
        unsent.clear();
        // Those that are in the cache take nothing, those that are there no more and are read their own.
        let _held: Vec<_> = (0..128).map(|_| room.hold(vec![0; MIB as usize])).collect();
        assert_eq!(room.share(ONE, 0, 128 * MIB), 16 * MIB);
        assert_eq!(room.share(ONE, 0, 0), 8 * MIB);
    }
}
