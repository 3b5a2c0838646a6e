//! The one writer of a ledger: applies blocks and changes, maintains state, indices and reference counts
//! consistently, and publishes.
//!
//! References to addresses: the state has one for every id that has a version, and one for every key
//! of such an id, whichever version has it: a packed version cannot be unpacked without its keys'
//! addresses. A reference is released when the last version that needed it is superseded for good.
//! Long because state, indices and references change together: every step on its own would leave them inconsistent.

use std::hash::BuildHasher;
use std::sync::Arc;

use address::{AddressTable, TableFull};
use arc_swap::ArcSwap;
use index::Index;
use ledger::{Address, AddressId, BlockId, Change, Commitment, Key, Record, StoredRecord};
use state::{BlockError, RemovedVersion, Snapshot, State};

use crate::address_resolver::address_resolver;
use crate::block_writes::BlockWrites;
use crate::published::Published;
use crate::rank_index::{IndexedRecords, RankBounds, RankIndex};
use crate::resolve_changes::{ResolvedChanges, ResolvedWrite};
use crate::{IndexConfig, LedgerMemory, Reader};

/// The limits and indices of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerConfig {
    /// Maximum addresses in use: of records, of their keys, and of
    /// subscribers. About 43 bytes each, and 20 for every 1,024 at once.
    pub addresses_max: u32,
    /// Configuration of the index entries.
    pub indices: IndexConfig,
}

impl LedgerConfig {
    /// Creates a configuration with at most `addresses_max` addresses, and every index.
    pub fn new(addresses_max: u32) -> Self {
        Self { addresses_max, indices: IndexConfig::default() }
    }
}

/// Why the ledger refused a call. The call had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The block does not allow the call: a bug of the caller.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The address table is full. Fix: raise `ledger.addresses_max`.
    #[error(transparent)]
    TableFull(#[from] TableFull),
}

/// The state that readers saw before a publish. Dropping it frees the data that nothing else shares.
pub struct Retired<R, M> {
    _published: Arc<Published<R, M>>,
}

/// Numbers of addresses, records, entries and blocks in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerUsage {
    /// Addresses that are referenced.
    pub addresses: usize,
    /// Addresses with a record, including removals that are not rooted.
    pub records: usize,
    /// Number of keys that have a record.
    pub index_keys: usize,
    /// Number of entries of all keys.
    pub index_entries: usize,
    /// Number of blocks above the root.
    pub unrooted_blocks: usize,
}

/// The one writer of a ledger. Readers see none of its changes before [`Ledger::publish`]: index entries
/// are visible earlier, but refer to records that a reader's block does not see under their key.
///
/// ```
/// use std::sync::Arc;
///
/// use ledger::{Address, BlockId, Change, Commitment, KeyKind, Record};
/// use query::{Ledger, LedgerConfig};
///
/// struct Counter(u64);
///
/// impl Record for Counter {
///     fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}
/// }
///
/// let (genesis, block) = (BlockId { slot: 0, version: 0 }, BlockId { slot: 1, version: 0 });
/// let (mut ledger, reader) = Ledger::new(LedgerConfig::new(1_000), genesis, Arc::new(()));
/// ledger.publish();
///
/// let address = Address::from([7; 32]);
/// ledger.open(block, genesis, Arc::new(()))?;
/// let change = Change { address, record: Some(Arc::new(Counter(5))) };
/// ledger.apply(block, vec![change], Arc::new(()))?;
/// let processed = || reader.view(Commitment::Processed).record(&address).map(|record| record.0);
/// assert_eq!(processed(), None);
/// ledger.publish();
/// assert_eq!(processed(), Some(5));
/// # Ok::<(), query::LedgerError>(())
/// ```
pub struct Ledger<R, M> {
    addresses: Arc<AddressTable>,
    state: State<R, M>,
    index: Index,
    indices: Arc<IndexConfig>,
    ranks: RankIndex,
    /// Distinguishes cursors of this ledger from those of any other.
    instance: u64,
    processed: BlockId,
    confirmed: BlockId,
    /// Block at or above the root that readers see as finalized.
    finalized: BlockId,
    block_writes: BlockWrites,
    published: Arc<ArcSwap<Published<R, M>>>,
    /// The root accepts changes until the first publish or child.
    root_is_open: bool,
}

