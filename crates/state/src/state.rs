//! The writer's state: all versions of all records, and the blocks that wrote them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ledger::{AddressId, BlockId, Key};

use crate::pages::Pages;
use crate::tree::Tree;
use crate::versions::Versions;
use crate::{BlockError, Snapshot, Version};

/// Records of type `R` by address id, and facts of type `M` by block.
///
/// The root is open at first, so that it can be filled; it takes no child until it is complete.
pub struct State<R, M> {
    tree: Tree<M>,
    records: Pages<Versions<R>>,
}

/// A version that no read of the state can see any more. Snapshots taken before still do.
#[derive(Debug, PartialEq, Eq)]
pub struct Removed<R> {
    /// Whose it was.
    pub id: AddressId,
    /// The record; `None` if the version was a removal.
    pub record: Option<Arc<R>>,
    /// The keys it was found by.
    pub keys: Arc<[Key]>,
    /// Whether it was the record's last version: nothing is known under the id now.
    pub is_last: bool,
}

impl<R> Removed<R> {
    /// `hidden` is `None` if a removal went of which nothing was kept.
    fn new(id: AddressId, hidden: Option<Version<R>>, is_last: bool) -> Self {
        let (record, keys) =
            hidden.map(|version| (version.record, version.keys)).unwrap_or_default();
        Self { id, record, keys, is_last }
    }
}

impl<R, M> State<R, M> {
    /// A state with no records at an open root.
    pub fn new(root: BlockId, meta: Arc<M>) -> Self {
        Self { tree: Tree::new(root, meta), records: Pages::new() }
    }

    /// The newest block that cannot be taken back.
    pub fn root(&self) -> BlockId {
        self.tree.root()
    }

    /// Whether `block` is the root or above it.
    pub fn contains_block(&self, block: BlockId) -> bool {
        self.tree.contains(block)
    }

    /// How many blocks are above the root.
    pub fn unrooted(&self) -> usize {
        self.tree.unrooted()
    }

    /// What `block` is built on; `None` for the root.
    pub fn parent(&self, block: BlockId) -> Result<Option<BlockId>, BlockError> {
        self.tree.parent(block)
    }

    /// Opens `block` on top of `parent`, which must be complete.
    pub fn open(
        &mut self,
        block: BlockId,
        parent: BlockId,
        meta: Arc<M>,
    ) -> Result<(), BlockError> {
        self.tree.open(block, parent, meta)
    }

    /// Replaces the facts of `block`.
    pub fn set_meta(&mut self, block: BlockId, meta: Arc<M>) -> Result<(), BlockError> {
        self.tree.block_mut(block)?.meta = meta;
        Ok(())
    }

    /// Whether `block` may be written: it is open.
    pub fn check_writable(&mut self, block: BlockId) -> Result<(), BlockError> {
        self.tree.writable(block).map(|_| ())
    }

    /// Writes one record in `block`, in place of what the block wrote there before. True if nothing
    /// was known under `id`; `removed` gets the version that this write hides for good, if any.
    pub fn write(
        &mut self,
        block: BlockId,
        id: AddressId,
        version: Version<R>,
        removed: &mut Vec<Removed<R>>,
    ) -> Result<bool, BlockError> {
        let root = self.tree.root();
        let writer = self.tree.writable(block)?;
        let versions = self.records.entry(id, Versions::new);
        let is_new = versions.is_empty();
        let hidden = if block == root {
            versions.rooted_slot = block.slot;
            std::mem::replace(&mut versions.rooted, version.record.is_some().then_some(version))
        } else {
            let own = versions.unrooted.iter_mut().find(|(by, _)| *by == block);
            if let Some((_, own)) = own {
                Some(std::mem::replace(own, version))
            } else {
                versions.unrooted.push((block, version));
                writer.written.push(id);
                None
            }
        };
        let is_last = versions.is_empty();
        if is_last {
            self.records.remove(id);
        }
        if is_last || hidden.is_some() {
            removed.push(Removed::new(id, hidden, is_last));
        }
        Ok(is_new)
    }

