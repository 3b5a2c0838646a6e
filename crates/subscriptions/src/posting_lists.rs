//! Lists of subscriptions that many ids share.
//!
//! Shape: a [`PostingRef`] is empty, one subscription, or refers to a list. Ids that got the same subscriptions
//! together share one list, with a reference count. Lists of two to fourteen are in slabs (`list_slab`); each longer
//! one is a `Vec`.
//! Most lists are shared by a few ids or by very many. A slab therefore has one byte for each count; the part above 255
//! is in a map.
//! Memory: an id with one subscription needs no list; an unshared list costs four bytes a subscription and one for its
//! count. Subscribing to a million ids creates as many lists as the ids had distinct ones before.
//! Invariant: the count of a list is the number of ids that refer to it; at zero it is free.

use foldhash::HashMap;

use crate::list_slab::ListSlab;

/// The subscriptions of an id: none, one, or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PostingRef(u32);

/// The greatest number that fits into a posting next to its tag.
pub(crate) const INDEX_SLOT_MAX: u32 = (1 << TAG_SHIFT) - 1;

const TAG_SHIFT: u32 = 28;
const ONE: u32 = 1;
/// Tags from 2 to this are the lengths of lists in slabs.
const SLAB_LEN_MAX: u32 = 14;
const LONG: u32 = 15;

impl PostingRef {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    fn with_tag(tag: u32, number: u32) -> Self {
        debug_assert!(number <= INDEX_SLOT_MAX, "bounded by the registry's limits");
        Self(tag << TAG_SHIFT | number)
    }

    fn tag(self) -> u32 {
        self.0 >> TAG_SHIFT
    }

    fn number(self) -> u32 {
        self.0 & INDEX_SLOT_MAX
    }
}

#[derive(Default)]
pub(crate) struct PostingLists {
    /// Indexed by length minus two.
    slabs: [ListSlab; SLAB_LEN_MAX as usize - 1],
    /// References to a list beyond 255.
    counts_above: HashMap<PostingRef, u32>,
    long: Vec<LongList>,
    long_free: Vec<u32>,
}

struct LongList {
    count: u32,
    index_slots: Vec<u32>,
}

impl PostingLists {
    /// Returns the subscriptions of a posting.
    pub(crate) fn index_slots<'a>(&'a self, word: &'a PostingRef, one: &'a mut u32) -> &'a [u32] {
        match word.tag() {
            0 => &[],
            ONE => {
                *one = word.number();
                std::slice::from_ref(one)
            }
            LONG => &self.long[word.number() as usize].index_slots,
            len => self.slabs[slab_index(len)].list(len, word.number()),
        }
    }

    /// Returns the posting of an id that had `word` and gets `index_slot` too. The id's reference moves to
    /// the new posting. `memo` has the results for other postings and the same `index_slot`.
    pub(crate) fn with_slot(
        &mut self,
        word: PostingRef,
        index_slot: u32,
        memo: &mut MergeMemo,
    ) -> PostingRef {
        if word == PostingRef::EMPTY {
            return PostingRef::with_tag(ONE, index_slot);
        }
        if let Some(new) = memo.get(word) {
            self.count_one_more(new);
            self.release(word);
            return new;
        }
        if word.tag() == LONG && self.long[word.number() as usize].count == 1 {
            let list = &mut self.long[word.number() as usize].index_slots;
            if list.len() == list.capacity() {
                list.reserve_exact(list.len() / 8);
            }
            list.push(index_slot);
            return word;
        }
        let mut one = 0;
        let old = self.index_slots(&word, &mut one);
        let mut index_slots = Vec::with_capacity(old.len() + 1);
        index_slots.extend_from_slice(old);
        index_slots.push(index_slot);
        self.replace(word, index_slots, memo)
    }

    /// Returns the posting of an id that had `word` and loses `index_slot`; the same if it does not have it.
    pub(crate) fn without_slot(
        &mut self,
        word: PostingRef,
        index_slot: u32,
        memo: &mut MergeMemo,
    ) -> PostingRef {
        match word.tag() {
            0 => return word,
            ONE => return if word.number() == index_slot { PostingRef::EMPTY } else { word },
            _ => {}
        }
        if let Some(new) = memo.get(word) {
            self.count_one_more(new);
            self.release(word);
            return new;
        }
        if word.tag() == LONG && self.long[word.number() as usize].count == 1 {
            let list = &mut self.long[word.number() as usize].index_slots;
            if list.len() > SLAB_LEN_MAX as usize + 1 {
                if let Some(at) = list.iter().position(|slot| *slot == index_slot) {
                    list.swap_remove(at);
                    if list.capacity() > list.len() + list.len() / 4 {
                        list.shrink_to(list.len() + list.len() / 8);
                    }
                }
                return word;
            }
        }
        let mut one = 0;
        let mut index_slots = self.index_slots(&word, &mut one).to_vec();
        let Some(at) = index_slots.iter().position(|slot| *slot == index_slot) else {
            return word;
        };
        index_slots.remove(at);
        self.replace(word, index_slots, memo)
    }

    /// Returns its heap bytes. Cost: O(lists / 512 + long lists).
    pub(crate) fn bytes(&self) -> usize {
        let long = self.long.iter().map(|long| long.index_slots.capacity() * 4);
        self.slabs.iter().map(ListSlab::bytes).sum::<usize>()
            + self.counts_above_bytes()
            + long.sum::<usize>()
            + self.long.capacity() * size_of::<LongList>()
            + self.long_free.capacity() * 4
    }

    /// Returns the heap bytes of the map: an entry and a control byte for each bucket. It is full at seven of eight.
    fn counts_above_bytes(&self) -> usize {
        self.counts_above.capacity() * 8 / 7 * (size_of::<(PostingRef, u32)>() + 1)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.long.is_empty()
            && self.counts_above.is_empty()
            && self.slabs.iter().all(ListSlab::is_empty)
    }

    fn replace(
        &mut self,
        old: PostingRef,
        index_slots: Vec<u32>,
        memo: &mut MergeMemo,
    ) -> PostingRef {
        // The new list first: if it reused the old one's number, the memo would confuse the two.
        let new = self.insert(index_slots);
        self.release(old);
        memo.put(old, new);
        new
    }

    fn insert(&mut self, index_slots: Vec<u32>) -> PostingRef {
        match index_slots.len() as u32 {
            0 => PostingRef::EMPTY,
            1 => PostingRef::with_tag(ONE, index_slots[0]),
            len if len <= SLAB_LEN_MAX => {
                PostingRef::with_tag(len, self.slabs[slab_index(len)].insert(len, &index_slots))
            }
            _ => {
                let list = LongList { count: 1, index_slots };
                let at = match self.long_free.pop() {
                    Some(at) => {
                        self.long[at as usize] = list;
                        at
                    }
                    None => {
                        if self.long.len() == self.long.capacity() {
                            self.long.reserve_exact(self.long.len() / 8 + 1);
                        }
                        self.long.push(list);
                        self.long.len() as u32 - 1
                    }
                };
                PostingRef::with_tag(LONG, at)
            }
        }
    }

    fn count_one_more(&mut self, word: PostingRef) {
        match word.tag() {
            0 | ONE => {}
            LONG => self.long[word.number() as usize].count += 1,
            len => {
                let count = self.slabs[slab_index(len)].count(word.number());
                match count.checked_add(1) {
                    Some(more) => *count = more,
                    None => *self.counts_above.entry(word).or_default() += 1,
                }
            }
        }
    }

    fn release(&mut self, word: PostingRef) {
        match word.tag() {
            0 | ONE => {}
            LONG => {
                let list = &mut self.long[word.number() as usize];
                list.count -= 1;
                if list.count > 0 {
                    return;
                }
                list.index_slots = Vec::new();
                self.long_free.push(word.number());
                if self.long_free.len() == self.long.len() {
                    (self.long, self.long_free) = (Vec::new(), Vec::new());
                }
            }
            len => {
                let slab = &mut self.slabs[slab_index(len)];
                if *slab.count(word.number()) == u8::MAX
                    && let Some(above) = self.counts_above.get_mut(&word)
                {
                    *above -= 1;
                    if *above == 0 {
                        self.counts_above.remove(&word);
                        if self.counts_above.is_empty() {
                            self.counts_above = HashMap::default();
                        }
                    }
                } else {
                    slab.release(len, word.number());
                }
            }
        }
    }
}

