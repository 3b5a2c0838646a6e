//! The postings of ids: from an id to the subscriptions that match it, for one topic and one key kind.
//!
//! Shape: one posting for each id (`posting_lists`). Postings of dense ids are in pages of 256 (`posting_page`); the
//! others are in a hash table (`scattered_postings`). A page is created where it needs less memory than its ids in the
//! table.
//! Memory: an eighth of a byte to 10 bytes for an id with subscriptions, whatever their number; an id without
//! subscriptions costs nothing. The table has 280 KiB more once it has more than 384 ids.
//! Cost: a lookup is one or two hashes and two to five cache misses. Inserting a set is O(set); each list of
//! subscriptions is created once for all ids that share it.

use foldhash::HashMap;

use crate::posting_lists::{MergeMemo, PostingLists, PostingRef};
use crate::posting_page::{PAGE_IDS, PostingPage};
use crate::scattered_postings::ScatteredPostings;

/// Ids of one page that change at once for which it is worth checking whether a page needs less memory.
const PAGE_CHECK_MIN: usize = 16;
/// One of this many consecutive ids triggers the check when it is added. The check costs as much as adding a hundred
/// ids.
const PAGE_CHECK_INTERVAL: u32 = 128;
/// Bytes of a page without its postings.
const PAGE_BYTES: usize = 40;
/// The approximate bytes of an id in the table.
const SLOT_BYTES: usize = 7;

#[derive(Default)]
pub(crate) struct IdPostings {
    pages: HashMap<u32, PostingPage>,
    /// Postings of ids that are in no page.
    scattered: ScatteredPostings,
    lists: PostingLists,
    /// Number of ids with a posting.
    ids: usize,
}

/// A subscription that matches an item of a publication.
pub(crate) struct ItemMatch {
    pub(crate) index_slot: u32,
    /// The id that the caller passed with the item.
    pub(crate) id: u32,
    /// The caller's number of the item.
    pub(crate) item: u32,
}

impl IdPostings {
    /// Returns the subscriptions that match items: pairs of an id and the caller's number. In the order of the items,
    /// each subscription once for each of them.
    ///
    /// In one pass each for the pages, the postings and the lists, so that the cache misses of several items overlap.
    pub(crate) fn match_items(
        &self,
        items: impl IntoIterator<Item = (u32, u32)>,
    ) -> Vec<ItemMatch> {
        let pages: Vec<(u32, u32, Option<&PostingPage>)> = items
            .into_iter()
            .map(|(id, item)| (id, item, self.pages.get(&page_number(id))))
            .collect();
        let words: Vec<(u32, u32, PostingRef)> = pages
            .into_iter()
            .map(|(id, item, page)| (id, item, self.posting_in(page, id)))
            .filter(|(.., word)| *word != PostingRef::EMPTY)
            .collect();
        let mut matches = Vec::with_capacity(words.len());
        for (id, item, word) in words {
            let mut one = 0;
            let index_slots = self.lists.index_slots(&word, &mut one);
            matches.extend(index_slots.iter().map(|&index_slot| ItemMatch {
                index_slot,
                id,
                item,
            }));
        }
        matches
    }

    /// Calls `found` with each subscription of an id, once.
    pub(crate) fn for_each_match(&self, id: u32, mut found: impl FnMut(u32)) {
        let word = self.posting(id);
        let mut one = 0;
        self.lists.index_slots(&word, &mut one).iter().for_each(|index_slot| found(*index_slot));
    }

    /// Whether no id has subscriptions.
    pub(crate) fn is_empty(&self) -> bool {
        self.ids == 0
    }

