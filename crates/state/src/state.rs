//! The writer's state: all versions of all records, and the blocks that wrote them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ledger::{AddressId, BlockId, Key, Record};

use crate::fork_tree::ForkTree;
use crate::leaf::{SupersededVersion, leaf_number, leaf_position};
use crate::leaf_map::{LeafMap, ids_from};
use crate::version::SharedVersion;
use crate::{BlockError, Snapshot, StateMemory, Version, VisibleVersion};

/// Records of type `R` by address id, and metadata of type `M` by block.
///
/// The root is open at first, for the caller to fill. It cannot have a child until it is complete.
///
/// ```
/// use std::sync::Arc;
///
/// use ledger::{Address, AddressId, BlockId, KeyKind, Record};
/// use state::{State, Version};
///
/// struct Counter(u64);
///
/// impl Record for Counter {
///     fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}
/// }
///
/// let [root, left, right] = [(0, 0), (1, 0), (1, 1)].map(|(slot, version)| BlockId { slot, version });
/// let mut state = State::new(root, Arc::new(()));
/// state.complete(root)?;
/// for (fork, count) in [(left, 5), (right, 7)] {
///     state.open(fork, root, Arc::new(()))?;
///     let version = Version { record: Some(Arc::new(Counter(count))), keys: [].into() };
///     state.write(fork, vec![(AddressId(3), version)], &mut Vec::new())?;
/// }
///
/// // Each fork sees its own version; the root sees none.
/// let count_at = |block| -> Result<Option<u64>, state::BlockError> {
///     let snapshot = state.snapshot(block)?;
///     let found = snapshot.version(AddressId(3));
///     Ok(found.map(|version| version.record(|_| unreachable!("it has no keys")).0))
/// };
/// assert_eq!([count_at(root)?, count_at(left)?, count_at(right)?], [None, Some(5), Some(7)]);
/// # Ok::<(), state::BlockError>(())
/// ```
pub struct State<R, M> {
    tree: ForkTree<M>,
    leaves: LeafMap<R>,
}

/// A version that reads of the state no longer see. Snapshots taken before still do.
pub struct RemovedVersion<R> {
    /// Id of the address of the record.
    pub id: AddressId,
    /// Whether it was the record's last version: the id has no version now.
    pub is_last: bool,
    superseded: Option<SupersededVersion<R>>,
}

impl<R> RemovedVersion<R> {
    /// Returns the version; `None` if it was a removal.
    pub fn version(&self) -> Option<VisibleVersion<'_, R>> {
        self.superseded.as_ref()?.visible_version(self.id)
    }

    /// Appends the version, unless the removal removed nothing.
    fn push_to(self, removed: &mut Vec<Self>) {
        if self.is_last || self.superseded.is_some() {
            removed.push(self);
        }
    }
}

impl<R: Record, M> State<R, M> {
    /// Creates a state with no records at an open root.
    pub fn new(root: BlockId, meta: Arc<M>) -> Self {
        Self { tree: ForkTree::new(root, meta), leaves: LeafMap::new() }
    }

    /// Returns the newest block that cannot be reverted.
    pub fn root(&self) -> BlockId {
        self.tree.root()
    }

    /// Returns whether `block` is the root or above it.
    pub fn contains_block(&self, block: BlockId) -> bool {
        self.tree.contains(block)
    }

    /// Returns the number of blocks above the root.
    pub fn unrooted_len(&self) -> usize {
        self.tree.unrooted_len()
    }

    /// Returns the parent of `block`; `None` for the root.
    pub fn parent(&self, block: BlockId) -> Result<Option<BlockId>, BlockError> {
        self.tree.parent(block)
    }

    /// Returns whether `block` is on the chain of `tip`: equal to it, or one of its ancestors at or above
    /// the root.
    pub fn is_on_chain(&self, block: BlockId, tip: BlockId) -> bool {
        self.tree.is_on_chain(block, tip)
    }

    /// Returns an error unless `block` is complete.
    pub fn check_complete(&self, block: BlockId) -> Result<(), BlockError> {
        self.tree.check_complete(block)
    }

