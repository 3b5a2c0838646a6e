//! What readers hold.

use std::sync::Arc;

use address::{AddressTable, Epoch};
use arc_swap::ArcSwap;
use imbl::OrdMap;
use index::Postings;
use ledger::{Address, AddressId, BlockId, Commitment, Key, KeyKind, Record};
use state::{Snapshot, StateMemory, VisibleVersion};

use crate::rank_index::{self, RankScope, TopRecords};
use crate::{ChangeTracker, IndexConfig, IndexCoverage, LedgerMemory};

/// One published moment.
pub(crate) struct Published<R, M> {
    pub(crate) processed: Snapshot<R, M>,
    pub(crate) confirmed: Snapshot<R, M>,
    pub(crate) finalized: Snapshot<R, M>,
    /// All that is needed here is in it for as long as the epoch is held.
    pub(crate) postings: Arc<Postings>,
    /// For which keys `postings` has entries.
    pub(crate) indices: Arc<IndexConfig>,
    pub(crate) tops: OrdMap<RankScope, TopRecords>,
    pub(crate) state_memory: StateMemory,
    /// Which ledger of all that there ever were: ids mean nothing beyond it.
    pub(crate) instance: u64,
    /// How many publishes there were.
    pub(crate) version: u64,
    pub(crate) addresses: Arc<AddressTable>,
    /// Keeps every id that is known here from being given to another address, and every posting.
    pub(crate) _epoch: Epoch,
}

/// Readers' way in. Cheap to clone, usable from any thread, never waits for the writer.
pub struct Reader<R, M> {
    pub(crate) published: Arc<ArcSwap<Published<R, M>>>,
    pub(crate) addresses: Arc<AddressTable>,
    pub(crate) change_tracker: Arc<ChangeTracker>,
}

/// One block's state at the moment it was published. Immutable, cheap to clone; keeps its state
/// alive while it lives.
pub struct View<R, M> {
    pub(crate) published: Arc<Published<R, M>>,
    commitment: Commitment,
}

/// The views of one published moment.
pub struct CommitmentViews<R, M> {
    /// The open block, or whatever block the ledger has as its tip.
    pub processed: View<R, M>,
    /// The block completed last.
    pub confirmed: View<R, M>,
    /// The root.
    pub finalized: View<R, M>,
}

impl<R: Record, M> Reader<R, M> {
    /// The newest published state at `commitment`.
    pub fn view(&self, commitment: Commitment) -> View<R, M> {
        View { published: self.published.load_full(), commitment }
    }

    /// The newest published state at every commitment, all of one moment.
    pub fn views(&self) -> CommitmentViews<R, M> {
        let published = self.published.load_full();
        let view = |commitment| View { published: Arc::clone(&published), commitment };
        CommitmentViews {
            processed: view(Commitment::Processed),
            confirmed: view(Commitment::Confirmed),
            finalized: view(Commitment::Finalized),
        }
    }

    /// A reader to whom what is newest now stays the newest, whatever is published: for several reads that are
    /// to be of one moment. Keeps that moment's state alive while it lives.
    pub fn pinned(&self) -> Self {
        Self {
            published: Arc::new(ArcSwap::new(self.published.load_full())),
            addresses: Arc::clone(&self.addresses),
            change_tracker: Arc::clone(&self.change_tracker),
        }
    }

    /// What the ledger takes in memory. Cost: O(bytes / 1,024) at most; for reports.
    pub fn bytes(&self) -> LedgerMemory {
        let now = self.published.load();
        LedgerMemory::new(
            &self.addresses,
            &now.postings,
            now.state_memory,
            rank_index::bytes_of(&now.tops),
        )
    }

    /// When what somebody read has changed.
    pub fn change_tracker(&self) -> &Arc<ChangeTracker> {
        &self.change_tracker
    }

    /// The address table, for whoever registers addresses of his own.
    pub fn addresses(&self) -> &Arc<AddressTable> {
        &self.addresses
    }
}

impl<R: Record, M> View<R, M> {
    /// Which block this is.
    pub fn block(&self) -> BlockId {
        self.snapshot().block()
    }

    /// How many publishes there were before it and with it. What changed by a later one, this view does
    /// not see ([`ChangeTracker`]).
    pub fn version(&self) -> u64 {
        self.published.version
    }

    /// The block's facts.
    pub fn meta(&self) -> &Arc<M> {
        self.snapshot().meta()
    }

