//! Lists of subscriptions that many ids share.
//!
//! Shape: a [`PostingRef`] is empty, one subscription, or refers to a list. Ids that got the same subscriptions
//! together share one list, with a reference count. Lists of two to eight are in slabs; each longer one is a `Vec`.
//! Memory: an id with one subscription needs no list; an unshared list costs four bytes a subscription
//! and four for its count. Subscribing to a million ids creates as many lists as the ids had distinct ones before.
//! Invariant: the count of a list is the number of ids that refer to it; at zero it is free.

/// The subscriptions of an id: none, one, or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PostingRef(u32);

/// The greatest number that fits into a posting next to its tag.
pub(crate) const INDEX_SLOT_MAX: u32 = (1 << TAG_SHIFT) - 1;

const TAG_SHIFT: u32 = 28;
const ONE: u32 = 1;
/// Tags from 2 to this are the lengths of lists in slabs.
const SLAB_LEN_MAX: u32 = 8;
const LONG: u32 = 9;
/// The number of lists by which a slab grows.
const BLOCK_LISTS: usize = 512;
/// Ends the chain of free lists.
const NONE: u32 = u32::MAX;

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
    long: Vec<LongList>,
    long_free: Vec<u32>,
}

#[derive(Default)]
struct ListSlab {
    /// Each has [`BLOCK_LISTS`] lists: a count, then the subscriptions. In a free list the first
    /// subscription is the next free list.
    blocks: Vec<Box<[u32]>>,
    free: Option<u32>,
    used: usize,
}

struct LongList {
    count: u32,
    index_slots: Vec<u32>,
}

impl PostingLists {
    /// The subscriptions of a posting.
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

    /// The posting of an id that had `word` and gets `index_slot` too. The id's reference moves to
    /// the new posting. `memo` has the results for other postings and the same `index_slot`.
    pub(crate) fn with_slot(
        &mut self,
        word: PostingRef,
        index_slot: u32,
        memo: &mut MergeMemo,
    ) -> PostingRef {
        match word.tag() {
            0 => return PostingRef::with_tag(ONE, index_slot),
            LONG if self.long[word.number() as usize].count == 1 => {
                self.long[word.number() as usize].index_slots.push(index_slot);
                return word;
            }
            _ => {}
        }
        if let Some(new) = memo.get(word) {
            self.count_one_more(new);
            self.release(word);
            return new;
        }
        let mut one = 0;
        let mut index_slots = self.index_slots(&word, &mut one).to_vec();
        index_slots.push(index_slot);
        self.replace(word, index_slots, memo)
    }

    /// The posting of an id that had `word` and loses `index_slot`; the same if it does not have it.
    pub(crate) fn without_slot(
        &mut self,
        word: PostingRef,
        index_slot: u32,
        memo: &mut MergeMemo,
    ) -> PostingRef {
        match word.tag() {
            0 => return word,
            ONE => return if word.number() == index_slot { PostingRef::EMPTY } else { word },
            LONG if self.long[word.number() as usize].count == 1 => {
                let list = &mut self.long[word.number() as usize].index_slots;
                if list.len() > SLAB_LEN_MAX as usize + 1 {
                    if let Some(at) = list.iter().position(|slot| *slot == index_slot) {
                        list.swap_remove(at);
                        list.shrink_to(list.len() * 2);
                    }
                    return word;
                }
            }
            _ => {}
        }
        if let Some(new) = memo.get(word) {
            self.count_one_more(new);
            self.release(word);
            return new;
        }
        let mut one = 0;
        let mut index_slots = self.index_slots(&word, &mut one).to_vec();
        let Some(at) = index_slots.iter().position(|slot| *slot == index_slot) else {
            return word;
        };
        index_slots.remove(at);
        self.replace(word, index_slots, memo)
    }

    /// Its heap bytes. Cost: O(lists / 512 + long lists).
    pub(crate) fn bytes(&self) -> usize {
        let blocks = self.slabs.iter().flat_map(|slab| &slab.blocks);
        let long = self.long.iter().map(|long| long.index_slots.capacity() * 4);
        blocks.map(|block| size_of_val(&**block)).sum::<usize>()
            + long.sum::<usize>()
            + self.long.capacity() * size_of::<LongList>()
            + self.long_free.capacity() * 4
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.long.is_empty() && self.slabs.iter().all(|slab| slab.blocks.is_empty())
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
            len => *self.slabs[slab_index(len)].count(len, word.number()) += 1,
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
            len => self.slabs[slab_index(len)].release(len, word.number()),
        }
    }
}

fn slab_index(len: u32) -> usize {
    len as usize - 2
}

impl ListSlab {
    fn locate(len: u32, number: u32) -> (usize, usize) {
        let number = number as usize;
        (number / BLOCK_LISTS, number % BLOCK_LISTS * (len as usize + 1))
    }

    fn list(&self, len: u32, number: u32) -> &[u32] {
        let (block, at) = Self::locate(len, number);
        &self.blocks[block][at + 1..=at + len as usize]
    }

    fn count(&mut self, len: u32, number: u32) -> &mut u32 {
        let (block, at) = Self::locate(len, number);
        &mut self.blocks[block][at]
    }

    fn insert(&mut self, len: u32, index_slots: &[u32]) -> u32 {
        let number = self.free.unwrap_or_else(|| self.grow(len));
        let (block, at) = Self::locate(len, number);
        let list = &mut self.blocks[block][at..=at + len as usize];
        self.free = Some(list[1]).filter(|next| *next != NONE);
        list[0] = 1;
        list[1..].copy_from_slice(index_slots);
        self.used += 1;
        number
    }

    fn release(&mut self, len: u32, number: u32) {
        let next = self.free.unwrap_or(NONE);
        let (block, at) = Self::locate(len, number);
        let list = &mut self.blocks[block][at..=at + len as usize];
        list[0] -= 1;
        if list[0] > 0 {
            return;
        }
        list[1] = next;
        self.free = Some(number);
        self.used -= 1;
        if self.used == 0 {
            *self = Self::default();
        }
    }

    /// Adds a block of free lists. Returns the first.
    fn grow(&mut self, len: u32) -> u32 {
        let first = (self.blocks.len() * BLOCK_LISTS) as u32;
        let mut block = vec![0; BLOCK_LISTS * (len as usize + 1)].into_boxed_slice();
        for at in 0..BLOCK_LISTS {
            let is_last = at + 1 == BLOCK_LISTS;
            let next = if is_last { NONE } else { first + at as u32 + 1 };
            block[at * (len as usize + 1) + 1] = next;
        }
        self.blocks.push(block);
        first
    }
}

/// The results of postings in one pass over ids. Valid only while the lists are not changed otherwise.
#[derive(Default)]
pub(crate) struct MergeMemo {
    last: Option<(PostingRef, PostingRef)>,
    all: foldhash::HashMap<PostingRef, PostingRef>,
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