    /// Closes `block` to writes and opens it to children.
    pub fn complete(&mut self, block: BlockId) -> Result<(), BlockError> {
        self.tree.complete(block)
    }

    /// Makes `block`, complete and above the root, the root, with every block on the way to it. The
    /// blocks beside that way vanish. `removed` gets every version that is hidden for good.
    ///
    /// Cost: O(records that the rooted and vanished blocks wrote).
    pub fn finalize(
        &mut self,
        block: BlockId,
        removed: &mut Vec<Removed<R>>,
    ) -> Result<(), BlockError> {
        let path = self.tree.path(block)?;
        for fork in self.tree.beside(&path) {
            self.vanish(fork, removed);
        }
        for block in path {
            for id in self.tree.advance(block)? {
                self.settle(block, id, removed);
            }
        }
        Ok(())
    }

    /// Takes back `block` and all that is built on it; gives the blocks that are gone. `removed`
    /// gets every version that they wrote.
    ///
    /// Cost: O(records that those blocks wrote).
    pub fn drop_fork(
        &mut self,
        block: BlockId,
        removed: &mut Vec<Removed<R>>,
    ) -> Result<BTreeSet<BlockId>, BlockError> {
        self.tree.block(block)?;
        if block == self.tree.root() {
            return Err(BlockError::Root(block));
        }
        let gone = self.tree.with_descendants(block);
        for block in &gone {
            self.vanish(*block, removed);
        }
        Ok(gone)
    }

    /// The state of `block`. O(1): it shares everything with this.
    pub fn snapshot(&self, block: BlockId) -> Result<Snapshot<R, M>, BlockError> {
        let found = self.tree.block(block)?;
        Ok(Snapshot {
            block,
            meta: Arc::clone(&found.meta),
            ancestors: Arc::clone(&found.ancestors),
            records: self.records.clone(),
        })
    }

    /// The version of `id` that was written last, by whatever block.
    pub fn newest(&self, id: AddressId) -> Option<&Version<R>> {
        self.records.get(id)?.iter().next()
    }

    /// All versions of `id` that a read may still see, the one written last first.
    pub fn versions_of(&self, id: AddressId) -> impl Iterator<Item = &Version<R>> {
        self.records.get(id).into_iter().flat_map(Versions::iter)
    }

    /// The ids from `first` on that have a version. Cost: one look-up.
    pub fn ids_from(&self, first: AddressId) -> impl Iterator<Item = AddressId> {
        self.records.iter_from(first).map(|(id, _)| id)
    }

    /// Whether a version of `id` is found by `key`.
    pub fn is_found_by(&self, id: AddressId, key: Key) -> bool {
        self.records
            .get(id)
            .is_some_and(|versions| versions.iter().any(|version| version.keys.contains(&key)))
    }

    /// How many ids have a version, removals included.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no id has a version.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many versions there are. Cost: O(records); for tests and reports.
    pub fn versions(&self) -> usize {
        self.records.iter().map(|(_, versions)| versions.iter().count()).sum()
    }

    /// Takes back what `block` wrote.
    fn vanish(&mut self, block: BlockId, removed: &mut Vec<Removed<R>>) {
        for id in self.tree.remove(block) {
            let Some(versions) = self.records.get_mut(id) else { continue };
            let Some(version) = versions.take(block) else { continue };
            let is_last = versions.is_empty();
            if is_last {
                self.records.remove(id);
            }
            removed.push(Removed::new(id, Some(version), is_last));
        }
    }

    /// Makes what `block` wrote under `id` the rooted version.
    fn settle(&mut self, block: BlockId, id: AddressId, removed: &mut Vec<Removed<R>>) {
        let Some(versions) = self.records.get_mut(id) else { return };
        let Some(version) = versions.take(block) else { return };
        let next = version.record.is_some().then_some(version);
        versions.rooted_slot = block.slot;
        let hidden = std::mem::replace(&mut versions.rooted, next);
        let is_last = versions.is_empty();
        if is_last {
            self.records.remove(id);
        }
        if is_last || hidden.is_some() {
            removed.push(Removed::new(id, hidden, is_last));
        }
    }
}

