//! From ids to the subscriptions that want them, for one topic and one facet.
//!
//! Shape: one word an id (`lists`). Where ids are dense the words lie in pages of 256; the others in
//! an open hash table, cut into shards so that none is long to grow.
//! Memory: 4 to 11 bytes for an id that somebody wants, whatever the number of those who do; one that
//! nobody wants costs nothing.
//! Cost: a look-up is one hash and two cache misses. Entering a set is O(set), with each list of
//! subscriptions made once for all ids that share it.

use foldhash::HashMap;

use crate::lists::{Lists, Memo, Word};

/// Ids of a page.
const PAGE_IDS: usize = 256;
/// A page is begun for at least so many ids at once: in the table they would cost the same.
const PAGE_BEGIN: usize = 96;
/// A page with fewer is given up.
const PAGE_END: u32 = 32;
/// Shards of the table.
const SHARDS: usize = 256;

/// The subscriptions by id.
pub(crate) struct Lane {
    /// With the number of words in use, which is not in the page so that that is just a kibibyte.
    pages: HashMap<u32, (u32, Box<[Word; PAGE_IDS]>)>,
    shards: Vec<Shard>,
    lists: Lists,
    /// Ids with a word.
    ids: usize,
    /// Ids with a word in a shard.
    scattered: usize,
}

impl Default for Lane {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        let (pages, lists) = (HashMap::default(), Lists::default());
        Self { pages, shards, lists, ids: 0, scattered: 0 }
    }
}

impl Lane {
    /// Who wants an id, each once.
    pub(crate) fn of(&self, id: u32, mut found: impl FnMut(u32)) {
        let word = self.word(id);
        let mut one = 0;
        self.lists.of(&word, &mut one).iter().for_each(|subscriber| found(*subscriber));
    }

    /// Whether somebody wants anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.ids == 0
    }

    /// Makes room for so many scattered ids.
    pub(crate) fn reserve(&mut self, ids: usize) {
        for shard in &mut self.shards {
            shard.resize(room_for(ids.div_ceil(SHARDS)));
        }
    }

    /// Enters a subscription under ids that are sorted and do not have it.
    pub(crate) fn insert(&mut self, ids: &[u32], subscriber: u32) {
        let mut memo = Memo::default();
        for part in ids.chunk_by(|a, b| page_of(*a) == page_of(*b)) {
            self.begin_page(part);
            self.change(part, |lists, word| lists.with(word, subscriber, &mut memo));
        }
    }

    /// Takes a subscription out from under ids that are sorted; those that do not have it stay.
    pub(crate) fn remove(&mut self, ids: &[u32], subscriber: u32) {
        let mut memo = Memo::default();
        for part in ids.chunk_by(|a, b| page_of(*a) == page_of(*b)) {
            self.change(part, |lists, word| lists.without(word, subscriber, &mut memo));
            self.end_page(part);
        }
    }

    fn word(&self, id: u32) -> Word {
        if let Some((_, words)) = self.pages.get(&page_of(id)) {
            return words[place_in_page(id)];
        }
        if self.scattered == 0 { Word::NOTHING } else { self.shards[shard_of(id)].get(id) }
    }

    /// Ids of one page.
    fn change(&mut self, part: &[u32], mut change: impl FnMut(&mut Lists, Word) -> Word) {
        let counted = |old: Word, new: Word| {
            i64::from(new != Word::NOTHING) - i64::from(old != Word::NOTHING)
        };
        if let Some((used, words)) = self.pages.get_mut(&page_of(part[0])) {
            let mut more = 0;
            for id in part {
                let word = &mut words[place_in_page(*id)];
                let new = change(&mut self.lists, *word);
                more += counted(*word, new);
                *word = new;
            }
            *used = (i64::from(*used) + more) as u32;
            self.ids = (self.ids as i64 + more) as usize;
            return;
        }
        for id in part {
            let shard = &mut self.shards[shard_of(*id)];
            let old = shard.get(*id);
            let new = change(&mut self.lists, old);
            if old == new {
                continue;
            }
            if new == Word::NOTHING {
                shard.remove(*id);
            } else {
                shard.set(*id, new);
            }
            let more = counted(old, new);
            self.ids = (self.ids as i64 + more) as usize;
            self.scattered = (self.scattered as i64 + more) as usize;
        }
    }

    fn begin_page(&mut self, part: &[u32]) {
        let number = page_of(part[0]);
        if part.len() < PAGE_BEGIN || self.pages.contains_key(&number) {
            return;
        }
        let (mut used, mut words) = (0, Box::new([Word::NOTHING; PAGE_IDS]));
        if self.scattered > 0 {
            for id in ids_of_page(number) {
                let word = self.shards[shard_of(id)].remove(id);
                if word != Word::NOTHING {
                    words[place_in_page(id)] = word;
                    used += 1;
                    self.scattered -= 1;
                }
            }
        }
        self.pages.insert(number, (used, words));
    }

    fn end_page(&mut self, part: &[u32]) {
        let number = page_of(part[0]);
        if self.pages.get(&number).is_none_or(|(used, _)| *used >= PAGE_END) {
            return;
        }
        let Some((_, words)) = self.pages.remove(&number) else { return };
        for (id, word) in ids_of_page(number).zip(*words) {
            if word != Word::NOTHING {
                self.shards[shard_of(id)].set(id, word);
                self.scattered += 1;
            }
        }
        if self.pages.is_empty() {
            self.pages = HashMap::default();
        }
    }
}

