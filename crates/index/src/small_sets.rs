//! Blocks of 2 to 64 ids, each exactly as long as its set: the small sets.
//!
//! Shape: pages of 1,024 words, each cut into blocks of one length. A page whose last block is freed
//! may be cut anew, so that sets that grow together leave no waste behind.
//! Invariant: a block is written once, before its word is shown, and never changed while a key leads
//! to it. It may be used again at once when freed: readers find out by the version of the key's shard
//! (see `words`) that what they read was no longer theirs. Nothing is ever given back to the system,
//! so such a read is stale and not undefined.
//! Bounds: 2^20 pages, 4 GiB.

use crate::chunked_array::ChunkedArray;
use crate::sync::{AtomicU32, Ordering};

/// The longest block.
pub(crate) const BLOCK_MAX: usize = 64;
/// Words a page. Loom follows every one of them, so its tests have small pages.
const PAGE_LEN: u32 = if cfg!(loom) { 8 } else { 1024 };
const PAGES_PER_CHUNK: usize = if cfg!(loom) { 2 } else { 1024 };
const NO_BLOCK: u32 = u32::MAX;

/// The pages, as readers see them.
pub(crate) struct SmallSets {
    pages: ChunkedArray<Page>,
}

struct Page {
    /// The length of its blocks.
    block_len: AtomicU32,
    words: std::sync::OnceLock<Box<[AtomicU32]>>,
}

/// The writer's books of the pages.
pub(crate) struct SlabAllocator {
    pages: Vec<PageState>,
    /// By block length: the pages with a free block.
    partial: [Vec<u32>; BLOCK_MAX + 1],
    /// Pages that are not cut.
    empty: Vec<u32>,
}

struct PageState {
    live: u16,
    /// Blocks from here on were never used since the page was cut.
    fresh: u16,
    /// The first freed block; each leads to the next.
    free: u32,
    /// Where the page is among the partial ones of its length, if it is.
    at: u32,
}

impl SmallSets {
    pub(crate) fn new() -> Self {
        Self { pages: ChunkedArray::new(PAGES_PER_CHUNK) }
    }

    /// Copies the block at `offset` into `ids`; gives how many they are. If the block was freed
    /// meanwhile, whatever it gives means nothing.
    pub(crate) fn read(&self, offset: u32, ids: &mut [u32; BLOCK_MAX]) -> usize {
        let Some((page, at)) = self.page(offset) else { return 0 };
        let len = page.block_len.load(Ordering::Relaxed) as usize;
        let Some(words) = page.words.get().and_then(|words| words.get(at..at + len)) else {
            return 0;
        };
        for (id, word) in ids.iter_mut().zip(words) {
            *id = word.load(Ordering::Relaxed);
        }
        len
    }

    /// How many ids the block at `offset` has. As [`Self::read`].
    pub(crate) fn block_len(&self, offset: u32) -> usize {
        self.page(offset).map_or(0, |(page, _)| page.block_len.load(Ordering::Relaxed) as usize)
    }

    /// The heap bytes of it. Cost: O(pages).
    pub(crate) fn bytes(&self) -> usize {
        let words = self.pages.iter().filter_map(|page| page.words.get());
        self.pages.bytes() + words.map(|words| size_of_val(&**words)).sum::<usize>()
    }

    /// Puts `ids`, of which there are 2 to [`BLOCK_MAX`], into a block. Writer only.
    pub(crate) fn put(&self, books: &mut SlabAllocator, ids: &[u32]) -> u32 {
        let offset = self.allocate_block(books, ids.len());
        if let Some((page, at)) = self.page(offset)
            && let Some(words) = page.words.get()
        {
            for (word, id) in words[at..].iter().zip(ids) {
                word.store(*id, Ordering::Relaxed);
            }
        }
        offset
    }

    /// Frees a block that no key leads to any more. Writer only.
    pub(crate) fn free(&self, books: &mut SlabAllocator, offset: u32) {
        let number = offset / PAGE_LEN;
        let Some((page, at)) = self.page(offset) else { return };
        let len = page.block_len.load(Ordering::Relaxed) as usize;
        let book = &mut books.pages[number as usize];
        if let Some(words) = page.words.get() {
            words[at].store(book.free, Ordering::Relaxed);
        }
        book.free = offset;
        book.live -= 1;
        if book.live == 0 {
            if book.at != NO_BLOCK {
                books.remove_partial(number, len);
            }
            books.empty.push(number);
        } else if book.at == NO_BLOCK {
            book.at = books.partial[len].len() as u32; // at most as many as pages
            books.partial[len].push(number);
        }
    }