#[cfg(test)]
mod tests {
    use ledger::Facet;

    use super::*;
    use crate::UNROOTED_MAX;

    type Done = Result<(), BlockError>;

    const ROOT: BlockId = block(10, 0);

    const fn block(slot: u64, bank: u64) -> BlockId {
        BlockId { slot, bank }
    }

    fn state() -> Result<State<u32, ()>, BlockError> {
        let mut state = State::new(ROOT, Arc::new(()));
        state.complete(ROOT)?;
        Ok(state)
    }

    /// Opens a block, writes `records` (0 removes) and completes it.
    fn add(
        state: &mut State<u32, ()>,
        block: BlockId,
        parent: BlockId,
        records: &[(u32, u32)],
    ) -> Result<Vec<Removed<u32>>, BlockError> {
        let mut removed = Vec::new();
        state.open(block, parent, Arc::new(()))?;
        for (id, record) in records {
            state.write(block, AddressId(*id), version(*record), &mut removed)?;
        }
        state.complete(block)?;
        Ok(removed)
    }

    /// Found by its value, unless it is a removal.
    fn version(record: u32) -> Version<u32> {
        if record == 0 {
            return Version { record: None, keys: Arc::default() };
        }
        Version { record: Some(Arc::new(record)), keys: Arc::new([key(record)]) }
    }

    fn key(record: u32) -> Key {
        Key { facet: Facet(0), id: AddressId(record) }
    }

    fn gone(id: u32, record: u32, is_last: bool) -> Removed<u32> {
        Removed::new(AddressId(id), Some(version(record)), is_last)
    }

    fn seen(snapshot: &Snapshot<u32, ()>) -> Vec<(u32, u32)> {
        let record = |version: &Version<u32>| version.record.as_deref().copied();
        for (id, found) in snapshot.versions() {
            assert_eq!(snapshot.version(id).map(record), Some(record(found)));
        }
        snapshot.versions().map(|(id, found)| (id.0, record(found).unwrap_or(0))).collect()
    }

    fn at(state: &State<u32, ()>, block: BlockId) -> Result<Vec<(u32, u32)>, BlockError> {
        Ok(seen(&state.snapshot(block)?))
    }

    #[test]
    fn a_block_sees_its_ancestors_and_not_the_forks_beside() -> Done {
        let mut state = state()?;
        let (left, right, tip) = (block(11, 1), block(11, 2), block(13, 3));
        add(&mut state, left, ROOT, &[(1, 100), (2, 200)])?;
        add(&mut state, right, ROOT, &[(1, 101), (3, 301)])?;
        add(&mut state, tip, left, &[(2, 0), (4, 402)])?;
        assert_eq!(at(&state, ROOT)?, []);
        assert_eq!(at(&state, left)?, [(1, 100), (2, 200)]);
        assert_eq!(at(&state, right)?, [(1, 101), (3, 301)]);
        assert_eq!(at(&state, tip)?, [(1, 100), (4, 402)]);
        Ok(())
    }

    #[test]
    fn the_last_write_of_a_block_hides_its_earlier_ones() -> Done {
        let mut state = state()?;
        let one = block(11, 1);
        let removed = add(&mut state, one, ROOT, &[(1, 100), (1, 101), (1, 0), (1, 103)])?;
        assert_eq!(removed, [gone(1, 100, false), gone(1, 101, false), gone(1, 0, false)]);
        assert_eq!(at(&state, one)?, [(1, 103)]);
        assert_eq!(state.versions(), 1);
        Ok(())
    }

