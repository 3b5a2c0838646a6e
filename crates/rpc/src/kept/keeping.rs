//! An answer that is made for the cache and collected plain, until it is whole or given up.
//!
//! Bounds: as much as the cache keeps of one answer, and the share of what is collected ([`crate::held`]).
//! Invariant: whoever waits for it is told, whatever becomes of it.
//! Not here: coding what is whole ([`super::coder`]).

use cache::{Entry, FillGuard};
use pool::ClientId;

use super::answer::Kept;
use super::store::Answers;
use crate::compress::Coding;
use crate::held::Collected;

/// An answer on its way into the cache.
pub(crate) struct Keeping {
    pub(super) fill: FillGuard<Kept>,
    pub(super) made_at: u64,
    pub(super) read: Box<[u64]>,
    pub(super) coding: Coding,
    pub(super) collected: Collected,
}

/// Why an answer is not kept after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GaveUp {
    /// It is larger than one answer may be.
    TooLarge,
    /// Too many are being collected.
    NoRoom,
}

impl GaveUp {
    /// As the log says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too large",
            Self::NoRoom => "no room",
        }
    }
}

impl Keeping {
    pub(crate) fn new(
        answers: &Answers,
        fill: FillGuard<Kept>,
        made_at: u64,
        read: Box<[u64]>,
        (coding, client): (Coding, ClientId),
    ) -> Self {
        let collected = Collected::new(&answers.room, client);
        Self { fill, made_at, read, coding, collected }
    }

    /// Whether there is room for what is collected and more. If all of it is held, the cache gives up some.
    pub(crate) fn has_room(&self) -> bool {
        let (cache, room) = (self.fill.cache(), self.collected.room());
        if room.is_full() {
            cache.evict_for(self.fill.bytes_max());
        }
        !room.is_full() && self.collected.bytes() < self.collected.share(cache.bytes())
    }

    /// Takes the next part of the reply. If it is not to be kept after all, why, and all parts of it.
    pub(crate) fn collect(mut self, part: Vec<u8>) -> Result<Self, (GaveUp, Collected)> {
        self.collected.push(part);
        if self.collected.bytes() > self.fill.bytes_max() {
            return Err((GaveUp::TooLarge, self.give_up(GaveUp::TooLarge)));
        }
        if !self.has_room() {
            return Err((GaveUp::NoRoom, self.give_up(GaveUp::NoRoom)));
        }
        Ok(self)
    }

    /// How much of the reply was collected.
    pub(crate) fn bytes(&self) -> u64 {
        self.collected.bytes()
    }

    /// Whoever waits for it is told at once; that it is too large is told to all who ask next as well.
    fn give_up(self, why: GaveUp) -> Collected {
        let entry = Entry { value: None, valid_at: self.made_at, dependencies: self.read };
        match why {
            GaveUp::TooLarge => drop(self.fill.complete(entry)),
            GaveUp::NoRoom => self.fill.abort(entry),
        }
        self.collected
    }
}