    /// Whether an id has subscriptions.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.posting(id) != PostingRef::EMPTY
    }

    /// Whether a subscription is the only one of an id.
    pub(crate) fn has_only(&self, id: u32, index_slot: u32) -> bool {
        let word = self.posting(id);
        let mut one = 0;
        self.lists.index_slots(&word, &mut one) == [index_slot]
    }

    /// Allocates memory for `ids` scattered ids, which is never freed.
    pub(crate) fn reserve(&mut self, ids: usize) {
        self.scattered.reserve(ids);
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.scattered.is_reserved()
    }

    /// Inserts a subscription under sorted ids that do not have it.
    pub(crate) fn insert(&mut self, ids: &[u32], index_slot: u32) {
        let mut memo = MergeMemo::default();
        for part in ids.chunk_by(|a, b| page_number(*a) == page_number(*b)) {
            self.change(part, |lists, word| lists.with_slot(word, index_slot, &mut memo));
        }
    }

    /// Removes a subscription from sorted ids; those that do not have it are unchanged.
    pub(crate) fn remove(&mut self, ids: &[u32], index_slot: u32) {
        let mut memo = MergeMemo::default();
        for part in ids.chunk_by(|a, b| page_number(*a) == page_number(*b)) {
            self.change(part, |lists, word| lists.without_slot(word, index_slot, &mut memo));
        }
    }

    /// Its heap bytes. Cost: O(pages + shards of the table).
    pub(crate) fn bytes(&self) -> usize {
        let pages = self.pages.values().map(|page| page.bytes() + PAGE_BYTES).sum::<usize>();
        pages + self.scattered.bytes() + self.lists.bytes()
    }

    fn posting(&self, id: u32) -> PostingRef {
        self.posting_in(self.pages.get(&page_number(id)), id)
    }

    /// The posting of an id, in its page or, without one, in the table.
    fn posting_in(&self, page: Option<&PostingPage>, id: u32) -> PostingRef {
        match page {
            Some(page) => page.get(offset_in_page(id)),
            None => self.scattered.get(id),
        }
    }

    /// Changes the postings of some ids of one page.
    fn change(
        &mut self,
        part: &[u32],
        mut change: impl FnMut(&mut PostingLists, PostingRef) -> PostingRef,
    ) {
        let number = page_number(part[0]);
        if let Some(page) = self.pages.get_mut(&number) {
            let before = page.count_ids();
            if part.len() < PAGE_CHECK_MIN {
                for id in part {
                    let at = offset_in_page(*id);
                    page.set(at, change(&mut self.lists, page.get(at)));
                }
            } else {
                let mut words = page.postings();
                for id in part {
                    let word = &mut words[offset_in_page(*id)];
                    *word = change(&mut self.lists, *word);
                }
                *page = PostingPage::from_postings(&words);
            }
            self.ids = self.ids - before + page.count_ids();
            // A margin, so that a page at the threshold is not created and dissolved again and again.
            if page.bytes() + PAGE_BYTES > page.count_ids() * (SLOT_BYTES + SLOT_BYTES / 2) {
                self.dissolve_page(number);
            }
            return;
        }
        if part.len() >= PAGE_CHECK_MIN {
            let old = self.scattered_postings(number);
            let mut new = old;
            for id in part {
                let word = &mut new[offset_in_page(*id)];
                *word = change(&mut self.lists, *word);
            }
            if !self.create_page(number, &old, &new) {
                for id in part {
                    self.change_scattered(*id, |_, _| new[offset_in_page(*id)]);
                }
            }
            return;
        }
        let mut must_check = false;
        for id in part {
            let old = self.change_scattered(*id, |lists, word| change(lists, word));
            must_check |= old == PostingRef::EMPTY && self.triggers_check(*id);
        }
        if must_check {
            let words = self.scattered_postings(number);
            self.create_page(number, &words, &words);
        }
    }

    /// Changes the posting of an id that is in no page. Returns the old one.
    fn change_scattered(
        &mut self,
        id: u32,
        change: impl FnOnce(&mut PostingLists, PostingRef) -> PostingRef,
    ) -> PostingRef {
        let before = self.scattered.len();
        let old = self.scattered.change(id, |word| change(&mut self.lists, word));
        self.ids = self.ids - before + self.scattered.len();
        old
    }

    /// Whether an id triggers the check when it is added. The key of the hash chooses the id, because a client that
    /// knew such ids could make each of its changes cost a hundred.
    fn triggers_check(&self, id: u32) -> bool {
        let chosen = self.scattered.hash(id / PAGE_CHECK_INTERVAL);
        id % PAGE_CHECK_INTERVAL == chosen % PAGE_CHECK_INTERVAL
    }

    /// The postings of a page's ids in the table.
    fn scattered_postings(&self, number: u32) -> [PostingRef; PAGE_IDS] {
        let mut words = [PostingRef::EMPTY; PAGE_IDS];
        if self.scattered.len() > 0 {
            for (id, word) in page_ids(number).zip(&mut words) {
                *word = self.scattered.get(id);
            }
        }
        words
    }

    /// Moves the ids of a page from the table, where they have their old postings, to a page with their new postings,
    /// if that needs less memory.
    fn create_page(
        &mut self,
        number: u32,
        old: &[PostingRef; PAGE_IDS],
        new: &[PostingRef; PAGE_IDS],
    ) -> bool {
        let page = PostingPage::from_postings(new);
        if page.bytes() + PAGE_BYTES > page.count_ids() * SLOT_BYTES {
            return false;
        }
        let mut removed = 0;
        for (id, word) in page_ids(number).zip(old) {
            if *word != PostingRef::EMPTY {
                self.scattered.set(id, PostingRef::EMPTY);
                removed += 1;
            }
        }
        self.ids = self.ids - removed + page.count_ids();
        self.pages.insert(number, page);
        true
    }

    fn dissolve_page(&mut self, number: u32) {
        let Some(page) = self.pages.remove(&number) else { return };
        for (id, word) in page_ids(number).zip(page.postings()) {
            if word != PostingRef::EMPTY {
                self.scattered.set(id, word);
            }
        }
        if self.pages.is_empty() {
            self.pages = HashMap::default();
        }
    }
}

fn page_number(id: u32) -> u32 {
    id / PAGE_IDS as u32
}

fn offset_in_page(id: u32) -> usize {
    id as usize % PAGE_IDS
}