    #[test]
    fn rooting_takes_the_blocks_on_the_way_and_drops_those_beside() -> Done {
        let mut state = state()?;
        let (low, beside, high, above) = (block(11, 1), block(12, 2), block(12, 3), block(13, 4));
        add(&mut state, low, ROOT, &[(1, 100), (2, 200)])?;
        add(&mut state, beside, low, &[(1, 101), (5, 501)])?;
        add(&mut state, high, low, &[(2, 202)])?;
        add(&mut state, above, high, &[(3, 303)])?;
        let mut removed = Vec::new();
        state.finalize(high, &mut removed)?;
        assert_eq!(removed, [gone(1, 101, false), gone(5, 501, true), gone(2, 200, false)]);
        assert_eq!(at(&state, high)?, [(1, 100), (2, 202)]);
        assert_eq!(at(&state, above)?, [(1, 100), (2, 202), (3, 303)]);
        assert_eq!(at(&state, low), Err(BlockError::Unknown(low)));
        assert_eq!(at(&state, beside), Err(BlockError::Unknown(beside)));
        assert_eq!((state.root(), state.unrooted()), (high, 1));
        Ok(())
    }

    #[test]
    fn a_removed_record_leaves_nothing_once_rooted() -> Done {
        let mut state = state()?;
        let (one, two) = (block(11, 1), block(12, 2));
        add(&mut state, one, ROOT, &[(1, 100)])?;
        add(&mut state, two, one, &[(1, 0), (2, 0)])?;
        assert_eq!(state.len(), 2);
        let mut removed = Vec::new();
        state.finalize(two, &mut removed)?;
        assert_eq!(removed, [gone(1, 100, true), gone(2, 0, true)]);
        assert!(state.is_empty());
        Ok(())
    }

    #[test]
    fn a_dropped_fork_leaves_nothing() -> Done {
        let mut state = state()?;
        let (one, two, kept) = (block(11, 1), block(12, 2), block(12, 3));
        add(&mut state, kept, ROOT, &[(1, 103)])?;
        add(&mut state, one, ROOT, &[(1, 100)])?;
        add(&mut state, two, one, &[(1, 101), (2, 201)])?;
        let mut removed = Vec::new();
        let blocks = state.drop_fork(one, &mut removed)?;
        assert_eq!(blocks, BTreeSet::from([one, two]));
        assert_eq!(removed, [gone(1, 100, false), gone(1, 101, false), gone(2, 201, true)]);
        assert_eq!((state.len(), state.versions(), state.unrooted()), (1, 1, 1));
        assert!(!state.is_found_by(AddressId(1), key(100)));
        assert!(state.is_found_by(AddressId(1), key(103)));
        add(&mut state, one, ROOT, &[(2, 7)])?;
        assert_eq!(at(&state, one)?, [(2, 7)], "the same block again, with other content");
        Ok(())
    }

    #[test]
    fn an_old_snapshot_keeps_its_answers() -> Done {
        let mut state = state()?;
        let (one, two, three) = (block(11, 1), block(11, 2), block(12, 3));
        add(&mut state, one, ROOT, &[(1, 100), (2, 200)])?;
        add(&mut state, two, ROOT, &[(1, 101)])?;
        let old = [state.snapshot(ROOT)?, state.snapshot(one)?, state.snapshot(two)?];
        state.drop_fork(two, &mut Vec::new())?;
        state.finalize(one, &mut Vec::new())?;
        add(&mut state, three, one, &[(1, 0), (2, 202)])?;
        state.finalize(three, &mut Vec::new())?;
        assert_eq!(seen(&old[0]), []);
        assert_eq!(seen(&old[1]), [(1, 100), (2, 200)]);
        assert_eq!(seen(&old[2]), [(1, 101)]);
        assert_eq!(at(&state, three)?, [(2, 202)]);
        Ok(())
    }

