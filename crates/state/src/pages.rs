//! A persistent array by address id: a radix tree of pages, copied on the path of a write.
//!
//! Copies share everything. The first write after a copy copies the pages on its path, later ones
//! find them their own already. A page holds 32: its copy is 32 pointers, about 50 ns.

use std::sync::Arc;

use ledger::AddressId;

const PAGE_BITS: u32 = 5;
const PAGE_LEN: usize = 1 << PAGE_BITS;

/// The array. Cheap to clone.
pub(crate) struct Pages<T> {
    root: Option<Arc<Page<T>>>,
    /// Levels of branches above the leaves.
    height: u32,
    len: usize,
}

enum Page<T> {
    Branch([Option<Arc<Self>>; PAGE_LEN]),
    Leaf([Option<Arc<T>>; PAGE_LEN]),
}

impl<T> Pages<T> {
    pub(crate) fn new() -> Self {
        Self { root: None, height: 0, len: 0 }
    }

    /// How many ids have an entry.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, id: AddressId) -> Option<&T> {
        let mut page = self.root.as_deref().filter(|_| reaches(self.height, id))?;
        let mut level = self.height;
        loop {
            match page {
                Page::Branch(children) => page = children[place(id, level)].as_deref()?,
                Page::Leaf(entries) => return entries[place(id, 0)].as_deref(),
            }
            level -= 1; // a branch is never at level 0
        }
    }

    /// All entries, by id.
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        self.iter_from(AddressId(0))
    }

    /// The entries from the id `first` on, by id. Cost: one look-up.
    pub(crate) fn iter_from(&self, first: AddressId) -> Iter<'_, T> {
        let mut path = Vec::new();
        let mut page = self.root.as_deref().filter(|_| reaches(self.height, first));
        let (mut level, mut upper) = (self.height, 0);
        while let Some(found) = page {
            let at = place(first, level);
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

impl<T: Clone> Pages<T> {
    /// The entry of `id`, made if there is none.
    pub(crate) fn entry(&mut self, id: AddressId, make: impl FnOnce() -> T) -> &mut T {
        while !reaches(self.height, id) {
            self.height += 1;
            if let Some(lower) = self.root.take() {
                let mut children = [const { None }; PAGE_LEN];
                children[0] = Some(lower);
                self.root = Some(Arc::new(Page::Branch(children)));
            }
        }
        let mut slot = &mut self.root;
        let mut level = self.height;
        loop {
            let page = slot.get_or_insert_with(|| Arc::new(Page::empty(level)));
            match Arc::make_mut(page) {
                Page::Branch(children) => slot = &mut children[place(id, level)],
                Page::Leaf(entries) => {
                    let entry = entries[place(id, 0)].get_or_insert_with(|| {
                        self.len += 1;
                        Arc::new(make())
                    });
                    return Arc::make_mut(entry);
                }
            }
            level -= 1; // a branch is never at level 0
        }
    }

    /// The entry of `id`, if there is one.
    pub(crate) fn get_mut(&mut self, id: AddressId) -> Option<&mut T> {
        self.get(id)?; // so that a miss copies nothing
        let mut page = Arc::make_mut(self.root.as_mut()?);
        let mut level = self.height;
        loop {
            match page {
                Page::Branch(children) => {
                    page = Arc::make_mut(children[place(id, level)].as_mut()?);
                }
                Page::Leaf(entries) => return entries[place(id, 0)].as_mut().map(Arc::make_mut),
            }
            level -= 1; // a branch is never at level 0
        }
    }

    /// Removes the entry of `id` and the pages that it leaves empty.
    pub(crate) fn remove(&mut self, id: AddressId) {
        if self.get(id).is_none() {
            return;
        }
        self.len -= 1;
        if clear(&mut self.root, id, self.height) {
            self.root = None;
            self.height = 0;
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

/// Whether ids up to `id` fit below a root of this height.
fn reaches(height: u32, id: AddressId) -> bool {
    id.0.checked_shr(PAGE_BITS * (height + 1)).unwrap_or(0) == 0
}

fn place(id: AddressId, level: u32) -> usize {
    (id.0 >> (PAGE_BITS * level)) as usize % PAGE_LEN
}

/// Clears `id` below `slot`; true if that left the page empty.
fn clear<T: Clone>(slot: &mut Option<Arc<Page<T>>>, id: AddressId, level: u32) -> bool {
    let Some(page) = slot else { return true };
    match Arc::make_mut(page) {
        Page::Branch(children) => {
            let child = &mut children[place(id, level)];
            if clear(child, id, level - 1) {
                *child = None;
            }
            children.iter().all(Option::is_none)
        }
        Page::Leaf(entries) => {
            entries[place(id, 0)] = None;
            entries.iter().all(Option::is_none)
        }
    }
}

impl<T> Clone for Pages<T> {
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

/// Entries by id: the path to the next one, each page with its ids' upper bits and next place.
pub(crate) struct Iter<'a, T> {
    path: Vec<(&'a Page<T>, u32, usize)>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (AddressId, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (page, upper, place) = self.path.last_mut()?;
            if *place == PAGE_LEN {
                self.path.pop();
                continue;
            }
            let id = *upper << PAGE_BITS | *place as u32;
            let at = *place;
            *place += 1;
            match *page {
                Page::Branch(children) => {
                    if let Some(child) = &children[at] {
                        self.path.push((child, id, 0));
                    }
                }
                Page::Leaf(entries) => {
                    if let Some(entry) = &entries[at] {
                        return Some((AddressId(id), entry));
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

    fn filled() -> Pages<u32> {
        let mut pages = Pages::new();
        for id in IDS {
            *pages.entry(AddressId(id), || 0) = id;
        }
        pages
    }

    fn ids(pages: &Pages<u32>) -> Vec<u32> {
        pages.iter().map(|(id, _)| id.0).collect()
    }

    #[test]
    fn entries_at_every_height_are_found_and_iterated_in_order() {
        let pages = filled();
        for id in IDS {
            assert_eq!(pages.get(AddressId(id)), Some(&id));
        }
        for absent in [2, 30, 34, 1 << 25, u32::MAX - 2] {
            assert_eq!(pages.get(AddressId(absent)), None);
        }
        assert_eq!(ids(&pages), IDS);
        assert_eq!(pages.len(), IDS.len());
    }

    #[test]
    fn iteration_may_begin_anywhere() {
        let pages = filled();
        let all = ids(&pages);
        let middles = all.iter().flat_map(|id| [id.saturating_sub(1), *id, id.saturating_add(1)]);
        for first in middles.chain([0, u32::MAX]) {
            let found: Vec<u32> = pages.iter_from(AddressId(first)).map(|(id, _)| id.0).collect();
            let expected: Vec<u32> = all.iter().copied().filter(|id| *id >= first).collect();
            assert_eq!(found, expected, "from {first}");
        }
        assert_eq!(Pages::<u32>::new().iter_from(AddressId(3)).count(), 0);
    }

    #[test]
    fn a_copy_keeps_what_it_had() {
        let mut pages = filled();
        let copy = pages.clone();
        *pages.entry(AddressId(33), || 0) = 99;
        if let Some(entry) = pages.get_mut(AddressId(0)) {
            *entry = 98;
        }
        pages.remove(AddressId(32));
        pages.entry(AddressId(5), || 5);
        assert_eq!(ids(&copy), IDS);
        assert_eq!(copy.get(AddressId(33)), Some(&33));
        assert_eq!(copy.get(AddressId(0)), Some(&0));
        assert_eq!(pages.get(AddressId(33)), Some(&99));
        assert_eq!(pages.get(AddressId(0)), Some(&98));
        assert_eq!(pages.get(AddressId(32)), None);
    }

    #[test]
    fn removing_everything_leaves_no_page() {
        let mut pages = filled();
        for id in IDS {
            pages.remove(AddressId(id));
            pages.remove(AddressId(id));
            assert_eq!(pages.get_mut(AddressId(id)), None);
        }
        assert_eq!(pages.len(), 0);
        assert!(pages.root.is_none());
        assert!(ids(&pages).is_empty());
    }

    #[test]
    fn a_second_write_after_a_copy_copies_no_page() {
        let mut pages = filled();
        let _copy = pages.clone();
        let first: *const u32 = pages.entry(AddressId(33), || 0);
        let second: *const u32 = pages.entry(AddressId(33), || 0);
        assert_eq!(first, second);
    }
}