    /// Opens `block` as a child of `parent`, which must be complete.
    pub fn open(
        &mut self,
        block: BlockId,
        parent: BlockId,
        meta: Arc<M>,
    ) -> Result<(), BlockError> {
        self.tree.open(block, parent, meta)
    }

    /// Replaces the metadata of `block`.
    pub fn set_meta(&mut self, block: BlockId, meta: Arc<M>) -> Result<(), BlockError> {
        self.tree.block_mut(block)?.meta = meta;
        Ok(())
    }

    /// Returns an error unless `block` is open.
    pub fn check_writable(&mut self, block: BlockId) -> Result<(), BlockError> {
        self.tree.writable(block).map(|_| ())
    }

    /// Writes records in `block`; each replaces an earlier write of the block. Returns the ids
    /// that had a version before; appends the versions that are superseded for good to `removed`.
    ///
    /// Cost: a path of pages each. At an open root, where everything is packed at once, a leaf is
    /// packed once for all its records among `versions`.
    pub fn write(
        &mut self,
        block: BlockId,
        mut versions: Vec<(AddressId, Version<R>)>,
        removed: &mut Vec<RemovedVersion<R>>,
    ) -> Result<Vec<AddressId>, BlockError> {
        let is_root = block == self.tree.root();
        let written = &mut self.tree.writable(block)?.written;
        let mut known = Vec::new();
        versions.sort_by_key(|(id, _)| *id);
        let mut versions = versions.into_iter().peekable();
        while let Some(number) = versions.peek().map(|(id, _)| leaf_number(*id)) {
            self.leaves.change(number, |leaf, repacker| {
                while let Some((id, version)) =
                    versions.next_if(|(next, _)| leaf_number(*next) == number)
                {
                    let position = leaf_position(id);
                    if is_root {
                        let is_last = version.record.is_none();
                        let held = SharedVersion::new(version, None);
                        let superseded = leaf.root_version(position, block, held, repacker);
                        known.extend(superseded.is_some().then_some(id));
                        RemovedVersion { id, is_last, superseded }.push_to(removed);
                        continue;
                    }
                    known.extend(leaf.has(position).then_some(id));
                    match leaf.write(position, block, version) {
                        None => written.push(id),
                        Some(before) => {
                            let superseded = Some(SupersededVersion::Unpacked(before, block));
                            RemovedVersion { id, is_last: false, superseded }.push_to(removed);
                        }
                    }
                }
            });
        }
        Ok(known)
    }

    /// Closes `block` to writes, and allows it to have children.
    pub fn complete(&mut self, block: BlockId) -> Result<(), BlockError> {
        self.tree.complete(block)
    }

    /// Makes `block`, complete and above the root, the root, with every block on the path to it. The
    /// siblings of that path are removed. Appends every version that is superseded for good to `removed`.
    ///
    /// Cost: O(records that the rooted and removed blocks wrote).
    pub fn finalize(
        &mut self,
        block: BlockId,
        removed: &mut Vec<RemovedVersion<R>>,
    ) -> Result<(), BlockError> {
        let path = self.tree.path(block)?;
        for fork in self.tree.siblings(&path) {
            self.remove_versions(fork, removed);
        }
        path.into_iter().try_for_each(|block| self.root_block(block, removed))
    }

    /// Drops `block` and its descendants; returns the dropped blocks. Appends every version that they wrote to
    /// `removed`.
    ///
    /// Cost: O(records that those blocks wrote).
    pub fn drop_fork(
        &mut self,
        block: BlockId,
        removed: &mut Vec<RemovedVersion<R>>,
    ) -> Result<BTreeSet<BlockId>, BlockError> {
        self.tree.block(block)?;
        if block == self.tree.root() {
            return Err(BlockError::Root(block));
        }
        let gone = self.tree.with_descendants(block);
        for block in &gone {
            self.remove_versions(*block, removed);
        }
        Ok(gone)
    }