    fn allocate_block(&self, books: &mut SlabAllocator, len: usize) -> u32 {
        let number = match books.partial[len].last() {
            Some(number) => *number,
            None => self.cut(books, len),
        };
        let Some(page) = self.pages.get(number) else { unreachable!("pages in books exist") };
        let book = &mut books.pages[number as usize];
        let offset = if book.free == NO_BLOCK {
            book.fresh += 1;
            number * PAGE_LEN + u32::from(book.fresh - 1) * len as u32
        } else {
            let at = (book.free % PAGE_LEN) as usize;
            let next = page.words.get().map_or(NO_BLOCK, |words| words[at].load(Ordering::Relaxed));
            std::mem::replace(&mut book.free, next)
        };
        book.live += 1;
        let is_full = book.free == NO_BLOCK && usize::from(book.fresh) == PAGE_LEN as usize / len;
        if is_full {
            books.remove_partial(number, len);
        }
        offset
    }

    /// Makes an empty page one of blocks of this length.
    fn cut(&self, books: &mut SlabAllocator, len: usize) -> u32 {
        let number = books.empty.pop().unwrap_or_else(|| {
            let number = books.pages.len() as u32; // bounded by `ChunkedArray`
            let page = self.pages.allocate(number, Page::new);
            page.words.get_or_init(|| (0..PAGE_LEN).map(|_| AtomicU32::new(0)).collect());
            books.pages.push(PageState { live: 0, fresh: 0, free: NO_BLOCK, at: NO_BLOCK });
            number
        });
        if let Some(page) = self.pages.get(number) {
            page.block_len.store(len as u32, Ordering::Relaxed);
        }
        let at = books.partial[len].len() as u32;
        books.pages[number as usize] = PageState { live: 0, fresh: 0, free: NO_BLOCK, at };
        books.partial[len].push(number);
        number
    }

    fn page(&self, offset: u32) -> Option<(&Page, usize)> {
        Some((self.pages.get(offset / PAGE_LEN)?, (offset % PAGE_LEN) as usize))
    }
}

impl Page {
    fn new() -> Self {
        Self { block_len: AtomicU32::new(0), words: std::sync::OnceLock::new() }
    }
}

impl SlabAllocator {
    pub(crate) fn new() -> Self {
        Self {
            pages: Vec::new(),
            partial: [const { Vec::new() }; BLOCK_MAX + 1],
            empty: Vec::new(),
        }
    }

    fn remove_partial(&mut self, number: u32, len: usize) {
        let at = self.pages[number as usize].at as usize;
        self.partial[len].swap_remove(at);
        if let Some(moved) = self.partial[len].get(at) {
            self.pages[*moved as usize].at = at as u32;
        }
        self.pages[number as usize].at = NO_BLOCK;
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn block(slabs: &SmallSets, offset: u32) -> Vec<u32> {
        let mut ids = [0; BLOCK_MAX];
        let len = slabs.read(offset, &mut ids);
        assert_eq!(slabs.block_len(offset), len);
        ids[..len].to_vec()
    }

    #[test]
    fn blocks_keep_apart_and_pages_are_cut_anew() {
        let (slabs, mut books) = (SmallSets::new(), SlabAllocator::new());
        let mut random = 1_u64;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % bound
        };
        let mut held: Vec<(u32, Vec<u32>)> = Vec::new();
        for step in 0..60_000_u32 {
            if below(100) < 55 - step as usize / 1_500 || held.is_empty() {
                let ids: Vec<u32> =
                    (0..2 + below(BLOCK_MAX - 1) as u32).map(|n| n + step).collect();
                held.push((slabs.put(&mut books, &ids), ids));
            } else {
                let (offset, ids) = held.swap_remove(below(held.len()));
                assert_eq!(block(&slabs, offset), ids);
                slabs.free(&mut books, offset);
            }
        }
        for (offset, ids) in held {
            assert_eq!(block(&slabs, offset), ids);
            slabs.free(&mut books, offset);
        }
        assert_eq!(books.empty.len(), books.pages.len(), "every page is empty again");
        assert!(books.partial.iter().all(Vec::is_empty));
        let pages = books.pages.len();
        for n in 0..pages as u32 * 15 {
            slabs.put(&mut books, &[n; BLOCK_MAX]);
        }
        assert_eq!(books.pages.len(), pages);
    }
}
