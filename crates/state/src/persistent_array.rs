//! A persistent array: a radix tree of pages, copied on the path of a write.
//!
//! Copies share everything. The first write after a copy copies the pages on its path; later writes
//! find pages that are not shared. A page has 32 entries: its copy is 32 pointers, about 50 ns.

use std::sync::Arc;

const PAGE_BITS: u32 = 5;
const PAGE_LEN: usize = 1 << PAGE_BITS;

/// Maximum numbers of one batch lookup: more than the loads that a core has under way.
pub(crate) const BATCH: usize = 64;

/// The reference counts of an [`Arc`].
pub(crate) const ARC_BYTES: usize = 16;

/// A copy-on-write array. Cheap to clone.
pub(crate) struct PersistentArray<T> {
    root: Option<Arc<Page<T>>>,
    /// Levels of branches above the leaves.
    height: u32,
    /// Number of pages, for the memory count.
    pages: usize,
}

enum Page<T> {
    Branch([Option<Arc<Self>>; PAGE_LEN]),
    Leaf([Option<Arc<T>>; PAGE_LEN]),
}

impl<T> PersistentArray<T> {
    pub(crate) fn new() -> Self {
        Self { root: None, height: 0, pages: 0 }
    }

    /// Returns the heap bytes of the pages, without the entries.
    pub(crate) fn bytes(&self) -> usize {
        self.pages * (ARC_BYTES + size_of::<Page<T>>())
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        let mut page = self.root.as_deref().filter(|_| reaches(self.height, at))?;
        let mut level = self.height;
        loop {
            match page {
                Page::Branch(children) => page = children[index_in_page(at, level)].as_deref()?,
                Page::Leaf(entries) => return entries[index_in_page(at, 0)].as_deref(),
            }
            level -= 1; // a branch is never at level 0
        }
    }

    /// Returns the entries at up to [`BATCH`] numbers, in their order. The pages of one level are read for all
    /// numbers before those of the next, so that their loads from memory overlap.
    pub(crate) fn get_each(&self, numbers: &[u32]) -> [Option<&T>; BATCH] {
        assert!(numbers.len() <= BATCH, "{} at once", numbers.len());
        let mut pages = [None; BATCH];
        for (page, at) in pages.iter_mut().zip(numbers) {
            *page = self.root.as_deref().filter(|_| reaches(self.height, *at));
        }
        for level in (1..=self.height).rev() {
            for (page, at) in pages.iter_mut().zip(numbers) {
                *page = match page {
                    Some(Page::Branch(children)) => children[index_in_page(*at, level)].as_deref(),
                    Some(Page::Leaf(_)) | None => None,
                };
            }
        }
        let mut found = [None; BATCH];
        for ((found, page), at) in found.iter_mut().zip(pages).zip(numbers) {
            if let Some(Page::Leaf(entries)) = page {
                *found = entries[index_in_page(*at, 0)].as_deref();
            }
        }
        found
    }

    /// Returns all entries, in order.
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        self.iter_from(0)
    }

    /// Returns the entries from `first` on, in order. Cost: one lookup.
    pub(crate) fn iter_from(&self, first: u32) -> Iter<'_, T> {
        let mut path = Vec::new();
        let mut page = self.root.as_deref().filter(|_| reaches(self.height, first));
        let mut level = self.height;
        let mut upper = 0;
        while let Some(found) = page {
            let at = index_in_page(first, level);
            page = match found {
                Page::Leaf(_) => {
                    path.push((found, upper, at));
                    None
                }
                Page::Branch(children) => {
                    path.push((found, upper, at + 1));
                    upper = upper << PAGE_BITS | at as u32;
                    level -= 1; // a branch is never at level 0
                    children[at].as_deref()
                }
            };
        }
        Iter { path }
    }
}

impl<T: Clone> PersistentArray<T> {
    /// Returns the entry at `at`, created if there is none.
    pub(crate) fn entry(&mut self, at: u32, make: impl FnOnce() -> T) -> &mut T {
        while !reaches(self.height, at) {
            self.height += 1;
            if let Some(lower) = self.root.take() {
                let mut children = [const { None }; PAGE_LEN];
                children[0] = Some(lower);
                self.pages += 1;
                self.root = Some(Arc::new(Page::Branch(children)));
            }
        }
        let mut slot = &mut self.root;
        let mut level = self.height;
        loop {
            let page = slot.get_or_insert_with(|| {
                self.pages += 1;
                Arc::new(Page::empty(level))
            });
            match Arc::make_mut(page) {
                Page::Branch(children) => slot = &mut children[index_in_page(at, level)],
                Page::Leaf(entries) => {
                    let entry =
                        entries[index_in_page(at, 0)].get_or_insert_with(|| Arc::new(make()));
                    return Arc::make_mut(entry);
                }
            }
            level -= 1; // a branch is never at level 0
        }
    }

    /// Removes the entry at `at` and the pages that become empty.
    pub(crate) fn remove(&mut self, at: u32) {
        if self.get(at).is_none() {
            return;
        }
        if clear(&mut self.root, at, self.height, &mut self.pages) {
            self.root = None;
            self.height = 0;
            self.pages -= 1;
        }
    }
}

