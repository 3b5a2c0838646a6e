//! The one writer of a ledger: applies blocks and changes, maintains state, indices and reference counts
//! consistently, and publishes.
//!
//! References to addresses: the state has one for every id that has a version, and one for every key
//! of such an id, whichever version has it: a packed version cannot be unpacked without its own address and its keys'
//! addresses. A reference is released when the last version that needed it is superseded for good.
//! Not here: publication (`publication`), reads of the writer itself (`reads`).

mod publication;
mod reads;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::sync::Arc;

use address::{AddressTable, TableFull};
use arc_swap::ArcSwap;
use index::Index;
use ledger::{AddressId, BlockId, Change, Key, Record};
use state::{BlockError, RemovedVersion, State};

pub use self::publication::Retired;
pub use self::reads::LedgerUsage;
use crate::block_writes::BlockWrites;
use crate::published::Published;
use crate::rank_index::{IndexedRecords, RankBounds, RankIndex};
use crate::resolve_changes::{ResolvedChanges, ResolvedWrite};
use crate::{IndexConfig, Reader};

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