impl<R: Record, M: Send + Sync + 'static> Ledger<R, M> {
    /// Creates a ledger with `root` as its first block, and its reader. Until the first publish
    /// [`Self::apply`] fills the root; readers see it empty.
    pub fn new(config: LedgerConfig, root: BlockId, meta: Arc<M>) -> (Self, Reader<R, M>) {
        // From the operating system: it must be unknown to anyone that chooses addresses.
        let random = std::hash::RandomState::new();
        let addresses_max = config.addresses_max;
        let addresses = Arc::new(AddressTable::new(addresses_max, random.hash_one((root, 0))));
        let state = State::new(root, Arc::clone(&meta));
        let index = Index::new(addresses_max, random.hash_one((root, 1)));
        let indices = Arc::new(config.indices);
        let ranks = RankIndex::new(RankBounds::default());
        let instance = random.hash_one((root, 2));
        let snapshot = State::new(root, meta).snapshot(root).expect("a state contains its root");
        let published = Published {
            processed: snapshot.clone(),
            confirmed: snapshot.clone(),
            finalized: snapshot,
            postings: Arc::clone(index.postings()),
            indices: Arc::clone(&indices),
            tops: ranks.tops().clone(),
            instance,
            version: 0,
            state_memory: state.bytes(),
            addresses: Arc::clone(&addresses),
            _epoch: addresses.epoch(),
        };
        let published = Arc::new(ArcSwap::from_pointee(published));
        let block_writes = BlockWrites::new(root);
        let reader = Reader {
            published: Arc::clone(&published),
            addresses: Arc::clone(&addresses),
            change_tracker: Arc::clone(block_writes.change_tracker()),
            base: None,
        };
        let ledger = Self {
            addresses,
            state,
            index,
            indices,
            ranks,
            instance,
            processed: root,
            confirmed: root,
            finalized: root,
            block_writes,
            published,
            root_is_open: true,
        };
        (ledger, reader)
    }

    /// Sets how many of the highest-ranked records are stored. Only before anything is
    /// written.
    #[must_use]
    pub fn with_rank_bounds(mut self, bounds: RankBounds) -> Self {
        debug_assert!(self.state.is_empty(), "records that are written already would have no rank");
        self.ranks = RankIndex::new(bounds);
        self
    }

    /// Opens `block` as a child of `parent`, which must be complete. It becomes the processed tip.
    pub fn open(
        &mut self,
        block: BlockId,
        parent: BlockId,
        meta: Arc<M>,
    ) -> Result<(), LedgerError> {
        self.seal_root();
        self.state.open(block, parent, meta)?;
        self.block_writes.open(block, parent);
        self.processed = block;
        Ok(())
    }

    /// Like [`Self::open`], but hidden: readers cannot see the block until [`Self::set_tip`], which requires
    /// [`Self::complete`]. Several such blocks may be open at once. Dropping one leaves nothing behind.
    pub fn open_hidden(
        &mut self,
        block: BlockId,
        parent: BlockId,
        meta: Arc<M>,
    ) -> Result<(), LedgerError> {
        self.seal_root();
        self.state.open(block, parent, meta)?;
        self.block_writes.open_hidden(block, parent);
        Ok(())
    }

    /// Applies `changes` to an open block, all or nothing. If several changes have one address, the
    /// last one counts. Returns the id of every change's address, in their order. The ids are valid until the block is
    /// rooted or dropped, and then until the second publish after that.
    ///
    /// Cost: per record a few lookups, and one path of pages per publish. Keys that the record
    /// had before cost nothing more.
    pub fn apply(
        &mut self,
        block: BlockId,
        changes: Vec<Change<R>>,
        meta: Arc<M>,
    ) -> Result<Vec<AddressId>, LedgerError> {
        self.state.check_writable(block)?;
        let ResolvedChanges { ids, writes, surplus } =
            ResolvedChanges::new(&self.addresses, &self.state, changes)?;
        self.state.set_meta(block, meta)?;
        let mut removed = Vec::new();
        for write in &writes {
            let ResolvedWrite { id, version, new_keys } = write;
            for key in new_keys {
                if self.indices.has_entries_for_id(*key, &self.addresses) {
                    self.index.insert(*key, *id);
                }
            }
            self.ranks.insert(&self.addresses, &self.index, write);
            if !self.root_is_open {
                let before = self.state.find_versions(*id).flat_map(|version| version.keys());
                self.block_writes.write(block, &self.addresses, *id, &version.keys, before);
            }
        }
        let versions = writes.into_iter().map(|write| (write.id, write.version)).collect();
        let known = self.state.write(block, versions, &mut removed)?;
        known.into_iter().chain(surplus).for_each(|id| self.addresses.release(id));
        self.release_removed(&removed);
        if !self.root_is_open {
            let records = IndexedRecords { state: &self.state, index: &self.index };
            self.ranks.refill(&self.addresses, records, ids.len());
        }
        Ok(ids)
    }

    /// Closes `block` to changes. It may then get children. No tip moves.
    pub fn complete(&mut self, block: BlockId, meta: Arc<M>) -> Result<(), LedgerError> {
        self.state.complete(block)?;
        self.state.set_meta(block, meta)?;
        Ok(())
    }

    /// Makes `block`, which must be complete, the confirmed tip. It may be on another fork than the one before.
    pub fn confirm(&mut self, block: BlockId) -> Result<(), LedgerError> {
        self.state.check_complete(block)?;
        self.confirmed = block;
        Ok(())
    }

    /// Makes `block`, which must be complete, the finalized tip. The root stays where it is, so that
    /// [`Self::drop_fork`] can still drop final blocks, for a ledger that may revert them.
    /// [`Self::finalize`] moves the root.
    pub fn set_finalized(&mut self, block: BlockId) -> Result<(), LedgerError> {
        self.state.check_complete(block)?;
        self.finalized = block;
        Ok(())
    }

    /// Makes `block`, which must be complete, the root, with every block below it. Sibling forks
    /// are removed. A tip on a removed fork falls back: the finalized and the confirmed one to the root, the processed
    /// one to the confirmed. A finalized tip below the root becomes the root.
    ///
    /// Cost: O(records that the rooted and removed blocks wrote).
    pub fn finalize(&mut self, block: BlockId) -> Result<(), LedgerError> {
        let mut removed = Vec::new();
        self.state.finalize(block, &mut removed)?;
        self.release_removed(&removed);
        if !self.state.contains_block(self.finalized) {
            self.finalized = block;
        }
        if !self.state.contains_block(self.confirmed) {
            self.confirmed = block;
        }
        if !self.state.contains_block(self.processed) {
            self.processed = self.confirmed;
        }
        Ok(())
    }

    /// Drops `block` and all its descendants. A tip among them falls back to the
    /// block's parent.
    pub fn drop_fork(&mut self, block: BlockId) -> Result<(), LedgerError> {
        let parent = self.state.parent(block)?;
        let mut removed = Vec::new();
        let gone = self.state.drop_fork(block, &mut removed)?;
        self.release_removed(&removed);
        let parent = parent.unwrap_or(block); // only the root has none, and it was refused
        for tip in [&mut self.processed, &mut self.confirmed, &mut self.finalized] {
            if gone.contains(tip) {
                *tip = parent;
            }
        }
        Ok(())
    }

    /// Makes `block` the processed tip: the fork choice.
    pub fn set_tip(&mut self, block: BlockId) -> Result<(), LedgerError> {
        self.state.parent(block)?;
        self.processed = block;
        Ok(())
    }

    /// Publishes everything since the last publish to readers, at once. The tips must be on one chain: the finalized
    /// one is confirmed or an ancestor of the confirmed tip, and so is that tip for the processed one.
    ///
    /// Cost: each page that is written afterwards is copied once. State that no reader needs is
    /// freed here, with the index entries that were retained for it.
    pub fn publish(&mut self) {
        drop(self.publish_first());
        self.reclaim();
    }

    /// Publishes as [`Self::publish`] does, without freeing anything: the caller drops the result, and calls
    /// [`Self::reclaim`], when it has time. Until then the state before is in memory, too.
    pub fn publish_first(&mut self) -> Retired<R, M> {
        self.seal_root();
        let records = IndexedRecords { state: &self.state, index: &self.index };
        self.ranks.refill(&self.addresses, records, 0);
        let snapshot = |block| self.state.snapshot(block).expect("tips are the root or above it");
        assert!(
            self.state.is_on_chain(self.confirmed, self.processed),
            "the confirmed block {:?} is not on the chain of the processed tip {:?}",
            self.confirmed,
            self.processed
        );
        assert!(
            self.state.is_on_chain(self.finalized, self.confirmed),
            "the finalized block {:?} is not on the chain of the confirmed tip {:?}",
            self.finalized,
            self.confirmed
        );
        let tips = [self.processed, self.confirmed, self.finalized];
        let [processed, confirmed, finalized] = tips.map(snapshot);
        let before = self.published.load();
        let is_new =
            |before: &Snapshot<R, M>, now: &Snapshot<R, M>| !Arc::ptr_eq(before.meta(), now.meta());
        let has_new_facts = [
            is_new(&before.processed, &processed),
            is_new(&before.confirmed, &confirmed),
            is_new(&before.finalized, &finalized),
        ];
        drop(before);
        let version = self.block_writes.publish(tips, has_new_facts);
        let published = Published {
            processed,
            confirmed,
            finalized,
            version,
            postings: Arc::clone(self.index.postings()),
            indices: Arc::clone(&self.indices),
            tops: self.ranks.tops().clone(),
            instance: self.instance,
            state_memory: self.state.bytes(),
            addresses: Arc::clone(&self.addresses),
            _epoch: self.addresses.epoch(),
        };
        let retired = self.published.swap(Arc::new(published));
        self.block_writes.change_tracker().publish_wakers().wake_all();
        self.block_writes.retain_blocks(|block| self.state.contains_block(block));
        Retired { _published: retired }
    }

    /// Frees some of the index entries that no reader needs.
    pub fn reclaim(&mut self) {
        self.index.reclaim_some(self.addresses.oldest_pinned_epoch());
    }

    /// Returns the record of `address` at the processed tip, published or not. For the writer itself.
    ///
    /// Cost: two lookups, whatever the ledger's size.
    pub fn record(&self, address: &Address) -> Option<Arc<R>> {
        self.record_at(self.processed, address)
    }

    /// Returns the record of `address` at any block at or above the root. `None` for a block that does not exist.
    pub fn record_at(&self, block: BlockId, address: &Address) -> Option<Arc<R>> {
        let id = self.addresses.lookup(address)?;
        let snapshot = self.state.snapshot(block).ok()?;
        Some(snapshot.version(id)?.record(address_resolver(&self.addresses)))
    }

    /// Returns the records of these ids at a block at or above the root, as the state holds them. `None` for a
    /// removal.
    ///
    /// Cost: a lookup each.
    pub fn stored_at(&self, block: BlockId, ids: &[AddressId]) -> Vec<Option<StoredRecord<R>>> {
        let Ok(snapshot) = self.state.snapshot(block) else { return vec![None; ids.len()] };
        let resolve = address_resolver(&self.addresses);
        let stored = |id: &AddressId| Some(snapshot.version(*id)?.to_stored(&resolve));
        ids.iter().map(stored).collect()
    }

    /// Returns whether `block` is the root or above it.
    pub fn contains_block(&self, block: BlockId) -> bool {
        self.state.contains_block(block)
    }

    /// Returns the block that readers at `commitment` see after the next publish.
    pub fn tip(&self, commitment: Commitment) -> BlockId {
        match commitment {
            Commitment::Processed => self.processed,
            Commitment::Confirmed => self.confirmed,
            Commitment::Finalized => self.finalized,
        }
    }

    /// Returns the newest block that cannot be dropped.
    pub fn root(&self) -> BlockId {
        self.state.root()
    }

    /// Returns the numbers of addresses, records, entries and blocks. Cost: O(1).
    pub fn usage(&self) -> LedgerUsage {
        LedgerUsage {
            addresses: self.addresses.len(),
            records: self.state.len(),
            index_keys: self.index.keys(),
            index_entries: self.index.len(),
            unrooted_blocks: self.state.unrooted_len(),
        }
    }

    /// Returns the memory of the ledger. Cost: O(bytes / 1,024) at most; for reports.
    pub fn bytes(&self) -> LedgerMemory {
        let ranks = self.ranks.bytes();
        LedgerMemory::new(&self.addresses, self.index.postings(), self.state.bytes(), ranks)
    }

    /// Returns the memory of the records, including versions of unrooted blocks. Cost: O(1).
    pub fn record_bytes(&self) -> usize {
        let memory = self.state.bytes();
        memory.packed + memory.unpacked
    }

    /// Returns the number of versions that a read could still see. Cost: O(records); for tests and reports.
    pub fn versions(&self) -> usize {
        self.state.versions()
    }

    /// Returns the number of rank entries. Cost: O(keys with many records).
    pub fn ranked_len(&self) -> usize {
        self.ranks.len()
    }

    fn seal_root(&mut self) {
        if self.root_is_open {
            self.root_is_open = false;
            // The changes that fill the root are not tracked one by one.
            self.block_writes.mark_all();
            // The root exists and only the writer completes it. If it was completed before, there is nothing to do.
            let _ = self.state.complete(self.state.root());
            let records = IndexedRecords { state: &self.state, index: &self.index };
            self.ranks.refill_all(&self.addresses, records);
        }
    }

    /// Removes the entries and references that only the removed versions needed from the index and the address table. A
    /// reader of a snapshot published before still finds it in both.
    fn release_removed(&mut self, removed: &[RemovedVersion<R>]) {
        let epoch = self.addresses.newest_epoch();
        let keys = removed.iter().filter_map(|removed| Some((removed.id, removed.version()?)));
        let keys = keys.flat_map(|(id, version)| version.keys().map(move |key| (id, key)));
        let mut gone: Vec<(AddressId, Key)> =
            keys.filter(|(id, key)| !self.state.is_found_by(*id, *key)).collect();
        gone.sort_unstable();
        gone.dedup(); // several versions of one record may be removed
        for (id, key) in &gone {
            // Does nothing if the index excludes the key.
            self.index.remove(*key, *id, epoch);
        }
        let records = IndexedRecords { state: &self.state, index: &self.index };
        for version in removed {
            self.ranks.remove(&self.addresses, records, version);
        }
        gone.iter().for_each(|(_, key)| self.addresses.release(key.id));
        let last = removed.iter().filter(|removed| removed.is_last);
        last.for_each(|removed| self.addresses.release(removed.id));
    }
}