fn page_ids(number: u32) -> impl Iterator<Item = u32> {
    let first = number * PAGE_IDS as u32;
    first..=first + (PAGE_IDS as u32 - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Postings with a fixed key of the hash, so that the table is the same in every run.
    fn new_postings() -> IdPostings {
        IdPostings { scattered: ScatteredPostings::with_seed(5), ..IdPostings::default() }
    }

    fn found(postings: &IdPostings, id: u32) -> Vec<u32> {
        let mut found = Vec::new();
        postings.for_each_match(id, |index_slot| found.push(index_slot));
        found.sort_unstable();
        found
    }

    #[test]
    fn it_equals_a_map_and_ends_empty() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut postings = new_postings();
        let mut sets: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for round in 0..600_u32 {
            let index_slot = rng.random_range(0..24);
            let spread = [200, 3_000, 1 << 31][rng.random_range(0..3)];
            let start = rng.random_range(0..3) * 5_000;
            let count = rng.random_range(0..400);
            let ids: BTreeSet<u32> =
                (0..count).map(|_| start + rng.random_range(0..spread)).collect();
            let set = sets.entry(index_slot).or_default();
            if rng.random_bool(0.5) {
                let new: Vec<u32> = ids.difference(set).copied().collect();
                postings.insert(&new, index_slot);
                set.extend(new);
            } else if rng.random_bool(0.7) {
                let removed: Vec<u32> = ids.iter().copied().collect();
                postings.remove(&removed, index_slot);
                set.retain(|id| !ids.contains(id));
            } else {
                let all: Vec<u32> = set.iter().copied().collect();
                postings.remove(&all, index_slot);
                set.clear();
            }
            if round % 20 == 0 {
                check(&postings, &sets);
            }
        }
        check(&postings, &sets);
        for (index_slot, set) in sets {
            postings.remove(&set.into_iter().collect::<Vec<_>>(), index_slot);
        }
        assert!(postings.is_empty() && postings.pages.is_empty() && postings.lists.is_empty());
        assert_eq!(postings.scattered.len(), 0);
    }

    #[test]
    fn items_match_in_their_order() {
        let mut postings = new_postings();
        postings.insert(&[1, 5], 3);
        postings.insert(&[5, 1_000_000], 4);
        let dense: Vec<u32> = (10_000..10_300).collect();
        postings.insert(&dense, 9);
        let items = [(5, 0), (7, 1), (10_100, 2), (1_000_000, 3), (5, 4)];
        let matches = postings.match_items(items);
        let found: Vec<_> = matches.iter().map(|it| (it.index_slot, it.id, it.item)).collect();
        let of_page = (9, 10_100, 2);
        let of_table = (4, 1_000_000, 3);
        assert_eq!(found, [(3, 5, 0), (4, 5, 0), of_page, of_table, (3, 5, 4), (4, 5, 4)]);
    }

    #[test]
    fn reserved_memory_stays_when_ids_come_and_go() {
        let mut postings = new_postings();
        postings.reserve(100_000);
        let reserved = postings.bytes();
        // Far apart, so that none of them is in a page.
        let ids: Vec<u32> = (0..50_000).map(|n| n * 1_000).collect();
        for _ in 0..2 {
            postings.insert(&ids, 3);
            assert_eq!(postings.bytes(), reserved, "nothing was allocated");
            assert!(postings.has(1_000) && postings.has_only(1_000, 3) && !postings.has(1));
            postings.remove(&ids, 3);
            assert!(postings.is_empty() && postings.is_reserved());
            assert_eq!(postings.bytes(), reserved, "nothing was freed");
        }
    }

    #[test]
    fn the_key_of_the_hash_chooses_the_ids_that_trigger_a_check() {
        let intervals = 100;
        let find_triggers = |seed| -> Vec<u32> {
            let scattered = ScatteredPostings::with_seed(seed);
            let postings = IdPostings { scattered, ..IdPostings::default() };
            let ids = 0..intervals * PAGE_CHECK_INTERVAL;
            ids.filter(|id| postings.triggers_check(*id)).collect()
        };
        let [some, others] = [5, 6].map(find_triggers);
        let found = some.iter().map(|id| id / PAGE_CHECK_INTERVAL);
        assert!(found.eq(0..intervals), "one of each interval: {some:?}");
        let equal = some.iter().filter(|id| others.contains(id)).count();
        assert!(equal < 10, "{equal} of both tables");
    }

    fn check(postings: &IdPostings, sets: &BTreeMap<u32, BTreeSet<u32>>) {
        let mut model: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (index_slot, set) in sets {
            set.iter().for_each(|id| model.entry(*id).or_default().push(*index_slot));
        }
        for (id, index_slots) in &model {
            assert_eq!(&found(postings, *id), index_slots, "of {id}");
        }
        assert_eq!(postings.ids, model.len());
        (0..20_000).filter(|id| !model.contains_key(id)).for_each(|id| {
            assert_eq!(found(postings, id), [], "of {id}");
        });
    }
}
