//! The small sets: blocks of 2 to 64 ids, each exactly as long as its set.
//!
//! Shape: pages of 1,024 words, each divided into blocks of one length. A page can be divided into another length
//! after its last block is freed, so sets that grow together leave no waste behind.
//! Invariant: a block is written once, before a key refers to it, and never changed while a key refers
//! to it. It may be reused as soon as it is freed: the version of the key's shard
//! (see `key_table`) shows a reader that the block was reused while it was read. No memory is ever returned to the
//! system, so such a read is stale and not undefined.
//! Bounds: 2^20 pages, 4 GiB.

use crate::chunked_array::ChunkedArray;
use crate::sync::{AtomicU32, Ordering};

/// The length of the longest block.
pub(crate) const BLOCK_MAX: usize = 64;
/// Words per page. Loom tracks every one of them, so its tests have small pages.
const PAGE_LEN: u32 = if cfg!(loom) { 8 } else { 1024 };
const PAGES_PER_CHUNK: usize = if cfg!(loom) { 2 } else { 1024 };
const NO_BLOCK: u32 = u32::MAX;

/// The pages, as readers see them.
pub(crate) struct SmallSets {
    pages: ChunkedArray<Page>,
}

struct Page {
    /// Length of the page's blocks in words.
    block_len: AtomicU32,
    words: std::sync::OnceLock<Box<[AtomicU32]>>,
}

/// The writer's allocation state of the pages.
pub(crate) struct SlabAllocator {
    pages: Vec<PageState>,
    /// By block length: the pages with a free block.
    partial: [Vec<u32>; BLOCK_MAX + 1],
    /// Pages that are not divided into blocks.
    empty: Vec<u32>,
}

struct PageState {
    live: u16,
    /// Blocks from here on were never used since the page was divided.
    fresh: u16,
    /// The first freed block; each refers to the next.
    free: u32,
    /// Its index among the partial pages of its length, if it is partial.
    at: u32,
}

impl SmallSets {
    pub(crate) fn new() -> Self {
        Self { pages: ChunkedArray::new(PAGES_PER_CHUNK) }
    }

    /// Copies the block at `offset` into `ids`; returns their number. If the block was freed
    /// meanwhile, the result has no meaning.
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

    /// Returns the number of ids of the block at `offset`, with the limits of [`Self::read`].
    pub(crate) fn block_len(&self, offset: u32) -> usize {
        self.page(offset).map_or(0, |(page, _)| page.block_len.load(Ordering::Relaxed) as usize)
    }

    /// Returns the heap size in bytes. Cost: O(pages).
    pub(crate) fn bytes(&self) -> usize {
        let words = self.pages.iter().filter_map(|page| page.words.get());
        self.pages.bytes() + words.map(|words| size_of_val(&**words)).sum::<usize>()
    }

    /// Stores 2 to [`BLOCK_MAX`] `ids` in a block. Writer only.
    pub(crate) fn put(&self, allocator: &mut SlabAllocator, ids: &[u32]) -> u32 {
        let offset = self.allocate_block(allocator, ids.len());
        if let Some((page, at)) = self.page(offset)
            && let Some(words) = page.words.get()
        {
            for (word, id) in words[at..].iter().zip(ids) {
                word.store(*id, Ordering::Relaxed);
            }
        }
        offset
    }

    /// Frees a block to which no key refers. Writer only.
    pub(crate) fn free(&self, allocator: &mut SlabAllocator, offset: u32) {
        let number = offset / PAGE_LEN;
        let Some((page, at)) = self.page(offset) else { return };
        let len = page.block_len.load(Ordering::Relaxed) as usize;
        let state = &mut allocator.pages[number as usize];
        if let Some(words) = page.words.get() {
            words[at].store(state.free, Ordering::Relaxed);
        }
        state.free = offset;
        state.live -= 1;
        if state.live == 0 {
            if state.at != NO_BLOCK {
                allocator.remove_partial(number, len);
            }
            allocator.empty.push(number);
        } else if state.at == NO_BLOCK {
            state.at = allocator.partial[len].len() as u32; // at most as many as pages
            allocator.partial[len].push(number);
        }
    }