    /// Returns the state of `block`. O(1): it shares all data with this.
    pub fn snapshot(&self, block: BlockId) -> Result<Snapshot<R, M>, BlockError> {
        let found = self.tree.block(block)?;
        Ok(Snapshot {
            block,
            meta: Arc::clone(&found.meta),
            ancestors: Arc::clone(&found.ancestors),
            leaves: self.leaves.array().clone(),
            len: self.leaves.len(),
        })
    }

    /// Returns all versions of `id` that a read may still see, newest first, without removals.
    pub fn find_versions(&self, id: AddressId) -> impl Iterator<Item = VisibleVersion<'_, R>> {
        let leaf = self.leaves.array().get(leaf_number(id)).into_iter();
        leaf.flat_map(move |leaf| leaf.find_versions(id))
    }

    /// Returns the ids from `first` on that have a version. Cost: one lookup.
    pub fn ids_from(&self, first: AddressId) -> impl Iterator<Item = AddressId> {
        ids_from(self.leaves.array(), first)
    }

    /// Returns whether a version of `id` has `key`.
    pub fn is_found_by(&self, id: AddressId, key: Key) -> bool {
        let leaf = self.leaves.array().get(leaf_number(id));
        leaf.is_some_and(|leaf| leaf.is_found_by(id, key))
    }

    /// Returns the number of ids that have a version, including removals.
    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    /// Returns whether no id has a version.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of versions. Cost: O(records); for tests and reports.
    pub fn versions(&self) -> usize {
        self.leaves.array().iter().map(|(_, leaf)| leaf.versions()).sum()
    }

    /// Returns the memory of the state in bytes. O(1).
    pub fn bytes(&self) -> StateMemory {
        self.leaves.bytes()
    }

    /// Removes the versions that `block` wrote.
    fn remove_versions(&mut self, block: BlockId, removed: &mut Vec<RemovedVersion<R>>) {
        let mut written = self.tree.remove(block);
        written.sort_unstable();
        for ids in written.chunk_by(|left, right| leaf_number(*left) == leaf_number(*right)) {
            self.leaves.change(leaf_number(ids[0]), |leaf, _| {
                for id in ids {
                    let position = leaf_position(*id);
                    let Some(version) = leaf.take_version(position, block) else { continue };
                    let is_last = !leaf.has(position);
                    let superseded = Some(SupersededVersion::Unpacked(version, block));
                    removed.push(RemovedVersion { id: *id, is_last, superseded });
                }
            });
        }
    }

    /// Makes `block`, a child of the root, the root, and its versions rooted ones.
    fn root_block(
        &mut self,
        block: BlockId,
        removed: &mut Vec<RemovedVersion<R>>,
    ) -> Result<(), BlockError> {
        let mut written = self.tree.advance(block)?;
        written.sort_unstable();
        for ids in written.chunk_by(|left, right| leaf_number(*left) == leaf_number(*right)) {
            self.leaves.change(leaf_number(ids[0]), |leaf, repacker| {
                for id in ids {
                    let position = leaf_position(*id);
                    let Some(version) = leaf.take_version(position, block) else { continue };
                    let is_removal = version.record.is_none();
                    let superseded = leaf.root_version(position, block, version, repacker);
                    let is_last = is_removal && !leaf.has_unpacked(position);
                    RemovedVersion { id: *id, is_last, superseded }.push_to(removed);
                }
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ledger::{Address, KeyKind};

    use super::*;
    use crate::UNROOTED_MAX;

    type TestResult = Result<(), BlockError>;

    const ROOT: BlockId = block(10, 0);

    const fn block(slot: u64, version: u64) -> BlockId {
        BlockId { slot, version }
    }

    /// Some of these pack, some are patches of others, and some are neither.
    #[derive(Debug, PartialEq, Eq)]
    struct Number(u32);

    impl Record for Number {
        fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
            key(KeyKind(0), address(AddressId(self.0)));
        }

        fn pack(&self, packed: &mut Vec<u8>) -> bool {
            packed.extend_from_slice(&[7; 3][..self.0 as usize % 4 % 3]);
            self.0 % 4 != 3
        }

        fn patch(&self, base: &Self, patch: &mut Vec<u8>) -> bool {
            patch.push(base.0 as u8);
            patch.extend(self.0.to_le_bytes());
            self.0 % 3 == base.0 % 3
        }

        fn apply_patch(base: &Self, patch: &[u8]) -> Option<Self> {
            let (of, number) = patch.split_first()?;
            let number = u32::from_le_bytes(number.try_into().ok()?);
            (*of == base.0 as u8).then_some(Self(number))
        }

        fn weight(&self) -> usize {
            100
        }

        fn global_rank(&self) -> Option<u64> {
            Some(self.0.into())
        }

        fn unpack(
            keys: &[(KeyKind, Address)],
            packed: &[u8],
            _: &dyn Fn() -> Address,
        ) -> Option<Self> {
            let [(KeyKind(0), key)] = keys else { return None };
            let number = u32::from_le_bytes(key.as_bytes()[..4].try_into().ok()?);
            let is_whole = packed.iter().all(|byte| *byte == 7);
            (is_whole && packed.len() == number as usize % 4 % 3).then_some(Self(number))
        }
    }

    fn address(id: AddressId) -> Address {
        Address::try_from(&id.0.to_le_bytes()[..]).expect("four bytes are an address")
    }

    fn state() -> Result<State<Number, ()>, BlockError> {
        let mut state = State::new(ROOT, Arc::new(()));
        state.complete(ROOT)?;
        Ok(state)
    }

    /// Opens a block, writes `records` (0 removes) and completes it.
    fn add(
        state: &mut State<Number, ()>,
        block: BlockId,
        parent: BlockId,
        records: &[(u32, u32)],
    ) -> Result<Vec<Gone>, BlockError> {
        let mut removed = Vec::new();
        state.open(block, parent, Arc::new(()))?;
        for (id, record) in records {
            state.write(block, vec![(AddressId(*id), version(*record))], &mut removed)?;
        }
        state.complete(block)?;
        Ok(removed_versions(removed))
    }

    /// Returns a version that has its value as its key; a removal for 0.
    fn version(record: u32) -> Version<Number> {
        if record == 0 {
            return Version { record: None, keys: Arc::default() };
        }
        Version { record: Some(Arc::new(Number(record))), keys: Arc::new([key(record)]) }
    }

    fn key(record: u32) -> Key {
        Key { kind: KeyKind(0), id: AddressId(record) }
    }

    /// A version that was removed: its record's id and value, 0 for a removal.
    #[derive(Debug, PartialEq, Eq)]
    struct Gone {
        id: u32,
        record: u32,
        is_last: bool,
    }

    fn removed_version(id: u32, record: u32, is_last: bool) -> Gone {
        Gone { id, record, is_last }
    }

    fn removed_versions(removed: Vec<RemovedVersion<Number>>) -> Vec<Gone> {
        let number = |removed: &RemovedVersion<Number>| {
            removed.version().map_or(0, |version| number(&version))
        };
        removed.iter().map(|one| removed_version(one.id.0, number(one), one.is_last)).collect()
    }

    fn number(version: &VisibleVersion<'_, Number>) -> u32 {
        let number = version.record(address).0;
        assert!(version.has_key(key(number)) && !version.has_key(key(number + 1)));
        assert_eq!(version.keys().collect::<Vec<_>>(), [key(number)]);
        assert_eq!(version.rank(None, address), Some(u64::from(number)));
        number
    }

    fn visible(snapshot: &Snapshot<Number, ()>) -> Vec<(u32, u32)> {
        for (id, found) in snapshot.versions() {
            let alone = snapshot.version(id).map(|alone| number(&alone));
            assert_eq!(alone, Some(number(&found)));
        }
        snapshot.versions().map(|(id, found)| (id.0, number(&found))).collect()
    }

    fn visible_at(
        state: &State<Number, ()>,
        block: BlockId,
    ) -> Result<Vec<(u32, u32)>, BlockError> {
        assert_eq!((state.len(), state.bytes()), state.leaves.recount());
        Ok(visible(&state.snapshot(block)?))
    }

    #[test]
    fn a_block_sees_its_ancestors_and_not_sibling_forks() -> TestResult {
        let mut state = state()?;
        let left = block(11, 1);
        let right = block(11, 2);
        let tip = block(13, 3);
        add(&mut state, left, ROOT, &[(1, 100), (2, 200)])?;
        add(&mut state, right, ROOT, &[(1, 101), (3, 301)])?;
        add(&mut state, tip, left, &[(2, 0), (4, 402)])?;
        assert_eq!(visible_at(&state, ROOT)?, []);
        assert_eq!(visible_at(&state, left)?, [(1, 100), (2, 200)]);
        assert_eq!(visible_at(&state, right)?, [(1, 101), (3, 301)]);
        assert_eq!(visible_at(&state, tip)?, [(1, 100), (4, 402)]);
        Ok(())
    }

    #[test]
    fn a_later_write_in_a_block_hides_its_earlier_ones() -> TestResult {
        let mut state = state()?;
        let one = block(11, 1);
        let removed = add(&mut state, one, ROOT, &[(1, 100), (1, 101), (1, 0), (1, 103)])?;
        assert_eq!(
            removed,
            [
                removed_version(1, 100, false),
                removed_version(1, 101, false),
                removed_version(1, 0, false)
            ]
        );
        assert_eq!(visible_at(&state, one)?, [(1, 103)]);
        assert_eq!(state.versions(), 1);
        Ok(())
    }

    #[test]
    fn rooting_includes_the_blocks_on_the_path_and_drops_their_siblings() -> TestResult {
        let mut state = state()?;
        let low = block(11, 1);
        let sibling = block(12, 2);
        let high = block(12, 3);
        let above = block(13, 4);
        add(&mut state, low, ROOT, &[(1, 100), (2, 200)])?;
        add(&mut state, sibling, low, &[(1, 101), (5, 501)])?;
        add(&mut state, high, low, &[(2, 202)])?;
        add(&mut state, above, high, &[(3, 303)])?;
        let mut removed = Vec::new();
        state.finalize(high, &mut removed)?;
        assert_eq!(
            removed_versions(removed),
            [
                removed_version(1, 101, false),
                removed_version(5, 501, true),
                removed_version(2, 200, false)
            ]
        );
        assert_eq!(visible_at(&state, high)?, [(1, 100), (2, 202)]);
        assert_eq!(visible_at(&state, above)?, [(1, 100), (2, 202), (3, 303)]);
        assert_eq!(visible_at(&state, low), Err(BlockError::Unknown(low)));
        assert_eq!(visible_at(&state, sibling), Err(BlockError::Unknown(sibling)));
        assert_eq!((state.root(), state.unrooted_len()), (high, 1));
        Ok(())
    }

    #[test]
    fn a_removed_record_leaves_nothing_once_rooted() -> TestResult {
        let mut state = state()?;
        let one = block(11, 1);
        let two = block(12, 2);
        add(&mut state, one, ROOT, &[(1, 100)])?;
        add(&mut state, two, one, &[(1, 0), (2, 0)])?;
        assert_eq!(state.len(), 2);
        let mut removed = Vec::new();
        state.finalize(two, &mut removed)?;
        assert_eq!(
            removed_versions(removed),
            [removed_version(1, 100, true), removed_version(2, 0, true)]
        );
        assert!(state.is_empty());
        Ok(())
    }

    #[test]
    fn a_dropped_fork_leaves_nothing() -> TestResult {
        let mut state = state()?;
        let one = block(11, 1);
        let two = block(12, 2);
        let other = block(12, 3);
        add(&mut state, other, ROOT, &[(1, 103)])?;
        add(&mut state, one, ROOT, &[(1, 100)])?;
        add(&mut state, two, one, &[(1, 101), (2, 201)])?;
        let mut removed = Vec::new();
        let blocks = state.drop_fork(one, &mut removed)?;
        assert_eq!(blocks, BTreeSet::from([one, two]));
        assert_eq!(
            removed_versions(removed),
            [
                removed_version(1, 100, false),
                removed_version(1, 101, false),
                removed_version(2, 201, true)
            ]
        );
        assert_eq!((state.len(), state.versions(), state.unrooted_len()), (1, 1, 1));
        assert!(!state.is_found_by(AddressId(1), key(100)));
        assert!(state.is_found_by(AddressId(1), key(103)));
        add(&mut state, one, ROOT, &[(2, 7)])?;
        assert_eq!(visible_at(&state, one)?, [(2, 7)], "the same block again, with other content");
        Ok(())
    }

    #[test]
    fn an_old_snapshot_does_not_change() -> TestResult {
        let mut state = state()?;
        let one = block(11, 1);
        let two = block(11, 2);
        let three = block(12, 3);
        add(&mut state, one, ROOT, &[(1, 100), (2, 200)])?;
        add(&mut state, two, ROOT, &[(1, 101)])?;
        let old = [state.snapshot(ROOT)?, state.snapshot(one)?, state.snapshot(two)?];
        state.drop_fork(two, &mut Vec::new())?;
        state.finalize(one, &mut Vec::new())?;
        add(&mut state, three, one, &[(1, 0), (2, 202)])?;
        state.finalize(three, &mut Vec::new())?;
        assert_eq!(visible(&old[0]), []);
        assert_eq!(visible(&old[1]), [(1, 100), (2, 200)]);
        assert_eq!(visible(&old[2]), [(1, 101)]);
        assert_eq!(visible_at(&state, three)?, [(2, 202)]);
        Ok(())
    }

    #[test]
    fn a_batch_read_equals_single_reads() -> TestResult {
        let mut state = state()?;
        let mut random = 7_u64;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % bound
        };
        // Some in one leaf, others in pages of their own.
        let ids: Vec<u32> = (0..200).chain((0..60).map(|n| n * 70_001)).chain([u32::MAX]).collect();
        let mut blocks = vec![ROOT];
        let mut seen = 0;
        let mut unseen = 0;
        for nth in 1..400 {
            let parent = blocks[below(blocks.len())];
            let child = block(parent.slot + 1, nth);
            let records: Vec<(u32, u32)> = (0..below(40))
                .map(|_| (ids[below(ids.len())], below(12) as u32 * below(2) as u32))
                .collect();
            add(&mut state, child, parent, &records)?;
            blocks.push(child);
            match below(12) {
                0 if child != state.root() => state.finalize(child, &mut Vec::new())?,
                1 => drop(state.drop_fork(child, &mut Vec::new())?),
                _ => {}
            }
            blocks.retain(|block| state.contains_block(*block));
            for block in &blocks {
                let snapshot = state.snapshot(*block)?;
                let mut found = Vec::new();
                let len = below(Snapshot::<Number, ()>::BATCH_MAX + 1);
                let mut batch: Vec<_> =
                    (0..len).map(|_| AddressId(ids[below(ids.len())])).collect();
                if below(2) == 0 {
                    batch.sort_unstable();
                }
                snapshot.find_versions(&batch, &mut found);
                assert_eq!(found.len(), batch.len());
                for (id, found) in batch.iter().zip(&found) {
                    let observed =
                        |version: &VisibleVersion<'_, Number>| (number(version), version.slot());
                    let alone = snapshot.version(*id);
                    assert_eq!(
                        found.as_ref().map(observed),
                        alone.as_ref().map(observed),
                        "{id:?}"
                    );
                    *if alone.is_some() { &mut seen } else { &mut unseen } += 1;
                }
            }
        }
        assert!(seen > 1_000 && unseen > 1_000, "{seen}, {unseen}");
        Ok(())
    }

    #[test]
    fn a_read_returns_the_slot_that_wrote_the_record() -> TestResult {
        let mut state = state()?;
        let one = block(11, 1);
        let two = block(12, 2);
        let three = block(13, 3);
        add(&mut state, one, ROOT, &[(1, 100), (2, 200)])?;
        add(&mut state, two, one, &[(1, 102)])?;
        add(&mut state, three, two, &[(2, 203), (3, 303)])?;
        let slots = |state: &State<Number, ()>, block| -> Result<Vec<Option<u64>>, BlockError> {
            let snapshot = state.snapshot(block)?;
            Ok([1, 2, 3].map(|id| Some(snapshot.version(AddressId(id))?.slot())).into())
        };
        assert_eq!(slots(&state, three)?, [Some(12), Some(13), Some(13)]);
        assert_eq!(slots(&state, two)?, [Some(12), Some(11), None]);
        state.finalize(two, &mut Vec::new())?;
        assert_eq!(slots(&state, three)?, [Some(12), Some(13), Some(13)]);
        assert_eq!(slots(&state, two)?, [Some(12), Some(11), None]);
        Ok(())
    }

    #[test]
    fn an_open_root_is_filled_in_place() -> TestResult {
        let mut state = State::new(ROOT, Arc::new(()));
        let mut removed = Vec::new();
        for (id, record) in [(1, 100), (1, 101), (2, 200), (2, 0), (3, 0)] {
            state.write(ROOT, vec![(AddressId(id), version(record))], &mut removed)?;
        }
        assert_eq!(
            removed_versions(removed),
            [
                removed_version(1, 100, false),
                removed_version(2, 200, true),
                removed_version(3, 0, true)
            ]
        );
        assert_eq!(visible_at(&state, ROOT)?, [(1, 101)]);
        let child = state.open(block(11, 1), ROOT, Arc::new(()));
        assert_eq!(child, Err(BlockError::Open(ROOT)));
        Ok(())
    }

    #[test]
    fn only_open_blocks_are_written_and_only_complete_ones_are_built_on() -> TestResult {
        let mut state = state()?;
        let one = block(11, 1);
        state.open(one, ROOT, Arc::new(()))?;
        assert_eq!(state.open(one, ROOT, Arc::new(())), Err(BlockError::Exists(one)));
        assert_eq!(state.open(block(12, 2), one, Arc::new(())), Err(BlockError::Open(one)));
        assert_eq!(state.finalize(one, &mut Vec::new()), Err(BlockError::Open(one)));
        assert_eq!(state.check_complete(one), Err(BlockError::Open(one)));
        state.complete(one)?;
        assert_eq!(state.complete(one), Err(BlockError::Complete(one)));
        let late = state.write(one, vec![(AddressId(1), version(1))], &mut Vec::new());
        assert_eq!(late, Err(BlockError::Complete(one)));
        assert!(state.is_empty());
        assert_eq!(state.check_complete(one), Ok(()));
        let not_after = BlockError::NotAfterParent { block: block(11, 2), parent: one };
        assert_eq!(state.open(block(11, 2), one, Arc::new(())), Err(not_after));
        Ok(())
    }

    #[test]
    fn a_reorg_below_the_root_is_refused() -> TestResult {
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
    fn a_chain_has_its_tips_ancestors_down_to_the_root() -> TestResult {
        let mut state = state()?;
        let one = block(11, 1);
        let left = block(12, 2);
        let right = block(12, 3);
        add(&mut state, one, ROOT, &[])?;
        add(&mut state, left, one, &[])?;
        add(&mut state, right, one, &[])?;
        for on_chain in [ROOT, one, left] {
            assert!(state.is_on_chain(on_chain, left), "{on_chain:?}");
        }
        assert!(!state.is_on_chain(right, left) && !state.is_on_chain(left, one));
        state.finalize(one, &mut Vec::new())?;
        assert!(state.is_on_chain(one, left) && !state.is_on_chain(ROOT, left));
        Ok(())
    }

    #[test]
    fn unrooted_blocks_are_bounded() -> TestResult {
        let mut state = state()?;
        let nth = |n: usize| block(11, n as u64);
        for n in 0..UNROOTED_MAX {
            add(&mut state, nth(n), ROOT, &[])?;
        }
        let more = add(&mut state, nth(UNROOTED_MAX), ROOT, &[]);
        assert_eq!(more, Err(BlockError::TooManyUnrooted));
        state.finalize(nth(7), &mut Vec::new())?;
        assert_eq!(state.unrooted_len(), 0);
        Ok(())
    }
}
