//! The answer cache with all that belongs to it, as a node has it.
//!
//! Bounds: the cache's bytes, a quarter more for what is collected or still sent, and [`KNOWN_MAX`] texts.
//! Not here: finding something in it ([`crate::look`]).

use std::sync::atomic::{AtomicU64, Ordering};

use cache::{Cache, Config, RequestMemo};

use super::answer::Kept;
use crate::cached::Meaning;
use crate::held::Room;
use crate::stamp::Run;

/// The answer cache, and what names answers that it does not keep.
pub struct Answers {
    pub(crate) cache: Cache<Kept>,
    /// What answers may hold.
    pub(crate) room: Room,
    /// Of this start of the process alone.
    pub(crate) run: Run,
    /// What requests mean whose answers are kept, by their texts.
    pub(crate) known: RequestMemo<Meaning>,
    known_hits: AtomicU64,
}

/// Texts of requests that are known: 4 MB, and as much for what is known of them.
const KNOWN_MAX: usize = 8_192;

impl Answers {
    /// A cache of so many bytes; 0 keeps nothing. One answer may have a sixteenth of it.
    pub fn new(bytes_max: u64) -> Self {
        let entry_bytes_max = bytes_max / 16;
        let cache = Cache::new(Config { bytes_max, entry_bytes_max, waiters_max: 4_096 });
        let (known, known_hits) = (RequestMemo::new(KNOWN_MAX), AtomicU64::new(0));
        let room = Room::new(bytes_max);
        Self { cache, room, run: Run::new(), known, known_hits }
    }

    /// Bytes of answers that are collected, kept, or kept no more and not sent yet: at most the cache's and a
    /// quarter more.
    pub fn held_bytes(&self) -> u64 {
        self.room.held_bytes()
    }

    /// What the cache has done and holds.
    pub fn counters(&self) -> cache::Counters {
        self.cache.counters()
    }

    /// Of the hits, those whose parameters were not even read, because the same text came before.
    pub fn known_hits(&self) -> u64 {
        self.known_hits.load(Ordering::Relaxed)
    }

    pub(crate) fn count_known(&self) {
        self.known_hits.fetch_add(1, Ordering::Relaxed);
    }
}