fn page_of(id: u32) -> u32 {
    id / PAGE_IDS as u32
}

fn place_in_page(id: u32) -> usize {
    id as usize % PAGE_IDS
}

fn ids_of_page(number: u32) -> impl Iterator<Item = u32> {
    let first = number * PAGE_IDS as u32;
    first..=first + (PAGE_IDS as u32 - 1)
}

/// One shard of the table: open addressing, linear probing, no graves.
#[derive(Default)]
struct Shard {
    slots: Box<[(u32, Word)]>,
    used: usize,
}

fn hash(id: u32) -> u64 {
    u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn shard_of(id: u32) -> usize {
    (hash(id) >> 56) as usize
}

/// Slots for so many ids: seven of eight are used when it is full.
fn room_for(ids: usize) -> usize {
    (ids * 8).div_ceil(7)
}

impl Shard {
    fn ideal(&self, id: u32) -> usize {
        let spread = (hash(id) >> 24) & 0xffff_ffff;
        ((spread * self.slots.len() as u64) >> 32) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// Where an id is, or the free slot where it would be. Some slot is always free.
    fn find(&self, id: u32) -> usize {
        let mut at = self.ideal(id);
        while self.slots[at].1 != Word::NOTHING && self.slots[at].0 != id {
            at = self.next(at);
        }
        at
    }

    fn get(&self, id: u32) -> Word {
        if self.used == 0 { Word::NOTHING } else { self.slots[self.find(id)].1 }
    }

    fn set(&mut self, id: u32, word: Word) {
        if room_for(self.used + 1) > self.slots.len() {
            self.resize(room_for(self.used + self.used / 4 + 2));
        }
        let at = self.find(id);
        self.used += usize::from(self.slots[at].1 == Word::NOTHING);
        self.slots[at] = (id, word);
    }

    fn remove(&mut self, id: u32) -> Word {
        if self.used == 0 {
            return Word::NOTHING;
        }
        let mut hole = self.find(id);
        let word = self.slots[hole].1;
        if word == Word::NOTHING {
            return word;
        }
        self.used -= 1;
        let mut at = hole;
        loop {
            at = self.next(at);
            let (moved, its_word) = self.slots[at];
            if its_word == Word::NOTHING {
                break;
            }
            // It may fill the hole unless that would put it before its ideal place.
            let len = self.slots.len();
            let way = |from: usize, to: usize| (to + len - from) % len;
            if way(self.ideal(moved), at) >= way(hole, at) {
                self.slots[hole] = (moved, its_word);
                hole = at;
            }
        }
        self.slots[hole] = (0, Word::NOTHING);
        if self.slots.len() > 16 && self.used * 4 < self.slots.len() {
            self.resize(room_for(self.used + self.used / 4 + 2));
        }
        word
    }

    fn resize(&mut self, slots: usize) {
        // Never full: one slot more than ids at least.
        let slots = slots.max(room_for(self.used + 1));
        let old =
            std::mem::replace(&mut self.slots, vec![(0, Word::NOTHING); slots].into_boxed_slice());
        for (id, word) in old {
            if word != Word::NOTHING {
                let at = self.find(id);
                self.slots[at] = (id, word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn found(lane: &Lane, id: u32) -> Vec<u32> {
        let mut found = Vec::new();
        lane.of(id, |subscriber| found.push(subscriber));
        found.sort_unstable();
        found
    }

    #[test]
    fn it_is_the_map_it_stands_for_and_leaves_nothing() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut lane = Lane::default();
        let mut sets: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for round in 0..600_u32 {
            let subscriber = rng.random_range(0..24);
            let spread = [200, 3_000, 1 << 31][rng.random_range(0..3)];
            let start = rng.random_range(0..3) * 5_000;
            let count = rng.random_range(0..400);
            let ids: BTreeSet<u32> =
                (0..count).map(|_| start + rng.random_range(0..spread)).collect();
            let set = sets.entry(subscriber).or_default();
            if rng.random_bool(0.5) {
                let new: Vec<u32> = ids.difference(set).copied().collect();
                lane.insert(&new, subscriber);
                set.extend(new);
            } else if rng.random_bool(0.7) {
                let gone: Vec<u32> = ids.iter().copied().collect();
                lane.remove(&gone, subscriber);
                set.retain(|id| !ids.contains(id));
            } else {
                let all: Vec<u32> = set.iter().copied().collect();
                lane.remove(&all, subscriber);
                set.clear();
            }
            if round % 20 == 0 {
                check(&lane, &sets);
            }
        }
        check(&lane, &sets);
        for (subscriber, set) in sets {
            lane.remove(&set.into_iter().collect::<Vec<_>>(), subscriber);
        }
        assert!(lane.is_empty() && lane.pages.is_empty() && lane.lists.is_empty());
        assert_eq!(lane.scattered, 0);
    }

    fn check(lane: &Lane, sets: &BTreeMap<u32, BTreeSet<u32>>) {
        let mut model: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (subscriber, set) in sets {
            set.iter().for_each(|id| model.entry(*id).or_default().push(*subscriber));
        }
        for (id, subscribers) in &model {
            assert_eq!(&found(lane, *id), subscribers, "of {id}");
        }
        assert_eq!(lane.ids, model.len());
        (0..20_000).filter(|id| !model.contains_key(id)).for_each(|id| {
            assert_eq!(found(lane, id), [], "of {id}");
        });
    }
}