    #[test]
    fn a_read_knows_the_slot_of_the_write() -> Done {
        let mut state = state()?;
        let (one, two, three) = (block(11, 1), block(12, 2), block(13, 3));
        add(&mut state, one, ROOT, &[(1, 100), (2, 200)])?;
        add(&mut state, two, one, &[(1, 102)])?;
        add(&mut state, three, two, &[(2, 203), (3, 303)])?;
        let slots = |state: &State<u32, ()>, block| -> Result<Vec<Option<u64>>, BlockError> {
            let snapshot = state.snapshot(block)?;
            Ok([1, 2, 3].map(|id| Some(snapshot.written(AddressId(id))?.1)).into())
        };
        assert_eq!(slots(&state, three)?, [Some(12), Some(13), Some(13)]);
        assert_eq!(slots(&state, two)?, [Some(12), Some(11), None]);
        state.finalize(two, &mut Vec::new())?;
        assert_eq!(slots(&state, three)?, [Some(12), Some(13), Some(13)]);
        assert_eq!(slots(&state, two)?, [Some(12), Some(11), None]);
        Ok(())
    }

    #[test]
    fn an_open_root_is_filled_in_place() -> Done {
        let mut state = State::new(ROOT, Arc::new(()));
        let mut removed = Vec::new();
        for (id, record) in [(1, 100), (1, 101), (2, 200), (2, 0), (3, 0)] {
            state.write(ROOT, AddressId(id), version(record), &mut removed)?;
        }
        assert_eq!(removed, [gone(1, 100, false), gone(2, 200, true), gone(3, 0, true)]);
        assert_eq!(at(&state, ROOT)?, [(1, 101)]);
        let child = state.open(block(11, 1), ROOT, Arc::new(()));
        assert_eq!(child, Err(BlockError::Open(ROOT)));
        Ok(())
    }

    #[test]
    fn only_open_blocks_are_written_and_only_complete_ones_are_built_on() -> Done {
        let mut state = state()?;
        let one = block(11, 1);
        state.open(one, ROOT, Arc::new(()))?;
        assert_eq!(state.open(one, ROOT, Arc::new(())), Err(BlockError::Exists(one)));
        assert_eq!(state.open(block(12, 2), one, Arc::new(())), Err(BlockError::Open(one)));
        assert_eq!(state.finalize(one, &mut Vec::new()), Err(BlockError::Open(one)));
        state.complete(one)?;
        assert_eq!(state.complete(one), Err(BlockError::Complete(one)));
        let late = state.write(one, AddressId(1), version(1), &mut Vec::new());
        assert_eq!(late, Err(BlockError::Complete(one)));
        assert!(state.is_empty());
        let not_after = BlockError::NotAfterParent { block: block(11, 2), parent: one };
        assert_eq!(state.open(block(11, 2), one, Arc::new(())), Err(not_after));
        Ok(())
    }

    #[test]
    fn a_reorg_below_the_root_is_refused() -> Done {
        let mut state = state()?;
        let one = block(11, 1);
        add(&mut state, one, ROOT, &[])?;
        state.finalize(one, &mut Vec::new())?;
        let unknown = Err(BlockError::Unknown(ROOT));
        assert_eq!(state.open(block(12, 2), ROOT, Arc::new(())), unknown);
        assert_eq!(state.finalize(ROOT, &mut Vec::new()), unknown);
        assert_eq!(state.finalize(one, &mut Vec::new()), Err(BlockError::Root(one)));
        assert_eq!(state.drop_fork(one, &mut Vec::new()), Err(BlockError::Root(one)));
        Ok(())
    }

    #[test]
    fn unrooted_blocks_are_bounded() -> Done {
        let mut state = state()?;
        let nth = |n: usize| block(11, n as u64);
        for n in 0..UNROOTED_MAX {
            add(&mut state, nth(n), ROOT, &[])?;
        }
        let more = add(&mut state, nth(UNROOTED_MAX), ROOT, &[]);
        assert_eq!(more, Err(BlockError::TooManyUnrooted));
        state.finalize(nth(7), &mut Vec::new())?;
        assert_eq!(state.unrooted(), 0);
        Ok(())
    }
}