    fn allocate_block(&self, allocator: &mut SlabAllocator, len: usize) -> u32 {
        let number = match allocator.partial[len].last() {
            Some(number) => *number,
            None => self.cut(allocator, len),
        };
        let Some(page) = self.pages.get(number) else {
            unreachable!("the allocator's pages exist")
        };
        let state = &mut allocator.pages[number as usize];
        let offset = if state.free == NO_BLOCK {
            state.fresh += 1;
            number * PAGE_LEN + u32::from(state.fresh - 1) * len as u32
        } else {
            let at = (state.free % PAGE_LEN) as usize;
            let next = page.words.get().map_or(NO_BLOCK, |words| words[at].load(Ordering::Relaxed));
            std::mem::replace(&mut state.free, next)
        };
        state.live += 1;
        let is_full = state.free == NO_BLOCK && usize::from(state.fresh) == PAGE_LEN as usize / len;
        if is_full {
            allocator.remove_partial(number, len);
        }
        offset
    }

    /// Divides an empty page into blocks of this length.
    fn cut(&self, allocator: &mut SlabAllocator, len: usize) -> u32 {
        let number = allocator.empty.pop().unwrap_or_else(|| {
            let number = allocator.pages.len() as u32; // bounded by `ChunkedArray`
            let page = self.pages.allocate(number, Page::new);
            page.words.get_or_init(|| (0..PAGE_LEN).map(|_| AtomicU32::new(0)).collect());
            allocator.pages.push(PageState { live: 0, fresh: 0, free: NO_BLOCK, at: NO_BLOCK });
            number
        });
        if let Some(page) = self.pages.get(number) {
            page.block_len.store(len as u32, Ordering::Relaxed);
        }
        let at = allocator.partial[len].len() as u32;
        allocator.pages[number as usize] = PageState { live: 0, fresh: 0, free: NO_BLOCK, at };
        allocator.partial[len].push(number);
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

    fn block(small_sets: &SmallSets, offset: u32) -> Vec<u32> {
        let mut ids = [0; BLOCK_MAX];
        let len = small_sets.read(offset, &mut ids);
        assert_eq!(small_sets.block_len(offset), len);
        ids[..len].to_vec()
    }

    #[test]
    fn blocks_keep_apart_and_pages_are_cut_anew() {
        let small_sets = SmallSets::new();
        let mut allocator = SlabAllocator::new();
        let mut random = 1_u64;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % bound
        };
        let mut blocks: Vec<(u32, Vec<u32>)> = Vec::new();
        for step in 0..60_000_u32 {
            if below(100) < 55 - step as usize / 1_500 || blocks.is_empty() {
                let ids: Vec<u32> =
                    (0..2 + below(BLOCK_MAX - 1) as u32).map(|n| n + step).collect();
                blocks.push((small_sets.put(&mut allocator, &ids), ids));
            } else {
                let (offset, ids) = blocks.swap_remove(below(blocks.len()));
                assert_eq!(block(&small_sets, offset), ids);
                small_sets.free(&mut allocator, offset);
            }
        }
        for (offset, ids) in blocks {
            assert_eq!(block(&small_sets, offset), ids);
            small_sets.free(&mut allocator, offset);
        }
        assert_eq!(allocator.empty.len(), allocator.pages.len(), "every page is empty again");
        assert!(allocator.partial.iter().all(Vec::is_empty));
        let pages = allocator.pages.len();
        for n in 0..pages as u32 * 15 {
            small_sets.put(&mut allocator, &[n; BLOCK_MAX]);
        }
        assert_eq!(allocator.pages.len(), pages);
    }
}
