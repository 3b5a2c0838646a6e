//! The one writer: takes blocks and changes, keeps state, indices and address counts in step, and
//! publishes.
//!
//! Who counts on an address: the state, once for every id that has a version; the index, once for
//! every entry under a key. Both let go when the version that needed it is hidden for good.

use std::hash::BuildHasher;
use std::sync::Arc;

use address::{AddressTable, TableFull};
use arc_swap::ArcSwap;
use index::Index;
use ledger::{AddressId, BlockId, Change, Record};
use state::{BlockError, Removed, State};

use crate::Reader;
use crate::prepare::{Prepared, Write};
use crate::view::Published;

/// What a ledger is allowed to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerConfig {
    /// How many addresses there may be at once: of records, of the keys they are found by, and of
    /// subscribers. About 150 bytes each.
    pub addresses_max: u32,
}

/// Why the ledger did not take something. It is as if it had not been tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// Not with this block: a mistake of the ledger that writes.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// No room for another address. Fix: raise `ledger.addresses_max`.
    #[error(transparent)]
    TableFull(#[from] TableFull),
}

/// How much a ledger holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerUsage {
    /// Addresses that somebody counts on.
    pub addresses: usize,
    /// Addresses with a record, removals that are not rooted included.
    pub records: usize,
    /// Keys by which something is found.
    pub index_keys: usize,
    /// Entries under all keys.
    pub index_entries: usize,
    /// Blocks above the root.
    pub unrooted_blocks: usize,
}

/// The one writer. Nothing that it does is seen by readers before [`Ledger::publish`].
pub struct Ledger<R, M> {
    addresses: Arc<AddressTable>,
    state: State<R, M>,
    index: Index,
    processed: BlockId,
    confirmed: BlockId,
    published: Arc<ArcSwap<Published<R, M>>>,
    /// Until the first publish or child, the root takes changes.
    root_is_open: bool,
}