impl<T> Page<T> {
    fn empty(level: u32) -> Self {
        if level == 0 {
            Self::Leaf([const { None }; PAGE_LEN])
        } else {
            Self::Branch([const { None }; PAGE_LEN])
        }
    }
}

/// Returns whether numbers up to `at` fit below a root of this height.
fn reaches(height: u32, at: u32) -> bool {
    at.checked_shr(PAGE_BITS * (height + 1)).unwrap_or(0) == 0
}

fn index_in_page(at: u32, level: u32) -> usize {
    (at >> (PAGE_BITS * level)) as usize % PAGE_LEN
}

/// Clears `at` below `slot`, and subtracts empty pages below it from `pages`; true if that left the page
/// itself empty.
fn clear<T: Clone>(
    slot: &mut Option<Arc<Page<T>>>,
    at: u32,
    level: u32,
    pages: &mut usize,
) -> bool {
    let Some(page) = slot else { return true };
    match Arc::make_mut(page) {
        Page::Branch(children) => {
            let child = &mut children[index_in_page(at, level)];
            if clear(child, at, level - 1, pages) {
                *child = None;
                *pages -= 1;
            }
            children.iter().all(Option::is_none)
        }
        Page::Leaf(entries) => {
            entries[index_in_page(at, 0)] = None;
            entries.iter().all(Option::is_none)
        }
    }
}

impl<T> Clone for PersistentArray<T> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), ..*self }
    }
}

impl<T> Clone for Page<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Branch(children) => Self::Branch(children.clone()),
            Self::Leaf(entries) => Self::Leaf(entries.clone()),
        }
    }
}

/// Entries in order: the path to the next one, each page with the upper bits of its numbers and its next position.
pub(crate) struct Iter<'a, T> {
    path: Vec<(&'a Page<T>, u32, usize)>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (u32, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (page, upper, position) = self.path.last_mut()?;
            if *position == PAGE_LEN {
                self.path.pop();
                continue;
            }
            let id = *upper << PAGE_BITS | *position as u32;
            let at = *position;
            *position += 1;
            match *page {
                Page::Branch(children) => {
                    if let Some(child) = &children[at] {
                        self.path.push((child, id, 0));
                    }
                }
                Page::Leaf(entries) => {
                    if let Some(entry) = &entries[at] {
                        return Some((id, entry));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids at the edges of pages and heights.
    const IDS: [u32; 12] =
        [0, 1, 31, 32, 33, 1_023, 1_024, 32_768, 1 << 20, 1 << 30, u32::MAX - 1, u32::MAX];

    fn filled_array() -> PersistentArray<u32> {
        let mut array = PersistentArray::new();
        for id in IDS {
            *array.entry(id, || 0) = id;
        }
        array
    }

    fn ids(array: &PersistentArray<u32>) -> Vec<u32> {
        array.iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn entries_at_every_height_are_found_and_iterated_in_order() {
        let array = filled_array();
        for id in IDS {
            assert_eq!(array.get(id), Some(&id));
        }
        let each = array.get_each(&IDS);
        assert!(each.iter().flatten().copied().eq(&IDS));
        for absent in [2, 30, 34, 1 << 25, u32::MAX - 2] {
            assert_eq!(array.get(absent), None);
        }
        assert_eq!(ids(&array), IDS);
    }

    #[test]
    fn iteration_may_begin_anywhere() {
        let array = filled_array();
        let all = ids(&array);
        let middles = all.iter().flat_map(|id| [id.saturating_sub(1), *id, id.saturating_add(1)]);
        for first in middles.chain([0, u32::MAX]) {
            let found: Vec<u32> = array.iter_from(first).map(|(id, _)| id).collect();
            let expected: Vec<u32> = all.iter().copied().filter(|id| *id >= first).collect();
            assert_eq!(found, expected, "from {first}");
        }
        assert_eq!(PersistentArray::<u32>::new().iter_from(3).count(), 0);
    }

    #[test]
    fn a_copy_keeps_what_it_had() {
        let mut array = filled_array();
        let copy = array.clone();
        *array.entry(33, || 0) = 99;
        *array.entry(0, || 0) = 98;
        array.remove(32);
        array.entry(5, || 5);
        assert_eq!(ids(&copy), IDS);
        assert_eq!(copy.get(33), Some(&33));
        assert_eq!(copy.get(0), Some(&0));
        assert_eq!(array.get(33), Some(&99));
        assert_eq!(array.get(0), Some(&98));
        assert_eq!(array.get(32), None);
    }

    #[test]
    fn removing_everything_leaves_no_page() {
        let mut array = filled_array();
        for id in IDS {
            array.remove(id);
            array.remove(id);
            assert_eq!(array.get(id), None);
        }
        assert!(array.root.is_none());
        assert_eq!(array.bytes(), 0);
        assert!(ids(&array).is_empty());
    }

    #[test]
    fn a_second_write_after_a_copy_copies_no_page() {
        let mut array = filled_array();
        let _copy = array.clone();
        let first: *const u32 = array.entry(33, || 0);
        let second: *const u32 = array.entry(33, || 0);
        assert_eq!(first, second);
    }
}