#[cfg(test)]
mod tests {
    use ledger::KeyKind;

    use super::*;
    use crate::View;

    type TestResult = Result<(), LedgerError>;

    const ROOT: BlockId = block(0, 0);
    const OWNER: KeyKind = KeyKind(2);

    /// A record with an owner and an amount.
    #[derive(Debug, PartialEq, Eq)]
    struct Purse {
        owner: Address,
        amount: u64,
    }

    impl Record for Purse {
        fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
            key(OWNER, self.owner);
        }
    }

    const fn block(slot: u64, version: u64) -> BlockId {
        BlockId { slot, version }
    }

    fn address(n: u8) -> Address {
        Address::from([n; 32])
    }

    fn purse(at: u8, owner: u8, amount: u64) -> Change<Purse> {
        let record = Purse { owner: address(owner), amount };
        Change { address: address(at), record: Some(Arc::new(record)) }
    }

    fn close_account(at: u8) -> Change<Purse> {
        Change { address: address(at), record: None }
    }

    /// Returns a published empty ledger. The metadata of its blocks is a word.
    fn ledger(addresses_max: u32) -> (Ledger<Purse, &'static str>, Reader<Purse, &'static str>) {
        let (mut ledger, reader) =
            Ledger::new(LedgerConfig::new(addresses_max), ROOT, Arc::new("root"));
        ledger.publish();
        (ledger, reader)
    }

    /// Opens a block with these changes and completes it.
    fn add(
        ledger: &mut Ledger<Purse, &'static str>,
        block: BlockId,
        parent: BlockId,
        changes: Vec<Change<Purse>>,
    ) -> Result<Vec<AddressId>, LedgerError> {
        ledger.open(block, parent, Arc::new("open"))?;
        let ids = ledger.apply(block, changes, Arc::new("written"))?;
        ledger.complete(block, Arc::new("complete"))?;
        Ok(ids)
    }

    /// Amounts by address, over all records.
    fn amounts(view: &View<Purse, &'static str>) -> Vec<(u8, u64)> {
        let all = view.all().map(|(address, purse)| (address.as_bytes()[0], purse.amount));
        all.collect()
    }

    fn list_owned(view: &View<Purse, &'static str>, owner: u8) -> Vec<u8> {
        let keyed = view.records_by_key(OWNER, &address(owner));
        keyed.map(|(address, _)| address.as_bytes()[0]).collect()
    }

    #[test]
    fn readers_see_nothing_before_it_is_published() -> TestResult {
        let (mut ledger, reader) = ledger(10);
        let one = block(1, 1);
        ledger.open(one, ROOT, Arc::new("open"))?;
        ledger.apply(one, vec![purse(1, 9, 5)], Arc::new("written"))?;
        let before = reader.view(Commitment::Processed);
        assert_eq!((before.block(), **before.meta(), amounts(&before)), (ROOT, "root", vec![]));
        let own = ledger.record(&address(1)).map(|purse| purse.amount);
        assert_eq!(own, Some(5), "the writer sees what it wrote");
        ledger.publish();
        let after = reader.view(Commitment::Processed);
        assert_eq!((after.block(), **after.meta()), (one, "written"));
        assert_eq!(amounts(&after), [(1, 5)]);
        assert_eq!(after.record(&address(1)).map(|purse| purse.amount), Some(5));
        assert_eq!(after.record(&address(9)), None, "a key without a record");
        assert_eq!(amounts(&before), [], "a view stays as it is");
        Ok(())
    }

    #[test]
    fn a_hidden_block_becomes_visible_as_the_tip_and_leaves_nothing() -> TestResult {
        let (mut ledger, reader) = ledger(20);
        let one = block(1, 1);
        let left = block(2, 2);
        let right = block(3, 3);
        add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
        ledger.publish();
        let before = ledger.usage();
        for (open, owner) in [(left, 8), (right, 7)] {
            ledger.open_hidden(open, one, Arc::new("open"))?;
            for amount in 0..3 {
                let changes = vec![purse(1, owner, amount), purse(2, owner, 10 + amount)];
                ledger.apply(open, changes, Arc::new("written"))?;
                ledger.publish();
            }
        }
        let view = reader.view(Commitment::Processed);
        assert_eq!((view.block(), amounts(&view)), (one, vec![(1, 1)]));
        assert_eq!([9, 8, 7].map(|owner| list_owned(&view, owner)), [vec![1], vec![], vec![]]);
        let amount_at = |ledger: &Ledger<Purse, _>, block| {
            ledger.record_at(block, &address(2)).map(|purse| purse.amount)
        };
        assert_eq!([one, left, right].map(|at| amount_at(&ledger, at)), [None, Some(12), Some(12)]);
        assert_eq!(ledger.versions(), 5, "a block has one version of a record");
        ledger.drop_fork(left)?;
        ledger.complete(right, Arc::new("complete"))?;
        ledger.set_tip(right)?;
        ledger.publish();
        let view = reader.view(Commitment::Processed);
        assert_eq!((view.block(), amounts(&view)), (right, vec![(1, 2), (2, 12)]));
        assert_eq!([9, 8, 7].map(|owner| list_owned(&view, owner)), [vec![], vec![], vec![1, 2]]);
        ledger.drop_fork(right)?;
        ledger.publish();
        assert!(!ledger.contains_block(left) && !ledger.contains_block(right));
        assert_eq!((ledger.usage(), ledger.record_at(right, &address(1))), (before, None));
        Ok(())
    }

    #[test]
    fn each_commitment_sees_its_own_block() -> TestResult {
        let (mut ledger, reader) = ledger(20);
        let one = block(1, 1);
        let two = block(2, 2);
        let three = block(3, 3);
        add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
        add(&mut ledger, two, one, vec![purse(1, 9, 2)])?;
        ledger.confirm(two)?;
        ledger.open(three, two, Arc::new("open"))?;
        ledger.apply(three, vec![purse(1, 8, 3)], Arc::new("written"))?;
        ledger.finalize(one)?;
        ledger.publish();
        let views = reader.views();
        assert_eq!(amounts(&views.processed), [(1, 3)]);
        assert_eq!(amounts(&views.confirmed), [(1, 2)]);
        assert_eq!(amounts(&views.finalized), [(1, 1)]);
        assert_eq!(
            (list_owned(&views.processed, 9), list_owned(&views.processed, 8)),
            (vec![], vec![1])
        );
        assert_eq!(
            (list_owned(&views.confirmed, 9), list_owned(&views.confirmed, 8)),
            (vec![1], vec![])
        );
        assert_eq!(views.confirmed.records_by_key_len(OWNER, &address(8)), 1, "an upper bound");
        assert_eq!(**views.confirmed.meta(), "complete");
        Ok(())
    }

    #[test]
    fn the_root_is_filled_until_the_first_publish() -> TestResult {
        let (mut ledger, reader) = Ledger::new(LedgerConfig::new(10), ROOT, Arc::new("root"));
        ledger.apply(ROOT, vec![purse(1, 9, 1), purse(2, 9, 2)], Arc::new("filled"))?;
        ledger.apply(ROOT, vec![close_account(1), close_account(3)], Arc::new("filled"))?;
        assert!(reader.view(Commitment::Finalized).is_empty());
        ledger.publish();
        for commitment in Commitment::ALL {
            let view = reader.view(commitment);
            assert_eq!((amounts(&view), **view.meta()), (vec![(2, 2)], "filled"));
        }
        assert_eq!(ledger.usage().addresses, 2);
        let late = ledger.apply(ROOT, vec![purse(1, 9, 1)], Arc::new("late"));
        assert_eq!(late, Err(LedgerError::Block(BlockError::Complete(ROOT))));
        Ok(())
    }

    #[test]
    fn the_last_change_to_an_address_counts_and_ids_keep_order() -> TestResult {
        let (mut ledger, reader) = ledger(10);
        let changes =
            vec![purse(1, 9, 1), purse(2, 9, 2), purse(1, 8, 3), close_account(2), purse(2, 7, 4)];
        let ids = add(&mut ledger, block(1, 1), ROOT, changes)?;
        ledger.confirm(block(1, 1))?;
        ledger.publish();
        let addresses: Vec<_> = ids.iter().map(|id| reader.addresses().address(*id)).collect();
        assert_eq!(addresses, [1, 2, 1, 2, 2].map(|n| Some(address(n))));
        let view = reader.view(Commitment::Confirmed);
        assert_eq!(amounts(&view), [(1, 3), (2, 4)]);
        assert_eq!(
            (list_owned(&view, 9), list_owned(&view, 8), list_owned(&view, 7)),
            (vec![], vec![1], vec![2])
        );
        let expected = LedgerUsage {
            addresses: 4,
            records: 2,
            index_keys: 2,
            index_entries: 2,
            unrooted_blocks: 1,
        };
        assert_eq!(ledger.usage(), expected);
        Ok(())
    }

    #[test]
    fn a_full_table_applies_nothing() -> TestResult {
        let (mut ledger, reader) = ledger(4);
        let one = block(1, 1);
        add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
        let two = block(2, 2);
        ledger.open(two, one, Arc::new("open"))?;
        let before = ledger.usage();
        let full = Err(LedgerError::TableFull(TableFull { limit: 4 }));
        let records = vec![close_account(1), purse(2, 9, 1), purse(3, 9, 1), purse(4, 9, 1)];
        assert_eq!(ledger.apply(two, records, Arc::new("written")), full);
        assert_eq!(ledger.usage(), before);
        let keys = vec![purse(1, 8, 1), purse(2, 7, 1)];
        assert_eq!(ledger.apply(two, keys, Arc::new("written")), full);
        assert_eq!(ledger.usage(), before);
        ledger.publish();
        let view = reader.view(Commitment::Processed);
        assert_eq!((amounts(&view), list_owned(&view, 9)), (vec![(1, 1)], vec![1]));
        assert_eq!(**view.meta(), "open");
        Ok(())
    }

    #[test]
    fn a_closed_record_frees_its_id_once_rooted() -> TestResult {
        let (mut ledger, reader) = ledger(4);
        let one = block(1, 1);
        let two = block(2, 2);
        let ids = add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
        add(&mut ledger, two, one, vec![close_account(1)])?;
        ledger.finalize(one)?;
        ledger.publish();
        assert_eq!(list_owned(&reader.view(Commitment::Processed), 9), []);
        assert_eq!(list_owned(&reader.view(Commitment::Finalized), 9), [1]);
        assert_eq!(ledger.usage().addresses, 2);
        ledger.finalize(two)?;
        assert_eq!(ledger.usage(), LedgerUsage::default());
        ledger.publish();
        let old_address = reader.addresses().address(ids[0]);
        assert_eq!(old_address, Some(address(1)), "notifications of the block still need it");
        ledger.publish();
        ledger.publish();
        assert_eq!(reader.addresses().allocated_ids(), 0);
        Ok(())
    }

    #[test]
    fn an_id_that_a_view_knows_is_not_reused() -> TestResult {
        let (mut ledger, reader) = ledger(4);
        let one = block(1, 1);
        let two = block(2, 2);
        let three = block(3, 3);
        add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
        ledger.finalize(one)?;
        ledger.publish();
        let old = reader.view(Commitment::Finalized);
        add(&mut ledger, two, one, vec![close_account(1)])?;
        ledger.finalize(two)?;
        for _ in 0..5 {
            ledger.publish();
        }
        let crowd = || vec![purse(2, 3, 1), purse(4, 5, 1)];
        ledger.open(three, two, Arc::new("open"))?;
        assert!(ledger.apply(three, crowd(), Arc::new("written")).is_err(), "two ids are pinned");
        assert_eq!((amounts(&old), list_owned(&old, 9)), (vec![(1, 1)], vec![1]));
        drop(old);
        ledger.publish(); // ids of the refused changes are free an epoch later
        ledger.publish();
        ledger.apply(three, crowd(), Arc::new("written"))?;
        assert_eq!(ledger.usage().addresses, 4);
        Ok(())
    }

    #[test]
    fn tips_fall_back_from_what_vanishes() -> TestResult {
        let (mut ledger, reader) = ledger(20);
        let one = block(1, 1);
        let left = block(2, 2);
        let right = block(2, 3);
        let tip = block(3, 4);
        let tips = |ledger: &mut Ledger<Purse, &'static str>| {
            ledger.publish();
            let views = reader.views();
            (views.processed.block(), views.confirmed.block(), views.finalized.block())
        };
        add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
        add(&mut ledger, right, one, vec![purse(1, 9, 3)])?;
        add(&mut ledger, left, one, vec![purse(1, 9, 2)])?;
        ledger.confirm(left)?;
        ledger.open(tip, left, Arc::new("open"))?;
        assert_eq!(ledger.confirm(tip), Err(LedgerError::Block(BlockError::Open(tip))));
        assert_eq!(tips(&mut ledger), (tip, left, ROOT));
        ledger.drop_fork(left)?;
        assert_eq!(tips(&mut ledger), (one, one, ROOT));
        ledger.open(tip, one, Arc::new("open"))?;
        ledger.finalize(right)?;
        assert_eq!(tips(&mut ledger), (right, right, right));
        let unknown = Err(LedgerError::Block(BlockError::Unknown(tip)));
        assert_eq!(ledger.set_tip(tip), unknown);
        assert_eq!(ledger.drop_fork(right), Err(LedgerError::Block(BlockError::Root(right))));
        Ok(())
    }

    #[test]
    fn the_tip_may_move_between_forks() -> TestResult {
        let (mut ledger, reader) = ledger(20);
        let left = block(1, 1);
        let right = block(1, 2);
        add(&mut ledger, left, ROOT, vec![purse(1, 9, 1)])?;
        add(&mut ledger, right, ROOT, vec![purse(1, 9, 2)])?;
        for (tip, amount) in [(left, 1), (right, 2), (ROOT, 0)] {
            ledger.set_tip(tip)?;
            ledger.publish();
            let view = reader.view(Commitment::Processed);
            let found = view.record(&address(1)).map_or(0, |purse| purse.amount);
            assert_eq!((view.block(), found), (tip, amount));
        }
        Ok(())
    }

    #[test]
    fn a_finalized_tip_above_the_root_can_be_taken_back() -> TestResult {
        let (mut ledger, reader) = ledger(20);
        let [one, two, three, other] = [block(1, 1), block(2, 2), block(3, 3), block(4, 4)];
        add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
        add(&mut ledger, two, one, vec![purse(1, 9, 2)])?;
        add(&mut ledger, three, two, vec![purse(1, 9, 3)])?;
        ledger.confirm(three)?;
        ledger.finalize(one)?;
        ledger.set_finalized(three)?;
        ledger.publish();
        let tips = |ledger: &Ledger<Purse, &'static str>| {
            (ledger.root(), ledger.tip(Commitment::Finalized), ledger.tip(Commitment::Processed))
        };
        assert_eq!(tips(&ledger), (one, three, three));
        assert_eq!(amounts(&reader.view(Commitment::Finalized)), [(1, 3)]);
        // A root below the finalized tip does not move it.
        ledger.finalize(two)?;
        assert_eq!(tips(&ledger), (two, three, three));
        ledger.drop_fork(three)?;
        ledger.publish();
        assert_eq!(tips(&ledger), (two, two, two));
        for commitment in Commitment::ALL {
            let view = reader.view(commitment);
            assert_eq!((view.block(), amounts(&view)), (two, vec![(1, 2)]));
        }
        add(&mut ledger, other, two, vec![purse(1, 9, 4)])?;
        ledger.confirm(other)?;
        ledger.finalize(other)?;
        assert_eq!(tips(&ledger), (other, other, other));
        Ok(())
    }

    #[test]
    fn a_record_that_is_its_own_key_is_counted_for_both() -> TestResult {
        let (mut ledger, reader) = ledger(2);
        let one = block(1, 1);
        let two = block(2, 2);
        add(&mut ledger, one, ROOT, vec![purse(1, 1, 1)])?;
        ledger.finalize(one)?;
        ledger.publish();
        assert_eq!(list_owned(&reader.view(Commitment::Finalized), 1), [1]);
        assert_eq!(ledger.usage().addresses, 1);
        add(&mut ledger, two, one, vec![close_account(1)])?;
        ledger.finalize(two)?;
        assert_eq!(ledger.usage(), LedgerUsage::default());
        Ok(())
    }
}