impl<R: Record, M: Send + Sync + 'static> Ledger<R, M> {
    /// A ledger whose first block is `root`, and the way for readers. Until the first publish the
    /// root is filled by [`Self::apply`]; readers see it empty.
    pub fn new(config: LedgerConfig, root: BlockId, meta: Arc<M>) -> (Self, Reader<R, M>) {
        // From the operating system: whoever chooses addresses must not know it.
        let seed = std::hash::RandomState::new().hash_one(root);
        let addresses = Arc::new(AddressTable::new(config.addresses_max, seed));
        let state = State::new(root, Arc::clone(&meta));
        let index = Index::new();
        let snapshot = State::new(root, meta).snapshot(root).expect("a state contains its root");
        let published = Published {
            processed: snapshot.clone(),
            confirmed: snapshot.clone(),
            finalized: snapshot,
            index: index.clone(),
            addresses: Arc::clone(&addresses),
            _epoch: addresses.epoch(),
        };
        let published = Arc::new(ArcSwap::from_pointee(published));
        let reader =
            Reader { published: Arc::clone(&published), addresses: Arc::clone(&addresses) };
        let ledger = Self {
            addresses,
            state,
            index,
            processed: root,
            confirmed: root,
            published,
            root_is_open: true,
        };
        (ledger, reader)
    }

    /// Opens `block` on top of `parent`, which must be complete. It becomes the processed tip.
    pub fn open(
        &mut self,
        block: BlockId,
        parent: BlockId,
        meta: Arc<M>,
    ) -> Result<(), LedgerError> {
        self.close_root();
        self.state.open(block, parent, meta)?;
        self.processed = block;
        Ok(())
    }

    /// Applies `changes` to an open block, all or nothing; of several changes to one address the
    /// last counts. Gives the id of every change's address, in their order: good until the block is
    /// rooted or dropped, and then until the second publish after that.
    ///
    /// Cost: per record a few look-ups, and a path of pages once a publish. Keys that the record
    /// had before cost nothing more.
    pub fn apply(
        &mut self,
        block: BlockId,
        changes: Vec<Change<R>>,
        meta: Arc<M>,
    ) -> Result<Vec<AddressId>, LedgerError> {
        self.state.check_writable(block)?;
        let Prepared { ids, writes, surplus } =
            Prepared::new(&self.addresses, &self.state, changes)?;
        self.state.set_meta(block, meta)?;
        let mut removed = Vec::new();
        for Write { id, version, new_keys } in writes {
            for key in new_keys {
                if !self.index.insert(key, id) {
                    self.addresses.release(key.id);
                }
            }
            if !self.state.write(block, id, version, &mut removed)? {
                self.addresses.release(id);
            }
        }
        surplus.into_iter().for_each(|id| self.addresses.release(id));
        self.let_go(&removed);
        Ok(ids)
    }

    /// Closes `block` to changes. It becomes the confirmed tip.
    pub fn complete(&mut self, block: BlockId, meta: Arc<M>) -> Result<(), LedgerError> {
        self.state.complete(block)?;
        self.state.set_meta(block, meta)?;
        self.confirmed = block;
        Ok(())
    }

    /// Makes `block`, which must be complete, the root, and so every block below it. Forks beside it
    /// vanish; a tip that stood on one falls back to the root, the processed tip to the confirmed.
    ///
    /// Cost: O(records that the rooted and vanished blocks wrote).
    pub fn finalize(&mut self, block: BlockId) -> Result<(), LedgerError> {
        let mut removed = Vec::new();
        self.state.finalize(block, &mut removed)?;
        self.let_go(&removed);
        if !self.state.contains_block(self.confirmed) {
            self.confirmed = block;
        }
        if !self.state.contains_block(self.processed) {
            self.processed = self.confirmed;
        }
        Ok(())
    }

    /// Takes back `block` and all that is built on it. A tip that stood there falls back to the
    /// block's parent.
    pub fn drop_fork(&mut self, block: BlockId) -> Result<(), LedgerError> {
        let parent = self.state.parent(block)?;
        let mut removed = Vec::new();
        let gone = self.state.drop_fork(block, &mut removed)?;
        self.let_go(&removed);
        let parent = parent.unwrap_or(block); // only the root has none, and it was refused
        for tip in [&mut self.processed, &mut self.confirmed] {
            if gone.contains(tip) {
                *tip = parent;
            }
        }
        Ok(())
    }

    /// Makes `block` the processed tip: the choice between forks.
    pub fn set_tip(&mut self, block: BlockId) -> Result<(), LedgerError> {
        self.state.parent(block)?;
        self.processed = block;
        Ok(())
    }

    /// Shows readers everything since the last publish, at once.
    ///
    /// Cost: O(1), and each page written afterwards is copied once. The state that nobody reads any
    /// more is freed here.
    pub fn publish(&mut self) {
        self.close_root();
        let snapshot = |block| self.state.snapshot(block).expect("tips are the root or above it");
        let published = Published {
            processed: snapshot(self.processed),
            confirmed: snapshot(self.confirmed),
            finalized: snapshot(self.state.root()),
            index: self.index.clone(),
            addresses: Arc::clone(&self.addresses),
            _epoch: self.addresses.epoch(),
        };
        self.published.store(Arc::new(published));
    }

    /// The root.
    pub fn root(&self) -> BlockId {
        self.state.root()
    }

    /// How much it holds. Cost: O(1).
    pub fn usage(&self) -> LedgerUsage {
        LedgerUsage {
            addresses: self.addresses.len(),
            records: self.state.len(),
            index_keys: self.index.keys(),
            index_entries: self.index.len(),
            unrooted_blocks: self.state.unrooted(),
        }
    }

    /// How many versions of records a read could still see. Cost: O(records); for tests and reports.
    pub fn versions(&self) -> usize {
        self.state.versions()
    }

    fn close_root(&mut self) {
        if self.root_is_open {
            self.root_is_open = false;
            // The root exists and nobody but us completes it; if it was completed by hand, fine.
            let _ = self.state.complete(self.state.root());
        }
    }

    /// Takes out of the index and the address table what only the removed versions needed.
    fn let_go(&mut self, removed: &[Removed]) {
        for Removed { id, keys, is_last } in removed {
            for key in keys.iter() {
                if !self.state.is_found_by(*id, *key) && self.index.remove(*key, *id) {
                    self.addresses.release(key.id);
                }
            }
            if *is_last {
                self.addresses.release(*id);
            }
        }
    }
}
