//! Lists of subscriptions that many ids share.
//!
//! Shape: a [`PostingRef`] is nothing, one subscription, or names a list. Ids that came to the same
//! subscriptions together share one list, counted; lists of two to eight lie in slabs, longer ones on
//! their own.
//! Memory: an id with one subscription needs no list; an unshared list costs four bytes a subscription
//! and four for its count. A monitor of a million ids costs as many lists as there were different ones
//! among its ids.
//! Invariant: a list has as many counts as ids name it; at none it is free for another.

/// Subscriptions of an id: nothing, one, or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PostingRef(u32);

/// The greatest number that a word can carry beside what it is.
pub(crate) const INDEX_SLOT_MAX: u32 = (1 << TAG_SHIFT) - 1;

const TAG_SHIFT: u32 = 28;
const ONE: u32 = 1;
/// Tags from 2 to this are the lengths of lists in slabs.
const SLAB_LEN_MAX: u32 = 8;
const LONG: u32 = 9;
/// Lists that a slab grows by.
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

    fn tagged(tag: u32, number: u32) -> Self {
        debug_assert!(number <= INDEX_SLOT_MAX, "bounded by the engine's limits");
        Self(tag << TAG_SHIFT | number)
    }

    fn tag(self) -> u32 {
        self.0 >> TAG_SHIFT
    }

    fn number(self) -> u32 {
        self.0 & INDEX_SLOT_MAX
    }
}

/// All lists.
#[derive(Default)]
pub(crate) struct PostingLists {
    /// By length less two.
    slabs: [ListSlab; SLAB_LEN_MAX as usize - 1],
    long: Vec<LongList>,
    long_free: Vec<u32>,
}

#[derive(Default)]
struct ListSlab {
    /// Each of [`BLOCK_LISTS`] lists: a count, then the subscriptions. Of a free one the first
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
    /// The subscriptions behind a word.
    pub(crate) fn index_slots<'a>(&'a self, word: &'a PostingRef, one: &'a mut u32) -> &'a [u32] {
        match word.tag() {
            0 => &[],
            ONE => {
                *one = word.number();
                std::slice::from_ref(one)
            }
            LONG => &self.long[word.number() as usize].index_slots,
            len => self.slabs[slab_of(len)].list(len, word.number()),
        }
    }

    /// The word of an id that had `word` and gets `subscriber` too. The count of the id goes over to
    /// the new word. `memo` is what this made of other words for the same subscriber.
    pub(crate) fn with_slot(
        &mut self,
        word: PostingRef,
        subscriber: u32,
        memo: &mut MergeMemo,
    ) -> PostingRef {
        match word.tag() {
            0 => return PostingRef::tagged(ONE, subscriber),
            LONG if self.long[word.number() as usize].count == 1 => {
                self.long[word.number() as usize].index_slots.push(subscriber);
                return word;
            }
            _ => {}
        }
        if let Some(made) = memo.get(word) {
            self.count_one_more(made);
            self.release(word);
            return made;
        }
        let mut one = 0;
        let mut subscribers = self.index_slots(&word, &mut one).to_vec();
        subscribers.push(subscriber);
        self.replace(word, subscribers, memo)
    }

    /// The word of an id that had `word` and loses `subscriber`; the same if it does not have it.
    pub(crate) fn without_slot(
        &mut self,
        word: PostingRef,
        subscriber: u32,
        memo: &mut MergeMemo,
    ) -> PostingRef {
        match word.tag() {
            0 => return word,
            ONE => return if word.number() == subscriber { PostingRef::EMPTY } else { word },
            LONG if self.long[word.number() as usize].count == 1 => {
                let list = &mut self.long[word.number() as usize].index_slots;
                if list.len() > SLAB_LEN_MAX as usize + 1 {
                    if let Some(at) = list.iter().position(|kept| *kept == subscriber) {
                        list.swap_remove(at);
                        list.shrink_to(list.len() * 2);
                    }
                    return word;
                }
            }
            _ => {}
        }
        if let Some(made) = memo.get(word) {
            self.count_one_more(made);
            self.release(word);
            return made;
        }
        let mut one = 0;
        let mut subscribers = self.index_slots(&word, &mut one).to_vec();
        let Some(at) = subscribers.iter().position(|kept| *kept == subscriber) else {
            return word;
        };
        subscribers.remove(at);
        self.replace(word, subscribers, memo)
    }

    /// The heap bytes of it. Cost: O(lists / 512 + long lists).
    pub(crate) fn bytes(&self) -> usize {
        let blocks = self.slabs.iter().flat_map(|slab| &slab.blocks);
        let long = self.long.iter().map(|long| long.index_slots.capacity() * 4);
        blocks.map(|block| size_of_val(&**block)).sum::<usize>()
            + long.sum::<usize>()
            + self.long.capacity() * size_of::<LongList>()
            + self.long_free.capacity() * 4
    }

    /// Whether nothing is kept.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.long.is_empty() && self.slabs.iter().all(|slab| slab.blocks.is_empty())
    }

    fn replace(
        &mut self,
        old: PostingRef,
        subscribers: Vec<u32>,
        memo: &mut MergeMemo,
    ) -> PostingRef {
        // The new one first: were the old one's place used again, the memo would take one for the
        // other.
        let made = self.insert(subscribers);
        self.release(old);
        memo.put(old, made);
        made
    }

    fn insert(&mut self, subscribers: Vec<u32>) -> PostingRef {
        match subscribers.len() as u32 {
            0 => PostingRef::EMPTY,
            1 => PostingRef::tagged(ONE, subscribers[0]),
            len if len <= SLAB_LEN_MAX => {
                PostingRef::tagged(len, self.slabs[slab_of(len)].insert(len, &subscribers))
            }
            _ => {
                let list = LongList { count: 1, index_slots: subscribers };
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
                PostingRef::tagged(LONG, at)
            }
        }
    }

    fn count_one_more(&mut self, word: PostingRef) {
        match word.tag() {
            0 | ONE => {}
            LONG => self.long[word.number() as usize].count += 1,
            len => *self.slabs[slab_of(len)].count(len, word.number()) += 1,
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
            len => self.slabs[slab_of(len)].release(len, word.number()),
        }
    }
}

fn slab_of(len: u32) -> usize {
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

    fn insert(&mut self, len: u32, subscribers: &[u32]) -> u32 {
        let number = self.free.unwrap_or_else(|| self.grow(len));
        let (block, at) = Self::locate(len, number);
        let list = &mut self.blocks[block][at..=at + len as usize];
        self.free = Some(list[1]).filter(|next| *next != NONE);
        list[0] = 1;
        list[1..].copy_from_slice(subscribers);
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

    /// Adds a block of free lists; gives the first.
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

/// What became of words in one sweep over ids. Good only while nobody else changes the lists.
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
