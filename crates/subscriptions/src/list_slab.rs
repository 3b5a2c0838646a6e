//! Lists of subscriptions of one length, with a count of references each.
//!
//! Shape: blocks of 512 lists. The free lists of a block are a chain, and so are the blocks with free lists.
//! Memory: four bytes a subscription and one for the count, of all lists of a block while one of them is used. So a few
//! lists that stay may retain the memory of many.
//! Not here: references beyond 255 (`posting_lists`).

use std::ops::Range;

/// Number of lists in a block. A larger value retains more memory for a list that stays; a smaller one needs more for
/// blocks.
pub(crate) const BLOCK_LISTS: usize = 512;
/// Ends a block's chain of free lists.
const NONE: u32 = u32::MAX;

/// The lists of one length.
#[derive(Default)]
pub(crate) struct ListSlab {
    blocks: Vec<ListBlock>,
    /// The first block of the chain of those that are not full.
    free_block: Option<u32>,
    used: usize,
}

/// [`BLOCK_LISTS`] lists of one length. Memory is allocated while one of them is used.
#[derive(Default)]
struct ListBlock {
    /// The subscriptions of each list. In a free list the first one is the position of the next free list.
    index_slots: Box<[u32]>,
    /// References to each list, up to [`u8::MAX`].
    counts: Box<[u8]>,
    /// The first free list, if the block has memory and is not full.
    free: u32,
    used: usize,
    /// The next block that is not full, if this one is not.
    next_free: Option<u32>,
}

impl ListSlab {
    /// Returns the subscriptions of a list.
    pub(crate) fn list(&self, len: u32, number: u32) -> &[u32] {
        &self.blocks[number as usize / BLOCK_LISTS].index_slots[ListBlock::range(len, number)]
    }

    /// Returns the number of references to a list, up to [`u8::MAX`].
    pub(crate) fn count(&mut self, number: u32) -> &mut u8 {
        let number = number as usize;
        &mut self.blocks[number / BLOCK_LISTS].counts[number % BLOCK_LISTS]
    }

    /// Stores a list with one reference. Returns its number.
    pub(crate) fn insert(&mut self, len: u32, index_slots: &[u32]) -> u32 {
        let block_number = self.free_block.unwrap_or_else(|| self.add_block());
        let block = &mut self.blocks[block_number as usize];
        let at = block.insert(len, index_slots);
        if block.is_full() {
            self.free_block = block.next_free;
        }
        self.used += 1;
        block_number * BLOCK_LISTS as u32 + at
    }

    /// Removes a reference, and frees the list if it was the last.
    pub(crate) fn release(&mut self, len: u32, number: u32) {
        let count = self.count(number);
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.used -= 1;
        if self.used == 0 {
            *self = Self::default();
            return;
        }
        let block_number = number / BLOCK_LISTS as u32;
        let block = &mut self.blocks[block_number as usize];
        if block.is_full() {
            block.next_free = self.free_block;
            self.free_block = Some(block_number);
        }
        block.free_list(len, number % BLOCK_LISTS as u32);
    }

    /// Returns its heap bytes. Cost: O(blocks).
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<ListBlock>()
            + self.blocks.iter().map(ListBlock::bytes).sum::<usize>()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Adds a block as the only one that is not full. Returns its number.
    fn add_block(&mut self) -> u32 {
        let number = self.blocks.len() as u32;
        self.blocks.push(ListBlock::default());
        self.free_block = Some(number);
        number
    }
}

impl ListBlock {
    /// Returns the positions of a list in its block.
    fn range(len: u32, number: u32) -> Range<usize> {
        let start = number as usize % BLOCK_LISTS * len as usize;
        start..start + len as usize
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.index_slots) + size_of_val(&*self.counts)
    }

    fn is_full(&self) -> bool {
        self.used == BLOCK_LISTS
    }

    /// Stores a list with one reference, in a block that is not full. Returns its position.
    fn insert(&mut self, len: u32, index_slots: &[u32]) -> u32 {
        if self.used == 0 {
            self.allocate(len);
        }
        let at = self.free;
        let list = &mut self.index_slots[Self::range(len, at)];
        self.free = list[0];
        list.copy_from_slice(index_slots);
        self.counts[at as usize] = 1;
        self.used += 1;
        at
    }

    /// Frees a list, and the memory of the block if it was the last.
    fn free_list(&mut self, len: u32, at: u32) {
        self.used -= 1;
        if self.used == 0 {
            self.index_slots = Box::default();
            self.counts = Box::default();
            return;
        }
        let list = &mut self.index_slots[Self::range(len, at)];
        list[0] = self.free;
        self.free = at;
    }

    /// Allocates the memory, and chains the lists, which are all free.
    fn allocate(&mut self, len: u32) {
        self.index_slots = vec![0; BLOCK_LISTS * len as usize].into_boxed_slice();
        self.counts = vec![0; BLOCK_LISTS].into_boxed_slice();
        for (list, next) in self.index_slots.chunks_exact_mut(len as usize).zip(1..) {
            list[0] = if next == BLOCK_LISTS as u32 { NONE } else { next };
        }
        self.free = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(slab: &mut ListSlab, numbers: Range<u32>) -> Vec<u32> {
        numbers.map(|number| slab.insert(3, &[number, number + 1, number + 2])).collect()
    }

    #[test]
    fn a_block_without_lists_has_no_memory() {
        let lists = BLOCK_LISTS as u32;
        let block_bytes = BLOCK_LISTS * (3 * size_of::<u32>() + 1);
        let mut slab = ListSlab::default();
        let first = insert(&mut slab, 0..10 * lists);
        let last = first[first.len() - 1];
        first[..first.len() - 1].iter().for_each(|list| slab.release(3, *list));
        let blocks_bytes = slab.blocks.capacity() * size_of::<ListBlock>();
        assert_eq!(slab.bytes(), block_bytes + blocks_bytes, "one block has memory");
        assert_eq!(slab.list(3, last), [10 * lists - 1, 10 * lists, 10 * lists + 1]);
        // The free blocks are used again before others are added.
        let second = insert(&mut slab, 1..10 * lists);
        for (list, number) in second.iter().zip(1..) {
            assert_eq!(slab.list(3, *list), [number, number + 1, number + 2]);
        }
        assert_eq!(slab.blocks.len(), 10);
        assert!(slab.blocks.iter().all(ListBlock::is_full) && slab.free_block.is_none());
        second.iter().for_each(|list| slab.release(3, *list));
        slab.release(3, last);
        assert!(slab.is_empty() && slab.bytes() == 0);
    }
}