    /// What stands under `address`.
    pub fn record(&self, address: &Address) -> Option<Arc<R>> {
        let id = self.published.addresses.lookup(address)?;
        Some(self.snapshot().version(id)?.record(self.address_resolver()))
    }

    /// Where the record under `address` stands among all. A packed one is not unpacked for it.
    pub fn global_rank(&self, address: &Address) -> Option<u64> {
        let id = self.published.addresses.lookup(address)?;
        self.snapshot().version(id)?.rank(None, self.address_resolver())
    }

    /// The records found by `key` under `facet`, by id. Of a large set a thousand ids at a time are
    /// copied; a record that the index knows but that this block does not see under the key is left
    /// out. A key that the index has no entries for is looked for in all records.
    pub fn records_by_key(
        &self,
        facet: KeyKind,
        key: &Address,
    ) -> impl Iterator<Item = (Address, Arc<R>)> + use<'_, R, M> {
        let key = self.resolve_key(facet, key);
        key.into_iter().flat_map(move |key| {
            let ids = self.candidates(self.entries(key), AddressId(0));
            let versions = self.read_batched(ids, move |version| version.has_key(key));
            versions.filter_map(|(id, version)| self.resolve_record(id, &version?))
        })
    }

    /// How many records [`Self::records_by_key`] gives at most, if no more come to the index meanwhile. Cost:
    /// two look-ups; for cost classes.
    pub fn records_by_key_len(&self, facet: KeyKind, key: &Address) -> usize {
        self.resolve_key(facet, key).map_or(0, |key| self.candidates_len(self.entries(key)))
    }

    /// Whether the index has entries for a key. Without, its records are found at the cost of another
    /// key, or of all records.
    pub fn index_coverage(&self, facet: KeyKind, key: &Address) -> IndexCoverage {
        self.published.indices.coverage(facet, key)
    }

    /// All records, by id.
    pub fn all(&self) -> impl Iterator<Item = (Address, Arc<R>)> + use<'_, R, M> {
        self.snapshot().versions().filter_map(|(id, version)| self.resolve_record(id, &version))
    }

    /// How many records [`Self::all`] gives at most. O(1).
    pub fn len(&self) -> usize {
        self.snapshot().len_max()
    }

    /// Whether there is no record for certain.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn resolve_key(&self, facet: KeyKind, key: &Address) -> Option<Key> {
        let id = self.published.addresses.lookup(key)?;
        Some(Key { kind: facet, id })
    }

    pub(crate) fn resolve_record(
        &self,
        id: AddressId,
        version: &VisibleVersion<'_, R>,
    ) -> Option<(Address, Arc<R>)> {
        let address = self.published.addresses.address(id);
        debug_assert!(address.is_some(), "the epoch keeps the address of {id:?}");
        Some((address?, version.record(self.address_resolver())))
    }

    /// The addresses of the keys of what this block sees: the epoch keeps them.
    pub(crate) fn address_resolver(&self) -> impl Fn(AddressId) -> Address {
        address_resolver(&self.published.addresses)
    }

    pub(crate) fn snapshot(&self) -> &Snapshot<R, M> {
        match self.commitment {
            Commitment::Processed => &self.published.processed,
            Commitment::Confirmed => &self.published.confirmed,
            Commitment::Finalized => &self.published.finalized,
        }
    }
}

/// The addresses of numbers that somebody counts on, or that are kept by an epoch.
pub(crate) fn address_resolver(addresses: &AddressTable) -> impl Fn(AddressId) -> Address {
    |id| addresses.address(id).unwrap_or_else(|| panic!("{id:?} of a version has no address"))
}

impl<R, M> Clone for Reader<R, M> {
    fn clone(&self) -> Self {
        Self {
            published: Arc::clone(&self.published),
            addresses: Arc::clone(&self.addresses),
            change_tracker: Arc::clone(&self.change_tracker),
        }
    }
}

impl<R, M> Clone for View<R, M> {
    fn clone(&self) -> Self {
        Self { published: Arc::clone(&self.published), commitment: self.commitment }
    }
}

impl<R, M> Clone for CommitmentViews<R, M> {
    fn clone(&self) -> Self {
        Self {
            processed: self.processed.clone(),
            confirmed: self.confirmed.clone(),
            finalized: self.finalized.clone(),
        }
    }
}