fn slab_index(len: u32) -> usize {
    len as usize - 2
}

/// The results of postings in one pass over ids. Valid only while the lists are not changed otherwise.
#[derive(Default)]
pub(crate) struct MergeMemo {
    last: Option<(PostingRef, PostingRef)>,
    all: HashMap<PostingRef, PostingRef>,
}

impl MergeMemo {
    fn get(&mut self, word: PostingRef) -> Option<PostingRef> {
        if let Some((old, new)) = self.last
            && old == word
        {
            return Some(new);
        }
        let new = *self.all.get(&word)?;
        self.last = Some((word, new));
        Some(new)
    }

    fn put(&mut self, old: PostingRef, new: PostingRef) {
        self.last = Some((old, new));
        self.all.insert(old, new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list_slab::BLOCK_LISTS;

    fn sort_slots(lists: &PostingLists, word: PostingRef) -> Vec<u32> {
        let mut one = 0;
        let mut index_slots = lists.index_slots(&word, &mut one).to_vec();
        index_slots.sort_unstable();
        index_slots
    }

    #[test]
    fn a_list_that_very_many_ids_share_lives_until_the_last_has_left() {
        let mut lists = PostingLists::default();
        let mut words = vec![PostingRef::EMPTY; 1_000];
        for index_slot in 0..20 {
            let mut memo = MergeMemo::default();
            for word in &mut words {
                *word = lists.with_slot(*word, index_slot, &mut memo);
            }
            assert!(words.iter().all(|word| *word == words[0]), "all share one list");
            let expected: Vec<u32> = (0..=index_slot).collect();
            assert_eq!(sort_slots(&lists, words[0]), expected);
        }
        for index_slot in 0..20 {
            // In two passes, so that the old list is shared by fewer and fewer ids.
            for part in words.chunks_mut(600) {
                let mut memo = MergeMemo::default();
                for word in part {
                    *word = lists.without_slot(*word, index_slot, &mut memo);
                    let expected: Vec<u32> = (index_slot + 1..20).collect();
                    assert_eq!(sort_slots(&lists, *word), expected);
                }
            }
        }
        assert!(words.iter().all(|word| *word == PostingRef::EMPTY) && lists.is_empty());
    }

    #[test]
    fn an_unshared_list_takes_little_more_than_its_subscriptions() {
        for (len, bytes_max) in [(2, 10.0), (8, 34.0), (14, 60.0), (15, 120.0), (40, 240.0)] {
            let mut lists = PostingLists::default();
            for _ in 0..10 * BLOCK_LISTS {
                let index_slots = (0..len).collect();
                lists.insert(index_slots);
            }
            let bytes = lists.bytes() as f64 / (10 * BLOCK_LISTS) as f64;
            assert!(bytes <= bytes_max, "{bytes} of {len}");
        }
    }
}
